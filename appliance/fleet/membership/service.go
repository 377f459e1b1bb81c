package membership

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"landfall/appliance/fault"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/forwarding"
	"landfall/appliance/fleet/sequence"
	"landfall/appliance/sentence"
)

// Wanted is what a person says about a new fleet. What is empty is that of the configuration.
type Wanted struct {
	Etcd   []string `json:"etcd,omitempty"`
	Prefix string   `json:"prefix,omitempty"`
	Name   string   `json:"name,omitempty"`
	URL    string   `json:"url,omitempty"`
}

// Service shows and changes the part of a machine in a fleet.
type Service interface {
	Status(ctx context.Context) (*Status, error)
	Invitation(ctx context.Context) (*Invitation, error)
	// Found makes a fleet of a single machine.
	Found(ctx context.Context, wanted Wanted) error
	// Leave makes the member that was asked leave the fleet.
	Leave(ctx context.Context) error
	// Forget removes a member that is away and will not come back.
	Forget(ctx context.Context, member string) error
	// End makes the leader a single machine. The other members stop.
	End(ctx context.Context) error
	// Trails returns what finds the audit trails of the members. own is that of this member.
	Trails(own OwnTrail) Trails
}

// ErrChanged is the error with which an appliance ends to go on in another role.
var ErrChanged = errors.New("this machine has joined or left a fleet")

// Single is the Service of a single machine.
type Single struct {
	Options
	changed chan struct{} // closed when this machine has become the member of a fleet
	mu      sync.Mutex
}

// Of returns the service of an appliance: that of its role in a fleet or, if that is nil, the one
// of a single machine, which is then returned as itself, too.
func Of(role Service, options Options) (Service, *Single) {
	if role != nil {
		return role, nil
	}
	single := &Single{Options: options, changed: make(chan struct{})}
	return single, single
}

// Run ends with ErrChanged when this machine has become the member of a fleet. A nil single waits
// for nothing.
func (s *Single) Run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.changed:
		return ErrChanged
	}
}

// Status implements Service.
func (s *Single) Status(context.Context) (*Status, error) {
	return &Status{Leader: true, Members: []Member{}, Loss: "This is a single machine: what its replica and its " +
		"backups " +
		"lack would be lost with it."}, nil
}

// Found implements Service.
func (s *Single) Found(ctx context.Context, wanted Wanted) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.changed:
		return fault.New(fault.Conflict, "this machine is a member of a fleet already")
	default:
	}
	options := s.Options
	if len(wanted.Etcd) > 0 {
		options.Settings.Etcd = wanted.Etcd
	}
	options.Settings.Prefix = cmp.Or(wanted.Prefix, options.Settings.Prefix)
	options.Settings.Name = cmp.Or(wanted.Name, options.Settings.Name)
	options.Settings.URL = cmp.Or(wanted.URL, options.Settings.URL)
	if len(options.Settings.Etcd) == 0 {
		return fault.New(fault.Invalid, "the URLs of etcd are missing; give them with --etcd")
	}
	if err := Found(ctx, options); err != nil {
		return err
	}
	close(s.changed)
	return nil
}

var errSingle = fault.New(fault.Conflict, "this is a single machine; make a fleet of it with landfall fleet init")

// Invitation implements Service.
func (s *Single) Invitation(context.Context) (*Invitation, error) { return nil, errSingle }

// Leave implements Service.
func (s *Single) Leave(context.Context) error { return errSingle }

// Forget implements Service.
func (s *Single) Forget(context.Context, string) error { return errSingle }

// End implements Service.
func (s *Single) End(context.Context) error { return errSingle }

// Leader is the Service of the leader of a fleet.
type Leader struct {
	*Membership
	Peers     *fleet.Client
	VirtualIP func() *VirtualIP
	// Missing returns the contents of files that this leader lacks. It is nil for other members.
	Missing func(context.Context) (sums []string, err error)
}

// Found implements Service.
func (l *Leader) Found(context.Context, Wanted) error {
	return fault.New(fault.Conflict, "this machine is a member of a fleet already; landfall fleet status shows it")
}

