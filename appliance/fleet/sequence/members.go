package sequence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Member is what a member says about itself. Its key disappears when the member is silent.
type Member struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	URL     string `json:"url"`     // by which other members reach it
	Version string `json:"version"` // of its program
	Format  int    `json:"format"`  // the newest that it knows
	// Data is the newest version of the data that its program supports; 0 if it is from before
	// members said that.
	Data int `json:"data,omitempty"`
	// Applied is the number of the newest record in its database.
	Applied uint64 `json:"applied"`
	// Synced is the number of the newest record that its disk has for certain: after a power cut
	// the member needs the records from there on.
	Synced uint64 `json:"synced"`
	// Clock is the time by its clock when it wrote this.
	Clock time.Time `json:"clock"`
	// Restoring reports that it waits for a snapshot of another member.
	Restoring bool `json:"restoring,omitempty"`
	// Unreached is the name of the leader to which it can't forward requests, for UnreachedSeconds.
	Unreached        string  `json:"unreached,omitempty"`
	UnreachedSeconds float64 `json:"unreached_seconds,omitempty"`
	// Unlinked reports that its interface for the virtual IP has no link.
	Unlinked bool `json:"unlinked,omitempty"`
}

// Leader is the member that was elected.
type Leader struct {
	Member Member    `json:"member"` // as it was when it campaigned
	Since  time.Time `json:"since"`  // by its clock; zero until it has confirmed its election
	// Revision of etcd at which it began to campaign. It is higher for each later leader.
	Revision int64 `json:"-"`
}

func (l *Leader) equal(other *Leader) bool {
	if l == nil || other == nil {
		return l == other
	}
	return l.Revision == other.Revision && l.Since.Equal(other.Since)
}

// Leader returns the leader, or nil if there is none at the moment.
func (s *Sequence) Leader(ctx context.Context) (*Leader, error) {
	leader, _, err := s.leader(ctx)
	return leader, err
}

// leader also returns the revision of etcd at which this was the leader.
func (s *Sequence) leader(ctx context.Context) (*Leader, int64, error) {
	response, err := s.get(ctx, s.electionKey()+"/", clientv3.WithFirstCreate()...)
	if err != nil {
		return nil, 0, err
	}
	if len(response.Kvs) == 0 {
		return nil, response.Header.Revision, nil
	}
	kv := response.Kvs[0]
	leader := Leader{Revision: kv.CreateRevision}
	if err := json.Unmarshal(kv.Value, &leader); err != nil {
		return nil, 0, &DamagedError{Key: string(kv.Key), Err: err}
	}
	return &leader, response.Header.Revision, nil
}

// Leaders calls changed with the leader, or nil if there is none, at the beginning and after each
// change, until ctx ends or etcd cannot be reached.
func (s *Sequence) Leaders(ctx context.Context, changed func(*Leader)) error {
	var last *Leader
	for first := true; ; first = false {
		leader, revision, err := s.leader(ctx)
		if err != nil {
			return err
		}
		if first || !leader.equal(last) {
			changed(leader)
		}
		last = leader
		if err := s.awaitElection(ctx, revision+1); err != nil {
			return err
		}
	}
}

// awaitElection returns when a key of the election changed after a revision, when the watch broke,
// or after a time.
func (s *Sequence) awaitElection(ctx context.Context, revision int64) error {
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	select {
	case <-s.client.Watch(watching, s.electionKey()+"/", clientv3.WithPrefix(), clientv3.WithRev(revision)):
	case <-s.Clock.After(s.lookInterval()): // a watch does not report a lost connection
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Members returns the members that are connected to etcd, in the order of their IDs.
func (s *Sequence) Members(ctx context.Context) ([]Member, error) {
	response, err := s.get(ctx, s.membersKey(), clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	return membersOf(response.Kvs)
}

// Membership keeps the key of one member.
type Membership struct {
	sequence *Sequence
	cancel   context.CancelFunc
	owned    sync.WaitGroup

	mu     sync.Mutex
	lease  clientv3.LeaseID // 0: none
	member Member
	// registered is what the registration has, and unregistered counts the updates since then.
	registered   Member
	unregistered int
}

// Join writes the key of a member and keeps it until Leave.
func (s *Sequence) Join(ctx context.Context, member Member) (*Membership, error) {
	if _, err := s.Fleet(ctx); err != nil {
		return nil, err
	}
	kept, cancel := context.WithCancel(s.client.Ctx())
	m := &Membership{sequence: s, cancel: cancel}
	if err := m.Update(ctx, member); err != nil {
		cancel()
		s.revoke(m.lease)
		return nil, err
	}
	m.owned.Go(func() { m.keep(kept) })
	return m, nil
}

// Update replaces the member's key. It sets Clock and Format. At intervals it also writes the
// registration, which stays when the member is away.
func (m *Membership) Update(ctx context.Context, member Member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sequence
	member.Format, member.Clock = Format, s.Clock.Now().UTC()
	m.member = member
	value, err := json.Marshal(member)
	if err != nil {
		return fmt.Errorf("encode the member: %w", err)
	}
	limited, cancel := s.limit(ctx)
	defer cancel()
	for {
		if m.lease == 0 {
			granted, err := s.client.Grant(limited, int64((s.Lease+time.Second-1)/time.Second))
			if err != nil {
				return s.explain(ctx, err)
			}
			m.lease = granted.ID
		}
		puts := []clientv3.Op{clientv3.OpPut(s.membersKey()+member.ID, string(value), clientv3.WithLease(m.lease))}
		registers := m.registers(member)
		if registers {
			puts = append(puts, clientv3.OpPut(s.registrationsKey()+member.Name, string(value)))
		}
		_, err = s.client.Txn(limited).Then(puts...).Commit()
		if errors.Is(err, rpctypes.ErrLeaseNotFound) { // it expired while etcd could not be reached
			m.lease = 0
			continue
		}
		if err != nil {
			return s.explain(ctx, err)
		}
		m.unregistered++
		if registers {
			m.registered, m.unregistered = member, 0
		}
		return nil
	}
}

// registers reports whether the registration must be written with an update.
func (m *Membership) registers(member Member) bool {
	before := m.registered
	return before.ID == "" || before.Name != member.Name || before.URL != member.URL ||
		before.Version != member.Version || m.unregistered >= registrationInterval
}

// keep renews the member's lease, and writes the key again if the lease has expired.
func (m *Membership) keep(ctx context.Context) {
	s := m.sequence
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.Clock.After(s.Lease / 3):
		}
		m.mu.Lock()
		id, member := m.lease, m.member
		m.mu.Unlock()
		limited, cancel := context.WithTimeout(ctx, s.Lease/3)
		_, _, err := renew(limited, s.client, id)
		cancel()
		if errors.Is(err, errExpired) {
			// If this fails, the next renewal leads here again.
			_ = m.Update(ctx, member)
		}
	}
}

// Leave removes the member's key.
func (m *Membership) Leave() {
	m.cancel()
	m.owned.Wait()
	m.sequence.revoke(m.lease)
}
