//go:build etcd

package member

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/appliance/fleet/membership"
)

// TestResignIfIsolated_onlyWithoutRequests lets a member report that it does not reach the leader.
// The leader resigns after the time of a takeover in which no request came.
func TestResignIfIsolated_onlyWithoutRequests(t *testing.T) {
	t.Parallel()
	const takeover = 5 * time.Second
	first, second, _ := memberships(t)
	var unreached atomic.Int64 // seconds
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		left <- second.Run(ctx, func() membership.Network {
			return membership.Network{Unreached: "a", UnreachedFor: time.Duration(unreached.Load()) * time.Second}
		})
	}()
	defer func() {
		cancel()
		require.NoError(t, <-left)
	}()
	reports := func(seconds int64) {
		unreached.Store(seconds)
		require.Eventually(t, func() bool {
			other, err := first.CannotReach(ctx, time.Duration(seconds)*time.Second)
			return err == nil && other == "b"
		}, time.Minute, 10*time.Millisecond)
	}
	var requests atomic.Uint64
	clock := clockwork.NewFakeClock()
	m := &member{Options: Options{Config: config.Config{Fleet: config.Fleet{Takeover: takeover}},
		Logger: slog.New(slog.DiscardHandler)}, clock: clock, membership: first}
	leadership := resigning{resigned: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		m.resignIfIsolated(ctx, leadership, &isolation{requests: requests.Load, linked: m.address.Linked})
		close(ended)
	}()
	look := func() {
		require.NoError(t, clock.BlockUntilContext(ctx, 1))
		clock.Advance(isolationInterval)
	}
	requireLeads := func(why string) {
		for range 3 { // the last looks have ended then
			look()
		}
		select {
		case <-leadership.resigned:
			require.Fail(t, why)
		default:
		}
	}

	reports(1)
	clock.Advance(takeover)
	requireLeads("the other member has tried for a second only")
	requests.Add(1)
	look()
	look()
	reports(int64(takeover / time.Second))
	requireLeads("a request has reached it")
	for range 20 {
		requests.Add(1)
		look()
	}
	requireLeads("requests reach it")
	for resigned := false; !resigned; {
		select {
		case <-leadership.resigned:
			resigned = true
		default:
			clock.Advance(isolationInterval)
		}
	}
	<-ended
}

// TestResignIfIsolated_withoutALink takes the link of the virtual IP from the leader. It resigns
// when another member has a link.
func TestResignIfIsolated_withoutALink(t *testing.T) {
	t.Parallel()
	first, second, _ := memberships(t)
	var linked, otherLinked atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		left <- second.Run(ctx, func() membership.Network { return membership.Network{Unlinked: !otherLinked.Load()} })
	}()
	defer func() {
		cancel()
		require.NoError(t, <-left)
	}()
	require.Eventually(t, func() bool {
		others, err := first.Others(ctx)
		return err == nil && len(others) == 1
	}, time.Minute, 10*time.Millisecond)
	clock := clockwork.NewFakeClock()
	const takeover = 5 * time.Second
	m := &member{Options: Options{Config: config.Config{Fleet: config.Fleet{Takeover: takeover}},
		Logger: slog.New(slog.DiscardHandler)}, clock: clock, membership: first}
	leadership := resigning{resigned: make(chan struct{})}
	ended := make(chan struct{})
	var requests atomic.Uint64
	go func() {
		m.resignIfIsolated(ctx, leadership, &isolation{requests: func() uint64 { return requests.Add(1) },
			linked: linked.Load})
		close(ended)
	}()
	leadsOn := func(why string) {
		for range 2 * takeover / isolationInterval {
			require.NoError(t, clock.BlockUntilContext(ctx, 1))
			clock.Advance(isolationInterval)
		}
		select {
		case <-leadership.resigned:
			require.Fail(t, why)
		default:
		}
	}
	linked.Store(true)
	leadsOn("it has a link")
	linked.Store(false)
	leadsOn("the other member has none either")
	otherLinked.Store(true)
	for resigned := false; !resigned; {
		select {
		case <-leadership.resigned:
			resigned = true
		default:
			clock.Advance(isolationInterval)
		}
	}
	<-ended
}