// Leave implements Service. The member that forwarded the request leaves.
func (l *Leader) Leave(ctx context.Context) error {
	name := forwarding.Of(ctx).Member
	others, err := l.Others(ctx)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	if name == "" {
		return l.leave(func() error { return l.checkSuccessor(others) })
	}
	at := slices.IndexFunc(others, func(p fleet.Peer) bool { return p.Name == name })
	if at < 0 {
		return fault.New(fault.Unavailable, "the member %s is not connected to etcd now; try again", name)
	}
	if err := l.noteLeaving(name); err != nil {
		return err
	}
	err = l.Peers.Leave(ctx, others[at])
	if fault.KindOf(err) == 0 {
		return fault.Wrap(fault.Unavailable, err)
	}
	if fault.KindOf(err) == fault.Conflict { // it stays
		l.changing.Lock()
		defer l.changing.Unlock()
		delete(l.told, name)
	}
	return err
}

// checkSuccessor returns an error if no other member would go on with the data. The caller holds
// changing.
func (m *Membership) checkSuccessor(others []fleet.Peer) error {
	for _, other := range others {
		if at, leaves := m.told[other.Name]; !leaves || m.Clock.Since(at) > toldTime {
			return nil
		}
	}
	if len(others) > 0 {
		return fault.New(fault.Conflict, "the member %s was told to leave a moment ago, so perhaps nobody would go on "+
			"with the data; try again in a minute", others[0].Name)
	}
	return fault.New(fault.Conflict, "no other member is there, so nobody would go on with the data; "+
		"landfall fleet end makes this machine a single one")
}

// noteLeaving notes that this leader tells another member to leave. It returns an error if this one
// leaves itself: the next leader knows the members.
func (m *Membership) noteLeaving(name string) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	if m.leaving.Load() {
		return fleet.ErrNoLeader
	}
	m.told[name] = m.Clock.Now()
	return nil
}

// Forget implements Service.
func (l *Leader) Forget(ctx context.Context, member string) error {
	forgotten, err := l.sequence.Forget(ctx, member)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	if forgotten {
		return nil
	}
	others, err := l.registrations(ctx)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	if slices.ContainsFunc(others, func(r sequence.Registration) bool { return r.Name == member }) {
		return fault.New(fault.Conflict, "the member %s is here; only a member that is away can be forgotten. To make "+
			"this one leave, ask it: landfall fleet leave", member)
	}
	return fault.New(fault.NotFound, "the fleet has no member %s; landfall fleet status lists them", member)
}

// LeaveHere makes this member leave the fleet, as another member asks.
func (m *Membership) LeaveHere() error { return m.leave(func() error { return nil }) }

// leave makes this member leave unless check returns an error. The fleet does not end meanwhile:
// the data would go on nowhere.
func (m *Membership) leave(check func() error) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	switch {
	case m.alone.Load():
		return fault.New(fault.Conflict, "the fleet has ended, and this machine goes on with the data as a single one")
	case m.leaving.Load():
		return nil
	case m.removing && !m.isLedByOther():
		return fault.New(fault.Conflict, "this member was asked to end the fleet, and etcd has not confirmed that; "+
			"repeat landfall fleet end, or restart this member before it leaves")
	}
	if err := check(); err != nil {
		return err
	}
	return m.end(func(s *fleet.State) { s.Left = true }, func() {})
}

// isLedByOther reports whether another member leads this fleet. etcd then neither ended the fleet
// for this member, nor will it: it does so only while this one leads. The fleet is read last,
// because another fleet may follow.
func (m *Membership) isLedByOther() bool {
	ctx, cancel := context.WithTimeout(context.Background(), forgetTime)
	defer cancel()
	leader, err := m.sequence.Leader(ctx)
	if err != nil || leader == nil || leader.Member.ID == m.state.ID {
		return false
	}
	_, err = m.sequence.Fleet(ctx)
	return err == nil
}

