//go:build etcd

package sequence

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/fleet"
	"landfall/appliance/fleet/etcdtest"
	"landfall/randtest"
	"landfall/store"
	"landfall/store/storetest"
	"landfall/store/wal"
)

var fleets = flag.Int("fleets", 25, "number of fleets with concurrent clients")

// historiesPerFleet is the number of histories of one fleet. Each has its own keys and one fault.
const historiesPerFleet = 8

// TestFleets_clientsSeeOneMachine runs fleets of three members with databases, while the way of the
// leader to etcd is disturbed. The clocks of the members are an hour apart. Clients increase
// counters and read them. What they see is what one machine could have answered; and a client never
// reads an older value from a follower than before.
func TestFleets_clientsSeeOneMachine(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	seed := randtest.Seed(t)
	var group errgroup.Group
	group.SetLimit(8)
	var mu sync.Mutex
	total, open, local := 0, 0, 0
	for i := range *fleets {
		f := newFleet(t, server, fmt.Sprintf("/fleet-%d/", i), rand.New(rand.NewPCG(seed, uint64(i))))
		group.Go(func() error {
			defer f.stop()
			for n := range historiesPerFleet {
				operations, err := f.history(n)
				if err != nil {
					return fmt.Errorf("fleet %d, history %d: %w", i, n, err)
				}
				if porcupine.CheckOperationsTimeout(counter, operations, time.Minute) != porcupine.Ok {
					return fmt.Errorf("fleet %d: history %d is not linearizable", i, n)
				}
				mu.Lock()
				total += len(operations)
				for _, o := range operations {
					if o.Return == math.MaxInt64 {
						open++
					}
				}
				mu.Unlock()
			}
			mu.Lock()
			defer mu.Unlock()
			local += f.local
			return nil
		})
	}
	require.NoError(t, group.Wait())
	t.Logf("%d histories, %d operations, %d with an unknown outcome, %d reads of followers", *fleets*historiesPerFleet,
		total, open, local)
	require.Greater(t, total, *fleets*historiesPerFleet*10)
	require.NotZero(t, local)
}

// call is an operation of a client on a counter: add one, or read.
type call struct {
	key string
	add bool
}

// counter is the model: a counter per key. The outcome is the new value, or -1 if it is not known.
var counter = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range all {
			key := o.Input.(call).key
			byKey[key] = append(byKey[key], o)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		value, result := state.(int), output.(int)
		if input.(call).add {
			value++
		}
		return result == -1 || result == value, value
	},
}

type counterRow struct {
	Value int `json:"value"`
}

var counters = store.NewBucket[counterRow]("counters", 1)

// testFleet is a fleet of three members.
type testFleet struct {
	rand    *rand.Rand
	members [3]*testMember
	stop    func()
	local   int // reads of followers
}

// testMember implements the roles of a member with a database.
type testMember struct {
	dir  string
	line *etcdtest.Line
	s    *Sequence

	mu         sync.RWMutex
	db         *store.DB
	leadership fleet.Leadership // nil: a follower
}

