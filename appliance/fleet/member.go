// Package fleet runs an appliance as a member of a fleet: several machines with one state.
//
//	etcd: the log of all changes, the election
//	  |                 | records                  | records
//	  v                 v                          v
//	leader            follower                   follower
//	the appliance     its copy of the database   its copy of the database
//	  ^                 |                          |
//	  +-- requests -----+--------------------------+   TLS, with the credential of the fleet
//
// One member leads: it runs the appliance, which appends each change to the log before it answers.
// The others follow: they apply the log to their own database and forward requests to the leader. A
// change of the leader is a restart: the new leader opens the appliance on its own data directory,
// as after a kill.
//
// # Files
//
//	member.go      Member: follow, be elected, lead, follow again
//	forward.go     Forwarder and Front: requests from a follower to the leader
//	guard.go       the answers of a leader, which it gives only while it leads
//	pipeline.go    polls of agents, which share a connection to the leader
//	leaders.go     the present leader, for the forwarder
//	listeners.go   Listeners: the sockets that stay open while the role changes
//	behind.go      Behind: the handler of a follower
//	reach.go       Reach: whether a follower reaches the leader
//	revision.go    the revision in answers
//	contacts.go    the last contacts of hosts, which only the memory of the leader has
//	reads.go       the machines that read images of a follower
//	leading.go     Leading: what the appliance gets that leads
//	trails.go      the audit trails of other members
//	peers.go       Peers and Client: what members ask each other for
//	stall.go       limits for transfers between members that make no progress
//	contents.go    Copies: keeps contents of files on several members
//	surplus.go     copies of contents that a follower need not keep
//	paced.go       Paced: limits the rate of copies
//	credential.go  Credential: the certificates by which members trust each other
//	state.go       State: the file in the data directory that names the fleet
//
// Design: docs/design.md#a-fleet-on-etcd.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jonboulle/clockwork"
	"golang.org/x/sync/errgroup"

	"landfall/store/wal"
)

// Log is the log of a fleet and the election of its leader. Package sequence implements it.
type Log interface {
	// Follow applies the records that a database lacks, and those that are appended later, until
	// the context ends. It calls applied after each time. Its error is a *BehindError if the log no
	// longer has what the database lacks, and an *UnusableError if the database can't follow this
	// log.
	Follow(ctx context.Context, db Copy, applied func()) error
	// Head returns the number of the newest record.
	Head(ctx context.Context) (uint64, error)
	// Campaign waits until this member leads.
	Campaign(ctx context.Context) (Leadership, error)
	// Leaders calls changed with the present leader and at each change, until the context ends. The
	// zero value means that there is none.
	Leaders(ctx context.Context, changed func(Peer)) error
}

// Leadership is the time for which a member leads. It is the shared log of the database.
type Leadership interface {
	wal.SharedLog
	// Head returns the number of the newest record at the time of the election.
	Head() uint64
	// Done returns a channel that is closed when the leadership has ended.
	Done() <-chan struct{}
	// Leads reports whether the leadership lasts, by the clock of this machine.
	Leads() bool
	// Remaining returns for how long it lasts by that clock if it is not renewed; 0: it has ended.
	Remaining() time.Duration
	// Resign ends the leadership, so that another member is elected at once.
	Resign(ctx context.Context) error
}

// Copy is the database of a follower. *store.DB implements it.
type Copy interface {
	// Apply writes records. Each has the number after that of the previous one.
	Apply(ctx context.Context, records []wal.Record) error
	// Sequence returns the number of the newest record that the database contains.
	Sequence() uint64
	// SyncedSequence returns the number of the newest record that the disk has for certain.
	SyncedSequence() uint64
	// Position returns the newest record that the database contains.
	Position() wal.Position
	Close() error
}

// Roles are what a member does in each role.
type Roles struct {
	// Open opens the database of a follower.
	Open func(ctx context.Context) (Copy, error)
	// Serve serves clients of a follower until the context ends.
	Serve func(ctx context.Context, of Copy) error
	// Lead opens the appliance and runs it until the context ends, or until its database can't be
	// used any longer.
	Lead func(ctx context.Context, leadership Leadership) error
	// Restore replaces the data by a snapshot of another member, for a database that the log does
	// not reach. It serves clients meanwhile. Its error is an *UnusableError if there is nothing to
	// wait for.
	Restore func(ctx context.Context) error
}

