//go:build !linux

package timeserver

// ReadKernel reports a clock that is not synchronised: only Linux tells its state.
func ReadKernel() (Reading, error) { return Reading{}, nil }
