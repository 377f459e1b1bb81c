package release

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes puts a program at the head of a group of its own, to be killed whole, and has
// the kernel kill it when the appliance dies without the chance to.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when a program has ended. Its status can still be asked for, and until then its
// number is nobody else's.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
