package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/store"
)

// TestRendered_equalsStoredRow applies random histories to a site. After each step the API shows
// each object as stored, although most renderings come from the cache.
func TestRendered_equalsStoredRow(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			b := newHarness(t)
			cluster, hosts := b.threeNodes(rng.IntN(2) == 0)
			b.singleNode()
			pool := b.newHost(b.infraEnvOf(nil), 9)
			require.NoError(t, pool.register())
			all := append(slices.Clone(hosts), pool)
			for range 20 {
				name, act := b.randomChange(rng, cluster, all)
				if err := act(); err != nil {
					require.NotZero(t, fault.KindOf(err), "%s: %v", name, err)
				}
				b.handle()
				b.requireTrue(hosts[0].env, name)
				b.requireTrue(pool.env, name)
			}
		})
	}
}

// requireTrue compares the rendered objects with the stored ones.
func (b *harness) requireTrue(env, after string) {
	b.Helper()
	for _, withHosts := range []bool{false, true} {
		shown := []*models.Cluster{}
		require.NoError(b, b.options.DB.View(func(tx *store.Tx) error {
			return record.Clusters.Each(tx, "", func(_ string, row *record.Cluster) error {
				cluster, err := b.ShowCluster(tx, row, withHosts)
				shown = append(shown, cluster)
				return err
			})
		}))
		slices.SortFunc(shown, func(x, y *models.Cluster) int { return y.CreatedAt.Compare(x.CreatedAt) })
		list, err := b.ClusterList(withHosts, nil)
		require.NoError(b, err)
		b.requireSame(shown, list, after)
		for _, cluster := range shown {
			text, err := b.ClusterJSON(cluster.ID.String(), withHosts)
			require.NoError(b, err)
			b.requireSame(cluster, text, after)
		}
	}
	hosts, err := b.Hosts(env)
	require.NoError(b, err)
	list, err := b.HostList(env)
	require.NoError(b, err)
	b.requireSame(hosts, list, after)
	for _, host := range hosts {
		text, err := b.HostJSON(env, host.ID.String())
		require.NoError(b, err)
		b.requireSame(host, text, after)
	}
	_, err = b.ClusterJSON(env, true)
	b.requireRejected(err, fault.NotFound, "There is no cluster")
	_, err = b.HostJSON(env, env)
	b.requireRejected(err, fault.NotFound, "There is no host")
}

func (b *harness) requireSame(shown any, list view.JSON, after string) {
	b.Helper()
	var text bytes.Buffer
	n, err := list.WriteTo(&text)
	require.NoError(b, err)
	require.Equal(b, list.Size(), n)
	want, err := json.Marshal(shown)
	require.NoError(b, err)
	require.JSONEq(b, string(want), text.String(), "after %s", after)
}
