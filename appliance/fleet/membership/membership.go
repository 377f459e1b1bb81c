// Package membership keeps what a machine has to do with a fleet: the file in its data directory
// that names the fleet, its row among the members in etcd, and the log there. It makes a fleet,
// shows it and ends it.
package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/dataversion"
	"landfall/appliance/fault"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/keyfile"
	"landfall/appliance/fleet/sequence"
)

// Settings are those of the configuration.
type Settings struct {
	Etcd                      []string
	Prefix                    string
	CAFile, CertFile, KeyFile string // for connections to etcd
	Name, URL                 string
	Lease                     time.Duration // for which a leader may be silent
}

// Options configures [Open].
type Options struct {
	Dir      string // the data directory
	Settings Settings
	URL      string // of this machine, unless the settings have one
	Version  string // of the program
	Data     int    // newest version of the data, in tests; 0: that of the program
	Clock    clockwork.Clock
	Logger   *slog.Logger
}

const (
	// presenceInterval is the time between two updates of the row of a member.
	presenceInterval = time.Second
	// compactInterval is the time between two removals of old records from the log.
	compactInterval = 10 * time.Second
	// registrationsInterval is the number of updates of the own row between two looks at all
	// members, for a time in which etcd does not answer.
	registrationsInterval = 10
	// forgetTime limits how long a member that leaves or ends the fleet waits for etcd.
	forgetTime = 3 * time.Second
	// toldTime is the time in which a member that was told to leave disappears from etcd.
	toldTime = time.Minute
	// leastBytes is the size of the records that stay in the log for members that are away, and
	// mostBytes limits what stays for a member that is connected. etcd has 2 GiB by default.
	leastBytes, mostBytes = 16 << 20, 256 << 20
)

// Membership is the part of a machine in a fleet.
type Membership struct {
	Options
	state    *fleet.State
	sequence *sequence.Sequence
	applied  atomic.Uint64 // the newest record of the database
	synced   atomic.Uint64 // the newest record that the disk has for certain
	liveISOs atomic.Int64  // live ISOs of other members that this one lacks
	blobs    atomic.Int64  // blobs of pushed images that this member lacks
	ended    chan struct{} // closed when this machine has left, or the fleet has ended
	leaving  atomic.Bool
	alone    atomic.Bool
	ending   sync.Mutex // held while the state of a machine is written that is no longer a member

	changing sync.Mutex           // held while it is decided whether a member leaves, or the fleet ends
	removing bool                 // etcd may have removed the fleet for this member, or may do so
	told     map[string]time.Time // when other members were told to leave, by their names

	restoring atomic.Bool // this member waits for a snapshot
	progress  progress
	writes    writes
	known     known
}

// Open opens the log of the fleet to which a data directory belongs. It does not connect to etcd.
// The settings precede what the file of the directory says.
func Open(options Options) (*Membership, error) {
	state, err := fleet.ReadState(options.Dir)
	switch {
	case err != nil:
		return nil, err
	case state == nil:
		return nil, fmt.Errorf("the data directory %s belongs to no fleet; make one with landfall fleet init, or join "+
			"one with landfall fleet join", options.Dir)
	case state.Left:
		return nil, fmt.Errorf("this machine has left its fleet, which goes on with the data; to join again, remove "+
			"%s and use landfall fleet join", options.Dir)
	}
	settings := options.Settings
	state.Member = cmp.Or(settings.Name, state.Member)
	state.URL = cmp.Or(settings.URL, state.URL, options.URL)
	state.Prefix = cmp.Or(settings.Prefix, state.Prefix, sequence.DefaultPrefix)
	if len(settings.Etcd) > 0 {
		state.Etcd = settings.Etcd
	}
	m := &Membership{Options: options, state: state, ended: make(chan struct{}), told: map[string]time.Time{}}
	m.sequence, err = settings.open(state, options)
	return m, err
}

func (s Settings) open(of *fleet.State, options Options) (*sequence.Sequence, error) {
	return sequence.Open(sequence.Options{Endpoints: of.Etcd, Prefix: of.Prefix, Fleet: of.Fleet, CAFile: s.CAFile,
		CertFile: s.CertFile, KeyFile: s.KeyFile, Lease: s.Lease, Clock: options.Clock,
		Data: cmp.Or(options.Data, dataversion.Supported())})
}

