package engine

import (
	"errors"
	"fmt"
)

// Kind says which sort of refusal an [Error] is, so that a caller can choose an HTTP status by it.
type Kind int

// The sorts of refusal.
const (
	Invalid     Kind = iota + 1 // the request is wrong in itself
	NotFound                    // what it names does not exist
	Conflict                    // what it asks for does not fit the present state
	Unavailable                 // something outside is missing now and may be there later
	Schema                      // the request does not fit the API's schema
	Forbidden                   // whoever asks may not have it
)

// Error is a refusal with a sentence that a person can act on.
type Error struct {
	Kind   Kind
	Reason string
	Err    error // what it came from; may be nil
}

func (e *Error) Error() string { return e.Reason }
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the refusal in an error's chain, or 0 when there is none.
func KindOf(err error) Kind {
	var refusal *Error
	if errors.As(err, &refusal) {
		return refusal.Kind
	}
	return 0
}

func invalid(format string, args ...any) error {
	return &Error{Kind: Invalid, Reason: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &Error{Kind: NotFound, Reason: fmt.Sprintf(format, args...)}
}

func conflict(format string, args ...any) error {
	return &Error{Kind: Conflict, Reason: fmt.Sprintf(format, args...)}
}

func unavailable(err error, format string, args ...any) error {
	return &Error{Kind: Unavailable, Reason: fmt.Sprintf(format, args...), Err: err}
}
