package record_test

import (
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/store"
)

func TestSummaries_fieldsOfTheRows(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	id, env := strfmt.UUID("c0000000-0000-4000-8000-000000000001"),
		strfmt.UUID("e0000000-0000-4000-8000-000000000001")
	at := strfmt.DateTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	object := record.Object{Key: "ns/name", Generation: 2, Digest: "d"}
	cluster := &record.Cluster{Object: object, PullSecret: "secret", API: models.Cluster{ID: &id, Name: "east",
		BaseDNSDomain: "site.test", Kind: conv.Pointer(models.ClusterKindCluster),
		Status: conv.Pointer(lifecycle.ClusterInstalled), InstallStartedAt: at, InstallCompletedAt: at}}
	host := &record.Host{Object: object, Hostname: "node", API: models.Host{ClusterID: &id, InfraEnvID: env,
		Status: conv.Pointer(models.HostStatusKnown)}}
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		require.NoError(t, record.Clusters.Put(tx, id.String(), cluster))
		return record.Hosts.Put(tx, "key", host)
	}))
	require.NoError(t, db.View(func(tx *store.Tx) error {
		ofCluster, err := record.ClusterSummaries.Get(tx, id.String())
		require.NoError(t, err)
		want := record.ClusterSummary{Object: object}
		want.API.ID, want.API.Name, want.API.BaseDNSDomain = id, "east", "site.test"
		want.API.Kind, want.API.Status = *cluster.API.Kind, *cluster.API.Status
		want.API.InstallStartedAt, want.API.InstallCompletedAt = at.String(), at.String()
		require.Equal(t, &want, ofCluster)
		ofHost, err := record.HostSummaries.Get(tx, "key")
		require.NoError(t, err)
		wantHost := record.HostSummary{Object: object}
		wantHost.API.ClusterID, wantHost.API.InfraEnvID, wantHost.API.Status = &id, env, *host.API.Status
		require.Equal(t, &wantHost, ofHost)
		return nil
	}))
}
