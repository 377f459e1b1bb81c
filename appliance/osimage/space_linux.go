package osimage

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate reserves disk space for a range of a file without changing the file's size.
func allocate(file *os.File, offset, length int64) error {
	return unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, offset, length)
}

// freeSpace returns the number of bytes that this user can still write to a file system.
func freeSpace(dir string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, err
	}
	return int64(stat.Bavail) * stat.Bsize, nil
}
