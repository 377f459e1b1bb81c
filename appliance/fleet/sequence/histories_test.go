//go:build etcd

package sequence

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/fleet/etcdtest"
	"landfall/randtest"
	"landfall/store/wal"
)

var histories = flag.Int("histories", 8, "number of random histories")

// TestHistories_random runs three members that lead, append, follow and compact while the lines
// between them and etcd lose requests and answers and are cut, and leases end too early.
func TestHistories_random(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	totals := history{}
	seed := randtest.Seed(t)
	for first := 0; first < *histories; first += 8 {
		var group errgroup.Group
		all := make([]*history, min(8, *histories-first))
		for i := range all {
			h := &history{t: t, server: server, prefix: fmt.Sprintf("/history-%d/", first+i),
				rand: rand.New(rand.NewPCG(seed, uint64(first+i)))}
			all[i] = h
			group.Go(h.run)
		}
		require.NoError(t, group.Wait())
		for i, h := range all {
			require.NoError(t, h.check(), "history %d", first+i)
			totals.leaders += h.leaders
			totals.attempts = append(totals.attempts, h.attempts...)
		}
	}
	outcomes := map[outcome]int{}
	for _, a := range totals.attempts {
		outcomes[a.outcome]++
	}
	t.Logf("%d histories, %d leaders, %d records saved, %d refused, %d unknown", *histories, totals.leaders,
		outcomes[saved], outcomes[rejected], outcomes[unknown])
	require.Greater(t, outcomes[saved], 10**histories)
	require.Greater(t, totals.leaders, *histories)
	require.NotZero(t, outcomes[unknown]+outcomes[rejected])
}

type outcome int

const (
	unknown outcome = iota
	saved
	rejected
)

// attempt is one call of Append.
type attempt struct {
	record       string
	number       uint64
	began, ended time.Time
	outcome      outcome
}

// history is what happened to one fleet.
type history struct {
	t      *testing.T
	server *etcdtest.Server
	prefix string
	rand   *rand.Rand

	mu       sync.Mutex
	attempts []*attempt
	leaders  int
	log      []string // as a follower without faults sees it
	members  []*member
}

// member has a copy of the log, as a database has.
type member struct {
	h    *history
	id   string
	ways [2]*etcdtest.Line // to etcd; a request can be kept on one of them while others pass on the other
	s    *Sequence
	rand *rand.Rand
	copy []string
}

func (h *history) open(timeout time.Duration, addresses ...string) (*Sequence, error) {
	var urls []string
	for _, address := range addresses {
		urls = append(urls, "http://"+address)
	}
	return Open(Options{Endpoints: urls, Prefix: h.prefix, Fleet: h.prefix, Clock: clockwork.NewRealClock(),
		Lease: shortLease, Timeout: timeout, partSize: 100})
}

