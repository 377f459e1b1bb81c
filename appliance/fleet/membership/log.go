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
	_, other := errors.AsType[*sequence.OtherFleetError](err)
	_, none := errors.AsType[*sequence.NoFleetError](err)
	_, newer := errors.AsType[*sequence.FormatError](err)
	if older || diverged || other || none || newer || errors.Is(err, wal.ErrDiverged) {
		return &fleet.UnusableError{Err: err}
	}
	return err
}

// Head implements fleet.Log.
func (l log) Head(ctx context.Context) (uint64, error) {
	head, err := l.sequence.Head(ctx)
	return head.Number, err
}

// Campaign implements fleet.Log.
func (l log) Campaign(ctx context.Context) (fleet.Leadership, error) {
	won, err := l.sequence.Campaign(ctx, l.describe())
	if err != nil {
		return nil, err
	}
	return leadership{won, l.Membership}, nil
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
