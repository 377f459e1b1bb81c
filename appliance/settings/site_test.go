package settings

import (
	"encoding/json"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/store"
	"landfall/store/wal"
	"landfall/store/wal/waltest"
)

func TestSite_damagedSettingsOfAFleetAreNotReplacedAtOnce(t *testing.T) {
	for name, shared := range map[string]wal.SharedLog{"alone": nil, "fleet": new(waltest.Log)} {
		t.Run(name, func(t *testing.T) {
			db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true, Shared: shared})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			damaged := json.RawMessage("[]") // no object
			require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
				return store.NewBucket[json.RawMessage]("settings", 1).Put(tx, rowKey, &damaged)
			}))
			clock := clockwork.NewFakeClock()
			site, err := Open(Options{DB: db, Clock: clock})
			require.NoError(t, err)
			change := func() error {
				return site.change(t.Context(), func(r *row) error { r.URL = "http://192.0.2.1"; return nil })
			}
			if shared != nil {
				err := change()
				require.Equal(t, fault.Unavailable, fault.KindOf(err))
				require.ErrorContains(t, err, "hands over the lead")
				require.Empty(t, site.URL())
				clock.Advance(handover)
			}
			require.NoError(t, change(), "nobody has taken over")
			require.Equal(t, "http://192.0.2.1", site.URL())
		})
	}
}
