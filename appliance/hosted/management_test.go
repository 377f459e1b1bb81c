package hosted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/authority"
	"landfall/appliance/engine"
	"landfall/appliance/fault"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/readiness"
	"landfall/appliance/hosted/record"
	"landfall/appliance/kube/spoke"
	"landfall/appliance/simulate"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// hub is a site with the installed cluster hub, whose API is simulated.
type hub struct {
	*Service
	cluster *simulate.Spoke
	proof   engine.MirrorProof
	also    []string // images that the last proof included
	err     error    // of a connection to the cluster
}

func (*hub) Releases() []provider.Release {
	return []provider.Release{{Version: "4.18.1", Image: "q/r@sha256:8"},
		{Version: "4.19.7", Image: "q/r@sha256:7", Default: true}}
}

func (*hub) HostedSite() (controlplane.Site, error) { return controlplane.Site{}, nil }

func newSite(t *testing.T) *hub {
	dir, clock := t.TempDir(), clockwork.NewRealClock()
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	box, err := key.Box("a test", nil)
	require.NoError(t, err)
	own, err := authority.LoadOrCreate(dir, box)
	require.NoError(t, err)
	certificates, err := authority.NewCertificates(authority.Options{Authority: own, Clock: clock})
	require.NoError(t, err)
	spokes, err := simulate.NewSpokes(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, spokes.Close()) })
	s := &hub{cluster: spokes.Cluster("api.hub.example.com"), proof: engine.MirrorProof{Complete: true, Images: 190}}
	s.Service = &Service{
		connect: func(string) (*spoke.Client, error) {
			if s.err != nil {
				return nil, s.err
			}
			return spoke.Open(spoke.Access{Kubeconfig: spokes.Kubeconfig("api.hub.example.com"), From: "the test",
				Names: map[string]string{"*": spokes.Addr()}}, clock)
		},
		prove: func(_ context.Context, source engine.InstallSource) (engine.MirrorProof, error) {
			require.Equal(t, "q/r@sha256:7", source.Release)
			s.also = source.Also
			return s.proof, nil
		},
	}
	require.NoError(t, s.openTransport(t.Context(), Options{DB: db, Key: key, Clock: clock,
		Logger: slog.New(slog.DiscardHandler), Transport: Transport{Dir: dir, Address: "127.0.0.1:0",
			Certificates: certificates, Listen: func(ctx context.Context, address string) (net.Listener, error) {
				return new(net.ListenConfig).Listen(ctx, "tcp", address)
			}}}))
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	s.Provider, err = provider.Open(t.Context(), provider.Options{DB: db, Site: s, Secrets: box, Clock: clock,
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return s
}

func hubCluster() record.Management {
	return record.Management{Consumer: "mc1", ClusterID: "hub", BaseDomain: "hosted.example.com",
		Address: "192.0.2.10", AgentNamespace: "hall-2",
		AgentImage: "mirror.example.com/agent:1"}
}

func ids(findings []readiness.Finding) (all []string) {
	for _, f := range findings {
		all = append(all, f.ID)
	}
	return all
}

func TestCheckManagement_asksClusterAndMirror(t *testing.T) {
	s := newSite(t)
	m := hubCluster()
	require.Equal(t, []string{"hypershift", "agents", "storage-class", "memory"},
		ids(s.CheckManagement(t.Context(), &m)), "a plain cluster lacks all of it")
	s.cluster.Serve("apis/hypershift.openshift.io/v1beta1/hostedclusters", "HostedCluster")
	s.cluster.Serve("apis/agent-install.openshift.io/v1beta1/agents", "Agent")
	s.cluster.Put("apis/apps/v1/deployments", object("hypershift", "operator", "status",
		map[string]any{"availableReplicas": int64(1)}))
	s.cluster.Put("apis/agent-install.openshift.io/v1beta1/agents", map[string]any{"metadata": map[string]any{
		"namespace": "hall-2", "name": "a", "labels": map[string]any{"landfall.io/hardware-profile": "large"}}})
	s.cluster.Put("apis/storage.k8s.io/v1/storageclasses", map[string]any{"metadata": map[string]any{"name": "lvms",
		"annotations": map[string]any{"storageclass.kubernetes.io/is-default-class": "true"}}})
	s.cluster.Put("api/v1/nodes", object("", "a", "status", map[string]any{"allocatable": map[string]any{
		"memory": "64Gi"}}))
	require.Empty(t, s.CheckManagement(t.Context(), &m))

	s.proof = engine.MirrorProof{Images: 190, Gaps: 2, Summary: "2 images are missing."}
	found := s.CheckManagement(t.Context(), &m)
	require.Equal(t, []string{"images"}, ids(found))
	require.Contains(t, found[0].Sentence, "mirror.example.com/agent:1")
	require.Len(t, readiness.Errors(found), 1)
	require.Equal(t, []string{"mirror.example.com/agent:1"}, s.also)

	m.AgentImage = ""
	found = s.CheckManagement(t.Context(), &m)
	require.Equal(t, []string{"images", "images"}, ids(found))
	require.Equal(t, readiness.Warning, found[0].Severity)
	require.Contains(t, found[0].Sentence, "The image of the agent is not known.")
	require.Empty(t, s.also)
	require.Contains(t, found[1].Sentence, "The mirror lacks images of the release 4.19.7: 2 images are missing.")

	m = hubCluster()
	s.proof, s.err = engine.MirrorProof{Complete: true}, errors.New("connection refused")
	require.Equal(t, []string{"cluster"}, ids(s.CheckManagement(t.Context(), &m)))
	m.ClusterID = ""
	require.Contains(t, s.CheckManagement(t.Context(), &m)[0].Sentence, "did not install it")
}

func object(namespace, name, member string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"namespace": namespace, "name": name}, member: value}
}

