// Package fault classifies the errors of the domain packages. A domain package returns an [*Error],
// or its own error type with the method FaultKind. It does not use HTTP. Package web/problem maps
// each kind to an HTTP status, and the Kubernetes controllers read the kind with [KindOf].
//
// Design: docs/design.md#kinds-of-errors.
package fault

import (
	"errors"
	"fmt"
)

// Kind classifies an error by what the caller can do about it. The zero Kind is an internal error.
type Kind int

// Kinds of errors, with the HTTP status that package web/problem gives them.
const (
	Invalid         Kind = iota + 1 // the request itself is wrong (400)
	NotFound                        // the request names an object that does not exist (404)
	Conflict                        // the request contradicts the present state (409)
	Unavailable                     // a dependency is unavailable at the moment (503)
	Schema                          // the request does not match the API's schema (422)
	Forbidden                       // the caller is not authorized (403)
	TooLarge                        // the input exceeds a limit (413)
	NoSpace                         // the disk has too little space for the input (507)
	Unauthenticated                 // the caller has no valid credentials (401)
)

// Error is a classified error with a text for users that includes the remedy. Users see only
// Reason, even if the Error is wrapped.
type Error struct {
	Kind   Kind
	Reason string
	Err    error // the cause; may be nil
}

// Error returns the reason.
func (e *Error) Error() string { return e.Reason }

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.Err }

// FaultKind returns the kind.
func (e *Error) FaultKind() Kind { return e.Kind }

// New returns an Error of a kind. The format is that of fmt.Sprintf.
func New(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Reason: fmt.Sprintf(format, args...)}
}

// Wrap returns an Error of a kind with the text of its cause. It returns nil if the cause is nil.
func Wrap(kind Kind, cause error) error {
	if cause == nil {
		return nil
	}
	return &Error{Kind: kind, Reason: cause.Error(), Err: cause}
}

// Sentinel returns an error value for comparison with errors.Is. Unlike an [*Error], it is wrapped
// to add details (fmt.Errorf("%w: ...")), and users see the text of the whole chain.
func Sentinel(kind Kind, text string) error { return &sentinel{kind, text} }

type sentinel struct {
	kind Kind
	text string
}

func (s *sentinel) Error() string   { return s.text }
func (s *sentinel) FaultKind() Kind { return s.kind }

// Classified is implemented by all errors that have a kind: [*Error] and error types of the domain
// packages.
type Classified interface {
	error
	FaultKind() Kind
}

// KindOf returns the kind of the first classified error in the chain, or 0.
func KindOf(err error) Kind {
	var classified Classified
	if errors.As(err, &classified) {
		return classified.FaultKind()
	}
	return 0
}

// Reason returns the text of an error for users: the Reason of an [*Error] in the chain, or else
// the text of the whole chain.
func Reason(err error) string {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Reason
	}
	return err.Error()
}
