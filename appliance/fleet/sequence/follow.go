package sequence

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"landfall/store/wal"
)

// pageRecords is the number of records that are read at once, of at most 1 MiB each.
const pageRecords = 32

// lookInterval is the time between two looks at what is watched, in case the watch gets no answers.
func (s *Sequence) lookInterval() time.Duration { return s.Lease * 2 / 3 }

// Follow calls apply for the records after a position, in order and as they are appended, until ctx
// ends or an error occurs. An error of apply is returned unchanged. After an *UnreachableError,
// call Follow again; after a *CompactedError, the caller needs a snapshot; an *OlderError or a
// *DivergedError means that etcd was restored.
func (s *Sequence) Follow(ctx context.Context, after Position, apply func([]wal.Record) error) error {
	f := follower{sequence: s, newest: after, apply: apply}
	for {
		revision, err := f.catchUp(ctx)
		if err != nil {
			return err
		}
		if err := f.watch(ctx, revision+1); err != nil {
			return err
		}
	}
}

// follower is the state of one Follow.
type follower struct {
	sequence *Sequence
	newest   Position // that was applied
	apply    func([]wal.Record) error
}

// check returns the head after it was compared with the newest applied record.
func (f *follower) check(ctx context.Context) (state, error) {
	now, err := f.sequence.read(ctx)
	switch {
	case err != nil:
		return state{}, err
	case now.head.Number < f.newest.Number:
		return state{}, &OlderError{Head: now.head.Number, Have: f.newest.Number}
	case differ(now.head.Position, f.newest):
		return state{}, &DivergedError{Number: f.newest.Number}
	}
	return now, nil
}

// catchUp applies all records up to the head. It returns the revision of etcd at which that was the
// head.
func (f *follower) catchUp(ctx context.Context) (int64, error) {
	s := f.sequence
	now, err := f.check(ctx)
	if err != nil {
		return 0, err
	}
	for f.newest.Number < now.head.Number {
		// The newest applied record is read again, to see that it is the same.
		before := f.newest.Number
		response, err := s.get(ctx, s.logKey(before), clientv3.WithRange(s.logKey(now.head.Number)+"\x00"),
			clientv3.WithLimit(pageRecords))
		if err != nil {
			return 0, err
		}
		if err := f.take(ctx, response.Kvs); err != nil {
			return 0, err
		}
		if f.newest.Number == before { // compacted meanwhile
			return 0, &CompactedError{First: now.head.Number + 1, Needed: before + 1}
		}
	}
	return now.revision, nil
}

// watch applies records as they are appended. It returns nil when the log must be read again.
func (f *follower) watch(ctx context.Context, revision int64) error {
	s := f.sequence
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	events := s.client.Watch(watching, s.Prefix+"log/", clientv3.WithPrefix(), clientv3.WithRev(revision),
		clientv3.WithFilterDelete())
	look := s.Clock.NewTicker(s.lookInterval())
	defer look.Stop()
	seen := f.newest.Number // the head at the last look
	for {
		select {
		case response, ok := <-events:
			if !ok || response.Err() != nil {
				// The server has no leader, or somebody compacted etcd. The log is read again.
				return ctx.Err()
			}
			kvs := make([]*mvccpb.KeyValue, 0, len(response.Events))
			for _, event := range response.Events {
				kvs = append(kvs, event.Kv)
			}
			if len(kvs) == 0 {
				continue
			}
			if err := f.take(ctx, kvs); err != nil {
				return err
			}
		case <-look.Chan():
			// A watch reports neither a lost connection nor that etcd was restored from an older
			// snapshot: it then waits for a revision that comes much later.
			now, err := f.check(ctx)
			if err != nil {
				return err
			}
			if f.newest.Number < seen {
				return nil
			}
			seen = now.head.Number
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take applies records from the values of their keys.
func (f *follower) take(ctx context.Context, kvs []*mvccpb.KeyValue) error {
	records := make([]wal.Record, 0, len(kvs))
	last := f.newest
	for _, kv := range kvs {
		position, value, err := f.sequence.decode(kv)
		switch {
		case err != nil:
			return err
		case position.Number > last.Number+1:
			return &CompactedError{First: position.Number, Needed: last.Number + 1}
		case differ(position, last):
			return &DivergedError{Number: last.Number}
		case position.Number <= last.Number:
			continue
		}
		record, err := f.sequence.join(ctx, position, value)
		if err != nil {
			return err
		}
		records = append(records, record)
		last = position
	}
	if len(records) == 0 {
		return nil
	}
	if err := f.apply(records); err != nil {
		return err
	}
	f.newest = last
	return nil
}

// decode returns the position of the record of a key, and the key's value.
func (s *Sequence) decode(kv *mvccpb.KeyValue) (Position, entry, error) {
	number, err := s.numberOf(kv)
	if err != nil {
		return Position{}, entry{}, err
	}
	value, err := decodeEntry(kv.Value)
	if err != nil {
		return Position{}, entry{}, &DamagedError{Key: string(kv.Key), Err: err}
	}
	return Position{Number: number, Digest: value.digest}, value, nil
}

// join returns a record with its parts.
func (s *Sequence) join(ctx context.Context, position Position, value entry) (wal.Record, error) {
	record := wal.Record{Number: position.Number, Operations: value.operations}
	for part := range int(value.parts) {
		response, err := s.get(ctx, s.partKey(position, part))
		if err != nil {
			return wal.Record{}, err
		}
		if len(response.Kvs) == 0 {
			return wal.Record{}, s.missingPart(ctx, record.Number, part)
		}
		record.Operations = append(record.Operations, response.Kvs[0].Value...)
	}
	if record.Position() != position {
		return wal.Record{}, &DamagedError{Key: s.logKey(record.Number), Err: errDigest}
	}
	return record, nil
}

var errDigest = errors.New("its digest is that of other operations")

func (s *Sequence) numberOf(kv *mvccpb.KeyValue) (uint64, error) {
	number, err := strconv.ParseUint(strings.TrimPrefix(string(kv.Key), s.Prefix+"log/"), 16, 64)
	if err != nil {
		return 0, &DamagedError{Key: string(kv.Key), Err: err}
	}
	return number, nil
}

// missingPart returns the error for a record without one of its parts: the record was compacted
// while it was read, or it is damaged.
func (s *Sequence) missingPart(ctx context.Context, number uint64, part int) error {
	response, err := s.get(ctx, s.logKey(number), clientv3.WithKeysOnly())
	switch {
	case err != nil:
		return err
	case len(response.Kvs) == 0:
		return &CompactedError{First: number + 1, Needed: number}
	}
	return &DamagedError{Key: s.logKey(number), Err: fmt.Errorf("part %d is missing", part)}
}
