package metal_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/bmc"
	"landfall/appliance/kube/metal"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/kube/spoke"
	"landfall/store"
)

// reached is a cluster as those who reach into it find it: each call is begun, and has come to its
// end when it is made again.
type reached struct {
	mu      sync.Mutex
	begun   map[string]bool
	made    []spoke.Server
	drained bool
	fault   error
	asked   int // for the authority
}

func (r *reached) ServerCA(task, _ string, again func()) (string, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done("authority "+task, again) {
		return "", false, nil
	}
	r.asked++
	return "the authority", true, r.fault
}

func (r *reached) done(task string, again func()) bool {
	if !r.begun[task] {
		r.begun[task] = true
		go again()
		return false
	}
	delete(r.begun, task)
	return true
}

func (r *reached) EnsureMachine(task, _ string, server spoke.Server, again func()) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done("machine "+task, again) {
		return false, nil
	}
	r.made = append(r.made, server)
	return true, r.fault
}

func (r *reached) DrainNode(task, _, _ string, again func()) (bool, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done("drain "+task, again) {
		return false, false, nil
	}
	return r.drained, true, r.fault
}

func (r *reached) set(drained bool, fault error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drained, r.fault = drained, fault
}

func (s *site) spokes() metal.Spokes {
	if s.reach == nil {
		return nil
	}
	return s.reach
}

func newReached() *reached { return &reached{begun: map[string]bool{}} }

// eventually waits for what comes of calls beside the loop, whose clock goes on meanwhile.
func (s *site) eventually(what string, ok func() bool) {
	s.Helper()
	require.Eventually(s, func() bool {
		s.clock.Advance(time.Second)
		return ok()
	}, 10*time.Second, time.Millisecond, what)
}

// joins has a machine join an installed cluster.
func (s *site) joins(alter func(*hiveext.AgentClusterInstall)) {
	s.apply(objects.Secrets, secretObject())
	s.apply(objects.InfraEnvs, infraEnvObject())
	s.clock.Advance(settles)
	s.apply(objects.ClusterDeployments, &hivev1.ClusterDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "one"},
		Spec: hivev1.ClusterDeploymentSpec{Installed: true,
			ClusterInstallRef: &hivev1.ClusterInstallLocalReference{Name: "one"}},
	})
	aci := &hiveext.AgentClusterInstall{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "one"}}
	if alter != nil {
		alter(aci)
	}
	s.apply(objects.AgentClusterInstalls, aci)
	s.apply(objects.BareMetalHosts, hostObject())
	s.server(registered)
	s.server(booted)
	s.apply(objects.Agents, agentObject(func(agent *agentinstall.Agent) {
		agent.Spec.ClusterDeploymentName = &agentinstall.ClusterReference{Namespace: "site", Name: "one"}
		agent.Status.Kind, agent.Status.Role, agent.Status.DebugInfo.State = "AddToExistingClusterHost", "worker",
			"installing-in-progress"
	}))
}

func TestMachine_createdForJoiningHost(t *testing.T) {
	s := newSiteWith(t, newReached())
	s.joins(nil)
	s.eventually("it has its Machine", func() bool {
		return s.host().Annotations[bmac+
			"spoke-bmh-machine-created"] != ""
	})
	s.waitIdle()
	require.Len(t, s.reach.made, 1, "once")
	made := s.reach.made[0]
	require.Equal(t, []string{"node0", "one", "worker"}, []string{made.Name, made.Cluster, made.Role})
	require.Contains(t, made.Hardware, "nics")
	has := false
	require.NoError(t, s.db.View(func(tx *store.Tx) (err error) {
		has, err = metal.HasMachine(tx, s.o, "site/"+s.agent().Name)
		return err
	}))
	require.True(t, has, "the cluster approves what its kubelet asks for")
}

func TestMachine_clusterWithoutMachineAPI(t *testing.T) {
	yes := true
	for name, alter := range map[string]func(*hiveext.AgentClusterInstall){
		"people look after the network": func(
			aci *hiveext.AgentClusterInstall) {
			aci.Spec.Networking.UserManagedNetworking = &yes
		},
		"there is no platform": func(
			aci *hiveext.AgentClusterInstall) {
			aci.Spec.PlatformType = hiveext.NonePlatformType
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSiteWith(t, newReached())
			s.joins(alter)
			s.waitIdle()
			require.Empty(t, s.reach.made)
			require.Empty(t, s.reach.begun)
		})
	}
	t.Run("the cluster has no Machines", func(t *testing.T) {
		s := newSiteWith(t, newReached())
		s.reach.fault = spoke.ErrNoMachines
		s.joins(nil)
		s.waitIdle()
		require.NotContains(t, s.host().Annotations, bmac+"spoke-bmh-machine-created")
	})
}

