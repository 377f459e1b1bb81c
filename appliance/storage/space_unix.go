//go:build linux || darwin

package storage

import "golang.org/x/sys/unix"

// space returns the free and total bytes of a file system.
func space(dir string) (free, total int64, err error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, 0, err
	}
	return int64(stat.Bavail) * int64(stat.Bsize), int64(stat.Blocks) * int64(stat.Bsize), nil
}
