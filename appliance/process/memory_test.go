package process

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsage_releaseDueWhenIdleAndGrown(t *testing.T) {
	const mib = 1 << 20
	var u usage
	require.False(t, u.releaseDue(100*mib, 200*mib), "start of the process")
	require.True(t, u.releaseDue(101*mib, 200*mib))
	u.least = 90 * mib
	require.False(t, u.releaseDue(103*mib, 100*mib), "little growth")
	require.False(t, u.releaseDue(203*mib, 300*mib), "busy process")
	require.False(t, u.releaseDue(303*mib, 400*mib), "still busy")
	require.True(t, u.releaseDue(304*mib, 400*mib))
	u.least = 150 * mib
	require.False(t, u.releaseDue(305*mib, 60*mib), "the kernel reclaimed pages itself")
	require.True(t, u.releaseDue(306*mib, 120*mib), "growth since the reclaim")
}
