package sequence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"landfall/store/wal"
)

// repeatPause is the time between two attempts to write a record.
const repeatPause = 20 * time.Millisecond

// Append adds a record to the log and returns when etcd has it on most of its disks. The record
// must follow the newest one. An error that is a *wal.RefusedError means that the record is not in
// the log and will never be. After any other error it may be; the leadership has then ended.
//
// One transaction writes the record and the head, on condition that this member is still the leader
// and the head is the record before. So a request can be repeated when its answer was lost: the
// condition lets one of the repetitions through. Append repeats until the lease ends, and at most
// for Options.Timeout per part.
func (l *Leadership) Append(ctx context.Context, number uint64, operations []byte) error {
	record := wal.Record{Number: number, Operations: operations}
	select {
	case l.appending <- struct{}{}:
		defer func() { <-l.appending }()
	case <-ctx.Done():
		return &wal.RefusedError{Err: ctx.Err()}
	}
	if !l.Leads() {
		return &wal.RefusedError{Err: l.Err()}
	}
	if number != l.head.Number+1 {
		return &wal.RefusedError{Err: fmt.Errorf("record %d does not continue the log, whose newest record "+
			"is %d", number, l.head.Number)}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	err := l.write(ctx, record)
	if _, refused := errors.AsType[*wal.RefusedError](err); err == nil || refused {
		return err
	}
	l.end(err)
	return &UnknownError{Err: err}
}

// write writes a record. An error other than *wal.RefusedError leaves the outcome open.
func (l *Leadership) write(ctx context.Context, record wal.Record) error {
	s := l.sequence
	next := head{record.Position(), l.head.size + uint64(len(record.Operations))}
	last := entry{digest: next.Digest, before: l.head.size, operations: record.Operations}
	if len(record.Operations) > s.partSize {
		for rest := record.Operations; len(rest) > 0; last.parts++ {
			part := rest[:min(len(rest), s.partSize)]
			rest = rest[len(part):]
			put := clientv3.OpPut(s.partKey(next.Position, int(last.parts)), string(part))
			if err := l.attempt(ctx, next.Position, put); err != nil {
				// The record is not in the log without its last key, which was not sent.
				return refused(err)
			}
		}
		last.operations = nil
	}
	err := l.attempt(ctx, next.Position, clientv3.OpPut(s.logKey(record.Number), last.encode()),
		clientv3.OpPut(s.headKey(), next.encode()))
	if err != nil {
		return err
	}
	if !l.Leads() {
		return l.Err() // the record is in the log, but the caller may no longer answer
	}
	l.head = next
	return nil
}

// attempt sends a write until its outcome is known, the lease ends or Options.Timeout is over.
func (l *Leadership) attempt(ctx context.Context, record Position, puts ...clientv3.Op) error {
	s := l.sequence
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	open := false // an earlier attempt may still be carried out
	for {
		limited, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), s.Lease/3)
		response, err := s.client.Txn(limited).
			If(append(l.guard(), clientv3.Compare(clientv3.Value(s.headKey()), "=", l.head.encode()))...).
			Then(puts...).
			Commit()
		cancel()
		switch {
		case err == nil && response.Succeeded:
			return nil
		case err == nil:
			// A branch for this case would make every successful transaction slower.
			return l.prevented(ctx, record)
		case errors.Is(err, rpctypes.ErrNoSpace):
			// etcd may have carried the transaction out
			// (https://github.com/etcd-io/etcd/issues/16659). Once it has answered, it will not do
			// so later.
			if in, readErr := l.contains(ctx, record); readErr == nil && in {
				return nil
			} else if readErr == nil && !open {
				return refused(&NoSpaceError{})
			}
		case neverCarriedOut(err) && !open:
			return refused(s.explain(ctx, err))
		case !errors.Is(err, rpctypes.ErrTooManyRequests):
			open = true
		}
		if !l.Leads() {
			return l.Err()
		}
		select {
		case <-ctx.Done():
			if !l.Leads() {
				return l.Err()
			}
			return fmt.Errorf("wait for etcd: %w", ctx.Err())
		case <-s.Clock.After(repeatPause):
		}
	}
}

// prevented returns the outcome of a transaction whose condition did not hold. No attempt with the
// same condition can be carried out later: the head and the leader's key never return to what they
// were.
func (l *Leadership) prevented(ctx context.Context, record Position) error {
	s := l.sequence
	response, err := s.transaction(ctx, func(txn clientv3.Txn) clientv3.Txn {
		return txn.Then(clientv3.OpGet(s.logKey(record.Number)), clientv3.OpGet(s.headKey()),
			clientv3.OpGet(l.key), clientv3.OpGet(s.fleetKey()))
	})
	if err != nil {
		return fmt.Errorf("find out why etcd did not carry the transaction out: %w", err)
	}
	newest, err := headOf(response.Responses[1].GetResponseRange().Kvs)
	if err == nil && newest.Position == record {
		return nil // an earlier attempt was carried out
	}
	kvs := response.Responses[0].GetResponseRange().Kvs
	if len(kvs) > 0 {
		if found, err := decodeEntry(kvs[0].Value); err == nil && found.digest == record.Digest {
			return nil // and a later leader went on
		}
	}
	if len(kvs) == 0 && err == nil && newest.Number >= record.Number {
		return fmt.Errorf("the log had a record %d, which was compacted", record.Number)
	}
	cause := errRemoved
	own := response.Responses[2].GetResponseRange().Kvs
	if len(own) > 0 && own[0].CreateRevision == l.revision {
		switch {
		case err != nil:
			cause = err
		case newest.Number < l.head.Number:
			cause = &OlderError{Head: newest.Number, Have: l.head.Number}
		case newest != l.head:
			cause = &DivergedError{Number: l.head.Number}
		}
		if _, err := s.fleetOf(response.Responses[3].GetResponseRange().Kvs, nil); err != nil {
			cause = err
		}
	}
	l.end(cause)
	return refused(l.Err())
}

// contains reports whether the log has a record.
func (l *Leadership) contains(ctx context.Context, record Position) (bool, error) {
	response, err := l.sequence.get(ctx, l.sequence.logKey(record.Number))
	if err != nil || len(response.Kvs) == 0 {
		return false, err
	}
	found, err := decodeEntry(response.Kvs[0].Value)
	return err == nil && found.digest == record.Digest, err
}

func refused(err error) error { return &wal.RefusedError{Err: err} }

// neverCarriedOut reports whether etcd rejected a request before it began to carry it out.
func neverCarriedOut(err error) bool {
	return refusesAccess(err) || errors.Is(err, rpctypes.ErrRequestTooLarge)
}
