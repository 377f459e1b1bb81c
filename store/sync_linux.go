package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync waits until what was written to the file is on the disk, and of its description what is
// needed to read it.
func datasync(file *os.File) error {
	for {
		if err := unix.Fdatasync(int(file.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
