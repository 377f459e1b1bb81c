package fleet_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/fleet"
	"landfall/store/wal"
)

// machine is a member with a database in memory that its roles use.
type machine struct {
	name string
	log  *fleetLog

	mu        sync.Mutex
	rows      []string
	open      bool
	following int           // times that it began to follow
	leads     chan struct{} // gets an item at each begin of a leadership
	failure   error         // of the next role of the leader
	disk      func(context.Context) error
	restored  func() error // nil: restore succeeds
	doubted   []fleet.Peer
}

const takeover = 5 * time.Second

func newMachine(name string, log *fleetLog) *machine {
	return &machine{name: name, log: log, leads: make(chan struct{}, 100)}
}

func (m *machine) peer() fleet.Peer { return fleet.Peer{Name: m.name, URL: "https://" + m.name} }

func (m *machine) Lead(fleet.Peer) {}

func (m *machine) Doubt(of fleet.Peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.doubted = append(m.doubted, of)
}

// start runs the member until stop is called, until it ends by itself, or until the test ends. wait
// returns its error.
func (m *machine) start(t *testing.T, clock clockwork.Clock) (stop func(), wait func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	var group errgroup.Group
	group.Go(func() error {
		return fleet.New(fleet.Options{Self: m.peer(), Log: m.log.as(m.peer()), Takeover: takeover, Clock: clock,
			Logger: quiet(), Leaders: m, Roles: fleet.Roles{Open: m.openCopy, Serve: m.serve, Lead: m.lead,
				Restore: m.restore}}).Run(ctx)
	})
	t.Cleanup(func() {
		cancel()
		_ = group.Wait() // the test has read it
	})
	return cancel, group.Wait
}

func (m *machine) openCopy(context.Context) (fleet.Copy, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open {
		return nil, errors.New("the database is open in another role")
	}
	m.open = true
	m.following++
	return m, nil
}

func (m *machine) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = false
	return nil
}

func (m *machine) Sequence() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return uint64(len(m.rows))
}

func (m *machine) SyncedSequence() uint64 { return m.Sequence() }

func (m *machine) Position() wal.Position { return wal.Position{Number: m.Sequence()} }

func (m *machine) Apply(ctx context.Context, records []wal.Record) error {
	m.mu.Lock()
	disk := m.disk
	m.mu.Unlock()
	if disk != nil {
		if err := disk(ctx); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		if r.Number != uint64(len(m.rows)+1) || !m.open {
			return errors.New("not the next record")
		}
		m.rows = append(m.rows, string(r.Operations))
	}
	return nil
}

func (m *machine) serve(ctx context.Context, _ fleet.Copy) error {
	<-ctx.Done()
	return nil
}

// lead checks that it has all records, and writes one.
func (m *machine) lead(ctx context.Context, leads fleet.Leadership) error {
	m.mu.Lock()
	if m.open {
		m.mu.Unlock()
		return errors.New("the database is open in another role")
	}
	number, failure := uint64(len(m.rows)+1), m.failure
	m.failure = nil
	m.mu.Unlock()
	if failure != nil {
		return failure
	}
	if err := leads.Append(ctx, number, []byte(m.name)); err != nil {
		return err
	}
	m.mu.Lock()
	m.rows = append(m.rows, m.name)
	m.mu.Unlock()
	m.leads <- struct{}{}
	<-ctx.Done()
	return nil
}

// restore takes all rows of the log, as from another member.
func (m *machine) restore(context.Context) error {
	if m.restored != nil {
		return m.restored()
	}
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows = nil
	for _, r := range m.log.records {
		m.rows = append(m.rows, string(r.Operations))
	}
	return nil
}

func (m *machine) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.rows)
}

func TestMember_leaderChanges(t *testing.T) {
	log := newLog()
	one, two := newMachine("one", log), newMachine("two", log)
	stop, wait := one.start(t, clockwork.NewRealClock())
	<-one.leads
	two.start(t, clockwork.NewRealClock())
	log.replace(t, "one")
	<-two.leads
	require.Equal(t, []string{"one", "two"}, two.all())
	log.replace(t, "two")
	<-one.leads
	require.Equal(t, []string{"one", "two", "one"}, one.all())
	require.Equal(t, []fleet.Peer{one.peer()}, one.doubted, "not whoever leads next")
	log.await(t, func() bool { return len(log.waiting) > 0 })
	stop()
	require.NoError(t, wait())
	<-two.leads
	require.Equal(t, []string{"one", "two", "one", "two"}, two.all(), "it has every record of its predecessors")
}

