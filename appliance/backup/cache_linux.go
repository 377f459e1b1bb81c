package backup

import (
	"os"

	"golang.org/x/sys/unix"
)

// DropCache lets the next reads come from the medium. It is a hint to the system.
func DropCache(file *os.File) { _ = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED) }
