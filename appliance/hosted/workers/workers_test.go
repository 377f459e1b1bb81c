package workers_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/fault"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/record"
	"landfall/appliance/hosted/workers"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/simulate"
	"landfall/store"
)

// node returns a site with one host that is a node of edge1.
func node(t *testing.T) (*site, *kubetest.Machine) {
	t.Helper()
	s := newSite(t, false)
	m := s.boot(1)
	s.sync()
	s.scale(1)
	s.join(m)
	s.install(m)
	require.Equal(t, 1, s.scale(1))
	return s, m
}

// change changes the Agent of a machine as somebody on the management cluster does.
func (s *site) change(m *kubetest.Machine, fn func(*unstructured.Unstructured)) {
	s.Helper()
	require.True(s, s.hub.Change(simulate.AgentsPath, namespace, m.ID, fn))
}

// A node pool gets a host of the appliance: the host is offered as an Agent, chosen, bound with the
// ignition endpoint and the token of the hosted cluster, installed, and reported as a node.
func TestWorkers_fromNodePoolToNode(t *testing.T) {
	for name, kubernetes := range map[string]bool{"without Kubernetes API": false, "with Kubernetes API": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, kubernetes)
			s.sync()
			m := s.boot(1)
			require.Nil(t, s.agent(m))
			s.sync()
			agent := s.agent(m)
			require.True(t, agent.Spec.Approved)
			require.Equal(t, "large", agent.Labels[controlplane.LabelProfile])
			require.NotContains(t, agent.Labels, "infraenvs.agent-install.openshift.io",
				"an assisted service there would make a host of it")
			require.Equal(t, "S1", agent.Status.Inventory.SystemVendor.SerialNumber)
			require.Equal(t, "node-1", agent.Spec.Hostname)
			s.requireState(m, models.HostStatusKnownUnbound)
			s.sync()
			require.Equal(t, agent.ResourceVersion, s.agent(m).ResourceVersion, "nothing has changed")

			require.Zero(t, s.scale(1))
			s.join(m)
			s.install(m)
			require.Equal(t, 1, s.scale(1), "the host is a node")
			text, err := s.Engine.ReadHostIgnition(s.env, m.ID)
			require.NoError(t, err)
			for _, part := range []string{"https://ignition." + s.controlPlane + ".test:443/ignition",
				"Bearer token of edge1-workers", "clusters/edge1-workers",
				"data:text/plain;base64,LS0tLS1CRUdJTiBDRVJU"} {
				require.Contains(t, text, part)
			}
			cluster, err := s.Engine.Cluster(m.Host().ClusterID.String())
			require.NoError(t, err)
			require.Equal(t, "hosted.example.com", cluster.BaseDNSDomain)
			s.requireProblem(m, "")
		})
	}
}

// A host that is not ready, not approved or part of a cluster is not offered.
func TestWorkers_offersReadyHostsOnly(t *testing.T) {
	s := newSite(t, true)
	s.Apply(kubetest.InfraEnvManifest("rack", "agentApproval: {autoApprove: false}"))
	registered := s.Machine(s.env, 1)
	registered.Register()
	unapproved := s.boot(2)
	s.sync()
	require.Nil(t, s.agent(registered))
	require.Nil(t, s.agent(unapproved))
	s.requireProblem(registered, "")
	s.requireProblem(unapproved, "nobody has approved it")
	require.NoError(t, s.approve(unapproved))
	s.sync()
	require.NotNil(t, s.agent(unapproved))
}

// Each request to the management cluster fails once, at each step. In the end, one host was
// installed once, and it left its cluster because the node pool released it.
func TestWorkers_lineIsCutAtEachRequest(t *testing.T) {
	for every := 1; every <= 4; every++ {
		t.Run(fmt.Sprintf("after %d requests", every), func(t *testing.T) {
			s := newSite(t, false)
			count := 0
			cut := func() {
				s.hub.Answer(func(*http.Request) int {
					count++
					if count%(every+1) == 0 {
						return http.StatusServiceUnavailable
					}
					return 0
				})
			}
			settle := func() {
				cut()
				for range 12 {
					_ = s.Sync(t.Context(), "mc1") // what fails is tried again
				}
				s.hub.Answer(nil)
				s.sync()
			}
			m := s.boot(1)
			settle()
			s.requireState(m, models.HostStatusKnownUnbound)
			s.scale(1)
			settle()
			s.requireState(m, models.HostStatusBinding)
			s.discover(m)
			settle()
			s.requireState(m, models.HostStatusInstalling)
			s.install(m)
			s.scale(0)
			settle()
			s.requireState(m, models.HostStatusUnbindingPendingUserAction)
			require.Equal(t, 1, s.installs[m.ID])
		})
	}
}

