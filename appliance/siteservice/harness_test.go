package siteservice

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/presence"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/siteservice/link"
	"landfall/store"
)

// eth1 is the interface of the tests.
func eth1(prefixes ...string) link.Link {
	l := link.Link{Name: "eth1", Index: 2}
	for _, prefix := range prefixes {
		l.Prefixes = append(l.Prefixes, netip.MustParsePrefix(prefix))
	}
	return l
}

// bench is a site with a store, a clock and an interface whose addresses change.
type bench struct {
	db    *store.DB
	clock *clockwork.FakeClock
	log   *slog.Logger

	limited atomic.Int32 // listeners whose connections are limited

	mu   sync.Mutex
	link link.Link
}

func newBench(t *testing.T) *bench {
	t.Helper()
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &bench{db: db, clock: clockwork.NewFakeClock(), log: slog.New(slog.DiscardHandler),
		link: eth1("192.0.2.10/24")}
}

func (b *bench) links(string) (link.Link, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.link, nil
}

func (b *bench) move(to link.Link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.link = to
}

// manager returns a manager of the site's services.
func (b *bench) manager(t *testing.T, configured Configured) *Manager {
	t.Helper()
	m, err := New(Options{DB: b.db, Configured: configured, Links: b.links,
		Site:      view.NewReader(b.db, nil, nil, presence.New(b.clock.Now(), time.Minute)),
		Resolvers: func() []netip.AddrPort { return nil }, Clock: b.clock, Logger: b.log,
		Limit: func(listener net.Listener) net.Listener {
			b.limited.Add(1)
			return listener
		}})
	require.NoError(t, err)
	return m
}

// addCluster stores a cluster and returns its ID.
func (b *bench) addCluster(t *testing.T, cluster models.Cluster) string {
	t.Helper()
	id := strfmt.UUID(uuid.NewString())
	cluster.ID = &id
	require.NoError(t, b.db.Update(t.Context(), func(tx *store.Tx) error {
		return record.Clusters.Put(tx, id.String(), &record.Cluster{API: cluster})
	}))
	return id.String()
}

// addHost stores a host of a cluster with one interface, and returns its key.
func (b *bench) addHost(t *testing.T, clusterID, infraEnvID, name, mac, prefix string) string {
	t.Helper()
	id, cluster := strfmt.UUID(uuid.NewString()), strfmt.UUID(clusterID)
	host := &record.Host{Hostname: name,
		API: models.Host{ID: &id, InfraEnvID: strfmt.UUID(infraEnvID), ClusterID: &cluster}}
	key := record.HostKey(host)
	text, err := json.Marshal(models.Inventory{Hostname: name, CPU: &models.CPU{}, Memory: &models.Memory{},
		Interfaces: []*models.Interface{{Name: "eno1", MacAddress: mac, IPV4Addresses: []string{prefix}}}})
	require.NoError(t, err)
	require.NoError(t, b.db.Update(t.Context(), func(tx *store.Tx) error {
		return errors.Join(record.Hosts.Put(tx, key, host), record.ClusterHosts.Add(tx, clusterID+"/"+key),
			record.PutReport(tx, key, "inventory", string(text)))
	}))
	return key
}

// damage makes a row unreadable.
func damage(t *testing.T, db *store.DB, bucket, key string) {
	t.Helper()
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		return store.NewBucket[string](bucket, 1).Put(tx, key, new("damaged"))
	}))
}

// fakeServer is a service whose searches and failures the test decides.
type fakeServer struct {
	mu      sync.Mutex
	others  []link.Other
	fails   error
	started chan link.Link
}

func newFakeServer() *fakeServer { return &fakeServer{started: make(chan link.Link, 8)} }

func (f *fakeServer) set(others []link.Other, fails error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.others, f.fails = others, fails
}

func (f *fakeServer) Look(context.Context, link.Link) ([]link.Other, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.others, nil
}

func (f *fakeServer) Serve(ctx context.Context, on link.Link, ready func()) error {
	f.mu.Lock()
	fails := f.fails
	f.mu.Unlock()
	if fails != nil {
		return fails
	}
	ready()
	f.started <- on
	<-ctx.Done()
	return nil
}

// supervise runs a supervisor and returns its states.
func (b *bench) supervise(t *testing.T, s server) <-chan Status {
	t.Helper()
	states := make(chan Status, 16)
	supervisor := &supervisor{of: Switch{Service: DNS, Interface: "eth1"}, server: s, links: b.links, clock: b.clock,
		note: func(status Status) { states <- status }, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		supervisor.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return states
}

// advance moves the clock when something waits for it.
func (b *bench) advance(t *testing.T, waiters int, d time.Duration) {
	t.Helper()
	require.NoError(t, b.clock.BlockUntilContext(t.Context(), waiters))
	b.clock.Advance(d)
}
