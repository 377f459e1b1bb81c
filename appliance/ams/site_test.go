package ams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/amstest"
	"landfall/appliance/ams/outbox"
	"landfall/appliance/sitekey"
	"landfall/store"
)

const (
	amsURL = "https://ams.test"
	ssoURL = "https://sso.test" + amstest.TokenPath
)

var ours = amstest.Account{ID: "2GOuAccount", Username: "site", Organization: "2GOuOurs", OrganizationName: "Ours"}

// site is an appliance from the viewpoint of AMS: the outbox in a real store, a relay that the test
// runs step by step, and the test server. The methods that change clusters replace the engine.
type site struct {
	*testing.T
	clock  *clockwork.FakeClock
	ams    *amstest.Server
	db     *store.DB
	relay  *Relay
	secret *memoryCredentials
	events []string
	mu     sync.Mutex
	option func(*Options)
	wire   http.RoundTripper
	key    *sitekey.Key
	full   error // error of each write to the store

	credentials Credentials // secret, or those of the test
	file        string      // the file of the credentials, if any
}

// memoryCredentials holds a secret during the test.
type memoryCredentials struct {
	mu     sync.Mutex
	secret Secret
	broken error
}

func (m *memoryCredentials) Secret(context.Context) (Secret, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.secret, nil
}

func (*memoryCredentials) Remedy() string { return "Enter others." }

func (m *memoryCredentials) Rotate(_ context.Context, _, fresh string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return m.broken
	}
	m.secret.OfflineToken = fresh
	return nil
}

func newSite(t *testing.T, alter ...func(*Options)) *site {
	t.Helper()
	s := &site{T: t, clock: clockwork.NewFakeClockAt(time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)),
		secret: &memoryCredentials{}}
	s.credentials = s.secret
	s.ams = amstest.New(s.clock)
	s.secret.secret.OfflineToken = s.ams.AddAccount(ours)
	s.wire = amstest.Transport{Handler: s.ams}
	s.option = func(o *Options) {
		for _, fn := range alter {
			fn(o)
		}
	}
	dir := t.TempDir()
	s.openStore(dir)
	var err error
	s.key, err = sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	s.restart()
	return s
}

func (s *site) openStore(dir string) {
	s.Helper()
	db, err := store.Open(s.Context(), dir, store.Options{Clock: s.clock, NoSync: true})
	require.NoError(s, err)
	s.db = db
	s.Cleanup(func() { require.NoError(s, db.Close()) })
}

// restart replaces the relay, as a new process would.
func (s *site) restart() {
	client := NewClient(ClientOptions{
		URL: amsURL, TokenURL: ssoURL, Transport: s.wire, Credentials: s.credentials, UserAgent: "landfall/test",
		Clock:  s.clock,
		Logger: slog.New(slog.DiscardHandler), Limits: Limits{Call: 2 * time.Second},
	})
	options := Options{
		DB: s.db, Clusters: s, Client: client, URL: amsURL, Credentials: s.credentials, Clock: s.clock,
		Logger:  slog.New(slog.DiscardHandler),
		Workers: 2, Machine: "here", Key: s.key, Jitter: func(upTo time.Duration) time.Duration { return upTo },
	}
	s.option(&options)
	s.relay = New(options)
	require.NoError(s, s.scan())
}

// RecordSubscription replaces the engine's method.
func (s *site) RecordSubscription(ctx context.Context, clusterID, _, note string, refused bool,
	write func(*store.Tx) error) error {
	s.mu.Lock()
	full := s.full
	s.mu.Unlock()
	if full != nil {
		return full
	}
	err := s.db.Update(ctx, write)
	if err == nil && note != "" {
		s.mu.Lock()
		s.events = append(s.events, fmt.Sprintf("%s %t %s", clusterID, refused, note))
		s.mu.Unlock()
	}
	return err
}

// offline breaks every call until heal.
func (s *site) offline() { s.wireDown(true) }

func (s *site) online() { s.wireDown(false) }

func (s *site) wireDown(down bool) {
	s.ams.Heal()
	if down {
		s.ams.Break(amstest.Fault{Do: amstest.DropBefore()})
		s.ams.Break(amstest.Fault{Op: "token", Do: amstest.DropBefore()})
	}
}

// desire changes the desired state of a cluster, as the engine does together with the cluster.
func (s *site) desire(id string, fn func(*outbox.Desired)) {
	s.Helper()
	require.NoError(s, s.db.Update(context.Background(), func(tx *store.Tx) error {
		held, err := outbox.DesiredRows.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			held = &outbox.Desired{Phase: outbox.Reserved, CreatedAt: s.clock.Now().UTC()}
		} else if err != nil {
			return err
		}
		wanted := *held
		fn(&wanted)
		next, changed := held.Next(wanted, s.clock.Now().UTC())
		if !changed {
			return nil
		}
		return outbox.PutDesired(tx, id, &next)
	}))
	s.relay.enqueue(id, s.clock.Now(), false)
}

func (s *site) register(name string) string {
	s.Helper()
	id := uuid.NewString()
	s.rename(id, name)
	return id
}

func (s *site) rename(id, name string) {
	s.Helper()
	s.desire(id, func(d *outbox.Desired) { d.DisplayName = name })
}

