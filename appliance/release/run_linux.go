package release

import "syscall"

// processAttributes puts a program at the head of a group of its own, to be killed whole, and has the kernel kill it when the
// appliance dies without the chance to.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
