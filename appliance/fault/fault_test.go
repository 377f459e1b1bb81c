package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
)

type ownError struct{}

func (ownError) Error() string         { return "the disk is full" }
func (ownError) FaultKind() fault.Kind { return fault.NoSpace }

func TestKindOf(t *testing.T) {
	missing := fault.Sentinel(fault.NotFound, "there is no token")
	for name, test := range map[string]struct {
		err    error
		kind   fault.Kind
		reason string
	}{
		"unclassified": {errors.New("broken"), 0, "broken"},
		"an Error": {fault.New(fault.Conflict, "cluster %s is installing", "a"), fault.Conflict,
			"cluster a is installing"},
		"a wrapped Error":  {fmt.Errorf("update: %w", fault.New(fault.Invalid, "no name")), fault.Invalid, "no name"},
		"a cause":          {fault.Wrap(fault.Invalid, errors.New("not YAML")), fault.Invalid, "not YAML"},
		"a sentinel":       {fmt.Errorf("%w: t-1", missing), fault.NotFound, "there is no token: t-1"},
		"a domain's error": {fmt.Errorf("store: %w", ownError{}), fault.NoSpace, "store: the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.kind, fault.KindOf(test.err))
			require.Equal(t, test.reason, fault.Reason(test.err))
		})
	}
	require.ErrorIs(t, fmt.Errorf("%w: t-1", missing), missing)
	require.NoError(t, fault.Wrap(fault.Invalid, nil))
	require.Zero(t, fault.KindOf(nil))
}
