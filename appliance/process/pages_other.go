//go:build !linux

package process

// programPages are not known on this system.
type programPages struct{}

func findProgramPages() (programPages, error) { return programPages{}, nil }

func (programPages) release() error { return nil }

// resident returns 0: the resident size is unknown on this system, so memory is never returned.
func resident() int64 { return 0 }

// LimitMemory does nothing on this system.
func LimitMemory(uint64) error { return nil }
