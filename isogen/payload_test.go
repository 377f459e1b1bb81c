package isogen

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestArchive_sizeLimits tests only the sizes: compressing 64 MiB takes long.
func TestArchive_sizeLimits(t *testing.T) {
	require.NoError(t, checkSizes(MaxPayload, maxUnpacked))
	var large *TooLargeError
	require.ErrorAs(t, checkSizes(MaxPayload+1, 0), &large)
	require.EqualValues(t, MaxPayload, large.Limit)
	require.ErrorContains(t, large, "take 67108865 bytes compressed, an image can contain at most 67108864: shorten")
	require.ErrorContains(t, checkSizes(1, maxUnpacked+1),
		"have 134217729 bytes, an image can contain at most 134217728: shorten")
}
