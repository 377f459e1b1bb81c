package store

import (
	"context"
	"errors"
)

// ErrDryRun is the error of an update that would have succeeded but was a dry run.
var ErrDryRun = errors.New("nothing was changed: the update was a dry run")

type dryRunKey struct{}

// DryRun returns a context with which Update rolls each update back. If the function of the update
// returned no error, Update returns [ErrDryRun].
func DryRun(ctx context.Context) context.Context { return context.WithValue(ctx, dryRunKey{}, true) }

// IsDryRun reports whether a context is one of [DryRun].
func IsDryRun(ctx context.Context) bool { return ctx.Value(dryRunKey{}) != nil }

// rolledBack returns an update that fails when fn has succeeded.
func rolledBack(fn func(*Tx) error) func(*Tx) error {
	return func(tx *Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return ErrDryRun
	}
}
