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
	"landfall/appliance/engine/record"
	"landfall/appliance/kube/metal"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/kube/spoke"
	"landfall/store"
)

// fakeCluster is a fake of an installed cluster. The first call of a task starts it; the next call
// returns its result.
type fakeCluster struct {
	mu      sync.Mutex
	started map[string]bool
	created []spoke.Server
	drained bool
	fault   error
	caCalls int // calls of ServerCA
}

func (r *fakeCluster) ServerCA(task, _ string, requeue func()) (string, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done("authority "+task, requeue) {
		return "", false, nil
	}
	r.caCalls++
	return "the authority", true, r.fault
}

func (r *fakeCluster) done(task string, requeue func()) bool {
	if !r.started[task] {
		r.started[task] = true
		go requeue()
		return false
	}
	delete(r.started, task)
	return true
}

func (r *fakeCluster) EnsureMachine(task, _ string, server spoke.Server, requeue func()) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done("machine "+task, requeue) {
		return false, nil
	}
	r.created = append(r.created, server)
	return true, r.fault
}

func (r *fakeCluster) DrainNode(task, _, _ string, requeue func()) (bool, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done("drain "+task, requeue) {
		return false, false, nil
	}
	return r.drained, true, r.fault
}

func (r *fakeCluster) set(drained bool, fault error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drained, r.fault = drained, fault
}

func (s *site) spokes() metal.Spokes {
	if s.cluster == nil {
		return nil
	}
	return s.cluster
}

func newFakeCluster() *fakeCluster { return &fakeCluster{started: map[string]bool{}} }

// eventually waits until ok returns true, for effects of goroutines outside of the loop. Meanwhile
// it advances the clock.
func (s *site) eventually(what string, ok func() bool) {
	s.Helper()
	require.Eventually(s, func() bool {
		s.clock.Advance(time.Second)
		return ok()
	}, time.Minute, time.Millisecond, what)
}

// joins lets a machine join an installed cluster. alter may change the AgentClusterInstall.
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
	s := newSiteWith(t, newFakeCluster())
	s.joins(nil)
	s.eventually("the Machine exists", func() bool {
		return s.host().Annotations[bmac+
			"spoke-bmh-machine-created"] != ""
	})
	s.waitIdle()
	require.Len(t, s.cluster.created, 1, "once")
	made := s.cluster.created[0]
	require.Equal(t, []string{"node0", "one", "worker"}, []string{made.Name, made.Cluster, made.Role})
	require.Contains(t, made.Hardware, "nics")
	machines, key := metal.Machines{DB: s.db, Objects: s.o}, "environment/"+s.agent().Name
	has, err := machines.Has(key)
	require.NoError(t, err)
	require.False(t, has, "there is no such host")
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return record.Hosts.Put(tx, key, &record.Host{Object: record.Object{Key: "site/" + s.agent().Name}})
	}))
	has, err = machines.Has(key)
	require.NoError(t, err)
	require.True(t, has, "the cluster approves the kubelet's requests")
}

func TestMachine_clusterWithoutMachineAPI(t *testing.T) {
	yes := true
	for name, alter := range map[string]func(*hiveext.AgentClusterInstall){
		"user-managed networking": func(
			aci *hiveext.AgentClusterInstall) {
			aci.Spec.Networking.UserManagedNetworking = &yes
		},
		"no platform": func(
			aci *hiveext.AgentClusterInstall) {
			aci.Spec.PlatformType = hiveext.NonePlatformType
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSiteWith(t, newFakeCluster())
			s.joins(alter)
			s.waitIdle()
			require.Empty(t, s.cluster.created)
			require.Empty(t, s.cluster.started)
		})
	}
	t.Run("cluster without Machines", func(t *testing.T) {
		s := newSiteWith(t, newFakeCluster())
		s.cluster.fault = spoke.ErrNoMachines
		s.joins(nil)
		s.waitIdle()
		require.NotContains(t, s.host().Annotations, bmac+"spoke-bmh-machine-created")
	})
}

func TestServerCA_inIgnitionOverride(t *testing.T) {
	s := newSiteWith(t, newFakeCluster())
	s.cluster.fault = errors.New("The cluster's API does not answer.")
	s.joins(nil)
	s.edit(objects.Agents, s.agent().Name, func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(u.Object, "insufficient", "status", "debugInfo", "state"))
	})
	const encoded, annotation = "dGhlIGF1dGhvcml0eQ==", bmac + "ignition-config-overrides"
	s.eventually("the error is an Event",
		func() bool { return s.events("node0")["MachineConfigServerNotTrusted"] != "" })
	s.cluster.set(false, nil)
	s.eventually("the host trusts the authority", func() bool {
		return strings.Contains(s.agent().Spec.IgnitionConfigOverrides,
			encoded)
	})
	s.waitIdle()
	require.Equal(t, s.host().Annotations[annotation], s.agent().Spec.IgnitionConfigOverrides)
	s.cluster.mu.Lock()
	asked := s.cluster.caCalls
	s.cluster.mu.Unlock()

	s.annotate(objects.BareMetalHosts, "node0", annotation,
		`{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/mine","contents":{"source":"data:,hi"}}]}}`)
	s.eventually("the user's config is merged", func() bool {
		has := s.agent().Spec.IgnitionConfigOverrides
		return strings.Contains(has, encoded) && strings.Contains(has, "/etc/mine")
	})
	s.waitIdle()
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	require.LessOrEqual(t, s.cluster.caCalls-asked, 2, "the authority is not read repeatedly")
}

func TestMachine_refusedByCluster(t *testing.T) {
	s := newSiteWith(t, newFakeCluster())
	s.cluster.fault = errors.New("The cluster's API does not answer.")
	s.joins(nil)
	tries := func() int {
		s.cluster.mu.Lock()
		defer s.cluster.mu.Unlock()
		return len(s.cluster.created)
	}
	s.eventually("the call is repeated", func() bool { return tries() > 1 })
	s.waitIdle()
	require.Contains(t, s.events("node0"), "SpokeMachineNotMade")
	s.cluster.set(false, nil)
	s.eventually("the Machine exists", func() bool {
		return s.host().Annotations[bmac+
			"spoke-bmh-machine-created"] != ""
	})
}

func TestDrain_deletionWithAgent(t *testing.T) {
	s := newSiteWith(t, newFakeCluster())
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
	s.cluster.set(false, errors.New("The cluster's API does not answer."))
	s.eventually("the drain failed",
		func() bool { return status() == "failed to drain node: The cluster's API does not answer." })
	s.cluster.set(false, nil)
	s.eventually("the drain is in progress", func() bool { return status() == "draining in progress" })
	require.NotNil(t, s.agent())
	s.cluster.set(true, nil)
	s.eventually("the node is drained", func() bool { return s.agent() == nil })
	s.waitIdle()
	require.Equal(t, "drain succeeded", status())
}
