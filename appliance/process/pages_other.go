//go:build !linux

package process

// releaseProgramPages does nothing on this system.
func releaseProgramPages() error { return nil }

// resident returns 0: the resident size is unknown on this system, so memory is never returned.
func resident() int64 { return 0 }
