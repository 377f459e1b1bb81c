package backup

import (
	"errors"
	"fmt"
	"syscall"
)

// MediumError reports that a backup can't be written, because its file system is full or read-only.
type MediumError struct {
	Place string
	Err   error
}

// Error implements error.
func (e *MediumError) Error() string {
	if errors.Is(e.Err, syscall.EROFS) {
		return fmt.Sprintf("the backup can't be written to %s, because the file system is read-only, as after an "+
			"error of its medium: check the medium and mount it again, or name another place; earlier backups are "+
			"unchanged", e.Place)
	}
	return fmt.Sprintf("no space is left to write the backup to %s: free space on its file system, or name another "+
		"place; earlier backups are unchanged", e.Place)
}

// Unwrap returns the cause.
func (e *MediumError) Unwrap() error { return e.Err }

// explain replaces the error of a full or read-only medium by a *MediumError.
func explain(place string, err *error) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EROFS} {
		if errors.Is(*err, cause) {
			*err = &MediumError{place, *err}
			return
		}
	}
}
