package timeserver

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ReadKernel reads the state of this machine's clock from the kernel (adjtimex(2)), which a program
// such as chronyd sets. It needs no privileges. A service manager can forbid the call (ProtectClock
// in docs/packages.md); then the clock is reported as not synchronised.
func ReadKernel() (Reading, error) {
	var state unix.Timex
	status, err := unix.Adjtimex(&state)
	if errors.Is(err, unix.EPERM) {
		return Reading{}, nil
	}
	if err != nil {
		return Reading{}, fmt.Errorf("read the state of the kernel's clock: %w", err)
	}
	const unsynchronized = unix.TIME_ERROR
	return Reading{Synchronized: status != unsynchronized && state.Status&unix.STA_UNSYNC == 0,
		MaxError: time.Duration(state.Maxerror) * time.Microsecond}, nil
}
