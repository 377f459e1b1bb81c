//go:build !linux

package appliance

// ReleaseProgramPages does nothing here.
func ReleaseProgramPages() error { return nil }
