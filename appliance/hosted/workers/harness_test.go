package workers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	"landfall/appliance/engine"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/record"
	"landfall/appliance/hosted/workers"
	"landfall/appliance/kube/hosts"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/kube/spoke"
	"landfall/appliance/release"
	"landfall/appliance/simulate"
	"landfall/store"
)

const (
	hubAPI    = "api.hub.example.com"
	namespace = "hall-2"
)

// site is an appliance whose hosts become workers of the hosted cluster edge1, on the simulated
// management cluster mc1.
type site struct {
	*kubetest.Site
	*workers.Service
	provider     *provider.Service
	spokes       *simulate.Spokes
	hub          *simulate.Spoke
	pools        *simulate.AgentProvider
	env          string // ID of the infra-env
	controlPlane string // namespace of edge1's control plane
	pool         map[string]any
	installs     map[string]int // of hosts by their IDs
	kubernetes   bool
	stop         func() // stops the controllers
}

func (s *site) Releases() []provider.Release {
	return []provider.Release{{Version: "4.20.8", Image: "quay.io/release:4.20.8", Default: true}}
}

func (s *site) HostedSite() (controlplane.Site, error) {
	return controlplane.Site{PullSecret: kubetest.PullSecret, SSHPublicKey: "ssh-ed25519 A"}, nil
}

