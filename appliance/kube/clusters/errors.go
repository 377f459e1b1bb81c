package clusters

import (
	"errors"
	"fmt"

	"landfall/appliance/fault"
)

// wrongInput is an error in what a user wrote: a retry does not help.
type wrongInput struct{ err error }

func (e *wrongInput) Error() string { return e.err.Error() }
func (e *wrongInput) Unwrap() error { return e.err }

func inputError(format string, args ...any) error {
	return &wrongInput{fmt.Errorf(format, args...)}
}

// manifestsError is an error in the manifests of ConfigMaps. They are read again regularly.
type manifestsError struct{ err error }

func (e *manifestsError) Error() string { return e.err.Error() }
func (e *manifestsError) Unwrap() error { return e.err }

// isInput reports whether a user must correct an error: an invalid input, or a refusal of the
// engine that has no cause outside.
func isInput(err error) bool {
	var input *wrongInput
	if errors.As(err, &input) {
		return true
	}
	kind := fault.KindOf(err)
	return kind != 0 && kind != fault.Unavailable
}
