package bmc

// step is one of the boot sequence.
type step string

// worker brings about what is wanted of one server.
type worker struct{}

// gate lets one conversation with a BMC go on at a time.
type gate struct{}

// Vendor is who made the BMC, as far as it matters.
type Vendor string

func (m *Manager) interrupt(string) {}
