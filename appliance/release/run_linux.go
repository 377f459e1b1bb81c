package release

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes starts a program in its own process group, so that the whole group can be
// killed. The kernel kills the program if the appliance's process ends first.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until a program has ended, but does not reap it. Its exit status can still be
// read, and its process ID is not reused.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
