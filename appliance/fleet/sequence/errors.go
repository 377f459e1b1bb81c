package sequence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// NoFleetError reports that the prefix has no fleet.
type NoFleetError struct {
	Prefix, Expected string
	EndedBy          string // see [EndedBy]
}

func (e *NoFleetError) Error() string {
	if e.Expected != "" {
		return fmt.Sprintf("etcd has no fleet at %s, but this machine belongs to fleet %s: if the fleet was ended, "+
			"another machine goes on with its data, so remove this data directory; otherwise check fleet.etcd and "+
			"fleet.prefix, or restore etcd", e.Prefix, e.Expected)
	}
	return fmt.Sprintf("etcd has no fleet at %s: run landfall fleet init on the first member", e.Prefix)
}

// ExistsError reports that the prefix already has a fleet.
type ExistsError struct{ Prefix, ID string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("etcd already has fleet %s at %s: join it with landfall fleet join, or choose another "+
		"fleet.prefix", e.ID, e.Prefix)
}

// OtherFleetError reports that the fleet at the prefix is not the caller's.
type OtherFleetError struct {
	Prefix, Found, Expected string
	EndedBy                 string // see [EndedBy]
}

func (e *OtherFleetError) Error() string {
	return fmt.Sprintf("etcd has fleet %s at %s, but this machine belongs to fleet %s: correct fleet.etcd or "+
		"fleet.prefix", e.Found, e.Prefix, e.Expected)
}

// EndedBy returns the ID of the member that has ended the fleet of the caller, if an error of
// [Sequence.Fleet] or [Sequence.Follow] says so. Otherwise it returns "".
func EndedBy(err error) string {
	if none, ok := errors.AsType[*NoFleetError](err); ok {
		return none.EndedBy
	}
	if other, ok := errors.AsType[*OtherFleetError](err); ok {
		return other.EndedBy
	}
	return ""
}

// FormatError reports that a newer program wrote the fleet.
type FormatError struct{ Found, Known int }

func (e *FormatError) Error() string {
	return fmt.Sprintf("the fleet in etcd has format %d, and this program knows up to %d: upgrade this member",
		e.Found, e.Known)
}

// DataError reports that the data of the fleet was changed to a version that this program does not
// support.
type DataError struct{ Found, Known int }

func (e *DataError) Error() string {
	return fmt.Sprintf("the data of the fleet has version %d, and this program supports up to %d: upgrade this member",
		e.Found, e.Known)
}

// OlderError reports that etcd does not have all records that the caller has: it was restored from
// an older snapshot.
type OlderError struct{ Head, Have uint64 }

func (e *OlderError) Error() string {
	return fmt.Sprintf("the log in etcd ends with record %d, but this machine has record %d: etcd was restored from "+
		"an older snapshot; restore a newer one, or make a new fleet from this machine", e.Head, e.Have)
}

// DivergedError reports that the log in etcd has another record under a number that the caller has.
type DivergedError struct{ Number uint64 }

func (e *DivergedError) Error() string {
	return fmt.Sprintf("the log in etcd continues other data than this machine's record %d: etcd was restored from an "+
		"older snapshot, and another member went on from there; join the fleet again", e.Number)
}

// CompactedError reports that the log no longer has a record that the caller needs.
type CompactedError struct{ First, Needed uint64 }

func (e *CompactedError) Error() string {
	return fmt.Sprintf("the log in etcd begins with record %d, and this machine needs record %d: it needs a snapshot "+
		"of another member", e.First, e.Needed)
}

// DamagedError reports a value in etcd that no Landfall wrote.
type DamagedError struct {
	Key string
	Err error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the key %s in etcd is damaged (%v): restore etcd, or make a new fleet from one member", e.Key,
		e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// NoSpaceError reports that etcd's space quota is used up.
type NoSpaceError struct{}

func (e *NoSpaceError) Error() string {
	return "etcd has no space left: compact and defragment it, then disarm its alarm NOSPACE, or raise " +
		"--quota-backend-bytes"
}

// TooLargeError reports that a server of etcd accepts only smaller requests than usual.
type TooLargeError struct{}

func (e *TooLargeError) Error() string {
	return "a server of etcd rejects requests of a little more than 1 MiB: raise --max-request-bytes to its default, " +
		"1.5 MiB"
}

// UnreachableError reports that no server of etcd answered in time.
type UnreachableError struct {
	Endpoints []string
	Err       error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("etcd at %s does not answer (%v): check that most of its servers run and can be reached",
		strings.Join(e.Endpoints, ", "), e.Err)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// CertificateError reports that etcd or this machine does not accept the other's certificate.
type CertificateError struct{ Err error }

func (e *CertificateError) Error() string {
	return fmt.Sprintf("the connection to etcd has no valid certificate (%v): check fleet.ca_file, fleet.cert_file "+
		"and fleet.key_file", e.Err)
}

func (e *CertificateError) Unwrap() error { return e.Err }

// AccessError reports that etcd does not permit the request.
type AccessError struct {
	Prefix string
	Err    error
}

func (e *AccessError) Error() string {
	return fmt.Sprintf("etcd does not permit access to %s (%v): give the user of the client certificate a role with "+
		"read and write access to this prefix", e.Prefix, e.Err)
}

func (e *AccessError) Unwrap() error { return e.Err }

// LostError reports that this member is no longer the leader.
type LostError struct{ Err error }

func (e *LostError) Error() string {
	return fmt.Sprintf("this member is no longer the leader of the fleet (%v): try again at the new leader", e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

var (
	errSilent  = errors.New("etcd did not confirm its lease in time")
	errRemoved = errors.New("its lease ended")
	errClosed  = errors.New("it gave the leadership up")
)

// UnknownError reports that a record may be in the log: only the log itself shows whether it is.
type UnknownError struct{ Err error }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("it is not known whether the change was saved (%v): look before you repeat it", e.Err)
}

func (e *UnknownError) Unwrap() error { return e.Err }

// diagnosis limits the time that is spent on finding the cause of a failed request.
const diagnosis = 2 * time.Second

// explain returns the typed error of a request that failed. ctx is the caller's context, without
// the limit of the request.
func (s *Sequence) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return &NoSpaceError{}
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return &TooLargeError{}
	case refusesAccess(err):
		return &AccessError{Prefix: s.Prefix, Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		if cause := s.diagnose(ctx); cause != nil {
			return cause
		}
	}
	return &UnreachableError{Endpoints: s.Endpoints, Err: err}
}

// refusesAccess reports whether etcd rejected the request because of the caller's rights, before it
// did anything.
func refusesAccess(err error) bool {
	for _, cause := range []error{rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrAuthFailed,
		rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserNotFound} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
