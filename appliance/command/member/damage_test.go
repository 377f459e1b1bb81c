//go:build etcd

package member

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/etcdtest"
	"landfall/appliance/fleet/membership"
	"landfall/store"
)

// resigning is a leadership that can be given up.
type resigning struct {
	fleet.Leadership
	resigned chan struct{}
}

func (r resigning) Resign(context.Context) error {
	close(r.resigned)
	return nil
}

// reached is the state of the network of a member that reaches the leader.
func reached() (network membership.Network) { return network }

// memberships returns those of two machines of a fleet. The second one is not connected yet.
func memberships(t *testing.T) (first, second *membership.Membership, dir string) {
	t.Helper()
	server := etcdtest.Start(t, etcdtest.Options{})
	options := func(name string) membership.Options {
		return membership.Options{Dir: t.TempDir(), Clock: clockwork.NewRealClock(),
			Logger:   slog.New(slog.DiscardHandler),
			Settings: membership.Settings{Etcd: []string{server.URL()}, Name: name, URL: "https://" + name}}
	}
	a, b := options("a"), options("b")
	require.NoError(t, membership.Found(t.Context(), a))
	state, err := fleet.ReadState(a.Dir)
	require.NoError(t, err)
	state.ID, state.Member = "2", "b"
	require.NoError(t, state.Write(b.Dir))
	open := func(o membership.Options) *membership.Membership {
		m, err := membership.Open(o)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		return m
	}
	return open(a), open(b), a.Dir
}

func TestResignIfDamaged_onlyWhenAnotherMemberCanLead(t *testing.T) {
	t.Parallel()
	first, second, dir := memberships(t)
	db, err := store.Open(t.Context(), dir, store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	clock := clockwork.NewFakeClock()
	m := &member{Options: Options{Config: config.Config{DataDir: dir}, Logger: slog.New(slog.DiscardHandler)},
		clock: clock, membership: first}
	leadership := resigning{resigned: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		m.resignIfDamaged(ctx, leadership, db)
		close(ended)
	}()
	look := func() {
		require.NoError(t, clock.BlockUntilContext(ctx, 1))
		clock.Advance(damageInterval)
	}
	look()
	db.NoteDamage("/clusters/1", "the value is damaged")
	look()
	look()
	require.False(t, m.damaged.Load(), "no other member is there")

	connected, disconnect := context.WithCancel(ctx)
	left := make(chan error)
	go func() { left <- second.Run(connected, reached) }()
	for resigned := false; !resigned; {
		select {
		case <-leadership.resigned:
			resigned = true
		default:
			clock.Advance(damageInterval)
		}
	}
	<-ended
	_, err = m.openCopy(ctx)
	require.ErrorAs(t, err, new(*fleet.BehindError), "a snapshot replaces the database")
	disconnect()
	require.NoError(t, <-left)

	m.damaged.Store(false)
	m.replaced.Store(true)
	stopped := make(chan error)
	go func() { stopped <- m.awaitDamage(ctx, db) }()
	look()
	look()
	cancel()
	require.NoError(t, <-stopped, "a replaced database is not replaced again")
}