// Found makes a fleet whose first member is the machine with a data directory. The data becomes
// that of the fleet. It can be repeated after an error.
func Found(ctx context.Context, options Options) error {
	state, err := fleet.ReadState(options.Dir)
	if err != nil {
		return err
	}
	if state != nil && !state.Ended {
		return fault.New(fault.Conflict, "this machine is a member of a fleet already")
	}
	settings := options.Settings
	name, err := os.Hostname()
	if err != nil {
		name = "first"
	}
	state = &fleet.State{Fleet: uuid.NewString(), ID: uuid.NewString(), Member: cmp.Or(settings.Name, name),
		Etcd: settings.Etcd, Prefix: cmp.Or(settings.Prefix, sequence.DefaultPrefix),
		URL: cmp.Or(settings.URL, options.URL)}
	log, err := settings.open(state, options)
	if err != nil {
		return fault.Wrap(fault.Invalid, err)
	}
	err = log.Create(ctx, state.Fleet, sequence.Position{})
	if err = errors.Join(err, log.Close()); err != nil {
		if exists, ok := errors.AsType[*sequence.ExistsError](err); ok {
			return fault.Wrap(fault.Conflict, exists)
		}
		return fault.Wrap(fault.Unavailable, err)
	}
	// Without this file, the fleet in etcd has no member: a repetition finds another fleet there.
	return state.Write(options.Dir)
}

// Close ends the requests to etcd.
func (m *Membership) Close() error { return m.sequence.Close() }

// Peer returns this member.
func (m *Membership) Peer() fleet.Peer { return fleet.Peer{Name: m.state.Member, URL: m.state.URL} }

// NoteMissingLiveISOs notes how many live ISOs of other members this one lacks.
func (m *Membership) NoteMissingLiveISOs(n int) { m.liveISOs.Store(int64(n)) }

// NoteMissingBlobs notes how many blobs of pushed images this member lacks.
func (m *Membership) NoteMissingBlobs(n int) { m.blobs.Store(int64(n)) }

// Directory returns the ID of the data directory of this member.
func (m *Membership) Directory() string { return m.state.ID }

// Keys returns the key files of this member.
func (m *Membership) Keys() keyfile.Directory {
	return keyfile.Directory{Path: m.Dir, Fleet: m.state.Fleet}
}

// Log returns the log of the fleet.
func (m *Membership) Log() fleet.Log { return log{m} }

// Ended returns a channel that is closed when this machine is no longer a member of a fleet.
func (m *Membership) Ended() <-chan struct{} { return m.ended }

func (m *Membership) describe() sequence.Member {
	return sequence.Member{ID: m.state.ID, Name: m.state.Member, URL: m.state.URL, Version: m.Version,
		Data: m.sequence.Data, Applied: m.applied.Load(), Synced: m.synced.Load(),
		Restoring: m.restoring.Load()}
}

// database is the database of a member in each role.
type database interface {
	Sequence() uint64
	SyncedSequence() uint64
}

func (m *Membership) note(db database) {
	m.applied.Store(db.Sequence())
	m.synced.Store(db.SyncedSequence())
}

// NameTakenError reports that another member has the name of this one.
type NameTakenError struct{ Name, URL string }

// Error implements error.
func (e *NameTakenError) Error() string {
	return fmt.Sprintf("the member at %s has the name %s already; give this one another name with --fleet-name", e.URL,
		e.Name)
}

// checkName returns a *NameTakenError if another member of the fleet has the name of this one.
func (m *Membership) checkName(ctx context.Context) error {
	if _, err := m.sequence.Fleet(ctx); err != nil {
		return err // the members of another fleet may have any name
	}
	members, err := m.sequence.Members(ctx)
	for _, member := range members {
		if member.Name == m.state.Member && member.ID != m.state.ID {
			return &NameTakenError{Name: member.Name, URL: member.URL}
		}
	}
	return err
}

// Network is the state of a member's network, without that to etcd.
type Network struct {
	// Unreached is the name of the leader to which this member can't forward requests, for a time.
	// "": it reaches the leader, or has nothing to forward.
	Unreached    string
	UnreachedFor time.Duration
	// Unlinked reports that the interface for the virtual IP has no link.
	Unlinked bool
}