func TestServerCA_inIgnitionOverride(t *testing.T) {
	s := newSiteWith(t, newReached())
	s.reach.fault = errors.New("The cluster's API does not answer.")
	s.joins(nil)
	s.edit(objects.Agents, s.agent().Name, func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(u.Object, "insufficient", "status", "debugInfo", "state"))
	})
	const encoded, annotation = "dGhlIGF1dGhvcml0eQ==", bmac + "ignition-config-overrides"
	s.eventually("it is told", func() bool { return s.events("node0")["MachineConfigServerNotTrusted"] != "" })
	s.reach.set(false, nil)
	s.eventually("it trusts it", func() bool {
		return strings.Contains(s.agent().Spec.IgnitionConfigOverrides,
			encoded)
	})
	s.waitIdle()
	require.Equal(t, s.host().Annotations[annotation], s.agent().Spec.IgnitionConfigOverrides)
	s.reach.mu.Lock()
	asked := s.reach.asked
	s.reach.mu.Unlock()

	s.annotate(objects.BareMetalHosts, "node0", annotation,
		`{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/mine","contents":{"source":"data:,hi"}}]}}`)
	s.eventually("what a person adds is merged with it", func() bool {
		has := s.agent().Spec.IgnitionConfigOverrides
		return strings.Contains(has, encoded) && strings.Contains(has, "/etc/mine")
	})
	s.waitIdle()
	s.reach.mu.Lock()
	defer s.reach.mu.Unlock()
	require.LessOrEqual(t, s.reach.asked-asked, 2, "it is not asked again and again")
}

func TestMachine_refusedByCluster(t *testing.T) {
	s := newSiteWith(t, newReached())
	s.reach.fault = errors.New("The cluster's API does not answer.")
	s.joins(nil)
	tries := func() int {
		s.reach.mu.Lock()
		defer s.reach.mu.Unlock()
		return len(s.reach.made)
	}
	s.eventually("it is tried again", func() bool { return tries() > 1 })
	s.waitIdle()
	require.Contains(t, s.events("node0"), "SpokeMachineNotMade")
	s.reach.set(false, nil)
	s.eventually("it has its Machine", func() bool {
		return s.host().Annotations[bmac+
			"spoke-bmh-machine-created"] != ""
	})
}

func TestDrain_deletionWithAgent(t *testing.T) {
	s := newSiteWith(t, newReached())
	s.converged()
	s.apply(objects.Secrets, secretObject())
	s.apply(objects.InfraEnvs, infraEnvObject())
	s.clock.Advance(settles)
	s.apply(objects.BareMetalHosts, hostObject(func(host *metal3.BareMetalHost) {
		host.Annotations = map[string]string{bmac + "remove-agent-and-node-on-delete": ""}
	}))
	s.server(registered)
	s.server(booted)
	s.apply(objects.Agents, agentObject(func(agent *agentinstall.Agent) {
		agent.Status.Progress.CurrentStage = "Done"
		agent.Spec.ClusterDeploymentName = &agentinstall.ClusterReference{Namespace: "site", Name: "one"}
	}))
	s.server(func(server *bmc.Server) { server.Booted.Ejected = noon })
	s.delete(objects.BareMetalHosts, "node0")
	status := func() string { return s.host().Annotations[bmac+"drain-status"] }
	require.Equal(t, "draining in progress", status())
	s.reach.set(false, errors.New("The cluster's API does not answer."))
	s.eventually("it can't be drained",
		func() bool { return status() == "failed to drain node: The cluster's API does not answer." })
	s.reach.set(false, nil)
	s.eventually("it is being drained", func() bool { return status() == "draining in progress" })
	require.NotNil(t, s.agent())
	s.reach.set(true, nil)
	s.eventually("it is drained", func() bool { return s.agent() == nil })
	s.waitIdle()
	require.Equal(t, "drain succeeded", status())
}