// A management cluster that does not answer changes nothing at a host.
func TestWorkers_silentClusterChangesNothing(t *testing.T) {
	s, m := node(t)
	s.refuse(http.StatusServiceUnavailable, nil)
	require.Error(t, s.Sync(t.Context(), "mc1"))
	s.requireProblemOfAll("The hosts are not followed")
	require.Equal(t, models.HostStatusAddedToExistingCluster, *m.Host().Status)
	s.hub.Answer(nil)
	s.sync()
	s.requireProblemOfAll("")
	s.requireState(m, models.HostStatusAddedToExistingCluster)
}

// The appliance restarts after each step, and its Kubernetes API is enabled and disabled.
func TestWorkers_restartAtEachStep(t *testing.T) {
	s := newSite(t, true)
	restart := func(kubernetes bool) {
		s.kubernetes = kubernetes
		s.restart()
		s.sync()
		s.sync()
	}
	m := s.boot(1)
	restart(true)
	s.requireState(m, models.HostStatusKnownUnbound)
	s.scale(1)
	restart(false)
	s.requireState(m, models.HostStatusBinding)
	restart(true)
	s.discover(m)
	restart(false)
	s.requireState(m, models.HostStatusInstalling)
	restart(true)
	s.install(m)
	restart(false)
	restart(true)
	s.requireState(m, models.HostStatusAddedToExistingCluster)
	require.Equal(t, 1, s.scale(1))
	s.scale(0)
	restart(true)
	s.requireState(m, models.HostStatusUnbindingPendingUserAction)
}

// A host that its node pool releases leaves its cluster. Once it runs the discovery image again, it
// can be chosen again.
func TestWorkers_releasedHostIsOfferedAgain(t *testing.T) {
	s, m := node(t)
	s.scale(0)
	s.sync()
	s.requireState(m, models.HostStatusUnbindingPendingUserAction)
	require.Nil(t, m.Host().ClusterID)
	s.discover(m)
	s.sync()
	s.requireState(m, models.HostStatusKnownUnbound)
	s.scale(1)
	s.join(m)
	s.install(m)
	require.Equal(t, 1, s.scale(1))
}

func TestWorkers_releasedDuringInstallation(t *testing.T) {
	s := newSite(t, false)
	m := s.boot(1)
	s.sync()
	s.scale(1)
	s.join(m)
	s.sync()
	s.requireState(m, models.HostStatusInstalling)
	s.scale(0)
	s.sync()
	s.requireState(m, models.HostStatusUnbindingPendingUserAction)
}

// Agents of others are not touched, even if they have the name of a host.
func TestWorkers_foreignAgentsStayUntouched(t *testing.T) {
	s := newSite(t, false)
	m := s.boot(1)
	for _, name := range []string{m.ID, "other"} {
		s.hub.Put(simulate.AgentsPath, map[string]any{"metadata": map[string]any{"namespace": namespace, "name": name,
			"annotations": map[string]any{"landfall.io/appliance": "another"}},
			"spec": map[string]any{"clusterDeploymentName": map[string]any{"namespace": s.controlPlane,
				"name": "hosted"}}})
	}
	before := s.hub.Objects(simulate.AgentsPath, namespace)
	s.sync()
	require.Equal(t, before, s.hub.Objects(simulate.AgentsPath, namespace))
	require.Equal(t, models.HostStatusKnownUnbound, *m.Host().Status)
	s.requireProblem(m, "an Agent with this name")
}

// A missing Agent says nothing about its host. It is written again, with the choice that was
// followed.
func TestWorkers_missingAgentIsWrittenAgain(t *testing.T) {
	s, m := node(t)
	chosen := s.agent(m).Spec
	s.hub.Remove(simulate.AgentsPath, namespace, m.ID)
	s.sync()
	s.sync()
	s.requireState(m, models.HostStatusAddedToExistingCluster)
	require.Equal(t, chosen, s.agent(m).Spec)
	require.Equal(t, 1, s.scale(1), "the node pool still has the host")
	s.scale(0)
	s.sync()
	s.requireState(m, models.HostStatusUnbindingPendingUserAction)
}

func TestWorkers_deletedHostLosesItsAgent(t *testing.T) {
	s := newSite(t, false)
	m := s.boot(1)
	s.sync()
	require.NoError(t, s.Engine.DeregisterHost(t.Context(), s.env, m.ID))
	s.sync()
	require.Nil(t, s.agent(m))
}

