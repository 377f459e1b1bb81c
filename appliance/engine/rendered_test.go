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

	"landfall/store"
)

// TestListsShowWhatIsThere lets a site go through random histories. After each step the lists show each object as it is shown by itself,
// though most of what they show is remembered from before.
func TestListsShowWhatIsThere(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			b := newBench(t, nil)
			cluster, hosts := b.threeNodes(rng.IntN(2) == 0)
			b.singleNode()
			pool := b.newHost(b.infraEnvOf(nil), 9)
			require.NoError(t, pool.register())
			all := append(slices.Clone(hosts), pool)
			for range 30 {
				name, act := b.something(rng, cluster, all)
				if err := act(); err != nil {
					require.NotZero(t, KindOf(err), "%s: %v", name, err)
				}
				b.handle()
				b.requireListsTrue(hosts[0].env, name)
				b.requireListsTrue(pool.env, name)
			}
		})
	}
}

// requireListsTrue compares the lists with the objects.
func (b *bench) requireListsTrue(env, after string) {
	b.Helper()
	for _, withHosts := range []bool{false, true} {
		shown := []*models.Cluster{}
		require.NoError(b, b.DB.View(func(tx *store.Tx) error {
			return clusterRows.Each(tx, "", func(_ string, row *clusterRecord) error {
				cluster, err := b.showCluster(tx, row, withHosts)
				shown = append(shown, cluster)
				return err
			})
		}))
		slices.SortFunc(shown, func(x, y *models.Cluster) int { return y.CreatedAt.Compare(x.CreatedAt) })
		list, err := b.ClusterList(withHosts, nil)
		require.NoError(b, err)
		b.requireSame(shown, list, after)
	}
	hosts, err := b.Hosts(env)
	require.NoError(b, err)
	list, err := b.HostList(env)
	require.NoError(b, err)
	b.requireSame(hosts, list, after)
}

func (b *bench) requireSame(shown any, list JSON, after string) {
	b.Helper()
	var text bytes.Buffer
	n, err := list.WriteTo(&text)
	require.NoError(b, err)
	require.Equal(b, list.Size(), n)
	want, err := json.Marshal(shown)
	require.NoError(b, err)
	require.JSONEq(b, string(want), text.String(), "after %s", after)
}

// TestRenderingsTakeNoMoreThanTheirRoom fills what is remembered with more than it takes.
func TestRenderingsTakeNoMoreThanTheirRoom(t *testing.T) {
	var r renderings
	for n := range 30 {
		r.put(fmt.Sprint(n), &rendering{made: []uint64{uint64(n)}, text: make([]byte, 1<<20)})
		require.LessOrEqual(t, r.size, renderedLimit)
	}
	require.NotEmpty(t, r.byKey)
	for key, held := range r.byKey {
		found, ok := r.get(key, held.made)
		require.True(t, ok)
		require.Same(t, held, found)
		_, ok = r.get(key, []uint64{99})
		require.False(t, ok, "of other revisions")
	}
}
