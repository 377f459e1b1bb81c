package wal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync returns when the file's data, and the metadata needed to read it, are on the disk.
func datasync(file *os.File) error {
	for {
		if err := unix.Fdatasync(int(file.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
