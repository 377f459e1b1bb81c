//go:build etcd

package member

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/appliance/engine/record"
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

// A follower reads what nobody asks it for.
func TestScrub_followerFindsDamage(t *testing.T) {
	t.Parallel()
	first, second, dir := memberships(t)
	ctx := t.Context()
	clock := clockwork.NewFakeClock()
	db, err := store.Open(ctx, dir, store.Options{Clock: clock})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	file, err := db.Stage(ctx, strings.NewReader(strings.Repeat("a", 100_000)))
	require.NoError(t, err)
	require.NoError(t, db.Update(ctx, func(tx *store.Tx) error {
		return record.InstallerFiles.Put(tx, "cluster/a", file, clock.Now())
	}))
	paths, err := filepath.Glob(filepath.Join(dir, "blobs", "??", "*"))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	require.NoError(t, os.WriteFile(paths[0], []byte("damaged"), 0o600))
	m := &member{Options: Options{Config: config.Config{DataDir: dir, Scrub: config.Scrub{Interval: time.Hour}},
		Logger: slog.New(slog.DiscardHandler)}, clock: clock, membership: first}
	connected, disconnect := context.WithCancel(ctx)
	left, ended := make(chan error), make(chan error, 1)
	go func() { left <- second.Run(connected, reached) }()
	go func() { ended <- m.scrub(ctx, db) }()
	require.Eventually(t, func() bool {
		clock.Advance(time.Minute)
		return len(ended) > 0
	}, time.Minute, time.Millisecond)
	require.ErrorAs(t, <-ended, new(*fleet.BehindError), "a snapshot replaces the database")
	require.Contains(t, db.Damage()[0].Reason, "its content can't be read")
	disconnect()
	require.NoError(t, <-left)
}
