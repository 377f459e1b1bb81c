package engine

import (
	"errors"
	"fmt"

	"landfall/appliance/fault"
)

// Error is a classified error of the engine; see package fault.
type Error = fault.Error

// Kind classifies an error; see package fault.
type Kind = fault.Kind

// Kinds of the engine's errors.
const (
	Invalid     = fault.Invalid
	NotFound    = fault.NotFound
	Conflict    = fault.Conflict
	Unavailable = fault.Unavailable
	Schema      = fault.Schema
	Forbidden   = fault.Forbidden
)

// KindOf returns the kind of the first [*Error] in the chain, or 0 if there is none. In contrast to
// [fault.KindOf] it ignores error types of other packages.
func KindOf(err error) Kind {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Kind
	}
	return 0
}

func invalid(format string, args ...any) error { return fault.New(fault.Invalid, format, args...) }

func notFound(format string, args ...any) error { return fault.New(fault.NotFound, format, args...) }

func conflict(format string, args ...any) error { return fault.New(fault.Conflict, format, args...) }

func unavailable(err error, format string, args ...any) error {
	return &Error{Kind: fault.Unavailable, Reason: fmt.Sprintf(format, args...), Err: err}
}