// end writes the state of a machine that is no longer a member. written is called before anybody
// learns of it.
func (m *Membership) end(change func(*fleet.State), written func()) error {
	m.ending.Lock()
	defer m.ending.Unlock()
	if m.leaving.Load() {
		return nil // it has left
	}
	state := *m.state
	change(&state)
	if err := state.Write(m.Dir); err != nil {
		return err
	}
	m.leaving.Store(true)
	m.alone.Store(state.Ended)
	written()
	close(m.ended)
	return nil
}

// finishEnding makes this machine a single one. This member has removed the fleet from etcd. Then
// it removes the note about that: because of the note, a copy of the data directory from before the
// end would become a single machine, too.
func (m *Membership) finishEnding(ctx context.Context) error {
	return m.end(func(s *fleet.State) { s.Ended = true }, func() {
		ctx, cancel := context.WithTimeout(ctx, forgetTime)
		defer cancel()
		if err := m.sequence.ForgetEnd(ctx); err != nil {
			m.Logger.WarnContext(ctx, "etcd still has the note that this member has ended the fleet. Do not start a "+
				"copy of the data directory from before the end.", "error", err)
		}
	})
}

// IsAlone reports whether the fleet has ended and this machine goes on with the data. It may then
// answer from them, although it no longer leads.
func (m *Membership) IsAlone() bool { return m.alone.Load() }

// AfterFailure returns [ErrChanged] for the error of a role if this machine is no longer a member,
// and otherwise the error. A member that has ended the fleet without learning of it becomes a
// single machine here. If another member has ended the fleet, only that one goes on with the data.
func (m *Membership) AfterFailure(ctx context.Context, err error) error {
	if m.hasEnded(err) {
		err = errors.Join(err, m.finishEnding(ctx))
	}
	select {
	case <-m.ended:
		return ErrChanged
	default:
		return err
	}
}

// hasEnded reports whether an error of etcd says that this member has ended the fleet.
func (m *Membership) hasEnded(err error) bool {
	by := sequence.EndedBy(err)
	return by != "" && by == m.state.ID
}

// End implements Service. The fleet ends when etcd removes it, in one transaction. If the outcome
// of the transaction is not known, or this process ends, the member asks etcd later: see
// [Membership.AfterFailure].
func (l *Leader) End(ctx context.Context) error {
	if name := forwarding.Of(ctx).Member; name != "" {
		return fault.New(fault.Conflict, "the member %s does not lead; send this to the leader, which goes on with "+
			"the data", name)
	}
	l.changing.Lock()
	defer l.changing.Unlock()
	switch {
	case l.alone.Load():
		return nil // it has ended
	case l.leaving.Load():
		return fault.New(fault.Conflict, "this member has left the fleet, and another one goes on with the data; to "+
			"end the fleet, send this to the member that leads then")
	}
	if err := l.checkContents(ctx); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // the client may go
	l.removing = true
	if err := l.sequence.Remove(ctx, l.state.ID); err != nil {
		if errors.Is(err, sequence.ErrNotLeading) {
			l.removing = false
		}
		// The answer to this request or to an earlier one may have been lost.
		if _, found := l.sequence.Fleet(ctx); l.hasEnded(found) {
			return l.finishEnding(ctx)
		}
		return fault.New(fault.Unavailable, "etcd has not confirmed the end of the fleet: %v; see landfall fleet "+
			"status, and repeat the command if the fleet is still there", err)
	}
	return l.finishEnding(ctx)
}

// checkContents returns an error if a single machine would lack contents of files, unless the fleet
// may have ended. The caller holds changing.
func (l *Leader) checkContents(ctx context.Context) error {
	if l.removing || l.Missing == nil {
		return nil
	}
	missing, err := l.Missing(ctx)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	if len(missing) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "this member still lacks %s of files, which a single machine can't copy from "+
		"others; wait until landfall fleet status shows that it lacks none. If no member has them any more, stop all "+
		"members and use landfall fleet end --data-dir", sentence.Count(len(missing), "content"))
}
