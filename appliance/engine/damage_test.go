package engine

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// damage makes a row unreadable.
func (b *harness) damage(bucket, key string) {
	b.Helper()
	require.NoError(b, b.options.DB.Update(b.Context(), func(tx *store.Tx) error {
		return store.NewBucket[string](bucket, 1).Put(tx, key, new("damaged"))
	}))
}

// TestDamage_limitsOfOtherRowsPass damages one row of each kind. The hosts of another infra-env
// that stop polling are disconnected.
func TestDamage_limitsOfOtherRowsPass(t *testing.T) {
	for _, bucket := range []string{"hosts", "clusters", "infra-envs", "subscriptions"} {
		t.Run(bucket, func(t *testing.T) {
			b := newHarness(t)
			cluster, hosts := b.threeNodes(true)
			other := b.host(b.infraEnvOf(nil), 4)
			key := map[string]string{"hosts": hosts[0].env + "/" + hosts[0].id, "infra-envs": hosts[0].env}[bucket]
			if key == "" {
				key = cluster
			}
			b.damage(bucket, key)
			b.pass(4 * time.Minute)
			other.require(lifecycle.HostDisconnectedUnbound)
			if bucket == "hosts" {
				next, waits, err := b.Stepper().Due(t.Context())
				require.NoError(t, err)
				require.True(t, waits)
				require.LessOrEqual(t, next.Sub(b.clock.Now()), time.Minute, "the engine tries again")
			}
		})
	}
}

// TestDamage_clusterOfDamagedHost lets the other hosts of a cluster go on without a damaged one. No
// installation begins.
func TestDamage_clusterOfDamagedHost(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	b.requireCluster(cluster, lifecycle.ClusterReady)
	before := b.requireCluster(cluster, lifecycle.ClusterReady).MachineNetworkCidr
	b.damage("hosts", hosts[0].env+"/"+hosts[0].id)
	b.pass(4*time.Minute, hosts[1])
	hosts[1].require(lifecycle.HostInsufficient)
	hosts[2].require(lifecycle.HostDisconnected)
	shown := b.requireCluster(cluster, lifecycle.ClusterInsufficient)
	require.Contains(t, *shown.StatusInfo, "damaged: "+hosts[0].id)
	require.EqualValues(t, 3, shown.TotalHostCount)
	require.Len(t, shown.Hosts, 2)
	listed, err := b.ClusterList(true, nil)
	require.NoError(t, err)
	require.Contains(t, string(slices.Concat(listed...)), cluster)
	require.Equal(t, before, shown.MachineNetworkCidr)
	_, err = b.InstallCluster(t.Context(), cluster)
	require.Error(t, err)
}

// TestDamage_preparationEnds damages a host while its cluster is prepared.
func TestDamage_preparationEnds(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	b.startInstallation(cluster)
	b.damage("hosts", hosts[0].env+"/"+hosts[0].id)
	b.prepareAll()
	shown := b.requireCluster(cluster, lifecycle.ClusterInsufficient)
	require.Contains(t, *shown.StatusInfo, hosts[0].id)
}

// TestDamage_installationGoesOn damages a host of a running installation. The other hosts report
// their progress, and a silent one fails with its cluster.
func TestDamage_installationGoesOn(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	b.begin(cluster, hosts...)
	b.damage("hosts", hosts[0].env+"/"+hosts[0].id)
	require.NoError(t, hosts[1].progress(models.HostStageWritingImageToDisk, "42%"))
	b.requireCluster(cluster, lifecycle.ClusterInstalling)
	b.pass(time.Hour, hosts[1])
	hosts[2].require(lifecycle.HostFailed)
	b.requireCluster(cluster, lifecycle.ClusterFailed)
}

// TestDamage_onlyHost damages the only host of a cluster. It does not count as failed.
func TestDamage_onlyHost(t *testing.T) {
	b := newHarness(t)
	cluster, h := b.installing()
	b.damage("hosts", h.env+"/"+h.id)
	b.pass(2 * time.Hour)
	b.requireCluster(cluster, lifecycle.ClusterInstalling)
	b.pass(23 * time.Hour)
	b.requireCluster(cluster, lifecycle.ClusterFailed)
}

// TestDamage_clockSetBack sets the clock back while each kind of row is damaged.
func TestDamage_clockSetBack(t *testing.T) {
	for _, bucket := range []string{"hosts", "clusters"} {
		t.Run(bucket, func(t *testing.T) {
			b := newHarness(t)
			cluster, h := b.installing()
			other := b.host(b.infraEnvOf(nil), 4)
			b.damage(bucket, map[string]string{"hosts": h.env + "/" + h.id, "clusters": cluster}[bucket])
			b.clock.Advance(-10 * time.Hour)
			b.Stepper().Jumped(-10 * time.Hour)
			b.pass(4 * time.Minute)
			other.require(lifecycle.HostDisconnectedUnbound)
		})
	}
}

// TestDamage_joiningHost adds a damaged and a missing host to those that join a cluster.
func TestDamage_joiningHost(t *testing.T) {
	b := newFollowingHarness(t)
	_, h := b.joining()
	require.NoError(t, h.progress(models.HostStageRebooting, ""))
	b.damage("hosts", h.env+"/0-damaged")
	require.NoError(t, b.options.DB.Update(t.Context(), func(tx *store.Tx) error {
		return errors.Join(record.JoiningHosts.Add(tx, h.env+"/0-damaged"),
			record.JoiningHosts.Add(tx, h.env+"/1-missing"))
	}))
	awaited := b.awaited()
	require.Len(t, awaited, 1)
	require.Equal(t, h.env+"/"+h.id, awaited[0].Key)
}

// TestDamage_preparationOfOtherCluster damages a cluster that waits for its preparation. The other
// cluster is prepared.
func TestDamage_preparationOfOtherCluster(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.threeNodes(true)
	b.damage("clusters", "0-damaged")
	require.NoError(t, b.options.DB.Update(t.Context(), func(tx *store.Tx) error {
		return record.PendingPreparations.Add(tx, "0-damaged")
	}))
	b.startInstallation(cluster)
	b.run(func() {
		require.Eventually(t, func() bool { return b.releases.made.Load() == 1 }, time.Minute, time.Millisecond)
	})
}

// TestPreparation_pausesIfResultIsNotRecorded runs a preparation whose result can't be recorded.
func TestPreparation_pausesIfResultIsNotRecorded(t *testing.T) {
	b := newHarness(t)
	b.damage("clusters", "0-damaged")
	lines, logged := io.Pipe()
	b.options.Logger = slog.New(slog.NewTextHandler(logged, nil))
	failures := bufio.NewScanner(lines)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var run sync.WaitGroup
	run.Go(func() { b.prepareUntilRecorded(ctx, "0-damaged", "any") })
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		require.True(t, failures.Scan())
		require.NoError(t, b.clock.BlockUntilContext(ctx, 1))
		b.clock.Advance(wait*time.Second - time.Millisecond)
		require.NoError(t, b.clock.BlockUntilContext(ctx, 1), "the preparation still waits")
		b.clock.Advance(time.Millisecond)
	}
	require.True(t, failures.Scan())
	cancel()
	run.Wait()
}
