// Package etcd implements an etcd client over the versioned bucket of a store, within the process,
// without a socket and without gRPC. It implements only the operations that the storage of
// k8s.io/apiserver uses.
//
// A key of etcd is a slash followed by a key of the bucket. Revisions are those of the store:
// changes in other buckets increase them too, as changes of other resources do in etcd.
//
// Design: docs/design.md#the-kubernetes-api-in-the-process.
package etcd

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"landfall/store"
)

// Options configures a client.
type Options struct {
	DB    *store.DB
	Rows  store.Versions
	Clock clockwork.Clock
	// ProgressEvery is the interval at which a watch with progress notifications gets the current
	// revision; 0 is a minute.
	ProgressEvery time.Duration
	// Admit returns an error for a key that may not be created. It runs in the transaction of the
	// creation. With nil, each key may be created.
	Admit func(tx *store.Tx, key string) error
}

// NewClient returns a client. Its watches end when the context ends.
func NewClient(ctx context.Context, options Options) *kubernetes.Client {
	if options.ProgressEvery == 0 {
		options.ProgressEvery = time.Minute
	}
	rows := &rows{options}
	client := clientv3.NewCtxClient(ctx)
	client.KV, client.Lease, client.Watcher = kv{rows}, lease{Options: options}, newWatcher(ctx, rows)
	return &kubernetes.Client{Client: client, Kubernetes: optimistic{rows}}
}

// rows reads and writes the bucket.
type rows struct{ Options }

// list reads a range. A single key is the range up to the next key.
func (r *rows) list(ctx context.Context,
	want store.Range) (list []*mvccpb.KeyValue, count int, more bool, revision int64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, false, 0, err
	}
	var found []store.KeyValue
	err = r.DB.View(func(tx *store.Tx) error {
		revision = int64(tx.Revision())
		found, count, more, err = r.Rows.Range(tx, want)
		return err
	})
	list = make([]*mvccpb.KeyValue, len(found))
	for i, row := range found {
		list[i] = keyValue(row)
	}
	return list, count, more, revision, failure(err)
}

func (r *rows) get(key string) (kv *mvccpb.KeyValue, revision int64, err error) {
	err = r.DB.View(func(tx *store.Tx) error {
		revision = int64(tx.Revision())
		row, err := r.Rows.Get(tx, rowKey(key))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		row.Value = append([]byte(nil), row.Value...)
		kv = keyValue(row)
		return err
	})
	if err != nil {
		return nil, 0, failure(err)
	}
	return kv, revision, nil
}

// change runs fn on a row if its last revision is the given one (0: the row does not exist).
// Otherwise it returns the current row.
func (r *rows) change(ctx context.Context, key string, expected int64, fn func(tx *store.Tx,
	key string) error) (done bool, now *mvccpb.KeyValue, revision int64, err error) {
	at := rowKey(key)
	err = r.DB.Update(ctx, func(tx *store.Tx) error {
		done, now = false, nil
		row, err := r.Rows.Get(tx, at)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if int64(row.Modified) != expected {
			if err == nil {
				row.Value = append([]byte(nil), row.Value...)
				now = keyValue(row)
			}
			revision = int64(tx.Revision())
			return nil
		}
		done = true
		if err := fn(tx, at); err != nil {
			return err
		}
		revision = int64(tx.Revision())
		return nil
	})
	return done, now, revision, failure(err)
}

// optimistic is the part of the client with which Kubernetes reads and writes single objects and
// lists.
type optimistic struct{ *rows }

func (o optimistic) Get(ctx context.Context, key string,
	options kubernetes.GetOptions) (kubernetes.GetResponse, error) {
	if options.Revision == 0 {
		if err := ctx.Err(); err != nil {
			return kubernetes.GetResponse{}, err
		}
		kv, revision, err := o.get(key)
		return kubernetes.GetResponse{KV: kv, Revision: revision}, err
	}
	at := rowKey(key)
	list, _, _, revision, err := o.list(ctx, store.Range{From: at, End: at + "\x00", At: uint64(options.Revision)})
	response := kubernetes.GetResponse{Revision: revision}
	if len(list) == 1 {
		response.KV = list[0]
	}
	return response, err
}

