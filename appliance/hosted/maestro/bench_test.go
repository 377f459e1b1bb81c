package maestro

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/authority"
	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/simulate/workagent"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// bundles is the number of bundles of the benchmarks.
const bundles = 10_000

// listening is an appliance with the consumer mc1 and its bundles, which listens on the loopback.
type listening struct {
	b       testing.TB
	db      *store.DB
	broker  *broker.Broker
	options workagent.Options
	cluster *workagent.Cluster
}

func newListening(b testing.TB, count int) *listening {
	b.Helper()
	dir, clock := b.TempDir(), clockwork.NewRealClock()
	l := &listening{b: b, cluster: workagent.NewCluster(nil)}
	var err error
	l.db, err = store.Open(context.Background(), dir, store.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, l.db.Close()) })
	require.NoError(b, l.db.Update(context.Background(), func(tx *store.Tx) error {
		if err := bundle.CreateConsumer(tx, &bundle.Consumer{Name: "mc1"}, clock.Now()); err != nil {
			return err
		}
		for i := range count {
			if err := bundle.Create(tx, newBundle(i), clock.Now()); err != nil {
				return err
			}
		}
		return nil
	}))
	service, err := New(context.Background(), Options{DB: l.db, Clock: clock})
	require.NoError(b, err)
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(b, err)
	box, err := key.Box("test", nil)
	require.NoError(b, err)
	servers, err := authority.LoadOrCreate(dir, box)
	require.NoError(b, err)
	certificates, err := authority.NewCertificates(authority.Options{Authority: servers, Clock: clock})
	require.NoError(b, err)
	clients, err := authority.LoadOrCreateClients(dir, box)
	require.NoError(b, err)
	credentials := broker.NewCredentials(l.db, clients, clock)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	l.broker, err = broker.New(broker.Options{Listener: listener, TLS: certificates.Config(), Credentials: credentials,
		Handler: service, Clock: clock})
	require.NoError(b, err)
	l.run(service.Run)
	l.run(l.broker.Run)
	issued, err := credentials.Issue(context.Background(), "mc1")
	require.NoError(b, err)
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	require.NoError(b, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificates.Roots())
	l.options = workagent.Options{Address: l.broker.Address().String(), Retry: time.Millisecond,
		TLS: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}
	return l
}

// newBundle has some 2 KB, like the bundle of a node pool.
func newBundle(i int) *bundle.Bundle {
	name := fmt.Sprintf("c%d", i)
	data := make([]byte, 1500)
	for i := range data {
		data[i] = 'x'
	}
	return &bundle.Bundle{Name: name, Consumer: "mc1", Labels: map[string]string{bundle.LabelCluster: name},
		Manifests: []json.RawMessage{
			json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name +
				`","namespace":"n"},"data":{"a":"` + string(data) + `"}}`),
			json.RawMessage(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + name + `"}}`),
			json.RawMessage(`{"apiVersion":"hypershift.openshift.io/v1beta1","kind":"HostedCluster","metadata":{"name":"` +
				name + `","namespace":"` + name + `"}}`)}}
}

// run runs a task until the benchmark ends.
func (l *listening) run(task func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- task(ctx) }()
	ended := false
	stop = func() {
		if !ended {
			ended = true
			cancel()
			require.NoError(l.b, <-done)
		}
	}
	l.b.Cleanup(stop)
	return stop
}

// start runs an agent that knows nothing.
func (l *listening) start() (agent *workagent.Agent, stop func()) {
	agent = workagent.NewAgent("mc1", l.cluster, clockwork.NewRealClock(), 0)
	return agent, l.run(func(ctx context.Context) error { return agent.Run(ctx, l.options) })
}

func (l *listening) wait(what string, fulfilled func() bool) {
	l.b.Helper()
	require.Eventually(l.b, fulfilled, 5*time.Minute, time.Millisecond, what)
}

// statuses returns the number of bundles with a status.
func (l *listening) statuses() (count int) {
	require.NoError(l.b, l.db.View(func(tx *store.Tx) error {
		return bundle.EachStatus(tx, func(string) error {
			count++
			return nil
		})
	}))
	return count
}

// BenchmarkDelivery_agentRestarts delivers 10,000 bundles to one consumer, whose agent restarts in
// the middle and then knows nothing.
func BenchmarkDelivery_agentRestarts(b *testing.B) {
	for range b.N {
		b.StopTimer()
		l := newListening(b, bundles)
		b.StartTimer()
		agent, stop := l.start()
		l.wait("half of the bundles", func() bool { return agent.Known() >= bundles/2 })
		stop()
		agent, stop = l.start()
		l.wait("all bundles", func() bool { return agent.Known() == bundles })
		delivered := b.Elapsed()
		l.wait("all statuses", func() bool { return l.statuses() == bundles })
		b.ReportMetric(delivered.Seconds()/float64(b.N), "s-delivered/op")
		b.StopTimer()
		stop()
	}
}

// BenchmarkResync_unchanged connects an agent that holds 10,000 unchanged bundles.
func BenchmarkResync_unchanged(b *testing.B) {
	l := newListening(b, bundles)
	agent, stop := l.start()
	l.wait("all statuses", func() bool { return agent.Known() == bundles && l.statuses() == bundles })
	stop()
	b.ResetTimer()
	for range b.N {
		before := agent.Requests()
		stop := l.run(func(ctx context.Context) error { return agent.Run(ctx, l.options) })
		l.wait("the requests for statuses", func() bool { return agent.Requests() == before+bundles/1000 })
		require.Equal(b, bundles, agent.Received())
		b.StopTimer()
		stop()
		b.StartTimer()
	}
}
