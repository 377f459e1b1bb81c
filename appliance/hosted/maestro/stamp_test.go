package maestro

import (
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

// startRuns adds runs, as starts of the appliance do, and returns how many are stored then.
func (s *site) startRuns(count int) (stored int) {
	s.t.Helper()
	for range count {
		require.NoError(s.t, s.service.startRun(s.t.Context(), s.identity))
	}
	s.view(func(tx *store.Tx) error {
		return runs.Keys(tx, "", func(string) error {
			stored++
			return nil
		})
	})
	require.Len(s.t, s.service.runs, stored)
	return stored
}

func TestRuns_removedWhenNoStampNamesThem(t *testing.T) {
	s := newSite(t)
	id := s.create("c1")
	s.connect()
	require.Equal(t, 3*keptRuns+1, s.startRuns(3*keptRuns), "the agent's stamp is of the first run")
	s.poll()
	hold, _ := s.held()
	require.Nil(t, hold)

	s.edit(id, "2")
	s.settle()
	unsent := s.create("c2")
	require.Equal(t, 3*keptRuns+2, s.startRuns(1), "c2 may have been sent in any run")
	s.settle()
	require.NotNil(t, s.status(unsent))
	require.Equal(t, keptRuns+1, s.startRuns(1))

	s.restart()
	s.connect()
	s.edit(id, "3")
	s.settle()
	hold, _ = s.held()
	require.Nil(t, hold, "the agent's stamps are still known")
	require.EqualValues(t, 3, s.status(id).ResourceVersion)
	require.Equal(t, keptRuns+3, s.startRuns(1), "no number is used twice")
}
