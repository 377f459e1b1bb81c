// Package kube serves the Kubernetes API: k8s.io/apiserver and apiextensions-apiserver run in the
// process, on the rows of the store. It serves the kinds of Hive, the Assisted Installer, metal3
// and ACM as custom resources, and the few core kinds that they need.
//
// It stores applied objects as rows and does not interpret them. Package controller runs the
// reconcilers that do.
//
// Design: docs/design.md#the-kubernetes-api-in-the-process.
package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/rest"

	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/view"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web/kube/etcd"
)

// Rows returns the rows of the objects.
func Rows() store.Versions { return store.NewVersions(Bucket, 1) }

// Bucket is the name of the objects' bucket in the store. store.Options.Versioned must contain it.
const Bucket = "kubernetes"

// Options configures a [Server].
type Options struct {
	DB      *store.DB
	Objects *objects.Objects
	Box     *sitekey.Box // seals Secrets; nil: Secrets are not sealed
	// Admission checks or changes written objects in this order, in addition to the schemas of the
	// kinds.
	Admission []admission.Interface
	// Current is called before each request for objects. It returns when all earlier changes of the
	// appliance are in the objects. An error means that the context has ended. nil: the objects are
	// always up to date.
	Current func(context.Context) error
	// Watching is called at the start of each watch, and release at its end. It may be nil.
	Watching func() (release func())
	// Progress records how far the garbage collector has followed the changes. nil: each start
	// checks all objects.
	Progress Progress
	// Views are kinds whose objects are computed from other rows.
	Views []view.Kind
	// Open permits every client to do everything (auth: none).
	Open    bool
	Address string // host and port of the API for clients, used in its discovery documents
	Clock   clockwork.Clock
	Logger  *slog.Logger
}

// Progress records how far the garbage collector has followed the changes, so that a start need not
// check all objects. See controller.Follower for the other direction, [Server.Followed].
type Progress interface {
	// FollowerRevision returns the revision from which to continue; ok is false if there is none.
	FollowerRevision() (revision uint64, ok bool, err error)
	// FollowerChecked is called when all objects have been checked.
	FollowerChecked()
}

// Server serves the API. Until it is ready, it responds that the API is starting.
type Server struct {
	options Options
	token   string // token of the clients in this process
	views   []view.Kind
	ready   chan struct{}
	handler atomic.Pointer[http.Handler]
	// stopping is canceled when the API must stop. It is set before handler.
	stopping context.Context
	// own is the transport of the clients in this process. It exists before the API is ready.
	own atomic.Pointer[loopback]
	// collected is the progress of the garbage collector.
	collected collected
}

// New returns a server. It serves the API after Run is called.
func New(options Options) *Server {
	return &Server{options: options, token: uuid.NewString(), ready: make(chan struct{})}
}

// Followed returns the revision up to which the garbage collector has nothing left to do; see
// controller.Follower.
func (s *Server) Followed() (revision uint64, ok bool) { return s.collected.followed() }

// Ready returns a channel that is closed when the API is ready.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Client returns a client of the API within the process. Its requests fail until the API is ready.
func (s *Server) Client() *rest.Config {
	return &rest.Config{Host: "http://in-process", Transport: s, QPS: -1, BearerToken: s.token}
}

// RoundTrip sends a request of a client in this process to the API.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	if own := s.own.Load(); own != nil {
		return own.RoundTrip(r)
	}
	return loopback{s}.RoundTrip(r)
}

// isWatch reports whether a request is a watch, whose response does not end on its own.
func isWatch(r *http.Request) bool {
	return r.URL.Query().Has("watch") || strings.Contains(r.URL.Path, "/watch/")
}

// ServeHTTP answers a request of the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if refused(w, r) {
		return
	}
	if handler := s.handler.Load(); handler != nil {
		if isWatch(r) {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(s.stopping, cancel)()
			r = r.WithContext(ctx)
		}
		(*handler).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	text := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
		`"reason":"ServiceUnavailable","code":503,` +
		`"message":"the Kubernetes API of this appliance is starting; try again in a second",` +
		`"details":{"retryAfterSeconds":1}}` + "\n"
	if _, err := w.Write([]byte(text)); err != nil {
		s.options.Logger.DebugContext(r.Context(), "The error response could not be sent.", "path", r.URL.Path,
			"error", err)
	}
}

// Run builds the API and serves it until the context ends. Then it ends the watches and waits for
// the API's hooks.
func (s *Server) Run(ctx context.Context) error {
	start := time.Now()
	logTo(s.options.Logger)
	if err := s.seed(ctx); err != nil {
		return fmt.Errorf("write the initial objects of the Kubernetes API: %w", err)
	}
	if err := s.seedViews(ctx); err != nil {
		return fmt.Errorf("write the definitions of the views: %w", err)
	}
	// The hooks of the API use a context that outlives ctx, because hooks that can't finish would
	// end the process.
	inside, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	server, err := s.build(etcd.NewClient(inside, s.rows()))
	if err != nil {
		return fmt.Errorf("build the Kubernetes API: %w", err)
	}
	api := server.GenericAPIServer
	defer api.Destroy()
	api.PrepareRun()
	handler := s.withoutWrites(s.current(api.Handler))
	own := loopback{handler}
	s.own.Store(&own)
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	collector := newGarbageCollector(s, newDiscovery(api.DiscoveryGroupManager))
	failed := make(chan error, 1)
	running.Go(func() { failed <- collector.run(ctx, s.ready) })
	// Clients that wait for the definitions check immediately and then every 100 ms.
	server.Informers.Start(inside.Done())
	s.await(ctx, server.Informers.Apiextensions().V1().CustomResourceDefinitions().Informer().HasSynced)
	api.RunPostStartHooks(inside)
	if s.await(ctx, func() bool { return s.answersOK(ctx, own, "/readyz?exclude=poststarthook/crd-informer-synced") }) {
		s.stopping = ctx
		s.handler.Store(&handler)
		close(s.ready)
		s.options.Logger.Info("Kubernetes API started.", "took", time.Since(start).Round(time.Millisecond))
		select {
		case <-ctx.Done():
		case err = <-failed:
		}
	}
	finishing, giveUp := context.WithTimeout(inside, hooksTimeout)
	defer giveUp()
	s.await(finishing, func() bool { return s.answersOK(finishing, own, "/readyz") })
	return errors.Join(err, api.RunPreShutdownHooks())
}

const (
	// readyEvery is the interval of the readiness checks.
	readyEvery = 2 * time.Millisecond
	// hooksTimeout is the time limit for unfinished start hooks when the API stops.
	hooksTimeout = 5 * time.Second
)

// await repeats a check until it succeeds. It returns false if the context ends first.
func (s *Server) await(ctx context.Context, ready func() bool) bool {
	ticker := s.options.Clock.NewTicker(readyEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if ready() {
			return true
		}
		select {
		case <-ctx.Done():
		case <-ticker.Chan():
		}
	}
	return false
}

func (s *Server) answersOK(ctx context.Context, api loopback, path string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://in-process"+path, nil)
	if err != nil {
		return false
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	response, err := api.RoundTrip(request)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close()) == nil && response.StatusCode == http.StatusOK
}

func (s *Server) inNamespaces() inNamespaces { return inNamespaces{s.options.DB, s.options.Objects} }

func (s *Server) rows() etcd.Options {
	return etcd.Options{DB: s.options.DB, Rows: Rows(), Clock: s.options.Clock, Admit: s.inNamespaces().admit}
}
