package clusters

import (
	"errors"
	"fmt"

	"landfall/appliance/engine"
)

// wrongInput is what a person must correct in an object: trying again does not help.
type wrongInput struct{ err error }

func (e *wrongInput) Error() string { return e.err.Error() }
func (e *wrongInput) Unwrap() error { return e.err }

func inputError(format string, args ...any) error {
	return &wrongInput{fmt.Errorf(format, args...)}
}

// manifestsError is what is wrong with the manifests that ConfigMaps hold. They are looked at again
// by themselves.
type manifestsError struct{ err error }

func (e *manifestsError) Error() string { return e.err.Error() }
func (e *manifestsError) Unwrap() error { return e.err }

// isInput tells whether an error is a person's to correct: a wrong input, or a refusal of the
// engine that is none of a fault outside.
func isInput(err error) bool {
	var input *wrongInput
	if errors.As(err, &input) {
		return true
	}
	kind := engine.KindOf(err)
	return kind != 0 && kind != engine.Unavailable
}
