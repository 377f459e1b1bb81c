//go:build unix && !linux

package release

import "syscall"

// processAttributes puts a program at the head of a group of its own, to be killed whole.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit can't be done here: what a program leaves behind is ended when its output is not let go
// of.
func awaitExit(int) error { return syscall.ENOSYS }
