package osimage

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"landfall/appliance/fault"
)

// UnavailableError reports that an image is temporarily unavailable.
type UnavailableError struct{ reason string }

func (e *UnavailableError) Error() string { return e.reason }

// FaultKind implements fault.Classified.
func (*UnavailableError) FaultKind() fault.Kind { return fault.Unavailable }

// NotFoundError reports that no image or upload has an ID.
type NotFoundError struct{ ID string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("the OS image %s does not exist; landfall iso list lists all images", e.ID)
}

// FaultKind implements fault.Classified.
func (*NotFoundError) FaultKind() fault.Kind { return fault.NotFound }

// InUseError reports that an image cannot be removed because it is in use.
type InUseError struct {
	ID    string
	Users []string // infra-envs; empty if the configuration names the image
}

func (e *InUseError) Error() string {
	if len(e.Users) == 0 {
		return fmt.Sprintf("the configuration names the OS image %s; remove it from os_images and restart the "+
			"appliance", e.ID)
	}
	return fmt.Sprintf("the OS image %s is in use by the infra-envs %s; delete them, or import another image for "+
		"their version first", e.ID, strings.Join(e.Users, ", "))
}

// FaultKind implements fault.Classified.
func (*InUseError) FaultKind() fault.Kind { return fault.Conflict }

// OffsetError reports that a request does not continue an upload at its current offset.
type OffsetError struct{ Sent, Have int64 }

func (e *OffsetError) Error() string {
	return fmt.Sprintf("the upload has %d bytes, but the request begins at offset %d; continue at %d", e.Have,
		e.Sent, e.Have)
}

// FaultKind implements fault.Classified.
func (*OffsetError) FaultKind() fault.Kind { return fault.Conflict }

// SupersededError reports that a newer request for the same upload has superseded a request.
type SupersededError struct{}

func (*SupersededError) Error() string {
	return "another request continues this upload; only one request may send data"
}

// FaultKind implements fault.Classified.
func (*SupersededError) FaultKind() fault.Kind { return fault.Conflict }

// SpaceError reports that the disk has no space for an image.
type SpaceError struct {
	Dir        string
	Need, Free int64 // bytes; 0 if unknown
	Err        error // from the operating system; may be nil
}

func (e *SpaceError) Error() string {
	if e.Need == 0 {
		return fmt.Sprintf("no space is left in %s, and the received part of the image was removed; free space on "+
			"the file system, then try again", e.Dir)
	}
	return fmt.Sprintf("the image needs %s more in %s, but only %s are free; free space on the file system, then try "+
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

// InterruptedError reports that an upload was interrupted. The received bytes are kept.
type InterruptedError struct{ Err error }

func (e *InterruptedError) Error() string {
	return "the upload was interrupted (" + e.Err.Error() +
		"); the received part is kept: request the offset and continue there"
}

// Unwrap returns the cause.
func (e *InterruptedError) Unwrap() error { return e.Err }

// FaultKind implements fault.Classified.
func (*InterruptedError) FaultKind() fault.Kind { return fault.Invalid }

// ContentError reports that a file is not an OS image, contradicts a stated value, or exists
// already. It is permanent: another attempt fails as well.
type ContentError struct {
	Problem  string
	Existing string // ID of the existing image; "" for other problems
}

func (e *ContentError) Error() string { return e.Problem }

// FaultKind implements fault.Classified.
func (e *ContentError) FaultKind() fault.Kind {
	if e.Existing != "" {
		return fault.Conflict
	}
	return fault.Schema
}

// RequestError reports that a request is invalid.
type RequestError struct{ Problem string }

func (e *RequestError) Error() string { return e.Problem }

// FaultKind implements fault.Classified.
func (*RequestError) FaultKind() fault.Kind { return fault.Invalid }
