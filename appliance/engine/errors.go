package engine

import (
	"fmt"

	"landfall/appliance/fault"
)

func invalid(format string, args ...any) error { return fault.New(fault.Invalid, format, args...) }

func notFound(format string, args ...any) error { return fault.New(fault.NotFound, format, args...) }

func conflict(format string, args ...any) error { return fault.New(fault.Conflict, format, args...) }

func unavailable(err error, format string, args ...any) error {
	return &fault.Error{Kind: fault.Unavailable, Reason: fmt.Sprintf(format, args...), Err: err}
}
