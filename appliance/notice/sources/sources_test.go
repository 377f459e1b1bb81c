package sources

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/bmc"
	"landfall/appliance/doctor"
	"landfall/appliance/engine/record"
	"landfall/appliance/hosted/workers"
	"landfall/appliance/notice"
	"landfall/store"
)

const (
	clusterID  = "0a5d0f3e-0000-4000-8000-000000000001"
	infraEnvID = "0a5d0f3e-0000-4000-8000-000000000002"
)

// find returns the conditions of a source.
func find(ctx context.Context, t *testing.T, options Options, event string) ([]notice.Condition, error) {
	t.Helper()
	for _, source := range New(options) {
		if source.Event == event {
			return source.Find(ctx)
		}
	}
	require.Fail(t, "no such source")
	return nil, nil
}

func TestSources_hostWaitsForApproval(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var waiting []*record.Host
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		cluster := strfmt.UUID(clusterID)
		for i, of := range []*strfmt.UUID{&cluster, nil} {
			id := strfmt.UUID(fmt.Sprintf("0a5d0f3e-0000-4000-8000-00000000000%d", i))
			h := &record.Host{Hostname: "node-" + string(rune('a'+i))}
			h.API.ID, h.API.InfraEnvID, h.API.ClusterID = &id, infraEnvID, of
			waiting = append(waiting, h)
		}
		row := &record.Cluster{}
		row.API.ID, row.API.Name = &cluster, "east"
		return record.Clusters.Put(tx, clusterID, row)
	}))
	found, err := find(t.Context(), t, Options{DB: db, Waiting: func() ([]*record.Host, error) { return waiting, nil }},
		HostWaits)
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, &notice.Subject{ID: clusterID, Name: "east"}, found[0].Cluster)
	require.Equal(t, "/hosts/"+infraEnvID+"/"+found[0].ID, found[0].Path)
	require.Equal(t, "The host node-a waits for an approval. Approve it on its page, or with landfall host approve "+
		"node-a.", found[0].Message)
	require.Equal(t, "node-b", found[1].Host.Name)
	require.Nil(t, found[1].Cluster)
}

// Case 48: one DNS name of two clusters.
func TestFault48_nameOfTwoClusters(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		for i, c := range []struct{ name, domain, kind string }{
			{"east", "site.test", models.ClusterKindCluster},
			{"East", "Site.test", models.ClusterKindCluster},
			{"west", "site.test", models.ClusterKindCluster},
			{"west", "site.test", models.ClusterKindAddHostsCluster},
			{"north", "", models.ClusterKindCluster},
			{"north", "", models.ClusterKindCluster},
		} {
			id := strfmt.UUID(fmt.Sprintf("0a5d0f3e-0000-4000-8000-00000000000%d", i))
			row := &record.Cluster{}
			row.API.ID, row.API.Name, row.API.BaseDNSDomain, row.API.Kind = &id, c.name, c.domain, &c.kind
			if err := record.Clusters.Put(tx, id.String(), row); err != nil {
				return err
			}
		}
		return nil
	}))
	found, err := find(t.Context(), t, Options{DB: db}, NameTaken)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Contains(t, found[0].Message, "2 clusters have the DNS name east.site.test.")
}

func TestSources_workersThatAreNotFollowed(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	states := store.NewBucket[workers.State]("hosted-worker-states", 1)
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		return errors.Join(states.Put(tx, "mc1", &workers.State{Hosts: map[string]string{"h1": "Nobody approved it"}}),
			states.Put(tx, "mc2", &workers.State{}))
	}))
	found, err := find(t.Context(), t, Options{DB: db}, WorkersStalled)
	require.NoError(t, err)
	require.Equal(t, []notice.Condition{{ID: "mc1", Name: "mc1", Path: "/hosted", Message: "The workers of the " +
		"management cluster mc1 are not followed. The host h1 waits for a person: Nobody approved it."}}, found)
}

func TestSources_serverWithError(t *testing.T) {
	list := []*bmc.Server{{ID: "1"}, {ID: "2"}}
	list[1].Name, list[1].Error = "rack-2", &bmc.ErrorStatus{Message: "The BMC rejected the password."}
	found, err := find(t.Context(), t, Options{Servers: func() ([]*bmc.Server, error) { return list, nil }},
		ServerFails)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, "The server rack-2 has an error. The BMC rejected the password.", found[0].Message)
	_, err = find(t.Context(), t, Options{Servers: func() ([]*bmc.Server, error) { return nil, errors.New("x") }},
		ServerFails)
	require.Error(t, err)
}

func TestSources_fullDisk(t *testing.T) {
	var disk doctor.Finding
	ids := map[doctor.Status]string{}
	for _, disk.Status = range []doctor.Status{doctor.Green, doctor.Unknown, doctor.Amber, doctor.Red} {
		disk.Result, disk.Advice = "1.0 GiB of 9.0 GiB are free", "Free space."
		found, err := find(t.Context(), t, Options{Disk: func() doctor.Finding { return disk }}, DiskFull)
		require.NoError(t, err)
		for _, c := range found {
			ids[disk.Status] = c.ID
			require.Equal(t, "The disk of the data directory needs space: 1.0 GiB of 9.0 GiB are free. Free space.",
				c.Message)
		}
	}
	require.Len(t, ids, 2)
	require.NotEqual(t, ids[doctor.Amber], ids[doctor.Red], "the second one is reported, too")
}

func TestSources_unusableMirror(t *testing.T) {
	mirrors := func(context.Context) []doctor.Finding {
		return []doctor.Finding{
			{Area: doctor.Registries, Subject: "mirror.test", Status: doctor.Red, Result: "connection refused",
				Advice: "Check that the registry runs and is reachable from here."},
			{Area: doctor.Registries, Subject: "second.test", Status: doctor.Amber},
			{Area: doctor.Clocks, Subject: "third.test", Status: doctor.Red},
		}
	}
	found, err := find(t.Context(), t, Options{Mirrors: mirrors}, MirrorUnusable)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, "The registry mirror.test of the mirror cannot be used: connection refused. Check that the "+
		"registry runs and is reachable from here.", found[0].Message)

	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = find(stopped, t, Options{Mirrors: mirrors}, MirrorUnusable)
	require.ErrorIs(t, err, context.Canceled, "an appliance that stops has checked nothing")
}

func TestSources_degradedFleet(t *testing.T) {
	fleet := func(context.Context) ([]doctor.Finding, error) {
		return []doctor.Finding{{Area: doctor.Fleet, Subject: "member b", Status: doctor.Amber,
			Result: "away since noon", Advice: "Start it."}}, nil
	}
	found, err := find(t.Context(), t, Options{Fleet: fleet}, FleetDegraded)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, "member b", found[0].ID)
	require.Equal(t, "The fleet needs a person. The member b: away since noon. Start it.", found[0].Message)

	failing := func(context.Context) ([]doctor.Finding, error) { return nil, errors.New("etcd is away") }
	_, err = find(t.Context(), t, Options{Fleet: failing}, FleetDegraded)
	require.Error(t, err, "the last conditions still hold")
}
