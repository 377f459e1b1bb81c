package notice

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/egress"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/osimage"
	"landfall/appliance/sitekey"
	"landfall/store"
)

const (
	clusterID  = "0a5d0f3e-0000-4000-8000-000000000001"
	infraEnvID = "0a5d0f3e-0000-4000-8000-000000000002"
	hostID     = "0a5d0f3e-0000-4000-8000-000000000003"
	secret     = "a secret of the receiver"
)

var start = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// site is a database with a service that can be started again.
type site struct {
	*testing.T
	dir   string
	db    *store.DB
	clock *clockwork.FakeClock
	*Service
	log  logBuffer
	stop func() // ends Run

	mu        sync.Mutex
	transport http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	transport := s.transport
	s.mu.Unlock()
	return transport.RoundTrip(r)
}

func newSite(t *testing.T) *site {
	s := &site{T: t, dir: t.TempDir(), clock: clockwork.NewFakeClockAt(start), transport: http.DefaultTransport}
	s.open()
	t.Cleanup(func() { s.close() })
	return s
}

func (s *site) open() {
	s.Helper()
	var err error
	s.db, err = store.Open(s.Context(), s.dir, store.Options{Clock: s.clock})
	require.NoError(s, err)
	key, err := sitekey.LoadOrCreate(s.dir)
	require.NoError(s, err)
	box, err := key.Box(SecretsPurpose, nil)
	require.NoError(s, err)
	s.Service = New(Options{DB: s.db, Secrets: box, Transport: s, CheckURL: func(string) error { return nil },
		URL: "https://landfall.test", Clock: s.clock, Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
}

func (s *site) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Service.Run(ctx) }()
	s.stop = func() {
		cancel()
		require.NoError(s, <-done)
		s.stop = nil
	}
}

func (s *site) close() {
	if s.stop != nil {
		s.stop()
	}
	require.NoError(s, s.db.Close())
}

// only makes requests obey rules for outgoing requests, and trust a CA (PEM).
func (s *site) only(options egress.Options, bundle []byte) {
	rules, err := egress.New(options)
	require.NoError(s, err)
	transport, err := osimage.NewTransport("", func() []byte { return bundle }, rules)
	require.NoError(s, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transport, s.CheckURL = transport, rules.CheckURL
}

// states writes an event of a state change and returns its key.
func (s *site) states(name string, host bool, props event.Props, message string) {
	s.Helper()
	cluster, infraEnv := strfmt.UUID(clusterID), strfmt.UUID(infraEnvID)
	ev := event.Event{Name: name, Severity: models.EventSeverityInfo, Message: message, Props: props, Cluster: &cluster}
	if host {
		id := strfmt.UUID(hostID)
		ev.Host, ev.InfraEnv = &id, &infraEnv
	}
	row, err := ev.Row(s.clock.Now(), "")
	require.NoError(s, err)
	require.NoError(s, s.db.Update(s.Context(), func(tx *store.Tx) error {
		return event.Rows.Put(tx, event.Key(event.ID{Revision: tx.Revision()}, ev.Subjects()), row)
	}))
}

func (s *site) cluster(status string) {
	s.states(event.ClusterStatus, false, event.Props{"src_status": "installing", "cluster_status": status},
		lifecycle.ClusterStateSentence("east", status, ""))
}

func (s *site) host(status, info string) {
	s.states(event.HostStatus, true, event.Props{"src_status": "installing", "new_status": status, "info": info},
		lifecycle.HostStateSentence("node-1", status, info, ""))
}

// objects writes the cluster and the host of the events.
func (s *site) objects(status string) {
	id, host := strfmt.UUID(clusterID), strfmt.UUID(hostID)
	require.NoError(s, s.db.Update(s.Context(), func(tx *store.Tx) error {
		row := &record.Cluster{API: models.Cluster{ID: &id, Name: "east", Status: &status}}
		if err := record.Clusters.Put(tx, clusterID, row); err != nil {
			return err
		}
		h := &record.Host{Hostname: "node-1"}
		h.API.ID, h.API.InfraEnvID, h.API.ClusterID = &host, infraEnvID, &id
		return record.Hosts.Put(tx, record.HostKey(h), h)
	}))
}

func (s *site) listed() []*Notification {
	list, err := s.List(func(string) bool { return true })
	require.NoError(s, err)
	return list
}

func (s *site) webhook() Webhook {
	list, err := s.Webhooks()
	require.NoError(s, err)
	require.Len(s, list, 1)
	return list[0]
}

func (s *site) eventually(holds func() bool, message string) {
	s.Helper()
	require.Eventually(s, holds, time.Minute, 5*time.Millisecond, message)
}

// receiver is a web server that takes notifications. It answers with the statuses in turn, and
// repeats the last one. Status 0 closes the connection without an answer.
type receiver struct {
	*testing.T
	*httptest.Server

	mu       sync.Mutex
	statuses []int
	got      []received
}

type received struct {
	header http.Header
	body   []byte
}

func newReceiver(t *testing.T, statuses ...int) *receiver {
	r := &receiver{T: t, statuses: statuses}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Server.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	status := r.statuses[0]
	if len(r.statuses) > 1 {
		r.statuses = r.statuses[1:]
	}
	if err == nil {
		r.got = append(r.got, received{request.Header, body})
	}
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Location", "http://elsewhere.test/")
	w.WriteHeader(status)
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received{}, r.got...)
}

// notification returns a request's body.
func (r received) notification(t *testing.T) (n Notification) {
	t.Helper()
	require.NoError(t, json.Unmarshal(r.body, &n))
	return n
}

// port is a port of this machine at which nobody listens.
func port(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// logBuffer is a buffer for concurrent use.
type logBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

// Write implements io.Writer.
func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(line)
}

// String returns what was logged.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}
