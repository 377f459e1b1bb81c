//go:build unix

package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// maxCoreBytes is less than the smallest core file. Linux runs the program in
// /proc/sys/kernel/core_pattern even with a limit of 0, but not with a limit of 1 (core(5), and
// vfs_coredump in fs/coredump.c).
const maxCoreBytes = 1

// ForbidCoreFiles prevents core files of this process and of the processes that it starts: they
// would contain the secrets in its memory in clear.
func ForbidCoreFiles() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		return fmt.Errorf("read the limit of core files: %w", err)
	}
	limit.Max = min(limit.Max, maxCoreBytes)
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		return fmt.Errorf("set the limit of core files: %w", err)
	}
	return nil
}