// prepare sets the external ID of a cluster, which an installation creates.
func (s *site) prepare(id, external string) {
	s.Helper()
	s.desire(id, func(d *outbox.Desired) { d.ExternalClusterID = external })
}

func (s *site) install(id, external, domain string) {
	s.Helper()
	s.prepare(id, external)
	s.desire(id, func(d *outbox.Desired) { d.ConsoleURL = "https://console-openshift-console.apps." + domain })
	s.desire(id, func(d *outbox.Desired) { d.Phase, d.MustExist = outbox.Active, true })
}

func (s *site) delete(id string) {
	s.Helper()
	require.NoError(s, s.db.Update(context.Background(), func(tx *store.Tx) error {
		return outbox.Close(tx, id,
			false, s.clock.Now().UTC())
	}))
	s.relay.enqueue(id, s.clock.Now(), false)
}

// settle runs the relay until it waits for a time, for at most the given time.
func (s *site) settle(span time.Duration) {
	s.Helper()
	end := s.clock.Now().Add(span)
	for range 2000 {
		next := s.relay.step(context.Background())
		if next.IsZero() || next.After(end) {
			return
		}
		if wait := next.Sub(s.clock.Now()); wait > 0 {
			if s.idle() {
				return
			}
			s.clock.Advance(wait)
		}
	}
	s.Fatal("the relay does not become idle")
}

func (s *site) idle() bool {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	return len(s.relay.jobs) == 0
}

const soon = 2 * time.Hour

func (s *site) recorded(id string) outbox.Recorded {
	s.Helper()
	var r outbox.Recorded
	require.NoError(s, s.db.View(func(tx *store.Tx) error {
		held, err := outbox.RecordedRows.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err == nil {
			r = *held
		}
		return err
	}))
	return r
}

// line returns a cluster's status.
func (s *site) line(id string) ClusterStatus {
	s.Helper()
	status, err := s.relay.Status(context.Background(), Selection{ClusterID: id})
	require.NoError(s, err)
	if len(status.Clusters) == 0 {
		return ClusterStatus{}
	}
	return status.Clusters[0]
}

func (s *site) state() State {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	return s.relay.state
}

// row returns the only subscription of a cluster in AMS.
func (s *site) row(id string) map[string]any {
	s.Helper()
	rows := s.ams.RowsOf(id)
	require.Len(s, rows, 1, "subscriptions of cluster %s", id)
	return rows[0]
}

func (s *site) requireRow(id, status string, fields map[string]any) {
	s.Helper()
	row := s.row(id)
	require.Equal(s, status, row["status"])
	for name, value := range fields {
		require.Equal(s, value, row[name], name)
	}
}

func (s *site) requireGone(id string) {
	s.Helper()
	for _, row := range s.ams.RowsOf(id) {
		require.Equal(s, "Deprovisioned", row["status"])
	}
}

func (s *site) calls(ops ...string) []string {
	var found []string
	for _, r := range s.ams.Requests() {
		if r.Op == "token" || r.Op == "account" {
			continue
		}
		if len(ops) == 0 {
			found = append(found, r.Op)
		}
		for _, op := range ops {
			if r.Op == op {
				found = append(found, op)
			}
		}
	}
	return found
}

// patches returns the bodies of the PATCH calls.
func (s *site) patches() []map[string]any {
	s.Helper()
	var found []map[string]any
	for _, r := range s.ams.Requests("update") {
		var fields map[string]any
		require.NoError(s, json.Unmarshal(r.Body, &fields))
		delete(fields, "kind")
		found = append(found, fields)
	}
	return found
}

func (s *site) hasEvent(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(strings.Join(s.events, "\n"), text)
}

// reset drops the recorded calls and events.
func (s *site) reset() {
	s.ams.ClearRequests()
	s.mu.Lock()
	s.events = nil
	s.mu.Unlock()
}

const (
	external  = "da1c2141-9aaf-477b-b061-ab9cf5746ae9"
	external2 = "5e1c2141-9aaf-477b-b061-ab9cf5746ae9"
)

func TestRelay_registrationToInstallation(t *testing.T) {
	s := newSite(t)
	id := s.register("one")
	s.settle(soon)
	s.requireRow(id, "Reserved", map[string]any{"display_name": "one", "organization_id": ours.Organization})
	var body map[string]any
	require.NoError(t, json.Unmarshal(s.ams.Requests("create")[0].Body, &body))
	require.Equal(t, map[string]any{
		"account_username": "site", "product_category": "AssistedInstall", "product_id": "OCP", "cluster_id": id,
		"display_name": "one",
		"managed":      false, "resources": []any{}, "reserve": true,
	}, body)
	s.rename(id, "two")
	s.settle(soon)
	s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
	s.install(id, external, "two.example.com")
	s.settle(soon)
	s.requireRow(id, "Active", map[string]any{"external_cluster_id": external,
		"console_url": "https://console-openshift-console.apps.two.example.com"})
	require.Equal(t, []map[string]any{
		{"display_name": "two"},
		{"external_cluster_id": external, "console_url": "https://console-openshift-console.apps.two.example.com",
			"status": "Active"},
	}, s.patches(), "one call with all pending changes")
	require.Equal(t, ClusterSent, s.line(id).State)
	require.True(t, s.hasEvent("the status Active"))
	s.reset()
	s.settle(soon)
	require.Empty(t, s.calls())
}
