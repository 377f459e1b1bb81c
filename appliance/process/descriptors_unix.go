//go:build unix

package process

import "syscall"

// Descriptors returns the largest number of file descriptors of this process. Go has raised it to
// the hard limit at the start of the program (package os).
func Descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return defaultDescriptors
	}
	return uint64(limit.Cur) // some systems have signed limits
}
