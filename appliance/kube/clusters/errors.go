package clusters

import (
	"errors"
	"fmt"

	"landfall/appliance/fault"
)

// wrongInput is an error in a user's object. The reconcile is not retried.
type wrongInput struct{ err error }

func (e *wrongInput) Error() string { return e.err.Error() }
func (e *wrongInput) Unwrap() error { return e.err }

func inputError(format string, args ...any) error {
	return &wrongInput{fmt.Errorf(format, args...)}
}

// manifestsError is an error in the manifests of ConfigMaps. The ConfigMaps are read again
// periodically.
type manifestsError struct{ err error }

func (e *manifestsError) Error() string { return e.err.Error() }
func (e *manifestsError) Unwrap() error { return e.err }

// isInput reports whether a user must correct an error: invalid input, or a request that the engine
// rejected for its content.
func isInput(err error) bool {
	var input *wrongInput
	if errors.As(err, &input) {
		return true
	}
	kind := fault.KindOf(err)
	return kind != 0 && kind != fault.Unavailable && kind != fault.NoSpace
}
