package record_test

import (
	"slices"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// TestDerive_replacesIndexes writes rows without indexes and wrong entries. The derived indexes
// follow from the rows alone.
func TestDerive_replacesIndexes(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	cluster, env, host := strfmt.UUID("c0000000-0000-4000-8000-000000000001"),
		strfmt.UUID("e0000000-0000-4000-8000-000000000001"), strfmt.UUID("a0000000-0000-4000-8000-000000000001")
	status := lifecycle.ClusterPreparing
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	key := env.String() + "/" + host.String()
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		require.NoError(t, record.Clusters.Put(tx, cluster.String(), &record.Cluster{
			API: models.Cluster{ID: &cluster, Status: &status}, Object: record.Object{Key: "ns/c"}}))
		require.NoError(t, record.InfraEnvs.Put(tx, env.String(), &record.InfraEnv{
			API: models.InfraEnv{ID: &env, ClusterID: cluster}, Code: record.ImageCode{Code: "code"}}))
		require.NoError(t, record.Hosts.Put(tx, key, &record.Host{
			API: models.Host{ID: &host, InfraEnvID: env, ClusterID: &cluster}}))
		return record.ClusterHosts.Add(tx, "wrong/entry")
	}))
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		names, err := record.Derive(tx, now)
		require.NoError(t, err)
		require.True(t, slices.Contains(names, "/hosts-by-cluster/"))
		require.True(t, slices.Contains(names, "deadlines/deadlines/"))
		return nil
	}))
	require.NoError(t, db.View(func(tx *store.Tx) error {
		for index, want := range map[store.Index][]string{
			record.ClusterHosts:        {cluster.String() + "/" + key},
			record.ClusterInfraEnvs:    {cluster.String() + "/" + env.String()},
			record.HostInfraEnvs:       {host.String() + "/" + env.String()},
			record.PendingPreparations: {cluster.String()},
			record.ImageCodes:          {"code/" + env.String()},
			record.ClusterObjects:      {"ns/c/" + cluster.String()},
			record.JoiningHosts:        nil,
		} {
			var found []string
			require.NoError(t, index.Keys(tx, "", func(key string) error { found = append(found, key); return nil }))
			require.Equal(t, want, found, index.Prefix())
		}
		due, err := record.StateDeadlines.Due(tx, now, 0)
		require.NoError(t, err)
		require.Len(t, due, 2)
		return nil
	}))
}
