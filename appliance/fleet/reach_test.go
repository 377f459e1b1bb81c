package fleet_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet"
	"landfall/appliance/sitekey"
)

// runReach runs the reach of a follower until the test ends. look makes it look once.
func runReach(t *testing.T, key *sitekey.Key, f *follower) (reach *fleet.Reach, look func()) {
	t.Helper()
	peers := fleet.NewClient(credential(t, key, "follower"), clockwork.NewRealClock())
	t.Cleanup(peers.Close)
	clock := clockwork.NewFakeClock()
	reach = fleet.NewReach("follower", f.Forwarder, peers, clock)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		reach.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return reach, func() {
		require.NoError(t, clock.BlockUntilContext(ctx, 1))
		clock.Advance(time.Second)
	}
}

// TestReach_asksOnlyWithoutAnswers sends requests through a follower to a leader that is there, is
// away, and is there again.
func TestReach_asksOnlyWithoutAnswers(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	f := newFollower(t, key, time.Millisecond)
	leader := newLeader(t, key, "one", describe)
	front := leader.front
	reach, look := runReach(t, key, f)
	send := func() int {
		status, _ := get(t, client(t), f.main.URL)
		return status
	}
	requireReached := func(why string) {
		t.Helper()
		name, _ := reach.Unreached()
		require.Empty(t, name, why)
	}

	require.Equal(t, http.StatusServiceUnavailable, send())
	look()
	look()
	requireReached("no member leads")
	f.Lead(leader.peer())
	require.Equal(t, http.StatusOK, send())
	before := front.Requests()
	look()
	look()
	require.Equal(t, before, front.Requests(), "the leader has answered, so it is not asked")

	away := fleet.Peer{Name: "one", URL: "https://127.0.0.1:1"} // a port where nobody listens
	f.Lead(away)
	look()
	look()
	requireReached("nothing was sent to it")
	require.Equal(t, http.StatusServiceUnavailable, send())
	for lasted := time.Duration(0); lasted < 3*time.Second; {
		look()
		var name string
		if name, lasted = reach.Unreached(); lasted > 0 {
			require.Equal(t, "one", name)
		}
	}

	f.Lead(fleet.Peer{Name: "follower", URL: away.URL})
	require.Eventually(t, func() bool {
		look()
		name, _ := reach.Unreached()
		return name == ""
	}, time.Minute, time.Millisecond, "it leads itself, and may not reach its own URL")
	look()
	look()
	requireReached("it does not ask itself")
	f.Lead(leader.peer())
	require.Eventually(t, func() bool {
		look()
		return front.Requests() > before
	}, time.Minute, time.Millisecond, "the next leader is asked, because the request has no answer yet")
	look()
	requireReached("it has answered")
}

// TestReach_asksALeaderInDoubt lets a follower lose etcd, and then the leader.
func TestReach_asksALeaderInDoubt(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	f := newFollower(t, key, time.Minute)
	var leads atomic.Bool
	leads.Store(true)
	leader := newFormerLeader(t, key, "one", leads.Load, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Landfall-Revision", "7")
	})
	reach, look := runReach(t, key, f)
	requireLed := func(led bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			look()
			return f.Led() == led
		}, time.Minute, time.Millisecond)
	}
	requireKnown := func(want bool, why string) {
		t.Helper()
		_, known := f.Seen()
		require.Equal(t, want, known, why)
	}

	f.Lead(leader.peer())
	status, _ := get(t, client(t), f.main.URL)
	require.Equal(t, http.StatusOK, status)
	requireKnown(true, "the copy follows")
	f.Doubt(leader.peer())
	require.False(t, f.Led())
	requireLed(true)
	f.Doubt(leader.peer())
	require.True(t, f.Led(), "etcd is still away, and the leader has answered")
	requireKnown(false, "the copy gets no changes, so reads go to the leader")

	leads.Store(false)
	requireLed(false)
	leads.Store(true)
	requireLed(true)
	leader.Close()
	requireLed(false)
	name, _ := reach.Unreached()
	require.Empty(t, name, "there was nothing to forward")
}
