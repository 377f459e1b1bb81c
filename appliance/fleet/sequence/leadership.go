package sequence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"landfall/store/wal"
)

var _ wal.SharedLog = (*Leadership)(nil)

// Leadership is the right of one member to append records. It ends when the lease is lost, by
// etcd's clock or by this machine's, when the outcome of an Append is not known, or by Close.
// Another Leadership must then be won.
type Leadership struct {
	sequence *Sequence
	key      string // of the election
	revision int64  // at which the key was created: no other leader will have the same
	leaseID  clientv3.LeaseID
	lease    lease
	fleet    atomic.Int64 // revision of the key fleet

	appending chan struct{} // holds one item while a record is appended; guards head
	head      head
	elected   Position

	ctx    context.Context
	cancel context.CancelCauseFunc // with a *LostError
	owned  sync.WaitGroup
}

// Campaign waits until this member is the leader. It fails when ctx ends or when etcd cannot be
// reached for the time of a lease.
func (s *Sequence) Campaign(ctx context.Context, member Member) (*Leadership, error) {
	if _, err := s.Fleet(ctx); err != nil {
		return nil, err
	}
	candidate, err := json.Marshal(Leader{Member: member})
	if err != nil {
		return nil, fmt.Errorf("encode the candidate: %w", err)
	}
	grantCtx, cancel := s.limit(ctx)
	granted, err := s.client.Grant(grantCtx, int64((s.Lease+time.Second-1)/time.Second))
	cancel()
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	key, revision, err := s.elect(ctx, string(candidate), granted.ID)
	if err != nil {
		s.revoke(granted.ID)
		return nil, err
	}
	l := &Leadership{sequence: s, key: key, revision: revision, leaseID: granted.ID,
		lease: lease{now: func() instant { return now(s.Clock) }}, appending: make(chan struct{}, 1)}
	l.ctx, l.cancel = context.WithCancelCause(s.client.Ctx())
	if err := l.begin(ctx, member); err != nil {
		s.revoke(granted.ID)
		return nil, err
	}
	l.owned.Go(l.keep)
	return l, nil
}

// elect waits until no member that campaigned earlier has its key. Election.Campaign does not
// notice that the own lease expires while it waits; so the session's end ends it. When it is ended,
// it sends a last request with the context of its client; so it gets a client whose context ends,
// too.
func (s *Sequence) elect(ctx context.Context, candidate string, id clientv3.LeaseID) (string, int64, error) {
	waiting, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	client := clientv3.NewCtxClient(waiting)
	client.KV, client.Lease, client.Watcher = s.client.KV, s.client.Lease, s.client.Watcher
	session, err := concurrency.NewSession(client, concurrency.WithLease(id), concurrency.WithContext(waiting))
	if err != nil {
		return "", 0, s.explain(ctx, err)
	}
	defer session.Orphan() // afterwards, the Leadership renews the lease
	stop := context.AfterFunc(session.Ctx(), func() { cancel(errExpired) })
	defer stop()
	election := concurrency.NewElection(session, s.electionKey())
	for {
		err := election.Campaign(waiting, candidate)
		switch {
		case err == nil:
			return election.Key(), election.Rev(), nil
		case ctx.Err() != nil:
			return "", 0, ctx.Err()
		case waiting.Err() != nil:
			return "", 0, &UnreachableError{Endpoints: s.Endpoints, Err: context.Cause(waiting)}
		case errors.Is(err, rpctypes.ErrCompacted): // by somebody, between two requests
		default:
			return "", 0, s.explain(ctx, err)
		}
	}
}

// begin confirms the election and reads the head. Without the confirmation, a member whose key was
// deleted while it waited would consider itself the leader.
func (l *Leadership) begin(ctx context.Context, member Member) error {
	s := l.sequence
	leader, err := json.Marshal(Leader{Member: member, Since: s.Clock.Now().UTC()})
	if err != nil {
		return fmt.Errorf("encode the leader: %w", err)
	}
	limited, cancel := s.limit(ctx)
	defer cancel()
	if err := l.renew(limited); err != nil {
		if _, lost := errors.AsType[*LostError](err); lost {
			return err
		}
		return s.explain(ctx, err)
	}
	// Parts above the head are left over from a leader that ended between two parts of a record.
	response, err := s.transaction(ctx, func(txn clientv3.Txn) clientv3.Txn {
		return txn.If(l.guard()...).Then(
			clientv3.OpPut(l.key, string(leader), clientv3.WithLease(l.leaseID)),
			clientv3.OpDelete(fmt.Sprintf("%sparts/%016x/", s.Prefix, l.head.Number+1),
				clientv3.WithRange(clientv3.GetPrefixRangeEnd(s.Prefix+"parts/"))))
	})
	if err != nil {
		return err
	}
	if !response.Succeeded {
		return &LostError{Err: errRemoved}
	}
	return nil
}

// guard is the condition of every write of a leader: it holds only as long as its key exists, and
// for its format of the fleet.
func (l *Leadership) guard() []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(l.key), "=", l.revision),
		clientv3.Compare(clientv3.ModRevision(l.sequence.fleetKey()), "=", l.fleet.Load()),
	}
}