// An Agent that tells more than the store was written before the appliance was restored from an
// older backup. Neither it nor the host is touched.
func TestWorkers_olderStoreHolds(t *testing.T) {
	s := newSite(t, false)
	m := s.boot(1)
	s.sync()
	s.change(m, func(u *unstructured.Unstructured) {
		annotations := u.GetAnnotations()
		annotations["landfall.io/sequence"] = "7"
		u.SetAnnotations(annotations)
	})
	s.scale(1)
	before := s.agent(m).ResourceVersion
	s.sync()
	require.Equal(t, models.HostStatusKnownUnbound, *m.Host().Status)
	require.Equal(t, before, s.agent(m).ResourceVersion)
	s.requireProblem(m, "restored from an older backup")

	s.scale(0)
	s.sync()
	s.requireProblem(m, "")
	s.scale(1)
	s.join(m)
	s.install(m)

	unknown := s.agent(m)
	unknown.Name = "00000000-0000-4000-8000-000000000099"
	s.hub.Put(simulate.AgentsPath, map[string]any{"metadata": map[string]any{"namespace": namespace,
		"name": unknown.Name, "annotations": map[string]any{
			"landfall.io/appliance": unknown.Annotations["landfall.io/appliance"], "landfall.io/sequence": "3"}},
		"spec": map[string]any{}})
	s.sync()
	require.NotNil(t, s.hub.Object(simulate.AgentsPath, namespace, unknown.Name))
	s.requireProblem(&kubetest.Machine{Site: s.Site, ID: unknown.Name}, "unknown here")
}

// An Agent without the choice that was followed, and without a change since, comes from a backup of
// the management cluster. The host stays in its cluster.
func TestWorkers_olderManagementClusterHolds(t *testing.T) {
	s := newSite(t, false)
	m := s.boot(1)
	s.sync()
	old := s.hub.Object(simulate.AgentsPath, namespace, m.ID)
	s.scale(1)
	s.join(m)
	s.install(m)
	s.hub.Put(simulate.AgentsPath, old.Object)
	s.sync()
	require.Equal(t, models.HostStatusAddedToExistingCluster, *m.Host().Status)
	s.requireProblem(m, "older than the choice that was followed")
	_, err := s.Engine.UnbindHost(t.Context(), s.env, m.ID)
	require.NoError(t, err)
	s.sync()
	s.requireProblem(m, "")
	s.discover(m)
	s.sync()
	s.scale(1)
	s.join(m)
}

// A host that was installed for a node pool and runs the discovery image again is not installed a
// second time without a person.
func TestWorkers_installsOnce(t *testing.T) {
	s, m := node(t)
	_, err := s.Engine.ResetHost(t.Context(), s.env, m.ID)
	require.NoError(t, err)
	s.discover(m)
	s.sync()
	s.requireState(m, models.HostStatusKnown)
	s.requireProblem(m, "not installed again without a person")
}

// A host that a person has bound or unbound here is not moved.
func TestWorkers_personDecidesHere(t *testing.T) {
	s, m := node(t)
	_, err := s.Engine.UnbindHost(t.Context(), s.env, m.ID)
	require.NoError(t, err)
	s.discover(m)
	s.sync()
	s.requireState(m, models.HostStatusKnownUnbound)
	s.requireProblem(m, "Somebody unbound the host")
	s.scale(0)
	s.sync()
	s.requireProblem(m, "")
	_, err = s.Engine.BindHost(t.Context(), s.env, m.ID, s.otherCluster())
	require.NoError(t, err)
	s.scale(1)
	s.sync()
	s.requireProblem(m, "belongs to another cluster here")
}

func TestWorkers_clusterOfOthersIsNotFollowed(t *testing.T) {
	s := newSite(t, false)
	m := s.boot(1)
	s.sync()
	s.controlPlane = "clusters-other"
	s.scale(1)
	s.sync()
	s.requireState(m, models.HostStatusKnownUnbound)
	s.requireProblem(m, "did not create")
}

// The cluster's own assisted service would change the Agents.
func TestWorkers_assistedServiceThere(t *testing.T) {
	s := newSite(t, false)
	m := s.boot(1)
	config := "apis/agent-install.openshift.io/v1beta1/agentserviceconfigs"
	s.hub.Put(config, map[string]any{"metadata": map[string]any{"name": "agent"}})
	s.sync()
	require.Nil(t, s.agent(m))
	s.requireProblemOfAll("AgentServiceConfig")
	err := s.Set(t.Context(), "mc1", []record.Workers{{InfraEnvID: s.env, Profile: "small"}})
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	s.hub.Remove(config, "", "agent")
	s.sync()
	require.NotNil(t, s.agent(m))
	s.requireProblemOfAll("")
}

func TestWorkers_heldManagementCluster(t *testing.T) {
	s := newSite(t, false)
	m := s.boot(1)
	s.holdManagement()
	s.sync()
	require.Nil(t, s.agent(m))
	s.requireProblemOfAll("is held")
}