// passTime advances a clock until the test ends.
func passTime(t *testing.T, clock *clockwork.FakeClock) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-t.Context().Done():
				return
			case <-ticker.C:
				clock.Advance(100 * time.Millisecond)
			}
		}
	}()
	t.Cleanup(func() { <-ended })
}

// TestMember_brokenDiskDoesNotHoldUpOthers takes the disk from the oldest candidate before it has
// the last record of the leader.
func TestMember_brokenDiskDoesNotHoldUpOthers(t *testing.T) {
	for name, disk := range map[string]func(context.Context, <-chan struct{}) error{
		"full": func(_ context.Context, repaired <-chan struct{}) error {
			select {
			case <-repaired:
				return nil
			default:
				return errors.New("no space left on device")
			}
		},
		"hangs": func(ctx context.Context, repaired <-chan struct{}) error {
			select {
			case <-repaired:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			log, clock := newLog(), clockwork.NewFakeClock()
			one, broken, three := newMachine("one", log), newMachine("broken", log), newMachine("three", log)
			stop, wait := one.start(t, clock)
			<-one.leads
			broken.start(t, clock)
			log.await(t, func() bool { return len(log.waiting) == 1 })
			three.start(t, clock)
			log.await(t, func() bool { return len(log.waiting) == 2 })

			repaired := make(chan struct{})
			broken.mu.Lock()
			broken.disk = func(ctx context.Context) error { return disk(ctx, repaired) }
			broken.mu.Unlock()
			log.append("last")
			stop()
			require.NoError(t, wait())
			passTime(t, clock)
			<-three.leads
			require.Equal(t, []string{"one", "last", "three"}, three.all())
			require.Empty(t, broken.leads)

			close(repaired)
			log.replace(t, "three")
			<-broken.leads
			require.Equal(t, []string{"one", "last", "three", "broken"}, broken.all())
		})
	}
}

func TestMember_damagedDirectoryEndsProcess(t *testing.T) {
	log := newLog()
	one := newMachine("one", log)
	one.failure = errors.New("the data directory is damaged")
	_, wait := one.start(t, clockwork.NewRealClock())
	require.EqualError(t, wait(), "the data directory is damaged")
	require.Nil(t, log.leading, "another member can be elected")
}

func TestMember_fallenBehindTakesSnapshot(t *testing.T) {
	log := newLog()
	log.append("a", "b", "c")
	log.compacted = 2
	one := newMachine("one", log)
	one.start(t, clockwork.NewRealClock())
	<-one.leads
	require.Equal(t, []string{"a", "b", "c", "one"}, one.all())
}

func TestMember_endsIfThereIsNothingToRestore(t *testing.T) {
	log := newLog()
	log.append("a", "b", "c")
	log.compacted = 2
	one := newMachine("one", log)
	attempts, ended := 0, &fleet.UnusableError{Err: errors.New("the fleet has ended")}
	one.restored = func() error {
		if attempts++; attempts == 1 {
			return errors.New("a socket can't be opened")
		}
		return ended
	}
	clock := clockwork.NewFakeClock()
	passTime(t, clock)
	_, wait := one.start(t, clock)
	require.Equal(t, ended, wait())
	require.Equal(t, 2, attempts)
}

func TestMember_waitsWhileLogIsAway(t *testing.T) {
	log := newLog()
	log.append("a")
	log.down = true
	clock := clockwork.NewFakeClock()
	one := newMachine("one", log)
	one.start(t, clock)
	require.NoError(t, clock.BlockUntilContext(t.Context(), 2)) // to follow and to be elected
	require.Empty(t, one.all())
	log.change(func() { log.down = false })
	clock.Advance(1e9)
	<-one.leads
	require.Equal(t, []string{"a", "one"}, one.all())
}
