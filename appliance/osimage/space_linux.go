package osimage

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate reserves space for bytes that will be written, without making the file longer.
func allocate(file *os.File, offset, length int64) error {
	return unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, offset, length)
}

// freeSpace is how many bytes a file system has for this user.
func freeSpace(dir string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, err
	}
	return int64(stat.Bavail) * stat.Bsize, nil
}