// renew renews the lease and confirms that the key of the election is there, in the same term of
// etcd's consensus. A server that was the leader of an earlier term may still answer renewals, and
// its successor does not know of them (https://github.com/etcd-io/etcd/issues/15247).
func (l *Leadership) renew(ctx context.Context) error {
	s := l.sequence
	sent := now(s.Clock)
	live, term, err := renew(ctx, s.client, l.leaseID)
	if errors.Is(err, errExpired) {
		return &LostError{Err: errRemoved}
	}
	if err != nil {
		return err
	}
	response, err := s.client.Txn(ctx).
		Then(clientv3.OpGet(l.key), clientv3.OpGet(s.fleetKey()), clientv3.OpGet(s.headKey())).Commit()
	if err != nil {
		return fmt.Errorf("confirm the leadership: %w", err)
	}
	kvs := func(i int) []*mvccpb.KeyValue { return response.Responses[i].GetResponseRange().Kvs }
	if own := kvs(0); len(own) == 0 || own[0].CreateRevision != l.revision {
		return &LostError{Err: errRemoved}
	}
	fleet, err := s.fleetOf(kvs(1), nil)
	if err != nil {
		return &LostError{Err: err}
	}
	newest, err := headOf(kvs(2))
	if err != nil {
		return &LostError{Err: err}
	}
	if l.fleet.CompareAndSwap(0, fleet.revision) { // at the beginning
		l.head, l.elected = newest, newest.Position
	}
	if response.Header.RaftTerm == term {
		l.lease.renewed(sent, live)
	}
	return nil
}

// keep renews the lease until the leadership ends.
func (l *Leadership) keep() {
	s := l.sequence
	defer s.revoke(l.leaseID)
	for {
		pause := s.Lease / 3
		remaining := l.lease.remaining()
		if remaining < pause*3/2 { // the last renewal failed
			pause = s.Lease / 30
		}
		select {
		case <-l.ctx.Done():
			return
		case <-s.Clock.After(min(pause, remaining)):
		}
		if !l.lease.valid() {
			l.end(errSilent)
			return
		}
		ctx, cancel := context.WithTimeout(l.ctx, min(s.Lease/3, l.lease.remaining()))
		err := l.renew(ctx)
		cancel()
		if _, lost := errors.AsType[*LostError](err); lost {
			l.end(err)
			return
		}
	}
}

func (l *Leadership) end(cause error) {
	if lost, ok := errors.AsType[*LostError](cause); ok {
		cause = lost.Err
	}
	l.cancel(&LostError{Err: cause})
}

// RaiseData notes in the fleet that the records from now on lead to a version of the data. A member
// whose program does not support it stops before it gets them: it looks at the fleet more often
// than a lease ends, so RaiseData waits for that time if it changes something. It must be called
// before the first Append.
func (l *Leadership) RaiseData(ctx context.Context, version int) error {
	s := l.sequence
	fleet, err := s.Fleet(ctx)
	if err != nil || max(fleet.Data, 1) >= version {
		return err
	}
	fleet.Data = version
	value, err := json.Marshal(fleet)
	if err != nil {
		return fmt.Errorf("encode the fleet: %w", err)
	}
	response, err := s.transaction(ctx, func(txn clientv3.Txn) clientv3.Txn {
		return txn.If(l.guard()...).Then(clientv3.OpPut(s.fleetKey(), string(value)))
	})
	if err != nil {
		return err
	}
	if !response.Succeeded {
		l.end(errRemoved)
		return l.Err()
	}
	l.fleet.Store(response.Header.Revision)
	select {
	case <-s.Clock.After(s.Lease):
		return nil
	case <-l.Done():
		return l.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// revoke ends a lease, so that the next leader need not wait until it expires. If this fails, it
// expires.
func (s *Sequence) revoke(id clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(s.client.Ctx(), s.Lease)
	defer cancel()
	_, _ = s.client.Revoke(ctx, id)
}

// Head returns the newest record of the log at the time of the election. The leader must have all
// records up to it before it appends.
func (l *Leadership) Head() Position { return l.elected }

// Done is closed when the leadership has ended. A process that was stopped may run for a moment
// before this is noticed: see Leads.
func (l *Leadership) Done() <-chan struct{} { return l.ctx.Done() }

// Err returns nil or, after the end, a *LostError with the reason.
func (l *Leadership) Err() error { return context.Cause(l.ctx) }

// Leads reports whether no other member can be the leader at this moment. A leader asks before it
// answers from its own data.
func (l *Leadership) Leads() bool {
	if l.ctx.Err() != nil {
		return false
	}
	if !l.lease.valid() {
		l.end(errSilent)
		return false
	}
	return true
}

// Remaining returns for how long no other member can be the leader if the lease is not renewed; 0:
// the leadership has ended.
func (l *Leadership) Remaining() time.Duration {
	if !l.Leads() {
		return 0
	}
	return l.lease.remaining()
}

// Close gives the leadership up. The next leader can begin at once.
func (l *Leadership) Close() {
	l.end(errClosed)
	l.owned.Wait()
}