// Options configures a [Member].
type Options struct {
	Self  Peer
	Log   Log
	Roles Roles
	// Takeover is the time without progress after which an elected member leaves the lead to
	// another one, because it can't apply the records of its predecessor.
	Takeover time.Duration
	Clock    clockwork.Clock
	Logger   *slog.Logger
	// Leaders is told the present leader.
	Leaders interface {
		Lead(by Peer)
		// Doubt is called when it is not known whether a member still leads. It has no effect if
		// another one is the present leader.
		Doubt(of Peer)
	}
}

// Member is a process that takes part in a fleet.
type Member struct{ Options }

// New returns a member.
func New(options Options) *Member { return &Member{options} }

const (
	// pause is the time between two attempts to follow.
	pause = time.Second
	// resignTime limits how long a member waits for etcd when it resigns.
	resignTime = 2 * time.Second
)

// BehindError reports that the log no longer contains the records that a member needs.
type BehindError struct{ Err error }

// Error implements error.
func (e *BehindError) Error() string {
	return "this member was away for so long that the log no longer has what it misses; it takes a snapshot of " +
		"another member"
}

// Unwrap returns the error of the log.
func (e *BehindError) Unwrap() error { return e.Err }

// UnusableError reports that a database can't follow the log: it is that of another fleet or of one
// that has ended, or etcd was restored from an older snapshot. Nothing was applied.
type UnusableError struct{ Err error }

// Error implements error.
func (e *UnusableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnusableError) Unwrap() error { return e.Err }

// Run takes part in the fleet until the context ends. It returns an error if the data directory
// can't be used.
func (m *Member) Run(ctx context.Context) error {
	observed, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		m.observe(observed)
		return nil
	})
	group.Go(func() error {
		defer stop()
		return m.takeTurns(ctx)
	})
	return group.Wait()
}

// observe tells the forwarder who leads.
func (m *Member) observe(ctx context.Context) {
	var present Peer
	for ctx.Err() == nil {
		if err := m.Log.Leaders(ctx, func(by Peer) {
			present = by
			m.Leaders.Lead(by)
		}); err != nil && ctx.Err() == nil {
			m.Leaders.Doubt(present)
			m.Logger.WarnContext(ctx, "It is not known which member leads.", "error", err)
		}
		m.sleep(ctx)
	}
}

// level is the level of a message that may come each second while etcd is away: a warning once in a
// minute.
type level struct{ warned time.Time }

// at returns the level of a message at a time.
func (l *level) at(now time.Time) slog.Level {
	if !l.warned.IsZero() && now.Sub(l.warned) < time.Minute {
		return slog.LevelDebug
	}
	l.warned = now
	return slog.LevelWarn
}

func (m *Member) sleep(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-m.Clock.After(pause):
	}
}

