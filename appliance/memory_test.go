package appliance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryIsGivenBackWhenThereIsRestAndItIsWorthWhile(t *testing.T) {
	const mib = 1 << 20
	var r rest
	require.False(t, r.due(100*mib, 200*mib), "it starts")
	require.True(t, r.due(101*mib, 200*mib))
	r.least = 90 * mib
	require.False(t, r.due(103*mib, 100*mib), "it has grown a little")
	require.False(t, r.due(203*mib, 300*mib), "it works")
	require.False(t, r.due(303*mib, 400*mib), "it works on")
	require.True(t, r.due(304*mib, 400*mib))
	r.least = 150 * mib
	require.False(t, r.due(305*mib, 60*mib), "the system took pages back by itself")
	require.True(t, r.due(306*mib, 120*mib), "so it has grown from there")
}
