package store

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// releasePages has the system take back the pages of the database that were read so far. They count
// as the process's memory while they are mapped, though the system holds them for anybody; those
// that are read again come back from its cache by themselves.
func (db *DB) releasePages() error {
	return db.View(func(tx *Tx) error { // bbolt leaves its mapping where it is while there is a view
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, db.bolt.Info().Data, uintptr(tx.base.Size()),
			unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("give back the pages of the database: %w", errno)
		}
		return nil
	})
}