func (o optimistic) List(ctx context.Context, prefix string,
	options kubernetes.ListOptions) (kubernetes.ListResponse, error) {
	want := o.withPrefix(prefix)
	want.At, want.Limit, want.Count = uint64(options.Revision), int(options.Limit), true
	if options.Continue != "" {
		want.From = rowKey(options.Continue)
	}
	list, count, _, revision, err := o.list(ctx, want)
	return kubernetes.ListResponse{Kvs: list, Count: int64(count), Revision: revision}, err
}

func (o optimistic) Count(ctx context.Context, prefix string, _ kubernetes.CountOptions) (int64, error) {
	want := o.withPrefix(prefix)
	want.Limit, want.KeysOnly, want.Count = 1, true, true
	_, count, _, _, err := o.list(ctx, want)
	return int64(count), err
}

func (o optimistic) OptimisticPut(ctx context.Context, key string, value []byte, expected int64,
	options kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	done, now, revision, err := o.change(ctx, key, expected, func(tx *store.Tx, at string) error {
		if expected == 0 && o.Admit != nil {
			if err := o.Admit(tx, at); err != nil {
				return err
			}
		}
		return o.put(tx, at, value, options.LeaseID)
	})
	response := kubernetes.PutResponse{Succeeded: done, Revision: revision}
	if options.GetOnFailure {
		response.KV = now
	}
	return response, err
}

func (o optimistic) OptimisticDelete(ctx context.Context, key string, expected int64,
	options kubernetes.DeleteOptions) (kubernetes.DeleteResponse, error) {
	done, now, revision, err := o.change(ctx, key, expected, o.Rows.Delete)
	response := kubernetes.DeleteResponse{Succeeded: done, Revision: revision}
	if options.GetOnFailure {
		response.KV = now
	}
	return response, err
}

// put writes a row. A lease is the time at which the row expires.
func (r *rows) put(tx *store.Tx, at string, value []byte, lease clientv3.LeaseID) error {
	if err := r.Rows.Put(tx, at, value); err != nil || lease == 0 {
		return err
	}
	return r.Rows.Expiry().Set(tx, at, time.Unix(int64(lease), 0))
}

// withPrefix returns the range of all keys with a prefix.
func (r *rows) withPrefix(prefix string) store.Range {
	at := rowKey(prefix)
	return store.Range{From: at, End: r.Rows.End(at)}
}

// kv is the part of the client that reads ranges.
type kv struct{ *rows }

func (k kv) Get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	op := clientv3.OpGet(key, options...)
	want := k.operand(op)
	want.At, want.Limit = uint64(max(op.Rev(), 0)), int(op.Limit())
	want.KeysOnly, want.Count = op.IsKeysOnly() || op.IsCountOnly(), true
	if op.IsCountOnly() {
		want.Limit = 1
	}
	list, count, more, revision, err := k.list(ctx, want)
	if err != nil {
		return nil, err
	}
	if op.IsCountOnly() {
		list, more = nil, false
	}
	return &clientv3.GetResponse{Header: &pb.ResponseHeader{Revision: revision}, Kvs: list, Count: int64(count),
		More: more}, nil
}

// operand returns the range of keys of an operation.
func (k kv) operand(op clientv3.Op) store.Range {
	from, end := rowKey(string(op.KeyBytes())), string(op.RangeBytes())
	switch end {
	case "":
		return store.Range{From: from, End: from + "\x00"}
	case "\x00":
		return store.Range{From: from}
	}
	return store.Range{From: from, End: rowKey(end)}
}

