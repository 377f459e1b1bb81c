package osimage

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"landfall/appliance/fault"
)

// UnavailableError is the error of an image that can't be used now.
type UnavailableError struct{ reason string }

func (e *UnavailableError) Error() string { return e.reason }

// FaultKind implements fault.Classified.
func (*UnavailableError) FaultKind() fault.Kind { return fault.Unavailable }

// NotFoundError is the error of an unknown id of an image or upload.
type NotFoundError struct{ ID string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no OS image %s; landfall iso list shows those there are", e.ID)
}

// FaultKind implements fault.Classified.
func (*NotFoundError) FaultKind() fault.Kind { return fault.NotFound }

// InUseError is the error of an image that can't be removed.
type InUseError struct {
	ID    string
	Users []string // infra-envs; none: the configuration names it
}

func (e *InUseError) Error() string {
	if len(e.Users) == 0 {
		return fmt.Sprintf("the OS image %s is named by the configuration; take it out from under os_images and "+
			"restart the appliance", e.ID)
	}
	return fmt.Sprintf("the OS image %s is in use by the infra-envs %s; delete them, or import another image for "+
		"their version first", e.ID, strings.Join(e.Users, ", "))
}

// FaultKind implements fault.Classified.
func (*InUseError) FaultKind() fault.Kind { return fault.Conflict }

// OffsetError is the error of bytes that do not continue an upload.
type OffsetError struct{ Sent, Have int64 }

func (e *OffsetError) Error() string {
	return fmt.Sprintf("the upload has %d bytes, and what was sent begins at %d; go on at %d", e.Have, e.Sent, e.Have)
}

// FaultKind implements fault.Classified.
func (*OffsetError) FaultKind() fault.Kind { return fault.Conflict }

// SupersededError is the error of a request that another request for the same upload supersedes.
type SupersededError struct{}

func (*SupersededError) Error() string {
	return "another request goes on with this upload; only one may send"
}

// FaultKind implements fault.Classified.
func (*SupersededError) FaultKind() fault.Kind { return fault.Conflict }

// SpaceError is the error of a disk without room for an image.
type SpaceError struct {
	Dir        string
	Need, Free int64 // bytes; 0: not known
	Err        error // from the operating system; may be nil
}

func (e *SpaceError) Error() string {
	if e.Need == 0 {
		return fmt.Sprintf("no space is left in %s; nothing of the image was kept: free space on its file system, "+
			"then try again", e.Dir)
	}
	return fmt.Sprintf("the image needs %s more in %s, which has %s left; free space on its file system, then try "+
		"again", megabytes(e.Need), e.Dir, megabytes(e.Free))
}

// Unwrap returns the operating system's error.
func (e *SpaceError) Unwrap() error { return e.Err }

// FaultKind implements fault.Classified.
func (*SpaceError) FaultKind() fault.Kind { return fault.NoSpace }

func megabytes(n int64) string { return fmt.Sprintf("%d MB", (n+999_999)/1_000_000) }

// spaceError returns a *SpaceError for a full disk or an exhausted quota, and other errors
// unchanged.
func spaceError(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return &SpaceError{Dir: dir, Err: err}
	}
	return err
}

// InterruptedError is the error of an interrupted upload. The received bytes are kept.
type InterruptedError struct{ Err error }

func (e *InterruptedError) Error() string {
	return "the upload broke off (" + e.Err.Error() + "); what arrived is kept: ask for its offset and go on there"
}

// Unwrap returns the cause.
func (e *InterruptedError) Unwrap() error { return e.Err }

// FaultKind implements fault.Classified.
func (*InterruptedError) FaultKind() fault.Kind { return fault.Invalid }

// ContentError is the error of content that is not an OS image, differs from the stated one, or
// exists already. Another attempt does not help.
type ContentError struct {
	Problem  string
	Existing string // id of the existing image, if there is one
}

func (e *ContentError) Error() string { return e.Problem }

// FaultKind implements fault.Classified.
func (e *ContentError) FaultKind() fault.Kind {
	if e.Existing != "" {
		return fault.Conflict
	}
	return fault.Schema
}

// RequestError is the error of an invalid request.
type RequestError struct{ Problem string }

func (e *RequestError) Error() string { return e.Problem }

// FaultKind implements fault.Classified.
func (*RequestError) FaultKind() fault.Kind { return fault.Invalid }
