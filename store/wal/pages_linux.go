package wal

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// releasePages returns the mapped pages of the bbolt file to the system. Mapped pages count as
// memory of the process, although the system may evict them at any time. A page that is read again
// is mapped from the page cache.
func (db *DB) releasePages() (err error) {
	var tx Tx // bbolt does not move its mapping during a read transaction
	if err := db.Begin(&tx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tx.End()) }()
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, db.file.Info().Data, uintptr(tx.base.Size()),
		unix.MADV_DONTNEED); errno != 0 {
		return fmt.Errorf("return the pages of the database to the system: %w", errno)
	}
	return nil
}
