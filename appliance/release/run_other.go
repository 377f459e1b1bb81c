//go:build unix && !linux

package release

import "syscall"

// processAttributes starts a program in its own process group, so that the whole group can be
// killed.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit is not supported on this operating system. Remaining child processes are killed only if
// they keep the output open.
func awaitExit(int) error { return syscall.ENOSYS }