func TestApplyAgent_appliesManifestsToCluster(t *testing.T) {
	s := newSite(t)
	_, err := s.ApplyAgent(t.Context(), "mc1", "landfall.example.com:8883", "")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	_, err = s.Provider.AddManagement(t.Context(), hubCluster())
	require.NoError(t, err)
	applied, err := s.ApplyAgent(t.Context(), "mc1", "landfall.example.com:8883", "mirror.example.com/agent:1")
	require.NoError(t, err)
	require.Equal(t, []string{"Namespace maestro",
		"CustomResourceDefinition appliedmanifestworks.work.open-cluster-management.io",
		"ServiceAccount maestro-agent", "ClusterRoleBinding maestro-agent", "Secret maestro-agent-broker",
		"Deployment maestro-agent"}, applied)
	for range 2 { // a second time replaces the certificate
		_, err = s.ApplyAgent(t.Context(), "mc1", "other.example.com:8883", "")
		require.NoError(t, err)
		secret := s.cluster.Object("api/v1/secrets", "maestro", "maestro-agent-broker").Object["stringData"].(map[string]any)
		require.Contains(t, secret["config.yaml"], "landfall.example.com:8883", "the broker's name never changes")
	}
	s.cluster.Answer(func(*http.Request) int { return http.StatusForbidden })
	_, err = s.ApplyAgent(t.Context(), "mc1", "landfall.example.com:8883", "")
	require.ErrorContains(t, err, "The Namespace maestro could not be applied")

	foreign := hubCluster()
	foreign.Consumer, foreign.ClusterID = "mc2", ""
	_, err = s.Provider.AddManagement(t.Context(), foreign)
	require.NoError(t, err)
	_, err = s.ApplyAgent(t.Context(), "mc2", "landfall.example.com:8883", "")
	require.Equal(t, fault.Conflict, fault.KindOf(err))
}

// By default, the command line of the appliance's own machine asks 127.0.0.1.
func TestAgentManifests_nameHostThatOtherMachinesReach(t *testing.T) {
	s := newSite(t)
	s.host = "landfall.example.com"
	for i, address := range []string{"127.0.0.1:8883", "localhost:8883", "[::1]:8883", "0.0.0.0:8883"} {
		m := hubCluster()
		m.Consumer, m.ClusterID = fmt.Sprintf("mc%d", i), ""
		_, err := s.Provider.AddManagement(t.Context(), m)
		require.NoError(t, err)
		text, err := s.AgentManifests(t.Context(), m.Consumer, address, "")
		require.NoError(t, err)
		require.Contains(t, string(text), "brokerHost: landfall.example.com:8883", address)
	}
}

// The appliance was first asked by a name that the management cluster does not know.
func TestAgentManifests_correctWrongName(t *testing.T) {
	s := newSite(t)
	m := hubCluster()
	m.Consumer, m.ClusterID = "mc1", ""
	_, err := s.Provider.AddManagement(t.Context(), m)
	require.NoError(t, err)
	for _, c := range []struct {
		host         string // of the URL for hosts at a start of the appliance
		configured   bool
		asked, named string
	}{
		{"192.0.2.1", false, "tunnel.example.com:8883", "tunnel.example.com:8883"},
		{"192.0.2.1", false, "127.0.0.1:8883", "tunnel.example.com:8883"},
		{"192.0.2.1", false, "192.0.2.1:8883", "tunnel.example.com:8883"},
		{"127.0.0.1", true, "127.0.0.1:8883", "tunnel.example.com:8883"},
		{"first.example.com", true, "other.example.com:8883", "tunnel.example.com:8883"},
		{"right.example.com", true, "other.example.com:8883", "tunnel.example.com:8883"},
		{"right.example.com", true, "127.0.0.1:8883", "right.example.com:8883"},
		{"right.example.com", true, "tunnel.example.com:8883", "right.example.com:8883"},
	} {
		s.host, s.configured = c.host, c.configured
		text, err := s.AgentManifests(t.Context(), m.Consumer, c.asked, "")
		require.NoError(t, err)
		require.Contains(t, string(text), "brokerHost: "+c.named)
	}
}

