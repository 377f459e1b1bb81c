package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/event"
)

// After each start, the appliance checks the mirror again for clusters that are ready. It told the
// same result each time.
func TestMirrorProof_sameResultToldOnce(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.singleNode()
	told := func() (names []string) {
		for _, e := range b.eventsOf(event.Filter{ClusterID: cluster, Limit: 100}) {
			if e.Name == event.MirrorProven || e.Name == event.MirrorGaps {
				names = append(names, e.Name)
			}
		}
		return names
	}
	complete := MirrorProof{Complete: true, Images: 190, Summary: "The mirror has all 190 images."}
	gaps := MirrorProof{Images: 190, Gaps: 2, Summary: "The mirror lacks 2 of 190 images."}
	for range 3 {
		require.NoError(t, b.NoteNewMirrorProof(t.Context(), cluster, complete))
	}
	require.Equal(t, []string{event.MirrorProven}, told())
	for range 2 {
		require.NoError(t, b.NoteNewMirrorProof(t.Context(), cluster, gaps))
	}
	require.NoError(t, b.NoteNewMirrorProof(t.Context(), cluster, complete))
	require.Len(t, told(), 3, "each other result")
	require.NoError(t, b.NoteMirrorProof(t.Context(), cluster, complete))
	require.Len(t, told(), 4, "an installation")
}
