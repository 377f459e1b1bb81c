package notice

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// damage makes a row unreadable.
func (s *site) damage(prefix, key string) {
	s.Helper()
	require.NoError(s, s.db.Update(s.Context(), func(tx *store.Tx) error {
		return store.NewBucket[[]int](strings.Trim(prefix, "/"), 1).Put(tx, key, &[]int{1})
	}))
}

// newest returns the key of the newest event.
func (s *site) newest() (newest string) {
	s.Helper()
	require.NoError(s, s.db.View(func(tx *store.Tx) error {
		return event.Rows.Keys(tx, "", func(key string) error {
			newest = key
			return nil
		})
	}))
	return newest
}

func TestNotifications_damagedEvent(t *testing.T) {
	s := newSite(t)
	s.cluster(lifecycle.ClusterInstalled)
	s.damage(event.Rows.Prefix(), s.newest())
	s.cluster(lifecycle.ClusterFailed)
	last, err := s.collect(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, s.newest(), last)
	require.Len(t, s.listed(), 1)
	require.Equal(t, Failed, s.listed()[0].Kind)
}

func TestNotifications_damagedClusterAndHost(t *testing.T) {
	s := newSite(t)
	s.objects(lifecycle.ClusterInstalling)
	s.damage(record.Clusters.Prefix(), clusterID)
	s.damage(record.Hosts.Prefix(), infraEnvID+"/"+hostID)
	s.host(lifecycle.HostFailed, "No disk.")
	_, err := s.collect(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, s.listed(), 1)
	require.Equal(t, clusterID, s.listed()[0].Cluster.Name)
	require.Equal(t, hostID, s.listed()[0].Host.Name)
}

func TestNotifications_damagedPosition(t *testing.T) {
	s := newSite(t)
	s.cluster(lifecycle.ClusterInstalled)
	_, err := s.collect(t.Context(), "")
	require.NoError(t, err)
	s.damage(positions.Prefix(), position)
	s.run()
	s.cluster(lifecycle.ClusterFailed)
	s.eventually(func() bool { return len(s.listed()) == 2 }, "newer events are read")
}

func TestCondition_damagedBeginsAgain(t *testing.T) {
	s, v := newSite(t), &servers{failed: []string{"a"}}
	require.Empty(t, s.messages(v, 0))
	s.damage(conditions.Prefix(), "server_error/a")
	require.Empty(t, s.messages(v, 2*time.Minute))
	require.Len(t, s.messages(v, 4*time.Minute), 1)
}

func TestWebhook_damagedOrMissing(t *testing.T) {
	s, r := newSite(t), newReceiver(t, 200)
	for _, name := range []string{"damaged", "missing", "works"} {
		_, err := s.Add(t.Context(), NewWebhook{Name: name, URL: r.URL, Secret: secret})
		require.NoError(t, err)
	}
	s.cluster(lifecycle.ClusterInstalled)
	_, err := s.collect(t.Context(), "")
	require.NoError(t, err)
	s.damage(webhooks.Prefix(), "damaged")
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error { return webhooks.Delete(tx, "missing") }))
	requireWaiting := func(names ...string) {
		t.Helper()
		next, err := s.sendDue(t.Context())
		require.NoError(t, err)
		require.Zero(t, next)
		var waiting []string
		require.NoError(t, s.db.View(func(tx *store.Tx) error {
			return deliveries.Keys(tx, "", func(key string) error {
				name, _, _ := strings.Cut(key, "/")
				waiting = append(waiting, name)
				return nil
			})
		}))
		require.Equal(t, names, waiting)
	}
	requireWaiting("damaged")
	require.Len(t, r.all(), 1)
	s.clock.Advance(giveUp - time.Second)
	requireWaiting("damaged")
	s.clock.Advance(time.Second)
	requireWaiting()
	require.Len(t, r.all(), 1)
}