// takeTurns follows and leads in turns.
func (m *Member) takeTurns(ctx context.Context) error {
	for ctx.Err() == nil {
		leadership, err := m.follow(ctx)
		switch behind := new(BehindError); {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &behind):
			m.Logger.WarnContext(ctx, "This member takes a snapshot of another member.", "reason", behind.Err)
			err := m.Roles.Restore(ctx)
			if unusable := new(UnusableError); errors.As(err, &unusable) {
				return unusable
			}
			if err != nil {
				m.Logger.ErrorContext(ctx, "The snapshot could not be taken; it is tried again.", "error", err)
				m.sleep(ctx)
			}
			continue
		case err != nil:
			return err
		}
		if err := m.lead(ctx, leadership); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// follow applies the log and serves as a follower until this member leads and has all records.
func (m *Member) follow(ctx context.Context) (_ Leadership, err error) {
	db, err := m.Roles.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	f := &following{Member: m, db: db, applied: make(chan struct{}, 1)}
	var leadership Leadership
	group, working := errgroup.WithContext(ctx)
	working, elected := context.WithCancel(working)
	group.Go(func() error { return m.Roles.Serve(working, db) })
	group.Go(func() error { return f.apply(working) })
	group.Go(func() (err error) {
		leadership, err = f.becomeLeader(working)
		if err == nil {
			elected()
		}
		return err
	})
	err = group.Wait()
	elected()
	if leadership == nil {
		return nil, err
	}
	if err = unlessCanceled(err); err != nil {
		m.resign(ctx, leadership)
		return nil, err
	}
	return leadership, nil
}

func unlessCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// following is the work of a follower.
type following struct {
	*Member
	db      Copy
	applied chan struct{} // holds one item after records were applied
}

// apply applies the log until the context ends. While etcd can't be reached, it tries again.
func (f *following) apply(ctx context.Context) error {
	var grade level
	for ctx.Err() == nil {
		err := f.Log.Follow(ctx, f.db, func() {
			select {
			case f.applied <- struct{}{}:
			default:
			}
		})
		behind, unusable := new(BehindError), new(UnusableError)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &behind):
			return behind
		case errors.As(err, &unusable):
			return unusable
		}
		f.Logger.Log(ctx, grade.at(f.Clock.Now()), "The log of the fleet can't be followed now; it is tried again.",
			"error", err)
		f.sleep(ctx)
	}
	return nil
}

// becomeLeader waits until this member has the newest records, then until it leads, and then until
// it has all records of its predecessor.
func (f *following) becomeLeader(ctx context.Context) (Leadership, error) {
	var grade level
	for {
		leadership, err := f.campaign(ctx)
		if err == nil {
			return leadership, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f.Logger.Log(ctx, grade.at(f.Clock.Now()), "This member can't be elected now; it tries again.", "error", err)
		f.sleep(ctx)
	}
}

func (f *following) campaign(ctx context.Context) (Leadership, error) {
	head, err := f.Log.Head(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.catchUp(ctx, head, nil, 0); err != nil {
		return nil, err
	}
	leadership, err := f.Log.Campaign(ctx)
	if err != nil {
		return nil, err
	}
	// No other member can lead meanwhile, so a disk that is full or hangs must not hold them up.
	// This one campaigns again when it has the records.
	if err := f.catchUp(ctx, leadership.Head(), leadership.Done(), f.Takeover); err != nil || !leadership.Leads() {
		f.resign(ctx, leadership)
		return nil, cmp.Or(err, ErrNoLeader)
	}
	return leadership, nil
}

// errNotApplied is the error of an elected member whose database makes no progress.
var errNotApplied = errors.New("this member was elected, but can't apply the last records of the former leader, so " +
	"it leaves the lead to another member; look whether its disk is full or hangs")

// catchUp waits until the database has the records up to a number, until a leadership ends, or
// until no record was applied for a time; 0: there is no limit.
func (f *following) catchUp(ctx context.Context, head uint64, ended <-chan struct{}, limit time.Duration) error {
	for f.db.Sequence() < head {
		var stalled <-chan time.Time
		if limit > 0 {
			stalled = f.Clock.After(limit)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return ErrNoLeader
		case <-stalled:
			return errNotApplied
		case <-f.applied:
		}
	}
	return nil
}

func (m *Member) resign(ctx context.Context, leadership Leadership) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTime)
	defer cancel()
	if err := leadership.Resign(ctx); err != nil {
		m.Logger.Warn("This member could not resign. Another one is elected when its lease has ended.", "error", err)
	}
}

// lead runs the appliance until the leadership ends.
func (m *Member) lead(ctx context.Context, leadership Leadership) error {
	m.Logger.InfoContext(ctx, "This member leads the fleet.")
	defer m.resign(ctx, leadership)
	leading, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-leadership.Done():
			m.Logger.Warn("This member no longer leads the fleet.")
			m.Leaders.Doubt(m.Self)
			cancel()
		case <-leading.Done():
		}
	}()
	err := m.Roles.Lead(leading, leadership)
	cancel()
	<-stopped
	if err != nil && ctx.Err() == nil && !leadership.Leads() {
		m.Logger.WarnContext(ctx, "The appliance ended with the leadership.", "error", err)
		return nil
	}
	return err
}
