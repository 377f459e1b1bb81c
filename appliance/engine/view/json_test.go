package view

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRendered_cacheIsBounded fills the cache beyond its bound.
func TestRendered_cacheIsBounded(t *testing.T) {
	var r renderings
	for n := range 30 {
		r.put(fmt.Sprint(n), &rendering{made: []uint64{uint64(n)}, text: make([]byte, 1<<20)})
		require.LessOrEqual(t, r.size, renderedLimit)
	}
	require.NotEmpty(t, r.byKey)
	for key, held := range r.byKey {
		found, ok := r.get(key, held.made)
		require.True(t, ok)
		require.Same(t, held, found)
		_, ok = r.get(key, []uint64{99})
		require.False(t, ok, "renderings of other revisions")
	}
}
