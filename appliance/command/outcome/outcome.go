// Package outcome holds the exit codes of the commands, and the errors that select them.
package outcome

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"landfall/appliance/sentence"
)

// Exit codes of processes. A process that succeeded has 0.
const (
	Failure     = 1
	Usage       = 2 // wrong arguments: nothing was done
	Waiting     = 3 // what was waited for has not happened yet
	Attention   = 4 // something needs a person
	Interrupted = 130
)

// UsageError is the error of a wrong argument that a command itself detects.
type UsageError struct{ error }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.error }

// Usagef returns the error of a wrong argument.
func Usagef(format string, arguments ...any) error {
	return UsageError{fmt.Errorf(format, arguments...)}
}

// CodeError is an error with an exit code. Without a cause, the command has already printed why.
type CodeError struct {
	Code  int
	Cause error
}

// Error returns the text of the cause.
func (e *CodeError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Cause.Error()
}

// Unwrap returns the cause.
func (e *CodeError) Unwrap() error { return e.Cause }

// Of returns the exit code for an error, and whether the error has a text to print.
func Of(err error) (code int, print bool) {
	if err == nil {
		return 0, false
	}
	if coded, ok := errors.AsType[*CodeError](err); ok {
		return coded.Code, coded.Cause != nil
	}
	if _, ok := errors.AsType[UsageError](err); ok {
		return Usage, true
	}
	return Failure, true
}

// IsCancellation reports whether an error is nothing but the end of a context: each of its joined
// errors wraps context.Canceled.
func IsCancellation(err error) bool {
	switch wrapper := err.(type) {
	case interface{ Unwrap() []error }:
		for _, part := range wrapper.Unwrap() {
			if !IsCancellation(part) {
				return false
			}
		}
		return len(wrapper.Unwrap()) > 0
	case interface{ Unwrap() error }:
		return IsCancellation(wrapper.Unwrap())
	}
	return err != nil && errors.Is(err, context.Canceled) // also an error that only has a method Is, as of package net
}

// Line returns the text of an error in one line; joined errors are separated by semicolons.
func Line(err error) string {
	return strings.Join(strings.FieldsFunc(sentence.Printable(err.Error()), func(r rune) bool { return r == '\n' }), "; ")
}