// Run keeps the row of this member in etcd until the context ends. network returns the state of its
// network. The error is a *NameTakenError if another member has the same name.
func (m *Membership) Run(ctx context.Context, network func() Network) error {
	var row *sequence.Membership
	ticker := m.Clock.NewTicker(presenceInterval)
	defer ticker.Stop()
	told := ""
	for tick := 0; ; tick++ {
		described, state := m.describe(), network()
		described.Unreached, described.UnreachedSeconds = state.Unreached, state.UnreachedFor.Seconds()
		described.Unlinked = state.Unlinked
		var err error
		if row == nil {
			if err = m.checkName(ctx); err == nil {
				row, err = m.sequence.Join(ctx, described)
			}
			if taken, ok := errors.AsType[*NameTakenError](err); ok {
				return taken
			}
		} else {
			began := m.Clock.Now()
			err = row.Update(ctx, described)
			m.writes.note(m.Clock.Since(began))
		}
		if err == nil && tick%registrationsInterval == 0 {
			_, err = m.registrations(ctx)
		}
		m.progress.note(m.Clock.Now(), m.applied.Load())
		switch problem := fmt.Sprint(err); {
		case err == nil:
			told = ""
		case ctx.Err() == nil && problem != told:
			m.Logger.WarnContext(ctx, "The row of this member in etcd could not be written.", "error", err)
			told = problem
		}
		select {
		case <-ctx.Done():
			if row != nil {
				row.Leave()
			}
			m.forgetSelf(ctx)
			return nil
		case <-ticker.Chan():
		}
	}
}

// forgetSelf removes the registration of a member that has left.
func (m *Membership) forgetSelf(ctx context.Context) {
	if !m.leaving.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTime)
	defer cancel()
	forgotten, err := m.sequence.Forget(ctx, m.state.Member)
	if (err != nil || !forgotten) && !m.alone.Load() { // the end of a fleet removes all registrations
		m.Logger.WarnContext(ctx, "The other members still show this member, as one that is away. Remove it with "+
			"landfall fleet forget.", "member", m.state.Member, "error", err)
	}
}

// UpToDate returns the name of another member that could lead instead of this one, or "" if there
// is none. It is connected, had all that this one had a second ago, and has a link.
func (m *Membership) UpToDate(ctx context.Context) (string, error) {
	all, err := m.registrations(ctx)
	for _, other := range all {
		if other.Connected && other.ID != m.state.ID && !other.Restoring && !other.Unlinked &&
			other.Applied >= m.synced.Load() {
			return other.Name, nil
		}
	}
	return "", err
}

// CannotReach returns the name of a connected member that has not reached this one, the leader, for
// a time, although it had requests to forward. It returns "" if there is none.
func (m *Membership) CannotReach(ctx context.Context, lasted time.Duration) (string, error) {
	members, err := m.sequence.Members(ctx)
	for _, other := range members {
		if other.ID != m.state.ID && other.Unreached == m.state.Member && !other.Restoring &&
			other.UnreachedSeconds >= lasted.Seconds() {
			return other.Name, nil
		}
	}
	return "", err
}

// IsRestoring reports whether this member waits for a snapshot.
func (m *Membership) IsRestoring() bool { return m.restoring.Load() }

// Restoring says whether this member waits for a snapshot of another member.
func (m *Membership) Restoring(is bool) { m.restoring.Store(is) }

// Compact removes from the log what no member needs, as long as a leadership lasts.
func (m *Membership) Compact(ctx context.Context, of fleet.Leadership, db database) {
	ticker := m.Clock.NewTicker(compactInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.Chan():
		}
		m.note(db)
		if err := m.compact(ctx, of.(leadership)); err != nil && ctx.Err() == nil {
			m.Logger.WarnContext(ctx, "Old records could not be removed from the log in etcd.", "error", err)
		}
	}
}

func (m *Membership) compact(ctx context.Context, of leadership) error {
	members, err := m.sequence.Members(ctx)
	if err != nil {
		return err
	}
	synced := m.synced.Load()
	for _, member := range members {
		synced = min(synced, member.Synced)
	}
	return of.Compact(ctx, sequence.Kept{After: synced, Least: leastBytes, Most: mostBytes})
}

// Others returns the other members that are connected to etcd.
func (m *Membership) Others(ctx context.Context) (others []fleet.Peer, err error) {
	members, err := m.registrations(ctx)
	for _, member := range members {
		if member.Connected && member.ID != m.state.ID {
			others = append(others, fleet.Peer{Name: member.Name, URL: member.URL})
		}
	}
	return others, err
}

// All returns all other members of the fleet, and the name of one that is not connected to etcd, or
// "".
func (m *Membership) All(ctx context.Context) (others []fleet.Peer, away string, err error) {
	members, err := m.registrations(ctx)
	for _, member := range members {
		if member.ID == m.state.ID {
			continue
		}
		if !member.Connected {
			away = member.Name
		}
		others = append(others, fleet.Peer{Name: member.Name, URL: member.URL})
	}
	return others, away, err
}