// run runs the members for some faults, and then without faults until all have the same.
func (h *history) run() error {
	direct, err := h.open(DefaultTimeout, h.server.Address)
	if err != nil {
		return err
	}
	defer direct.client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := direct.Create(ctx, h.prefix, Position{}); err != nil {
		return err
	}
	var reference, leaders sync.WaitGroup
	reference.Go(func() {
		for ctx.Err() == nil {
			h.mu.Lock()
			after := position(h.log)
			h.mu.Unlock()
			_ = direct.Follow(ctx, after, func(records []wal.Record) error {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.log = appended(h.log, records)
				return nil
			})
		}
	})
	leading, stop := context.WithCancel(ctx)
	defer stop()
	for i := range 3 {
		m := &member{h: h, id: string(rune('a' + i)), rand: rand.New(rand.NewPCG(h.rand.Uint64(), 0))}
		for i := range m.ways {
			m.ways[i] = etcdtest.NewLine(h.t, h.server.Address)
		}
		if m.s, err = h.open(shortLease/2, m.ways[0].Address, m.ways[1].Address); err != nil {
			return err
		}
		kv := &lossy{KV: m.s.client.KV, rand: rand.New(rand.NewPCG(h.rand.Uint64(), 1))}
		m.s.client.KV = kv
		defer m.s.client.Close()
		defer kv.late.Wait()
		h.members = append(h.members, m)
		leaders.Go(func() { m.run(leading) })
	}
	for range 6 {
		h.fault(ctx, direct)
	}
	stop()
	leaders.Wait()
	head, err := direct.Head(ctx)
	if err != nil {
		return err
	}
	for {
		h.mu.Lock()
		complete := uint64(len(h.log)) >= head.Number
		h.mu.Unlock()
		if complete {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	reference.Wait()
	for _, m := range h.members {
		m.s.client.KV = m.s.client.KV.(*lossy).KV
		for err := error(&UnreachableError{}); err != nil; { // it may still be connecting
			if err = m.catchUp(context.Background(), head); err != nil && !errors.As(err, new(*UnreachableError)) {
				return err
			}
		}
	}
	return nil
}

// fault disturbs the connection of a member for some time.
func (h *history) fault(ctx context.Context, direct *Sequence) {
	m := h.members[h.rand.IntN(len(h.members))]
	if leader, err := direct.Leader(ctx); err == nil && leader != nil && h.rand.IntN(3) > 0 {
		m = h.members[leader.Member.ID[0]-'a']
	}
	ways := m.ways[:1+h.rand.IntN(2)]
	if h.rand.IntN(6) == 0 { // the leader's lease ends too early, as by a mistake of etcd
		keys, err := direct.get(ctx, direct.electionKey()+"/", clientv3.WithFirstCreate()...)
		if err == nil && len(keys.Kvs) > 0 {
			_, _ = direct.client.Revoke(ctx, clientv3.LeaseID(keys.Kvs[0].Lease))
		}
	}
	kind := h.rand.IntN(5)
	for _, way := range ways {
		switch kind {
		case 0:
			way.Cut()
		case 1:
			way.Silence(true, true)
		case 2, 3:
			way.Silence(false, true)
		case 4:
			way.Silence(true, false)
		}
	}
	time.Sleep([]time.Duration{20, 100, 300, 1300}[h.rand.IntN(4)] * time.Millisecond)
	lost := h.rand.IntN(2) == 0
	for _, way := range ways {
		if lost {
			way.Break() // what was kept does not arrive
		}
		way.Mend()
	}
	time.Sleep(time.Duration(h.rand.IntN(300)) * time.Millisecond)
}

// run leads whenever the member is elected.
func (m *member) run(ctx context.Context) {
	for ctx.Err() == nil {
		leader, err := m.s.Campaign(ctx, Member{ID: m.id})
		if err != nil {
			continue
		}
		if m.catchUp(ctx, leader.Head()) == nil {
			m.h.mu.Lock()
			m.h.leaders++
			m.h.mu.Unlock()
			m.lead(ctx, leader)
		}
		leader.Close()
	}
}

func (m *member) lead(ctx context.Context, leader *Leadership) {
	for count := 0; ctx.Err() == nil; count++ {
		a := &attempt{number: uint64(len(m.copy)) + 1, began: time.Now()}
		a.record = fmt.Sprintf("%d %s %d %s", leader.revision, m.id, count, strings.Repeat("x", m.rand.IntN(300)))
		err := leader.Append(context.Background(), a.number, []byte(a.record))
		a.ended = time.Now()
		_, refused := errors.AsType[*wal.RefusedError](err)
		switch {
		case err == nil:
			a.outcome = saved
			m.copy = append(m.copy, a.record)
		case refused:
			a.outcome = rejected
		}
		m.h.mu.Lock()
		m.h.attempts = append(m.h.attempts, a)
		applied := uint64(len(m.h.log))
		m.h.mu.Unlock()
		if !leader.Leads() || m.rand.IntN(100) == 0 {
			return
		}
		if m.rand.IntN(20) == 0 {
			_ = leader.Compact(ctx, Kept{After: applied, Most: 1 << 20})
		}
		time.Sleep(time.Duration(m.rand.IntN(5)) * time.Millisecond)
	}
}

// catchUp reads the log up to a position. A member that is too far behind gets a snapshot.
func (m *member) catchUp(ctx context.Context, head Position) error {
	complete := errors.New("complete")
	for uint64(len(m.copy)) < head.Number {
		err := m.s.Follow(ctx, position(m.copy), func(records []wal.Record) error {
			m.copy = appended(m.copy, records)
			if uint64(len(m.copy)) >= head.Number {
				return complete
			}
			return nil
		})
		if _, compacted := errors.AsType[*CompactedError](err); compacted {
			m.h.mu.Lock()
			m.copy = slices.Clone(m.h.log)
			m.h.mu.Unlock()
		} else if !errors.Is(err, complete) {
			return err
		}
	}
	return nil
}

func position(log []string) Position {
	if len(log) == 0 {
		return Position{}
	}
	return wal.Record{Number: uint64(len(log)), Operations: []byte(log[len(log)-1])}.Position()
}

func appended(log []string, records []wal.Record) []string {
	for _, r := range records {
		if r.Number != uint64(len(log))+1 {
			panic(fmt.Sprintf("record %d follows record %d", r.Number, len(log)))
		}
		log = append(log, string(r.Operations))
	}
	return log
}

// check compares the log with what the leaders were told.
func (h *history) check() error {
	index := map[string]int{}
	revision, last := 0, 0
	for i, record := range h.log {
		if before, found := index[record]; found {
			return fmt.Errorf("record %d is record %d again", i+1, before+1)
		}
		index[record] = i
		if _, err := fmt.Sscan(record, &revision); err != nil {
			return err
		}
		if revision < last {
			return fmt.Errorf("record %d is of a former leader", i+1)
		}
		last = revision
	}
	known := 0
	for _, a := range h.attempts {
		i, found := index[a.record]
		switch {
		case a.outcome == saved && (!found || uint64(i)+1 != a.number):
			return fmt.Errorf("record %d was saved, but is not in its place", a.number)
		case a.outcome == rejected && found:
			return fmt.Errorf("record %d was refused, but is in the log", a.number)
		case found:
			known++
		}
		for _, b := range h.attempts {
			if j, other := index[b.record]; found && other && a.ended.Before(b.began) && i > j {
				return fmt.Errorf("record %d was complete before record %d began", i+1, j+1)
			}
		}
	}
	if known != len(h.log) {
		return fmt.Errorf("the log has %d records, of which %d were appended", len(h.log), known)
	}
	for _, m := range h.members {
		if !slices.Equal(m.copy, h.log) {
			return fmt.Errorf("member %s has other records", m.id)
		}
	}
	return nil
}