func newFleet(t *testing.T, server *etcdtest.Server, prefix string, random *rand.Rand) *testFleet {
	t.Helper()
	f := &testFleet{rand: random}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	f.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(f.stop)
	for i := range f.members {
		m := &testMember{dir: t.TempDir(), line: etcdtest.NewLine(t, server.Address)}
		m.s = open(t, "http://"+m.line.Address, func(o *Options) {
			o.Prefix, o.Timeout = prefix, shortLease
			o.Clock = skewed{o.Clock, time.Duration(i-1) * time.Hour}
		})
		f.members[i] = m
	}
	first := f.members[0]
	require.NoError(t, first.s.Create(ctx, "fleet-1", Position{}))
	leader, err := first.s.Campaign(ctx, Member{ID: "first"})
	require.NoError(t, err)
	db, err := store.Open(ctx, first.dir, store.Options{Shared: leader})
	require.NoError(t, err)
	require.NoError(t, db.Update(ctx, func(tx *store.Tx) error { return counters.Put(tx, "first", &counterRow{}) }))
	for _, m := range f.members[1:] {
		storetest.CopyRows(t, db, m.dir)
	}
	require.NoError(t, db.Close())
	leader.Close()
	for _, m := range f.members {
		member := fleet.New(fleet.Options{Log: m, Takeover: time.Minute, Clock: clockwork.NewRealClock(),
			Logger: slog.New(slog.DiscardHandler), Leaders: nobody{},
			Roles: fleet.Roles{Open: m.open, Serve: m.serve, Lead: m.lead, Restore: m.restore}})
		running.Go(func() {
			if err := member.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return f
}

// skewed is a clock that differs from those of the other members.
type skewed struct {
	clockwork.Clock
	by time.Duration
}

// Now implements [clockwork.Clock].
func (s skewed) Now() time.Time { return s.Clock.Now().Add(s.by) }

type nobody struct{}

func (nobody) Lead(fleet.Peer)  {}
func (nobody) Doubt(fleet.Peer) {}

func (m *testMember) Follow(ctx context.Context, db fleet.Copy, applied func()) error {
	return m.s.Follow(ctx, db.(*store.DB).Position(), func(records []wal.Record) error {
		if err := db.Apply(ctx, records); err != nil {
			return err
		}
		applied()
		return nil
	})
}

func (m *testMember) Head(ctx context.Context) (uint64, error) {
	head, err := m.s.Head(ctx)
	return head.Number, err
}

func (m *testMember) Campaign(ctx context.Context) (fleet.Leadership, error) {
	won, err := m.s.Campaign(ctx, Member{})
	if err != nil {
		return nil, err
	}
	return testLeadership{won}, nil
}

func (m *testMember) Leaders(ctx context.Context, _ func(fleet.Peer)) error {
	<-ctx.Done()
	return ctx.Err()
}

type testLeadership struct{ *Leadership }

func (l testLeadership) Head() uint64 { return l.Leadership.Head().Number }

func (l testLeadership) Resign(context.Context) error {
	l.Close()
	return nil
}

func (m *testMember) open(ctx context.Context) (fleet.Copy, error) {
	return store.Open(ctx, m.dir, store.Options{Follow: true})
}

func (m *testMember) set(db *store.DB, leadership fleet.Leadership) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.db, m.leadership = db, leadership
}

func (m *testMember) serve(ctx context.Context, of fleet.Copy) error {
	m.set(of.(*store.DB), nil)
	<-ctx.Done()
	m.set(nil, nil)
	return nil
}

func (m *testMember) lead(ctx context.Context, leadership fleet.Leadership) error {
	db, err := store.Open(ctx, m.dir, store.Options{Shared: leadership})
	if err != nil {
		return err
	}
	m.set(db, leadership)
	select {
	case <-ctx.Done():
	case <-db.Broken():
	}
	m.set(nil, nil)
	return db.Close()
}

func (m *testMember) restore(context.Context) error { return errors.New("the log is complete") }

var errElsewhere = errors.New("another member leads")

// call carries out an operation if the member leads.
func (m *testMember) call(ctx context.Context, input call) (result int, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock() // the database stays open
	if m.leadership == nil {
		return 0, errElsewhere
	}
	run := func(tx *store.Tx) error {
		row, err := counters.Get(tx, input.key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err == nil {
			result = row.Value
		}
		if !input.add {
			return nil
		}
		result++
		return counters.Put(tx, input.key, &counterRow{result})
	}
	if input.add {
		return result, m.db.Update(ctx, run)
	}
	if err := m.db.View(run); err != nil {
		return 0, err
	}
	if !m.leadership.Leads() {
		return 0, errElsewhere
	}
	return result, nil
}

// local reads a counter of a follower that has at least the record that the client has seen.
func (m *testMember) local(key string, seen uint64) (value int, sequence uint64, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.db == nil || m.leadership != nil || m.db.Sequence() < seen {
		return 0, 0, false
	}
	sequence = m.db.Sequence()
	err := m.db.View(func(tx *store.Tx) error {
		row, err := counters.Get(tx, key)
		if err == nil {
			value = row.Value
		}
		return err
	})
	return value, sequence, err == nil || errors.Is(err, store.ErrNotFound)
}

// history runs clients while the leader is disturbed, and returns what they did.
func (f *testFleet) history(number int) ([]porcupine.Operation, error) {
	began := time.Now()
	now := func() int64 { return time.Since(began).Nanoseconds() }
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	var operations []porcupine.Operation
	local := 0
	var clients errgroup.Group
	for id := range 4 {
		random := rand.New(rand.NewPCG(f.rand.Uint64(), 0))
		clients.Go(func() error {
			seen, last := uint64(0), map[string]int{}
			for ctx.Err() == nil {
				time.Sleep(time.Duration(1+random.IntN(10)) * time.Millisecond)
				input := call{key: fmt.Sprint(number, "-", random.IntN(2)), add: random.IntN(2) == 0}
				member := f.members[random.IntN(len(f.members))]
				o := porcupine.Operation{ClientId: id, Input: input, Call: now()}
				result, err := member.call(context.Background(), input)
				o.Return, o.Output = now(), result
				if err != nil {
					if value, sequence, ok := member.local(input.key, seen); ok {
						if value < last[input.key] {
							return fmt.Errorf("a client read %d after %d from a follower", value, last[input.key])
						}
						seen, last[input.key] = sequence, value
						mu.Lock()
						local++
						mu.Unlock()
					}
					failure, written := errors.AsType[*wal.WriteError](err)
					if !input.add || !written || !failure.Unknown {
						continue // it was not carried out
					}
					o.Return, o.Output = math.MaxInt64, -1
				}
				mu.Lock()
				operations = append(operations, o)
				mu.Unlock()
			}
			return nil
		})
	}
	f.disturb()
	cancel()
	err := clients.Wait()
	f.local += local
	return operations, err
}

// disturb cuts or silences the way of the leader to etcd, for less or more than a lease.
func (f *testFleet) disturb() {
	time.Sleep(time.Duration(100+f.rand.IntN(200)) * time.Millisecond)
	m := f.members[f.rand.IntN(len(f.members))]
	for _, one := range f.members {
		one.mu.RLock()
		if one.leadership != nil {
			m = one
		}
		one.mu.RUnlock()
	}
	switch f.rand.IntN(4) {
	case 0:
		m.line.Cut()
	case 1:
		m.line.Silence(true, true)
	default:
		m.line.Silence(false, true)
	}
	time.Sleep([]time.Duration{50, 300, 1200}[f.rand.IntN(3)] * time.Millisecond)
	if f.rand.IntN(2) == 0 {
		m.line.Break()
	}
	m.line.Mend()
	time.Sleep(time.Duration(f.rand.IntN(300)) * time.Millisecond)
}
