package backup

import (
	"errors"
	"fmt"
	"syscall"
)

// MediumError reports that a backup or a replica can't be written, because its file system is full
// or read-only.
type MediumError struct {
	What, Place string
	Err         error
}

// Error implements error.
func (e *MediumError) Error() string {
	if errors.Is(e.Err, syscall.EROFS) {
		return fmt.Sprintf("the %s can't be written to %s, because the file system is read-only, as after an error of "+
			"its medium: check the medium and mount it again, or name another place; what was written before is "+
			"unchanged", e.What, e.Place)
	}
	return fmt.Sprintf("no space is left to write the %s to %s: free space on its file system, or name another place; "+
		"what was written before is unchanged", e.What, e.Place)
}

// Unwrap returns the cause.
func (e *MediumError) Unwrap() error { return e.Err }

// ExplainMedium returns a *MediumError for the error of a full or read-only medium, and other
// errors unchanged.
func ExplainMedium(what, place string, err error) error {
	if isFull(err) || errors.Is(err, syscall.EROFS) {
		return &MediumError{what, place, err}
	}
	return err
}

// Full reports whether the medium has no space left.
func (e *MediumError) Full() bool { return isFull(e.Err) }

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
