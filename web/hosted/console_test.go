package hosted

import (
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

// A cluster that is ready has no reason of its own.
func TestCluster_reasonOfUnfinishedNodePool(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	row := &record.Cluster{CID: "c1", Resource: record.Resource{State: record.Succeeded}}
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		for _, pool := range []struct{ name, reason string }{{"a", ""}, {"b", "3 of 50 nodes are there."},
			{"c", "1 of 2 nodes are there."}} {
			if err := record.PutNodePool(tx, &record.NodePool{CID: "c1", Resource: record.Resource{
				ID: arm.ID{Child: pool.name}, Document: arm.Document{}, Reason: pool.reason}}); err != nil {
				return err
			}
		}
		shown, err := clusterOf(tx, row)
		require.NoError(t, err)
		require.Equal(t, "The node pool b: 3 of 50 nodes are there.", shown.Reason)
		row.Reason = "EtcdAvailable: no volume."
		shown, err = clusterOf(tx, row)
		require.Equal(t, row.Reason, shown.Reason)
		return err
	}))
}
