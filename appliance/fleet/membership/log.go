package membership

import (
	"context"
	"errors"

	"landfall/appliance/fleet"
	"landfall/appliance/fleet/sequence"
	"landfall/store/wal"
)

// log implements fleet.Log with the sequence in etcd.
type log struct{ *Membership }

// Follow implements fleet.Log.
func (l log) Follow(ctx context.Context, db fleet.Copy, applied func()) error {
	l.note(db)
	err := l.sequence.Follow(ctx, sequence.Position(db.Position()), func(records []wal.Record) error {
		if err := db.Apply(ctx, records); err != nil {
			return err
		}
		l.note(db)
		applied()
		return nil
	})
	return classified(err)
}

// classified returns the error of a log as package fleet distinguishes them.
func classified(err error) error {
	if _, compacted := errors.AsType[*sequence.CompactedError](err); compacted || errors.Is(err, wal.ErrNoSequence) {
		return &fleet.BehindError{Err: err}
	}
	_, older := errors.AsType[*sequence.OlderError](err)
	_, diverged := errors.AsType[*sequence.DivergedError](err)
	_, newer := errors.AsType[*sequence.FormatError](err)
	_, data := errors.AsType[*sequence.DataError](err)
	if older || diverged || isGone(err) || newer || data || errors.Is(err, wal.ErrDiverged) {
		return &fleet.UnusableError{Err: err}
	}
	return err
}

// isGone reports whether an error of etcd says that the fleet of this member is no longer there.
func isGone(err error) bool {
	_, none := errors.AsType[*sequence.NoFleetError](err)
	_, other := errors.AsType[*sequence.OtherFleetError](err) // made after the end of this one
	return none || other
}

// CheckFleet returns a *fleet.UnusableError if etcd says that the fleet of this member is no longer
// there.
func (m *Membership) CheckFleet(ctx context.Context) error {
	if _, err := m.sequence.Fleet(ctx); isGone(err) {
		return &fleet.UnusableError{Err: err}
	}
	return nil
}

// Head implements fleet.Log.
func (l log) Head(ctx context.Context) (uint64, error) {
	head, err := l.sequence.Head(ctx)
	return head.Number, err
}

// Campaign implements fleet.Log.
func (l log) Campaign(ctx context.Context) (fleet.Leadership, error) {
	if err := l.awaitUpgrades(ctx); err != nil {
		return nil, err
	}
	won, err := l.sequence.Campaign(ctx, l.describe())
	if err != nil {
		return nil, err
	}
	if err := won.RaiseData(ctx, l.sequence.Data); err != nil {
		won.Close()
		return nil, err
	}
	return leadership{won, l.Membership}, nil
}

// awaitUpgrades waits as long as this member would change the data to a version that the program of
// another member does not support, and that member can lead instead.
func (l log) awaitUpgrades(ctx context.Context) error {
	for told := false; ; told = true {
		older, err := l.olderMember(ctx)
		if err != nil || older == "" {
			return err
		}
		if !told {
			l.Logger.InfoContext(ctx, "This member leads only when the others are upgraded: its program changes the "+
				"data to a version that theirs do not support.", "member", older)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.Clock.After(presenceInterval):
		}
	}
}

// olderMember returns the name of a member that can lead, and whose program does not support the
// version of the data to which this one changes it. It returns "" if there is none.
func (l log) olderMember(ctx context.Context) (string, error) {
	fleet, err := l.sequence.Fleet(ctx)
	if err != nil || max(fleet.Data, 1) >= l.sequence.Data {
		return "", err
	}
	members, err := l.sequence.Members(ctx)
	for _, member := range members {
		if member.Data < l.sequence.Data && !member.Restoring {
			return member.Name, nil
		}
	}
	return "", err
}

// Leaders implements fleet.Log.
func (l log) Leaders(ctx context.Context, changed func(fleet.Peer)) error {
	return l.sequence.Leaders(ctx, func(leader *sequence.Leader) {
		if leader == nil {
			changed(fleet.Peer{})
			return
		}
		changed(fleet.Peer{Name: leader.Member.Name, URL: leader.Member.URL})
	})
}

// leadership implements fleet.Leadership.
type leadership struct {
	*sequence.Leadership
	of *Membership
}

// Append implements wal.SharedLog.
func (l leadership) Append(ctx context.Context, number uint64, operations []byte) error {
	err := l.Leadership.Append(ctx, number, operations)
	if err == nil {
		l.of.applied.Store(number)
	}
	return err
}

// Head implements fleet.Leadership.
func (l leadership) Head() uint64 { return l.Leadership.Head().Number }

// Resign implements fleet.Leadership.
func (l leadership) Resign(context.Context) error {
	l.Close()
	return nil
}
