package workagent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubetypes "k8s.io/apimachinery/pkg/types"
	workv1client "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1informers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/options"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work"
	agentcodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/agent/codec"
	workstore "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/store"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/mqtt"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic/types"

	"landfall/appliance/authority"
	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// patience is how long the SDK may need. It connects again after 5 s and more.
const patience = 2 * time.Minute

// site is a broker with the consumer mc1, to which the SDK's agents connect.
type site struct {
	t           *testing.T
	clock       clockwork.Clock
	db          *store.DB
	maestro     *maestro.Service
	broker      *broker.Broker
	credentials *broker.Credentials
	roots       *x509.CertPool
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{t: t, clock: clockwork.NewRealClock(), roots: x509.NewCertPool()}
	var err error
	s.db, err = store.Open(t.Context(), dir, store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	s.update(func(tx *store.Tx) error {
		return bundle.CreateConsumer(tx, &bundle.Consumer{Name: "mc1"}, s.clock.Now())
	})
	s.maestro, err = maestro.New(t.Context(), maestro.Options{DB: s.db, Clock: s.clock})
	require.NoError(t, err)
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	box, err := key.Box("test", nil)
	require.NoError(t, err)
	servers, err := authority.LoadOrCreate(dir, box)
	require.NoError(t, err)
	certificates, err := authority.NewCertificates(authority.Options{Authority: servers, Clock: s.clock})
	require.NoError(t, err)
	s.roots.AppendCertsFromPEM(certificates.Roots())
	clients, err := authority.LoadOrCreateClients(dir, box)
	require.NoError(t, err)
	s.credentials = broker.NewCredentials(s.db, clients, s.clock)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.broker, err = broker.New(broker.Options{Listener: listener, TLS: certificates.Config(),
		Credentials: s.credentials, Handler: s.maestro, Clock: s.clock})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.maestro.Run(ctx) }()
	go func() { ended <- s.broker.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
	})
	return s
}

func (s *site) update(fn func(*store.Tx) error) {
	s.t.Helper()
	require.NoError(s.t, s.db.Update(context.Background(), fn))
}

// create creates a bundle with a namespace.
func (s *site) create(name string) string {
	s.t.Helper()
	b := &bundle.Bundle{Name: name, Consumer: "mc1", Labels: map[string]string{bundle.LabelCluster: "1a2b"},
		Manifests: []json.RawMessage{namespace(name)}}
	s.update(func(tx *store.Tx) error { return bundle.Create(tx, b, s.clock.Now()) })
	return b.ID
}

func namespace(name string) json.RawMessage {
	return json.RawMessage(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + name + `"}}`)
}

// eventually waits until the row of a bundle and its status fulfil a condition. Both may be nil.
func (s *site) eventually(id, what string, fulfilled func(*bundle.Bundle, *bundle.Status) bool) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		ok := false
		require.NoError(s.t, s.db.View(func(tx *store.Tx) error {
			b, _ := bundle.Get(tx, id) // nil if it is gone
			status, err := bundle.GetStatus(tx, id)
			ok = fulfilled(b, status)
			return err
		}))
		return ok
	}, patience, 5*time.Millisecond, what)
}

// agent is the SDK's client of a work agent. The tests do what the agent's controllers do.
type agent struct {
	t     *testing.T
	works workv1client.ManifestWorkInterface
	stop  context.CancelFunc
}

// start starts an agent that knows nothing.
func (s *site) start() *agent {
	s.t.Helper()
	issued, err := s.credentials.Issue(s.t.Context(), "mc1")
	require.NoError(s.t, err)
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	require.NoError(s.t, err)
	a := startAgent(s.t, s.broker.Address().String(),
		&tls.Config{RootCAs: s.roots, Certificates: []tls.Certificate{pair}})
	end := a.stop
	a.stop = func() {
		end()
		s.broker.Disconnect("mc1")
	}
	return a
}

// startAgent starts an agent of mc1 that knows nothing.
func startAgent(t *testing.T, address string, identity *tls.Config) *agent {
	t.Helper()
	source, events := broker.Topics("mc1")
	config := &mqtt.MQTTOptions{KeepAlive: 60, PubQoS: 1, SubQoS: 1,
		Topics: types.Topics{SourceEvents: source, AgentEvents: events},
		Dialer: &mqtt.MQTTDialer{BrokerHost: address, Timeout: patience, TLSConfig: identity}}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	cache := workstore.NewAgentInformerWatcherStore()
	holder, err := work.NewAgentClientHolder(ctx, options.NewGenericClientOptions(config,
		agentcodec.NewManifestBundleCodec(), "mc1-work-agent").WithClusterName("mc1").WithClientWatcherStore(cache))
	require.NoError(t, err)
	informer := workv1informers.NewSharedInformerFactoryWithOptions(holder.WorkInterface(), 5*time.Minute,
		workv1informers.WithNamespace("mc1")).Work().V1().ManifestWorks().Informer()
	go informer.Run(ctx.Done())
	return &agent{t, holder.ManifestWorks("mc1"), cancel}
}

// work waits for a ManifestWork of a generation.
func (a *agent) work(id string, generation int64) (found *workv1.ManifestWork) {
	a.t.Helper()
	require.Eventually(a.t, func() bool {
		var err error
		found, err = a.works.Get(context.Background(), id, metav1.GetOptions{})
		return err == nil && found.Generation == generation
	}, patience, 5*time.Millisecond)
	return found
}