// The port that the broker has instead of the default one is another one after the next start.
func TestAgentManifests_needLastingPort(t *testing.T) {
	s := newSite(t)
	_, err := s.Provider.AddManagement(t.Context(), hubCluster())
	require.NoError(t, err)
	listener, err := s.listen(t.Context(), Options{Logger: slog.New(slog.DiscardHandler), Transport: Transport{
		Main: "127.0.0.1:8090", Listen: func(ctx context.Context, address string) (net.Listener, error) {
			if address == "127.0.0.1:8883" {
				return nil, errors.New("address already in use")
			}
			return new(net.ListenConfig).Listen(ctx, "tcp", address)
		}}})
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	const sentence = "The broker's port 8883 is taken. Free it or set hosted.broker_listen, and restart the appliance."
	_, err = s.AgentManifests(t.Context(), "mc1", "landfall.example.com:44259", "")
	require.EqualError(t, err, sentence)
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	_, err = s.ApplyAgent(t.Context(), "mc1", "landfall.example.com:44259", "")
	require.EqualError(t, err, sentence)
	all, err := s.Provider.Managements()
	require.NoError(t, err)
	require.Empty(t, all[0].Broker, "the name is not kept")
}

func TestBrokerProblem_namesSetting(t *testing.T) {
	s := newSite(t)
	_, port, err := net.SplitHostPort(s.Broker.Address().String())
	require.NoError(t, err)
	m := hubCluster()
	require.Empty(t, s.BrokerProblem(&m), "there are no manifests of its agent yet")
	m.Broker = "landfall.example.com:" + port
	require.Empty(t, s.BrokerProblem(&m))
	m.Broker = "landfall.example.com:1"
	require.Equal(t, "Its agent knows the broker as landfall.example.com:1, but the broker has the port "+port+
		". Set hosted.broker_listen to an address with the port 1, and restart the appliance.", s.BrokerProblem(&m))
	s.taken, m.Broker = true, "landfall.example.com:8883"
	require.Contains(t, s.BrokerProblem(&m), "Free the port 8883, which another program uses, or set")
	_, err = s.Provider.AddManagement(t.Context(), m)
	require.NoError(t, err)
	var log bytes.Buffer
	require.NoError(t, s.logBrokerProblems(slog.New(slog.NewTextHandler(&log, nil))))
	require.Contains(t, log.String(), "consumer=mc1 reason=\"Its agent knows the broker as")
}

// A cluster is kept while the control planes of hosted clusters run on it.
func TestKeepCluster_namesHostedClusters(t *testing.T) {
	s := newSite(t)
	keep := func(id string) error {
		return s.Provider.DB.View(func(tx *store.Tx) error { return provider.KeepCluster(tx, id) })
	}
	_, err := s.Provider.AddManagement(t.Context(), hubCluster())
	require.NoError(t, err)
	require.NoError(t, keep("hub"), "nothing runs there")
	seeded, err := s.Provider.Seeded()
	require.NoError(t, err)
	for _, name := range []string{"edge2", "edge1"} {
		_, err = s.Provider.CreateCluster(t.Context(), provider.Caller{Name: "ana", Version: arm.DefaultVersion},
			arm.ID{Subscription: seeded.ID, Group: "site", Cluster: name}, arm.Document{"location": "site"}, nil)
		require.NoError(t, err)
	}
	require.ErrorContains(t, keep("hub"), "mc1 and runs the control planes of the hosted clusters edge1, edge2")
	require.Equal(t, fault.Conflict, fault.KindOf(keep("hub")))
	require.NoError(t, keep("another"))
	// A row that has the wrong type can't be read, like one on a damaged disk.
	damage := func(bucket, key string) {
		t.Helper()
		broken := json.RawMessage("5")
		require.NoError(t, s.Provider.DB.Update(t.Context(), func(tx *store.Tx) error {
			return store.NewBucket[json.RawMessage](bucket, 1).Put(tx, key, &broken)
		}))
	}
	damage("hosted-management", "mc1")
	require.ErrorContains(t, keep("hub"), "edge1, edge2")
	require.NoError(t, keep("another"))
	require.NoError(t, s.Provider.DB.View(func(tx *store.Tx) error {
		return record.EachClusterID(tx, func(cid string) error {
			damage("hosted-clusters", cid)
			return nil
		})
	}))
	require.ErrorContains(t, keep("hub"), "mc1 and has bundles of hosted clusters")
	require.NoError(t, keep("another"))
	damage("hosted-consumers", "mc1")
	require.ErrorContains(t, keep("hub"), "The rows of the management cluster mc1 are damaged")
	require.Equal(t, fault.Conflict, fault.KindOf(keep("hub")))
}
