package sequence_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet/sequence"
)

// A member that was away during landfall fleet end finds no fleet. A person
// who restores etcd then lets two appliances act for one site.
func TestNoFleetError_namesTheEndFirst(t *testing.T) {
	err := &sequence.NoFleetError{Prefix: "/landfall", Expected: "f"}
	require.Regexp(t, "if the fleet was ended, .* remove this data directory; otherwise .* restore etcd", err.Error())
}