// newSite returns a site with the node pool workers of edge1, which wants no hosts yet. kubernetes
// enables the appliance's Kubernetes API.
func newSite(t *testing.T, kubernetes bool) *site {
	t.Helper()
	spokes, err := simulate.NewSpokes(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, spokes.Close()) })
	s := &site{Site: kubetest.New(t), spokes: spokes, hub: spokes.Cluster(hubAPI), installs: map[string]int{},
		kubernetes: kubernetes}
	s.pools = simulate.NewAgentProvider(s.hub, namespace)
	s.start()
	if kubernetes {
		s.Apply(kubetest.InfraEnvManifest("rack", "agentApproval: {autoApprove: true}"))
		s.env = s.InfraEnvID("rack")
	} else {
		env, err := s.Engine.RegisterInfraEnv(t.Context(), &models.InfraEnvCreateParams{Name: conv.Pointer("rack"),
			PullSecret: conv.Pointer(kubetest.PullSecret), OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64"})
		require.NoError(t, err)
		s.env = env.ID.String()
	}
	s.provider, err = provider.Open(t.Context(), provider.Options{DB: s.DB, Site: s, Clock: s.Clock,
		Logger: slog.New(slog.DiscardHandler), Connected: func(string) bool { return false }})
	require.NoError(t, err)
	_, err = s.provider.AddManagement(t.Context(), record.Management{Consumer: "mc1", ClusterID: "hub",
		BaseDomain: "hosted.example.com", Address: "192.0.2.10", AgentNamespace: namespace})
	require.NoError(t, err)
	s.createHosted()
	s.offer()
	return s
}

// start starts the appliance, also again over the same store.
func (s *site) start() {
	s.Helper()
	options := engine.Options{Releases: releases{}, ReleaseList: []engine.ReleaseImage{{OpenshiftVersion: "4.20.8",
		CPUArchitecture: "x86_64", URL: "quay.io/release:4.20.8", Default: true}}}
	projector := hosts.Projector{Objects: s.Objects, URL: kubetest.URL}
	var approved *objects.Objects
	if s.kubernetes {
		options.Projector, approved = projector, s.Objects
	}
	s.Open(options)
	if s.kubernetes {
		s.Loop.Add(hosts.New(hosts.Options{Projector: projector, DB: s.DB, Engine: s.Engine, Loop: s.Loop,
			Clock: s.Clock}).Reconcilers()...)
	}
	s.stop = s.Site.Run()
	s.Service = workers.New(workers.Options{DB: s.DB, Engine: s.Engine, Connect: s.connect,
		Approved: hosts.NewApprovals(s.DB, approved, nil).Approved, URL: kubetest.URL, Clock: s.Clock,
		Logger: slog.New(slog.DiscardHandler)})
}

// restart stops the controllers and starts the appliance over the same store.
func (s *site) restart() {
	s.stop()
	s.start()
}

// approve approves a host for the Kubernetes API.
func (s *site) approve(m *kubetest.Machine) error {
	err := hosts.NewApprovals(s.DB, s.Objects, nil).Approve(s.Context(), s.env, m.ID)
	s.WaitIdle()
	return err
}

// otherCluster returns a cluster that hosts can join.
func (s *site) otherCluster() string {
	s.Helper()
	id := strfmt.UUID("6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31")
	cluster, err := s.Engine.ImportCluster(s.Context(), &models.ImportClusterParams{Name: conv.Pointer("others"),
		APIVipDnsname: conv.Pointer("api.others.example.com"), OpenshiftClusterID: &id, OpenshiftVersion: "4.20.8"})
	require.NoError(s, err)
	return cluster.ID.String()
}

// boundEnv returns an infra-env that belongs to a cluster.
func (s *site) boundEnv() string {
	s.Helper()
	cluster := strfmt.UUID(s.otherCluster())
	env, err := s.Engine.RegisterInfraEnv(s.Context(), &models.InfraEnvCreateParams{Name: conv.Pointer("bound"),
		PullSecret: conv.Pointer(kubetest.PullSecret), OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64",
		ClusterID: &cluster})
	require.NoError(s, err)
	return env.ID.String()
}

// holdManagement holds the management cluster.
func (s *site) holdManagement() {
	s.Helper()
	service, err := maestro.New(s.Context(), maestro.Options{DB: s.DB, Clock: s.Clock,
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(s, err)
	require.NoError(s, service.HoldConsumer(s.Context(), "mc1", "ana"))
}

func (s *site) connect(string) (*spoke.Client, error) {
	return spoke.Open(spoke.Access{Kubeconfig: s.spokes.Kubeconfig(hubAPI), From: "the test",
		Names: map[string]string{"*": s.spokes.Addr()}}, s.Clock)
}

// createHosted creates edge1 with its node pool through the resource provider.
func (s *site) createHosted() {
	s.Helper()
	seeded, err := s.provider.Seeded()
	require.NoError(s, err)
	id := arm.ID{Subscription: seeded.ID, Group: "site", Cluster: "edge1"}
	body, err := arm.Decode([]byte(`{"location":"site"}`))
	require.NoError(s, err)
	pool, err := arm.Decode([]byte(`{"location":"site","properties":{"platform":{"vmSize":"large"},"replicas":1}}`))
	require.NoError(s, err)
	_, err = s.provider.CreateCluster(s.Context(), provider.Caller{Name: "ana", Version: arm.DefaultVersion}, id, body,
		[]provider.NewNodePool{{Name: "workers", Body: pool}})
	require.NoError(s, err)
	require.NoError(s, s.DB.View(func(tx *store.Tx) error {
		row, err := record.FindCluster(tx, id)
		if err != nil {
			return err
		}
		s.controlPlane = controlplane.ControlPlaneNamespace(row)
		return bundle.EachOfConsumer(tx, "mc1", func(b *bundle.Bundle) error {
			for _, text := range b.Manifests {
				var manifest map[string]any
				if err := json.Unmarshal(text, &manifest); err != nil {
					return err
				}
				if manifest["kind"] == "NodePool" {
					s.pool = manifest
				}
			}
			return nil
		})
	}))
	require.NotNil(s, s.pool, "the bundles have a NodePool")
}

// offer offers the hosts of the infra-env with the profile large.
func (s *site) offer() {
	s.Helper()
	require.NoError(s, s.Set(s.Context(), "mc1", []record.Workers{{InfraEnvID: s.env, Profile: "large"}}))
}

// boot returns a machine that runs the discovery image.
func (s *site) boot(number int) *kubetest.Machine {
	s.Helper()
	m := s.Machine(s.env, number)
	s.discover(m)
	return m
}

// discover lets a machine register and report.
func (s *site) discover(m *kubetest.Machine) {
	s.Helper()
	m.Register()
	m.Report()
}

// sync compares the management cluster with the appliance.
func (s *site) sync() {
	s.Helper()
	require.NoError(s, s.Sync(s.Context(), "mc1"))
	s.WaitIdle()
}

// scale lets the node pool want a number of hosts, and returns its nodes.
func (s *site) scale(replicas int64) (nodes int) {
	s.Helper()
	s.pool["spec"].(map[string]any)["replicas"] = replicas
	nodes, err := s.pools.Reconcile(s.controlPlane, s.pool)
	require.NoError(s, err)
	return nodes
}

// agent returns the Agent of a machine on the management cluster, or nil.
func (s *site) agent(m *kubetest.Machine) *agentinstall.Agent {
	s.Helper()
	found := s.hub.Object(simulate.AgentsPath, namespace, m.ID)
	if found == nil {
		return nil
	}
	agent := &agentinstall.Agent{}
	require.NoError(s, runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, agent))
	return agent
}

// requireState requires the state of a machine here, and in its Agent.
func (s *site) requireState(m *kubetest.Machine, state string) {
	s.Helper()
	host := m.Host()
	require.Equal(s, state, *host.Status, *host.StatusInfo)
	require.Equal(s, state, s.agent(m).Status.DebugInfo.State)
}

// requireProblem requires the problem of a machine; "" for none.
func (s *site) requireProblem(m *kubetest.Machine, part string) {
	s.Helper()
	o, err := s.Overview("mc1")
	require.NoError(s, err)
	for _, host := range o.Hosts {
		if host.ID != m.ID {
			continue
		}
		if part == "" {
			require.Empty(s, host.Problem)
		} else {
			require.Contains(s, host.Problem, part)
		}
		return
	}
	require.Empty(s, part, "host %s is not listed", m.ID)
}

// requireProblemOfAll requires what keeps all hosts from being followed.
func (s *site) requireProblemOfAll(part string) {
	s.Helper()
	o, err := s.Overview("mc1")
	require.NoError(s, err)
	if part == "" {
		require.Empty(s, o.Problem)
		return
	}
	require.Contains(s, o.Problem, part)
}

// join binds a chosen machine, until it is ready to be installed.
func (s *site) join(m *kubetest.Machine) {
	s.Helper()
	s.sync()
	s.requireState(m, models.HostStatusBinding)
	s.discover(m) // the agent of a host that is being bound registers again
	require.Equal(s, models.HostStatusKnown, *m.Host().Status, *m.Host().StatusInfo)
}

// install installs a machine that is ready to join.
func (s *site) install(m *kubetest.Machine) {
	s.Helper()
	s.sync()
	s.requireState(m, models.HostStatusInstalling)
	s.installs[m.ID]++
	for _, stage := range []models.HostStage{models.HostStageStartingInstallation, models.HostStageRebooting} {
		require.NoError(s, s.Engine.RecordHostProgress(s.Context(), s.env, m.ID, &models.HostProgress{
			CurrentStage: stage}))
	}
	s.sync()
	s.requireState(m, models.HostStatusAddedToExistingCluster)
}

// refuse makes the API of the management cluster fail; 0 ends that.
func (s *site) refuse(status int, when func(*http.Request) bool) {
	s.hub.Answer(func(r *http.Request) int {
		if when == nil || when(r) {
			return status
		}
		return 0
	})
}

// releases serves one release.
type releases struct{}

func (releases) Payload(_ context.Context, pullSpec, arch string, _ authn.Keychain) (*release.Payload, error) {
	images := map[string]string{}
	for _, tag := range []string{release.TagInstaller, release.TagAgent, release.TagHostInstaller,
		release.TagController, release.TagMachineConfigOperator, release.TagMustGather} {
		images[tag] = "quay.io/parts/" + tag + "@sha256:" + strings.Repeat("a", 64)
	}
	return &release.Payload{PullSpec: pullSpec, Image: "quay.io/release@sha256:" + strings.Repeat("b", 64),
		Version: "4.20.8", Architecture: arch, Images: images}, nil
}

func (releases) Installer(context.Context, *release.Payload, authn.Keychain,
	func(done, total int64)) (*release.Installer, func(), error) {
	return nil, nil, fmt.Errorf("these tests install no cluster")
}

func (releases) Generate(context.Context, *release.Installer, release.GenerateRequest) (*release.Generated, error) {
	return nil, fmt.Errorf("these tests install no cluster")
}