// GetStream returns the result of Get as a stream with one part, because the rows are in memory and
// must have the same revision.
func (k kv) GetStream(ctx context.Context, key string, options ...clientv3.OpOption) (clientv3.GetStreamChan, error) {
	response, err := k.Get(ctx, key, options...)
	if err != nil {
		return nil, err
	}
	stream := make(chan clientv3.RangeStreamResponse, 1)
	stream <- clientv3.RangeStreamResponse{RangeResponse: (*pb.RangeResponse)(response)}
	close(stream)
	return stream, nil
}

// Put writes a key unconditionally.
func (k kv) Put(ctx context.Context, key, value string, options ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	var revision uint64
	err := k.DB.Update(ctx, func(tx *store.Tx) error {
		if err := k.put(tx, rowKey(key), []byte(value), 0); err != nil {
			return err
		}
		revision = tx.Revision()
		return nil
	})
	if err != nil {
		return nil, failure(err)
	}
	return &clientv3.PutResponse{Header: &pb.ResponseHeader{Revision: int64(revision)}}, nil
}

// Compact truncates the log up to a revision.
func (k kv) Compact(ctx context.Context, revision int64,
	_ ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	if err := k.DB.Compact(ctx, uint64(revision)); err != nil {
		return nil, failure(err)
	}
	return &clientv3.CompactResponse{Header: &pb.ResponseHeader{Revision: revision}}, nil
}

var errNotServed = status.Error(codes.Unimplemented, "this operation of etcd is not supported by the store")

func (kv) Delete(context.Context, string, ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	return nil, errNotServed
}

func (kv) Do(context.Context, clientv3.Op) (clientv3.OpResponse, error) {
	return clientv3.OpResponse{}, errNotServed
}

func (kv) Txn(context.Context) clientv3.Txn { return nil }

// lease is the part of the client for expiring objects. A lease is a time that is stored with the
// row.
type lease struct {
	clientv3.Lease // nil: no other method is called
	Options
}

func (l lease) Grant(_ context.Context, seconds int64) (*clientv3.LeaseGrantResponse, error) {
	end := l.Clock.Now().Add(time.Duration(seconds) * time.Second).Unix()
	return &clientv3.LeaseGrantResponse{ID: clientv3.LeaseID(end), TTL: seconds}, nil
}

// Expired deletes at most limit keys whose leases have ended. It returns their number and the end
// of the next lease; the zero time if there is none.
func Expired(ctx context.Context, options Options, limit int) (deleted int, next time.Time, err error) {
	now := options.Clock.Now()
	err = options.DB.Update(ctx, func(tx *store.Tx) error {
		due, err := options.Rows.Expiry().Due(tx, now, limit)
		if err != nil {
			return err
		}
		deleted = len(due)
		for _, deadline := range due {
			if err := options.Rows.Delete(tx, deadline.Key); err != nil {
				return err
			}
		}
		next, _, err = options.Rows.Expiry().Next(tx)
		return err
	})
	return deleted, next, err
}

// Compactor reports to Kubernetes' storage up to which revision the log is truncated.
type Compactor struct{ DB *store.DB }

// CompactRevision returns the revision up to which the log is truncated; 0 also if it can't be
// read.
func (c Compactor) CompactRevision() int64 {
	var revision uint64
	if err := c.DB.View(func(tx *store.Tx) error {
		revision = tx.Compacted()
		return nil
	}); err != nil {
		return 0
	}
	return int64(revision)
}

func rowKey(key string) string { return strings.TrimPrefix(key, "/") }

func keyValue(row store.KeyValue) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{
		Key: []byte("/" + row.Key), Value: row.Value,
		CreateRevision: int64(row.Created), ModRevision: int64(row.Modified), Version: int64(row.Version),
	}
}

// failure converts an error of the store to the etcd error that clients check for.
func failure(err error) error {
	switch {
	case errors.Is(err, store.ErrCompacted):
		return rpctypes.ErrCompacted
	case errors.Is(err, store.ErrFutureRevision):
		return rpctypes.ErrFutureRev
	}
	return err
}