// Hosts that are no longer offered lose their Agents, except those that a node pool has.
func TestWorkers_withdrawnHosts(t *testing.T) {
	s, m := node(t)
	free := s.boot(2)
	s.sync()
	require.NotNil(t, s.agent(free))
	require.NoError(t, s.Set(t.Context(), "mc1", nil))
	s.sync()
	require.Nil(t, s.agent(free))
	s.requireState(m, models.HostStatusAddedToExistingCluster)
	s.scale(0)
	s.sync()
	s.sync()
	require.Nil(t, s.agent(m))
	require.Nil(t, m.Host().ClusterID)
	o, err := s.Overview("mc1")
	require.NoError(t, err)
	require.Empty(t, o.Hosts)
}

// The cluster that stands for a hosted cluster goes with it, after its last host.
func TestWorkers_deletedHostedCluster(t *testing.T) {
	s, m := node(t)
	cluster := m.Host().ClusterID.String()
	s.Update(func(tx *store.Tx) error {
		return record.EachCluster(tx, "", "", func(c *record.Cluster) error { return record.DeleteCluster(tx, c) })
	})
	s.sync()
	require.Equal(t, cluster, m.Host().ClusterID.String())
	s.scale(0)
	s.sync()
	_, err := s.Engine.Cluster(cluster)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	s.requireState(m, models.HostStatusUnbindingPendingUserAction)
}

func TestSet_refusesWrongChoices(t *testing.T) {
	s := newSite(t, false)
	_, err := s.provider.AddManagement(t.Context(), record.Management{Consumer: "mc2", ClusterID: "hub2",
		BaseDomain: "hosted.example.com", Address: "192.0.2.10"})
	require.NoError(t, err)
	_, err = s.provider.AddManagement(t.Context(), record.Management{Consumer: "mc3",
		BaseDomain: "hosted.example.com", Address: "192.0.2.10"})
	require.NoError(t, err)
	rack := record.Workers{InfraEnvID: s.env, Profile: "large"}
	for name, c := range map[string]struct {
		consumer string
		wanted   []record.Workers
		says     string
	}{
		"unknown management cluster": {"mc9", []record.Workers{rack}, "no management cluster mc9"},
		"installed by others":        {"mc3", []record.Workers{rack}, "did not install"},
		"offered to another one":     {"mc2", []record.Workers{rack}, "already offered to the management cluster mc1"},
		"named twice":                {"mc1", []record.Workers{rack, rack}, "named twice"},
		"no profile":                 {"mc1", []record.Workers{{InfraEnvID: s.env}}, "is not a label value"},
		"unknown infra-env":          {"mc1", []record.Workers{{InfraEnvID: "x", Profile: "a"}}, "no infra-env"},
		"infra-env of a cluster": {"mc1", []record.Workers{{InfraEnvID: s.boundEnv(), Profile: "a"}},
			"belongs to a cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, s.Set(t.Context(), c.consumer, c.wanted), c.says)
		})
	}
}

// The service follows a management cluster from the choice until its last host is withdrawn.
func TestRun_followsWhatIsChosen(t *testing.T) {
	s := newSite(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Service.Run(ctx) }()
	m := s.boot(1)
	s.Eventually("the Agent is there", func() bool { return s.agent(m) != nil })
	require.NoError(t, s.Set(t.Context(), "mc1", nil))
	s.Eventually("the Agent is gone", func() bool { return s.agent(m) == nil })
	s.offer()
	s.Eventually("the Agent is there again", func() bool {
		s.Clock.Advance(time.Minute)
		return s.agent(m) != nil
	})
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, s.DB.View(func(tx *store.Tx) error {
		all, err := workers.Offers(tx, "mc1")
		require.Len(t, all, 1)
		return err
	}))
}

// The Agent of a host whose row can't be read stays as it is, and the other hosts are offered.
func TestWorkers_damagedHost(t *testing.T) {
	s := newSite(t, false)
	damaged := s.boot(1)
	s.sync()
	before := s.agent(damaged)
	require.NotNil(t, before)
	s.stop()
	s.DamageRow("/hosts/" + s.env + "/" + damaged.ID)
	s.start()
	whole := s.boot(2)
	s.sync()
	require.NotNil(t, s.agent(whole), "it is offered")
	require.Equal(t, before, s.agent(damaged))
	s.requireProblem(damaged, "landfall check")
	s.requireProblemOfAll("")

	require.NoError(t, s.Set(s.Context(), "mc1", nil))
	s.sync()
	require.Nil(t, s.agent(whole))
	require.Equal(t, before, s.agent(damaged), "it may be a node")
}
