// Package architecture names the architectures of machines in three spellings. The Assisted
// Installer's API uses arm64. RPM packages and release payloads use aarch64. Go and image
// registries use amd64 and arm64.
package architecture

// Architecture is the architecture of a machine. Its value is the spelling of the API.
type Architecture string

// The architectures that OpenShift supports.
const (
	X86    Architecture = "x86_64"
	ARM    Architecture = "arm64"
	Power  Architecture = "ppc64le"
	Z      Architecture = "s390x"
	Multi  Architecture = "multi" // a release payload for several architectures
	armRPM              = "aarch64"
	x86Go               = "amd64"
)

// Parse returns the architecture for a name in any of the three spellings. The second value is
// false for an unknown name.
func Parse(name string) (Architecture, bool) {
	switch name {
	case armRPM:
		return ARM, true
	case x86Go:
		return X86, true
	}
	switch a := Architecture(name); a {
	case X86, ARM, Power, Z, Multi:
		return a, true
	}
	return "", false
}

// Of is like Parse, but returns an unknown name unchanged.
func Of(name string) Architecture {
	if a, ok := Parse(name); ok {
		return a
	}
	return Architecture(name)
}

// API returns the spelling of the Assisted Installer's API, such as arm64.
func (a Architecture) API() string { return string(a) }

// RPM returns the spelling of RPM packages, live ISOs and release payloads, such as aarch64.
func (a Architecture) RPM() string {
	if a == ARM {
		return armRPM
	}
	return string(a)
}

// Go returns the spelling of Go and of image registries, such as amd64.
func (a Architecture) Go() string {
	if a == X86 {
		return x86Go
	}
	return string(a)
}
