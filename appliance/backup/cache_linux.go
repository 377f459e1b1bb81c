package backup

import (
	"os"

	"golang.org/x/sys/unix"
)

// DropCache lets the next reads come from the medium. The call is a hint: a system that refuses it
// reads its cache, and nothing else depends on it.
func DropCache(file *os.File) { _ = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED) }
