package etcd

import (
	"context"
	"errors"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"landfall/store"
)

// watcher is the part of the client that watches changes.
type watcher struct {
	*rows
	ctx context.Context

	mu       sync.Mutex
	progress chan struct{} // closed to make each watch report its revision
}

func newWatcher(ctx context.Context, rows *rows) *watcher {
	return &watcher{rows: rows, ctx: ctx, progress: make(chan struct{})}
}

// Watch watches a range from a revision (0: from now on). A watch from a truncated revision gets a
// response with CompactRevision.
func (w *watcher) Watch(ctx context.Context, key string, options ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpGet(key, options...)
	out := make(chan clientv3.WatchResponse)
	from := w.DB.Revision()
	if op.Rev() > 0 {
		from = uint64(op.Rev()) - 1
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(w.ctx, cancel)
	changes := w.Rows.Watch(ctx, w.DB, from, kv{w.rows}.operand(op))
	go func() {
		defer cancel()
		defer stop()
		defer close(out)
		w.run(ctx, changes, op.IsProgressNotify(), out)
	}()
	return out
}

func (w *watcher) run(ctx context.Context, changes *store.ValueWatcher, progress bool,
	out chan<- clientv3.WatchResponse) {
	ticker := w.Clock.NewTicker(w.ProgressEvery)
	defer ticker.Stop()
	send := func(response clientv3.WatchResponse) {
		select {
		case out <- response:
		case <-ctx.Done():
		}
	}
	quiet := true // no response was sent since the last tick
	sendProgress := func() {
		if revision, ok := changes.Progress(); ok && progress {
			send(clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: int64(revision)}})
		}
	}
	for {
		w.mu.Lock()
		requested := w.progress
		w.mu.Unlock()
		select {
		case batch, ok := <-changes.C():
			if !ok {
				if ctx.Err() == nil {
					send(w.end(changes.Err()))
				}
				return
			}
			quiet = false
			send(response(batch))
		case <-ticker.Chan():
			if quiet {
				sendProgress()
			}
			quiet = true
		case <-requested:
			sendProgress()
		}
	}
}

// end is the last response of a watch.
func (w *watcher) end(err error) clientv3.WatchResponse {
	last := clientv3.WatchResponse{Canceled: true}
	if errors.Is(err, store.ErrCompacted) {
		last.CompactRevision = max(Compactor{w.DB}.CompactRevision(), 1)
	}
	return last
}

func response(changes []store.ValueChange) clientv3.WatchResponse {
	events := make([]*clientv3.Event, len(changes))
	for i, change := range changes {
		event := &clientv3.Event{Type: mvccpb.PUT}
		if change.After.Value == nil {
			event.Type = mvccpb.DELETE
			event.Kv = &mvccpb.KeyValue{Key: []byte("/" + change.Key), ModRevision: int64(change.Revision)}
		} else {
			event.Kv = keyValue(change.After)
		}
		if change.Before.Value != nil {
			event.PrevKv = keyValue(change.Before)
		}
		events[i] = event
	}
	last := changes[len(changes)-1].Revision
	return clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: int64(last)}, Events: events}
}

// RequestProgress makes each watch report its revision.
func (w *watcher) RequestProgress(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.progress)
	w.progress = make(chan struct{})
	return nil
}

// Close does nothing: watches end with their contexts.
func (*watcher) Close() error { return nil }
