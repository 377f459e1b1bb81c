package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/store"
	"landfall/web/operation"
	"landfall/web/problem"
)

// heartbeat is the interval of pings. Pings keep proxies from closing the connection. A browser
// that receives no ping for three heartbeats shows the appliance as unreachable.
const heartbeat = 15 * time.Second

// feedKinds returns the kinds of objects whose changes the feed reports. They are the names of
// buckets in the store.
func feedKinds() []string {
	return []string{"clusters", "hosts", "infra-envs", "events", "bmcs", "settings", "notifications", "webhooks",
		"hosted-clusters", "hosted-node-pools", "hosted-management"}
}

// Change is one event of the feed: an object was written or deleted.
type Change struct {
	Revision  uint64 `json:"revision"`
	Kind      string `json:"kind"`
	ID        string `json:"id"`
	ClusterID string `json:"cluster_id"` // ID of the object's cluster, or ""
}

// FeedRoute is the route of the live feed. Its responses are endless.
const FeedRoute = BasePath + "/feed"

// Feed configures the live feed.
type Feed struct {
	// Changes is the source of the changes.
	Changes *store.DB
	// ClusterOf returns the cluster of an object, given its kind and key in the store, or "" if it
	// has none or no longer exists. The feed calls it for hosts, infra-envs and events; nil means
	// that no object has a cluster.
	ClusterOf func(ctx context.Context, kind, key string) (string, error)
	// Clock times the heartbeat; nil means the real clock.
	Clock clockwork.Clock
	// Draining is closed when the server shuts down. Feeds end then. See web.Server.Draining.
	Draining <-chan struct{}
	// Logger receives the errors of feeds; nil discards them.
	Logger *slog.Logger
}

// FeedOperations returns the operation of the live feed.
func FeedOperations(options Feed) []operation.Operation {
	if options.Clock == nil {
		options.Clock = clockwork.NewRealClock()
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	f := &feed{options}
	return []operation.Operation{
		{ID: "followChanges", Method: http.MethodGet, Path: FeedRoute, Access: operation.For(access.Viewer).OfOwn(),
			Handler: f.serve, FromCopy: true,
			Endless:    func(*http.Request) bool { return true },
			Summary:    "Follow the changes of all objects, as Server-Sent Events",
			Parameters: []operation.Parameter{{Name: "Last-Event-ID", In: "header"}},
			Status:     http.StatusOK, Answer: operation.File{}, Errors: []int{400}},
	}
}

// feed sends Server-Sent Events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html):
//
//   - change, with a [Change] as data and the revision as ID
//   - ping, every 15 seconds
//   - reset, if the changes since Last-Event-ID are no longer stored: any object may have changed
type feed struct{ Feed }

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
				f.Logger.DebugContext(ctx, "Live feed was interrupted.", "error", err)
			}
			return nil
		}
		from = f.Changes.Revision()
		if err := stream.send("reset", strconv.FormatUint(from, 10), nil); err != nil {
			return nil
		}
	}
}

// start returns the last revision that the browser has received, or the current one.
func (f *feed) start(r *http.Request) (uint64, error) {
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		return f.Changes.Revision(), nil
	}
	revision, err := strconv.ParseUint(last, 10, 64)
	if err != nil {
		return 0,
			problem.BadRequest("the header Last-Event-ID is %q; expected the id of an event of this feed, a whole "+
				"number", last)
	}
	return revision, nil
}

// follow sends the changes after a revision until the context ends, the server shuts down, the
// browser disconnects or the watch ends. It returns nil if the feed must end.
func (f *feed) follow(ctx context.Context, stream *stream, from uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	prefixes := make([]string, len(feedKinds()))
	for i, kind := range feedKinds() {
		prefixes[i] = "/" + kind + "/"
	}
	watcher := f.Changes.Watch(ctx, from, prefixes...)
	ticker := f.Clock.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-f.Draining:
			return nil
		case <-ticker.Chan():
			if err := stream.send("ping", "", nil); err != nil {
				return err
			}
		case changes, open := <-watcher.C():
			if !open {
				return watcher.Err()
			}
			if err := f.send(ctx, stream, changes); err != nil {
				return err
			}
		}
	}
}

// send sends the events of a batch of changes.
func (f *feed) send(ctx context.Context, stream *stream, changes []store.Change) error {
	scope := access.From(ctx).Scope
	for _, change := range changes {
		kind, key, _ := strings.Cut(strings.TrimPrefix(change.Key, "/"), "/")
		event := Change{Revision: change.Revision, Kind: kind, ID: path.Base(key)}
		cluster, err := f.clusterOf(ctx, kind, key)
		if err != nil {
			return fmt.Errorf("find the cluster of %s: %w", change.Key, err)
		}
		event.ClusterID = cluster
		if !inScope(scope, kind, key, cluster) {
			continue
		}
		if err := stream.queue("change", strconv.FormatUint(change.Revision, 10), event); err != nil {
			return err
		}
	}
	return stream.flush()
}

// inScope reports whether a person with a limited scope may know of a change. The keys of hosts and
// infra-envs begin with the ID of the infra-env.
func inScope(scope access.Scope, kind, key, cluster string) bool {
	if !scope.Limited() || cluster != "" && scope.Cluster(cluster) {
		return true
	}
	infraEnv, _, _ := strings.Cut(key, "/")
	return (kind == "infra-envs" || kind == "hosts") && scope.InfraEnv(infraEnv, cluster)
}

func (f *feed) clusterOf(ctx context.Context, kind, key string) (string, error) {
	if kind == "clusters" {
		return key, nil
	}
	if f.Feed.ClusterOf == nil {
		return "", nil
	}
	if kind == "notifications" { // their keys are those of their events
		kind = "events"
	}
	return f.Feed.ClusterOf(ctx, kind, key)
}

// stream writes events in batches.
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
	encoded := []byte("{}") // browsers ignore an event without data
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
