package fleet_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet"
	"landfall/store"
)

func TestCheckAlone_refusesMembers(t *testing.T) {
	for name, c := range map[string]struct {
		state *fleet.State
		want  string // part of the error
	}{
		"single machine": {nil, ""},
		"member":         {&fleet.State{Member: "two"}, "the member two"},
		"left":           {&fleet.State{Member: "two", Left: true}, "the member two"},
		"ended":          {&fleet.State{Member: "two", Ended: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.state != nil {
				require.NoError(t, c.state.Write(dir))
			}
			if c.want == "" {
				require.NoError(t, fleet.CheckAlone(dir))
				return
			}
			require.ErrorContains(t, fleet.CheckAlone(dir), c.want)
		})
	}
}

func TestDetach_makesSingleMachine(t *testing.T) {
	dir := t.TempDir()
	require.ErrorContains(t, fleet.Detach(dir), "belongs to no fleet")
	require.NoError(t, (&fleet.State{Fleet: "fleet", Member: "two"}).Write(dir))
	running, err := store.Open(t.Context(), dir, store.Options{})
	require.NoError(t, err)
	require.ErrorAs(t, fleet.Detach(dir), new(*store.HeldError))
	require.NoError(t, running.Close())
	require.NoError(t, fleet.Detach(dir))
	state, err := fleet.ReadState(dir)
	require.NoError(t, err)
	require.True(t, state.Ended)
	require.False(t, state.Takes(true), "the configuration may still name etcd")
	require.NoError(t, fleet.CheckAlone(dir))
	require.ErrorContains(t, fleet.Detach(dir), "belongs to no fleet")

	require.NoError(t, (&fleet.State{Fleet: "fleet", Member: "two", Left: true}).Write(dir))
	require.ErrorContains(t, fleet.Detach(dir), "has left its fleet")
}
