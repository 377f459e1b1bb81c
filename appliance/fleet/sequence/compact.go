package sequence

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Kept says which records of the log Compact keeps.
type Kept struct {
	After uint64 // number of the newest record that all connected members have for certain
	// Least is the size of the newest records that are kept for members that come back, in bytes.
	Least uint64
	// Most limits the size of the kept records, in bytes. A member that needs older ones needs a
	// snapshot.
	Most uint64
}

// Compact removes the oldest records. If etcd has only this fleet, Compact also compacts etcd
// itself, which otherwise keeps what was removed. An etcd with keys of others is compacted by its
// owner (--auto-compaction-retention).
func (l *Leadership) Compact(ctx context.Context, kept Kept) error {
	s := l.sequence
	now, err := s.read(ctx)
	if err != nil {
		return err
	}
	response, err := s.get(ctx, s.Prefix+"log/", clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil || len(response.Kvs) == 0 {
		return err
	}
	oldest, err := s.numberOf(response.Kvs[0])
	if err != nil {
		return err
	}
	least, err := s.beforeLast(ctx, oldest-1, now.head, kept.Least)
	if err != nil {
		return err
	}
	most, err := s.beforeLast(ctx, oldest-1, now.head, kept.Most)
	if err != nil {
		return err
	}
	if through := max(min(kept.After, least), most); through >= oldest {
		return l.remove(ctx, through)
	}
	return nil
}

// beforeLast returns the first number, from a number on, after which at most size bytes follow.
func (s *Sequence) beforeLast(ctx context.Context, from uint64, newest head, size uint64) (uint64, error) {
	var err error
	found := sort.Search(int(newest.Number-from), func(i int) bool {
		before := uint64(0)
		if err == nil {
			before, err = s.sizeBefore(ctx, from+uint64(i)+1)
		}
		return newest.size-before <= size
	})
	return from + uint64(found), err
}

// sizeBefore returns the number of bytes that were appended before a record.
func (s *Sequence) sizeBefore(ctx context.Context, number uint64) (uint64, error) {
	response, err := s.get(ctx, s.logKey(number))
	if err != nil {
		return 0, err
	}
	if len(response.Kvs) == 0 {
		return 0, &DamagedError{Key: s.logKey(number), Err: errMissing}
	}
	found, err := decodeEntry(response.Kvs[0].Value)
	if err != nil {
		return 0, &DamagedError{Key: s.logKey(number), Err: err}
	}
	return found.before, nil
}

// remove removes all records up to a number, on condition that this member is the leader.
func (l *Leadership) remove(ctx context.Context, through uint64) error {
	s := l.sequence
	response, err := s.transaction(ctx, func(txn clientv3.Txn) clientv3.Txn {
		return txn.If(l.guard()...).Then(
			clientv3.OpDelete(s.logKey(0), clientv3.WithRange(s.logKey(through+1))),
			clientv3.OpDelete(s.Prefix+"parts/",
				clientv3.WithRange(fmt.Sprintf("%sparts/%016x/", s.Prefix, through+1))))
	})
	if err != nil {
		return err
	}
	if !response.Succeeded {
		l.end(errRemoved)
		return l.Err()
	}
	return s.forget(ctx, response.Header.Revision)
}

// forget compacts etcd up to a revision, unless it has keys of others.
func (s *Sequence) forget(ctx context.Context, revision int64) error {
	all, err := s.get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly())
	if _, denied := errors.AsType[*AccessError](err); denied {
		return nil // so others use it
	}
	if err != nil {
		return err
	}
	own, err := s.get(ctx, s.Prefix, clientv3.WithPrefix(), clientv3.WithCountOnly(),
		clientv3.WithRev(all.Header.Revision))
	if err != nil || own.Count != all.Count {
		return err
	}
	limited, cancel := s.limit(ctx)
	defer cancel()
	if _, err := s.client.Compact(limited, revision); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return s.explain(ctx, err)
	}
	return nil
}
