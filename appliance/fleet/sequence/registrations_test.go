//go:build etcd

package sequence

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet/etcdtest"
)

func TestRegistrations_outliveMembers(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL())
	ctx := t.Context()
	a, err := s.Join(ctx, Member{ID: "1", Name: "a"})
	require.NoError(t, err)
	b, err := s.Join(ctx, Member{ID: "2", Name: "b", URL: "https://b", Version: "v1", Applied: 7})
	require.NoError(t, err)
	connected := func() map[string]bool {
		all, err := s.Registrations(ctx)
		require.NoError(t, err)
		names := map[string]bool{}
		for _, r := range all {
			names[r.Name] = r.Connected
		}
		return names
	}
	require.Equal(t, map[string]bool{"a": true, "b": true}, connected())
	forgotten, err := s.Forget(ctx, "b")
	require.NoError(t, err)
	require.False(t, forgotten, "b is connected")

	b.Leave()
	require.Equal(t, map[string]bool{"a": true, "b": false}, connected())
	all, err := s.Registrations(ctx)
	require.NoError(t, err)
	require.Equal(t, "https://b", all[1].URL)
	require.Equal(t, "v1", all[1].Version)
	require.EqualValues(t, 7, all[1].Applied)
	require.WithinDuration(t, time.Now(), all[1].Clock, time.Minute)

	again, err := s.Join(ctx, Member{ID: "3", Name: "b"})
	require.NoError(t, err, "a new data directory with the same name takes the place")
	require.Equal(t, map[string]bool{"a": true, "b": true}, connected())
	again.Leave()
	forgotten, err = s.Forget(ctx, "b")
	require.NoError(t, err)
	require.True(t, forgotten)
	require.Equal(t, map[string]bool{"a": true}, connected())
	forgotten, err = s.Forget(ctx, "b")
	require.NoError(t, err)
	require.False(t, forgotten, "there is none")
	a.Leave()
}

func TestRaiseData_olderProgramsStop(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL(), func(o *Options) { o.Data = 2 })
	older := open(t, server.URL(), func(o *Options) { o.Data = 1 })
	ctx := t.Context()
	ended := make(chan error)
	go func() { ended <- older.Follow(ctx, Position{}, nil) }()

	leader := lead(t, s, "newer")
	require.NoError(t, leader.RaiseData(ctx, 2))
	require.NoError(t, leader.RaiseData(ctx, 2), "it is not written again")
	require.NoError(t, leader.Append(ctx, 1, []byte("of version 2")), "the leader goes on")
	dataError := new(DataError)
	require.ErrorAs(t, <-ended, &dataError)
	require.Equal(t, DataError{Found: 2, Known: 1}, *dataError)
	_, err := older.Campaign(ctx, Member{ID: "older"})
	require.ErrorAs(t, err, &dataError)
	_, err = older.Join(ctx, Member{ID: "older"})
	require.ErrorAs(t, err, &dataError)
	require.Equal(t, []string{"of version 2"}, contents(t, s, Position{}))
}

// Two of three servers are a majority.
func TestCluster_serverIsAway(t *testing.T) {
	t.Parallel()
	servers := etcdtest.StartCluster(t, 3)
	var urls []string
	for _, server := range servers {
		urls = append(urls, server.URL())
	}
	s := created(t, urls[0], func(o *Options) { o.Endpoints = urls[:2] })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cluster := s.Cluster(ctx)
	require.Equal(t, 3, cluster.Voters)
	require.Len(t, cluster.Servers, 3, "the configuration names two")
	require.False(t, cluster.Servers[2].Configured)
	leaders := 0
	for _, server := range cluster.Servers {
		require.NoError(t, server.Err)
		if server.Leader {
			leaders++
		}
	}
	require.Equal(t, 1, leaders)

	leader := lead(t, s, "a")
	require.NoError(t, leader.Append(ctx, 1, []byte("before")))
	servers[0].Kill()
	require.Eventually(t, func() bool {
		if leader.Append(ctx, 2, []byte("after")) == nil {
			return true
		}
		leader = leadSoon(t, s, "a")
		return leader.Head().Number == 2 // the record is there, the answer was lost
	}, time.Minute, 50*time.Millisecond)
	cluster = s.Cluster(ctx)
	require.Equal(t, 3, cluster.Voters)
	require.Error(t, cluster.Servers[0].Err)
	require.NoError(t, cluster.Servers[1].Err)
	require.NoError(t, cluster.Servers[2].Err)
	require.Equal(t, []string{"before", "after"}, contents(t, s, Position{}))
}
