// Package kube serves the Kubernetes API: k8s.io/apiserver and apiextensions-apiserver in the process, upon the rows of the store, with the
// kinds of Hive, the Assisted Installer, metal3 and ACM as custom resources, and the few core kinds that come with them.
//
// It knows nothing of what the objects mean: what is applied becomes rows, and package controller has others act on them.
package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/rest"

	"landfall/appliance/objects"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web/kube/etcd"
)

// Rows are the rows that the objects are.
func Rows() store.Versions { return store.NewVersions(Bucket, 1) }

// Bucket is the name of the store's bucket that the objects are in: what store.Options.Versioned must say.
const Bucket = "kubernetes"

// Options are what a [Server] is made from.
type Options struct {
	DB      *store.DB
	Objects *objects.Objects
	Box     *sitekey.Box // that Secrets are sealed with; nil: they are not
	// Admission refuses or alters what clients write, beside the rules of the kinds' schemas; in this order.
	Admission []admission.Interface
	Address   string // host and port that clients reach the API at, for its discovery documents
	Clock     clockwork.Clock
	Logger    *slog.Logger
}

// Server is the API. Until it is ready it answers that it is starting.
type Server struct {
	options Options
	token   string // of the process's own clients
	ready   chan struct{}
	handler atomic.Pointer[http.Handler]
	own     atomic.Pointer[loopback] // what the process's own clients talk to; it is there before the API is ready
}

// New returns a server that serves nothing yet; making it costs nothing.
func New(options Options) *Server {
	return &Server{options: options, token: uuid.NewString(), ready: make(chan struct{})}
}

// Ready is closed when the API is served.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Client is a client of the API within the process; its requests fail until the API is ready.
func (s *Server) Client() *rest.Config {
	return &rest.Config{Host: "http://in-process", Transport: s, QPS: -1, BearerToken: s.token}
}

// RoundTrip lets the process's own clients talk to the API from the moment that it exists.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	if own := s.own.Load(); own != nil {
		return own.RoundTrip(r)
	}
	return loopback{s}.RoundTrip(r)
}

// ServeHTTP answers a request of the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler := s.handler.Load(); handler != nil {
		(*handler).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	text := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"ServiceUnavailable","code":503,` +
		`"message":"the Kubernetes API of this appliance is starting; try again in a second","details":{"retryAfterSeconds":1}}` + "\n"
	if _, err := w.Write([]byte(text)); err != nil {
		s.options.Logger.DebugContext(r.Context(), "an error could not be sent", "path", r.URL.Path, "error", err)
	}
}

// Run makes the API and serves it until the context ends; then watches and requests end.
func (s *Server) Run(ctx context.Context) error {
	start := time.Now()
	logTo(s.options.Logger)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.seed(ctx); err != nil {
		return fmt.Errorf("write what the Kubernetes API begins with: %w", err)
	}
	client := etcd.NewClient(ctx, s.rows())
	api, err := s.build(client)
	if err != nil {
		return fmt.Errorf("make the Kubernetes API: %w", err)
	}
	defer api.Destroy()
	api.PrepareRun()
	var inner http.Handler = api.Handler
	own := loopback{inner}
	s.own.Store(&own)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	keeper := newKeeper(s, newDiscovery(api.DiscoveryGroupManager))
	failed := make(chan error, 1)
	running.Go(func() { failed <- keeper.run(ctx) })
	api.RunPostStartHooks(ctx)
	if err := s.awaitReady(ctx, own); err != nil {
		return err
	}
	s.handler.Store(&inner)
	close(s.ready)
	s.options.Logger.Info("The Kubernetes API is served.", "took", time.Since(start).Round(time.Millisecond))
	select {
	case <-ctx.Done():
		return api.RunPreShutdownHooks()
	case err := <-failed:
		return errors.Join(err, api.RunPreShutdownHooks())
	}
}

// awaitReady asks the API whether it is ready until it is. The check that is left out looks for what others look for as well, but only every 100 ms.
func (s *Server) awaitReady(ctx context.Context, api loopback) error {
	ticker := s.options.Clock.NewTicker(readyEvery)
	defer ticker.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://in-process/readyz?exclude=poststarthook/crd-informer-synced", nil)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+s.token)
		response, err := api.RoundTrip(request)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			err = errors.Join(err, response.Body.Close())
		}
		if err == nil && response.StatusCode == http.StatusOK || ctx.Err() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-ticker.Chan():
		}
	}
}

// readyEvery is how often a starting API is asked whether it is ready.
const readyEvery = 2 * time.Millisecond

func (s *Server) rows() etcd.Options {
	return etcd.Options{DB: s.options.DB, Rows: Rows(), Clock: s.options.Clock}
}
