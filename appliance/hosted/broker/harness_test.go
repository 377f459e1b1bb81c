package broker_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/authority"
	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/appliance/simulate/workagent"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// site is a broker on the loopback with the consumers mc1 and mc2.
type site struct {
	*broker.Broker
	t           *testing.T
	clock       clockwork.Clock
	db          *store.DB
	credentials *broker.Credentials
	roots       *x509.CertPool
	handler     *recorder
	asked       atomic.Pointer[func()] // called when the broker reads its clock
	clusters    map[string]*workagent.Cluster
}

// noticedClock is a clock that calls a function at each Now.
type noticedClock struct {
	clockwork.Clock
	asked *atomic.Pointer[func()]
}

func (c noticedClock) Now() time.Time {
	if call := c.asked.Load(); call != nil {
		(*call)()
	}
	return c.Clock.Now()
}

// recorder is a handler that records what it gets.
type recorder struct {
	mu       sync.Mutex
	sessions chan *broker.Session
	received chan cloudevent.Message
	fail     error
	first    []cloudevent.Message // sent at once to an agent that has connected
}

func (r *recorder) Connected(s *broker.Session) {
	for _, m := range r.first {
		_ = s.Send(s.Context(), m) // the test notices a missing message
	}
	r.sessions <- s
}

func (r *recorder) Disconnected(*broker.Session) {}

func (r *recorder) Received(_ context.Context, _ *broker.Session, messages []cloudevent.Message) []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := make([]error, len(messages))
	for i, m := range messages {
		r.received <- m
		errs[i] = r.fail
	}
	return errs
}

func (r *recorder) setFail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	clock := clockwork.NewRealClock()
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for _, name := range []string{"mc1", "mc2"} {
		require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
			return bundle.CreateConsumer(tx, &bundle.Consumer{Name: name}, clock.Now())
		}))
	}
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	box, err := key.Box("test", nil)
	require.NoError(t, err)
	servers, err := authority.LoadOrCreate(dir, box)
	require.NoError(t, err)
	certificates, err := authority.NewCertificates(authority.Options{Authority: servers, Clock: clock})
	require.NoError(t, err)
	clients, err := authority.LoadOrCreateClients(dir, box)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &site{t: t, clock: clock, db: db, clusters: map[string]*workagent.Cluster{},
		credentials: broker.NewCredentials(db, clients, clock),
		roots:       x509.NewCertPool(),
		handler: &recorder{sessions: make(chan *broker.Session, 100),
			received: make(chan cloudevent.Message, 10_000)}}
	s.roots.AppendCertsFromPEM(certificates.Roots())
	s.Broker, err = broker.New(broker.Options{Listener: listener, TLS: certificates.Config(),
		Credentials: s.credentials, Handler: s.handler, Clock: noticedClock{clock, &s.asked}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return s
}

// issue returns the TLS configuration of a consumer's agent.
func (s *site) issue(consumer string) (*tls.Config, *broker.Issued) {
	s.t.Helper()
	issued, err := s.credentials.Issue(s.t.Context(), consumer)
	require.NoError(s.t, err)
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	require.NoError(s.t, err)
	return &tls.Config{RootCAs: s.roots, Certificates: []tls.Certificate{pair}, ServerName: "127.0.0.1"}, issued
}

// start runs an agent of a consumer and waits for its session.
func (s *site) start(consumer string, config *tls.Config) (*workagent.Agent, *broker.Session) {
	s.t.Helper()
	agent := workagent.NewAgent(consumer, s.cluster(consumer), s.clock, 0)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = agent.Run(ctx, workagent.Options{Address: s.Address().String(), TLS: config, Retry: 20 * time.Millisecond})
	}()
	s.t.Cleanup(func() {
		cancel()
		<-done
	})
	return agent, s.session()
}

// hold sends a bundle to an agent, and waits until it has applied it.
func (s *site) hold(session *broker.Session, id string) {
	s.t.Helper()
	require.NoError(s.t, session.Send(s.t.Context(), spec(session.Consumer, id, 1)))
	require.Equal(s.t, id, s.receive().ResourceID)
}

// cluster returns the simulated API of a consumer's cluster.
func (s *site) cluster(consumer string) *workagent.Cluster {
	if s.clusters[consumer] == nil {
		s.clusters[consumer] = workagent.NewCluster(nil)
	}
	return s.clusters[consumer]
}

// requireDeleted requires that the clusters got HostedClusters, and that exactly those were deleted
// that somebody deleted.
func (s *site) requireDeleted(names ...string) {
	s.t.Helper()
	all, deleted := []string{}, []string{}
	for _, cluster := range s.clusters {
		there, gone := cluster.HostedClusters()
		all, deleted = append(append(all, there...), gone...), append(deleted, gone...)
	}
	require.NotEmpty(s.t, all)
	require.ElementsMatch(s.t, names, deleted, "deleted HostedClusters")
}

func (s *site) session() *broker.Session {
	s.t.Helper()
	select {
	case session := <-s.handler.sessions:
		return session
	case <-time.After(time.Minute):
		s.t.Fatal("no agent has connected")
		return nil
	}
}

func (s *site) receive() *cloudevent.Event {
	s.t.Helper()
	select {
	case m := <-s.handler.received:
		event, err := cloudevent.Parse(m)
		require.NoError(s.t, err)
		return event
	case <-time.After(time.Minute):
		s.t.Fatal("no message has come")
		return nil
	}
}

// spec returns a message with the bundle of a hosted cluster.
func spec(consumer, id string, version int64) cloudevent.Message {
	event := &cloudevent.Event{ID: "1", Source: broker.SourceID, SubResource: cloudevent.Spec,
		Action: cloudevent.Create, Consumer: consumer, ResourceID: id, ResourceVersion: version, Time: time.Unix(0, 0),
		Data: json.RawMessage(`{"manifests":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + id + `"}},` +
			`{"apiVersion":"hypershift.openshift.io/v1beta1","kind":"HostedCluster","metadata":{"name":"` + id +
			`","namespace":"` + id + `"}}]}`)}
	return event.Message()
}
