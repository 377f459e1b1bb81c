package fleet_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet"
)

func TestLeading_eachDirectoryHasItsTrail(t *testing.T) {
	var single *fleet.Leading
	require.Empty(t, single.Trail())
	former, again := &fleet.Leading{Member: "a", Directory: "1"}, &fleet.Leading{Member: "a", Directory: "2"}
	require.NotEqual(t, former.Trail(), again.Trail())
}
