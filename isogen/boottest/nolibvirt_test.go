//go:build boot && !libvirt

package boottest

// emulators are the ways to emulate machines where there is no libvirt.
func emulators() []emulatorKind { return []emulatorKind{inQEMU()} }
