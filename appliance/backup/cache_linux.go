package backup

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache lets the next reads come from the medium. It is a hint to the system.
func dropCache(file *os.File) { _ = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED) }