// apply reports a ManifestWork as applied, with the finalizer of the agent.
func (a *agent) apply(held *workv1.ManifestWork) {
	a.t.Helper()
	if len(held.Finalizers) == 0 {
		held = a.patch(held, func(w *workv1.ManifestWork) { w.Finalizers = []string{workv1.ManifestWorkFinalizer} })
	}
	a.patch(held, func(w *workv1.ManifestWork) {
		meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{Type: workv1.WorkApplied,
			Status: metav1.ConditionTrue, ObservedGeneration: w.Generation, Reason: "AppliedManifestWorkComplete"})
	}, "status")
}

func (a *agent) patch(held *workv1.ManifestWork, change func(*workv1.ManifestWork),
	sub ...string) *workv1.ManifestWork {
	a.t.Helper()
	patched, err := a.tryPatch(context.Background(), held, change, sub...)
	require.NoError(a.t, err)
	return patched
}

// tryPatch fails if the ManifestWork was changed or removed meanwhile.
func (a *agent) tryPatch(ctx context.Context, held *workv1.ManifestWork, change func(*workv1.ManifestWork),
	sub ...string) (*workv1.ManifestWork, error) {
	after := held.DeepCopy()
	change(after)
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": after.UID,
		"resourceVersion": after.ResourceVersion, "finalizers": after.Finalizers}, "status": after.Status})
	if err != nil {
		return nil, err
	}
	return a.works.Patch(ctx, held.Name, kubetypes.MergePatchType, body, metav1.PatchOptions{}, sub...)
}

func applied(version int64) func(*bundle.Bundle, *bundle.Status) bool {
	return func(_ *bundle.Bundle, status *bundle.Status) bool {
		return status != nil && status.ResourceVersion == version
	}
}

// TestAgent_bundleFromCreateToDelete follows a bundle through the SDK's agent.
func TestAgent_bundleFromCreateToDelete(t *testing.T) {
	s := newSite(t)
	id := s.create("c1") // before the agent connects
	a := s.start()
	held := a.work(id, 1)
	require.Equal(t, "1a2b", held.Labels[bundle.LabelCluster])
	require.JSONEq(t, string(namespace("c1")), string(held.Spec.Workload.Manifests[0].Raw))
	a.apply(held)
	s.eventually(id, "the status is stored", applied(1))

	s.update(func(tx *store.Tx) error {
		_, err := bundle.Update(tx, id, 1, s.clock.Now(), func(b *bundle.Bundle) error {
			b.Manifests = []json.RawMessage{namespace("c1"), namespace("c1-name")}
			return nil
		})
		return err
	})
	held = a.work(id, 2)
	require.Len(t, held.Spec.Workload.Manifests, 2)
	a.apply(held)
	s.eventually(id, "the status of version 2 is stored", applied(2))

	// The agent restarts: it knows nothing, and gets everything again.
	a.stop()
	a = s.start()
	a.apply(a.work(id, 2))
	require.NoError(t, s.db.View(func(tx *store.Tx) error {
		return maestro.EachHold(tx, func(h *maestro.Hold) error { return fmt.Errorf("held: %s", h.Reason) })
	}))

	s.update(func(tx *store.Tx) error { return bundle.Delete(tx, id, "anna", s.clock.Now()) })
	require.Eventually(t, func() bool {
		held, err := a.works.Get(context.Background(), id, metav1.GetOptions{})
		require.NoError(t, err)
		return held.DeletionTimestamp != nil
	}, patience, 5*time.Millisecond)
	held, err := a.works.Get(context.Background(), id, metav1.GetOptions{})
	require.NoError(t, err)
	a.patch(held, func(w *workv1.ManifestWork) { w.Finalizers = []string{} })
	s.eventually(id, "the row is removed", func(b *bundle.Bundle, _ *bundle.Status) bool { return b == nil })
}

// TestAgent_unknownBundleIsHeld lets the SDK's agent name a bundle whose row is lost, as after a
// restore from an older backup. Maestro would answer with a delete.
func TestAgent_unknownBundleIsHeld(t *testing.T) {
	s := newSite(t)
	id := s.create("c1")
	a := s.start()
	a.apply(a.work(id, 1))
	s.eventually(id, "the status is stored", applied(1))
	s.update(func(tx *store.Tx) error {
		return errors.Join(store.NewBucket[bundle.Bundle]("hosted-bundles", 1).Delete(tx, id),
			store.NewIndex("hosted-bundles-by-consumer").Remove(tx, "mc1/"+id))
	})
	s.broker.Disconnect("mc1") // the agent connects again
	finding := func() (found *maestro.Finding) {
		require.NoError(t, s.db.View(func(tx *store.Tx) error {
			return maestro.EachFinding(tx, "mc1", func(f *maestro.Finding) error {
				found = f
				return nil
			})
		}))
		return found
	}
	require.Eventually(t, func() bool { f := finding(); return f != nil && f.Name != "" }, patience, 5*time.Millisecond)
	found := finding()
	require.Equal(t, maestro.Unknown, found.Kind)
	require.Equal(t, id, found.ID)
	require.Equal(t, "c1", found.Name, "the agent returns the annotations")
	held, err := a.works.Get(t.Context(), id, metav1.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, held.DeletionTimestamp, "no delete is sent")

	require.Error(t, s.maestro.Decide(t.Context(), "mc1", id, maestro.DeleteThere, "c2", "anna"))
	require.NoError(t, s.maestro.Decide(t.Context(), "mc1", id, maestro.DeleteThere, "c1", "anna"))
	require.Eventually(t, func() bool {
		held, err := a.works.Get(t.Context(), id, metav1.GetOptions{})
		require.NoError(t, err)
		return held.DeletionTimestamp != nil
	}, patience, 5*time.Millisecond, "a person deleted it by name")
}
