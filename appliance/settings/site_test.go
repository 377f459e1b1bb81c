package settings

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/store"
	"landfall/store/wal"
	"landfall/store/wal/waltest"
)

func TestSite_damagedSettingsOfAFleetAreNotReplaced(t *testing.T) {
	for name, shared := range map[string]wal.SharedLog{"alone": nil, "fleet": new(waltest.Log)} {
		t.Run(name, func(t *testing.T) {
			db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true, Shared: shared})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			damaged := json.RawMessage("[]") // no object
			require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
				return store.NewBucket[json.RawMessage]("settings", 1).Put(tx, rowKey, &damaged)
			}))
			site, err := Open(Options{DB: db})
			require.NoError(t, err)
			change := func() error {
				return site.change(t.Context(), func(r *row) error { r.URL = "http://192.0.2.1"; return nil })
			}
			if shared != nil {
				err := change()
				require.Equal(t, fault.Unavailable, fault.KindOf(err))
				require.ErrorContains(t, err, "landfall fleet end")
				require.Empty(t, site.URL())
				return
			}
			require.NoError(t, change())
			require.Equal(t, "http://192.0.2.1", site.URL())
		})
	}
}

func TestSite_failedChangeLeavesTheValues(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	site, err := Open(Options{DB: db})
	require.NoError(t, err)
	require.NoError(t, site.change(t.Context(), func(r *row) error {
		r.NTPSources, r.Releases = []string{"192.0.2.1"}, []addedRelease{{Version: "4.20.8"}}
		return nil
	}))
	refused := errors.New("refused")
	require.ErrorIs(t, site.change(t.Context(), func(r *row) error {
		r.NTPSources[0], r.Releases[0].Version = "192.0.2.2", "4.20.9"
		return refused
	}), refused)
	require.Equal(t, []string{"192.0.2.1"}, site.NTPSources())
	require.Equal(t, "4.20.8", site.values.Load().row.Releases[0].Version)
}
