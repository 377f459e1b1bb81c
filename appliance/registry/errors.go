package registry

import (
	"errors"
	"fmt"
	"time"

	"landfall/appliance/fault"
)

// Errors of content that the registry does not have.
var (
	// ErrManifestUnknown is returned for a manifest that no medium has and nobody pushed.
	ErrManifestUnknown = fault.Sentinel(fault.NotFound, "the manifest is unknown")
	// ErrBlobUnknown is the same for a blob.
	ErrBlobUnknown = fault.Sentinel(fault.NotFound, "the blob is unknown")
	// ErrNameUnknown is returned for a repository that does not exist.
	ErrNameUnknown = fault.Sentinel(fault.NotFound, "the repository is unknown")
)

// LeftOutError reports an image of one architecture that was not mirrored with the others. It is an
// [ErrManifestUnknown].
type LeftOutError struct {
	List         string // digest of the index that names it
	Digest       string
	Architecture string
}

func (e *LeftOutError) Error() string {
	return fmt.Sprintf("the image of %s for %s is on none of the media; mirror this architecture too, with "+
		"platform.architectures in the image set configuration", e.List, e.Architecture)
}

// Unwrap implements errors.Unwrap.
func (*LeftOutError) Unwrap() error { return ErrManifestUnknown }

// FaultKind implements fault.Classified.
func (*LeftOutError) FaultKind() fault.Kind { return fault.NotFound }

// UnavailableError reports content that the registry knows but can't serve now. Its text is a
// sentence without a period at its end.
type UnavailableError struct {
	Reason string
	// RetryAfter is when a client should ask again; 0 if only a person can change the answer. A
	// client that waits would report an incomplete image as a registry that does not answer.
	RetryAfter time.Duration
}

func (e *UnavailableError) Error() string { return e.Reason }

// FaultKind implements fault.Classified.
func (*UnavailableError) FaultKind() fault.Kind { return fault.Unavailable }

// IncompleteError reports an image of which parts are on none of the known media and were not
// pushed. A client that got its manifest would choose this registry and then fail in the middle.
type IncompleteError struct {
	Missing []string // digests
	Itself  bool     // its manifest is what is missing
	Pushed  bool     // its manifest was pushed
}

func (e *IncompleteError) Error() string {
	switch others := len(e.Missing) - 1; {
	case e.Itself:
		return fmt.Sprintf("the manifest %s is on none of the media that are known; plug in the archive of an "+
			"earlier run", e.Missing[0])
	case e.Pushed:
		return fmt.Sprintf("%s of this image is neither among the pushed blobs nor on the media that are known; push "+
			"the image again", e.Missing[0])
	case others > 0:
		return fmt.Sprintf("%s and %d other parts of this image are on none of the media that are known; plug in the "+
			"archive that holds them, see landfall registry status", e.Missing[0], others)
	}
	return fmt.Sprintf("%s of this image is on none of the media that are known; plug in the archive that holds it, "+
		"see landfall registry status", e.Missing[0])
}

// FaultKind implements fault.Classified.
func (*IncompleteError) FaultKind() fault.Kind { return fault.Unavailable }

// BusyError reports that too many clients read from a medium at the moment.
type BusyError struct{ Label string }

func (e *BusyError) Error() string {
	return "too many clients read from " + e.Label + " at the moment"
}

// FaultKind implements fault.Classified.
func (*BusyError) FaultKind() fault.Kind { return fault.Unavailable }

// retryAfter is the wait that an [UnavailableError] names, as long as no better one is known.
const retryAfter = 5 * time.Second

// DamagedError reports a blob whose bytes do not have its digest.
type DamagedError struct {
	Digest string
	Place  string // the medium, the file and the offset
	Remedy string // a clause
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s on %s is damaged: its content does not have this digest; %s", e.Digest, e.Place, e.Remedy)
}

// errChanged ends a copy whose bytes turned out to be damaged at its end.
var errChanged = errors.New("the content does not have its digest")
