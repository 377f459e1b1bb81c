package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/store"
	"landfall/web/problem"
)

// The time between two heartbeats. It keeps proxies from closing the connection, and a browser that
// hears none for three of them takes the appliance for gone.
const heartbeat = 15 * time.Second

// The kinds of objects whose changes a browser hears of: the buckets of the same names.
var kinds = []string{"clusters", "hosts", "infra-envs", "events", "bmcs"}

// Change is what one event of the feed says: an object was written or deleted.
type Change struct {
	Revision  uint64 `json:"revision"`
	Kind      string `json:"kind"`
	ID        string `json:"id"`
	ClusterID string `json:"cluster_id"` // that the object belongs to, or ""
}

// feed answers with Server-Sent Events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html):
//
//   - change, with a [Change] as data and the revision as id
//   - ping, every 15 seconds
//   - reset, when changes since Last-Event-ID are no longer known one by one: everything may have changed
type feed struct{ options Options }

func (f *feed) serve(c echo.Context) error {
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	from, err := f.start(c.Request())
	if err != nil {
		return err
	}
	header := c.Response().Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	c.Response().WriteHeader(http.StatusOK)
	stream := &stream{response: c.Response()}
	if err := stream.send("ping", "", nil); err != nil {
		return nil
	}
	for {
		err := f.follow(ctx, stream, from)
		if !errors.Is(err, store.ErrCompacted) && !errors.Is(err, store.ErrFutureRevision) {
			if err != nil && ctx.Err() == nil {
				f.options.Logger.DebugContext(ctx, "a live feed broke off", "error", err)
			}
			return nil
		}
		from = f.options.Feed.Revision()
		if err := stream.send("reset", strconv.FormatUint(from, 10), nil); err != nil {
			return nil
		}
	}
}

// start is the revision that the browser has seen; without one, the present.
func (f *feed) start(r *http.Request) (uint64, error) {
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		return f.options.Feed.Revision(), nil
	}
	revision, err := strconv.ParseUint(last, 10, 64)
	if err != nil {
		return 0,
			problem.BadRequest("the header Last-Event-ID is %q; expected the id of an event of this feed, a whole "+
				"number", last)
	}
	return revision, nil
}

// follow sends what changes after a revision until the context ends, the server shuts down, the
// browser is gone or the watch ends. It returns nil when nothing is to be done about it.
func (f *feed) follow(ctx context.Context, stream *stream, from uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	prefixes := make([]string, len(kinds))
	for i, kind := range kinds {
		prefixes[i] = "/" + kind + "/"
	}
	watcher := f.options.Feed.Watch(ctx, from, prefixes...)
	ticker := f.options.Clock.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-f.options.Draining:
			return nil
		case <-ticker.Chan():
			if err := stream.send("ping", "", nil); err != nil {
				return err
			}
		case changes, open := <-watcher.C():
			if !open {
				return watcher.Err()
			}
			if err := f.tell(ctx, stream, changes); err != nil {
				return err
			}
		}
	}
}

func (f *feed) tell(ctx context.Context, stream *stream, changes []store.Change) error {
	for _, change := range changes {
		kind, key, _ := strings.Cut(strings.TrimPrefix(change.Key, "/"), "/")
		told := Change{Revision: change.Revision, Kind: kind, ID: path.Base(key)}
		cluster, err := f.clusterOf(ctx, kind, key)
		if err != nil {
			return fmt.Errorf("find the cluster of %s: %w", change.Key, err)
		}
		told.ClusterID = cluster
		if err := stream.queue("change", strconv.FormatUint(change.Revision, 10), told); err != nil {
			return err
		}
	}
	return stream.flush()
}

func (f *feed) clusterOf(ctx context.Context, kind, key string) (string, error) {
	if kind == "clusters" {
		return key, nil
	}
	if f.options.ClusterOf == nil {
		return "", nil
	}
	return f.options.ClusterOf(ctx, kind, key)
}

// stream writes events, those of one batch together.
type stream struct {
	response *echo.Response
	pending  bytes.Buffer
}

func (s *stream) send(event, id string, data any) error {
	if err := s.queue(event, id, data); err != nil {
		return err
	}
	return s.flush()
}

func (s *stream) queue(event, id string, data any) error {
	encoded := []byte("{}") // an event without data is not dispatched by browsers
	if data != nil {
		var err error
		if encoded, err = json.Marshal(data); err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
	}
	if id != "" {
		fmt.Fprintf(&s.pending, "id: %s\n", id)
	}
	fmt.Fprintf(&s.pending, "event: %s\ndata: %s\n\n", event, encoded)
	return nil
}

func (s *stream) flush() error {
	if _, err := s.response.Write(s.pending.Bytes()); err != nil {
		return err
	}
	s.pending.Reset()
	s.response.Flush()
	return nil
}
