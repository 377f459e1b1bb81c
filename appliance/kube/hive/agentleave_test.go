package hive

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/engine"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// spokesSeen are clusters as those who reach into them find them: a call is begun, and has come to
// its end when it is made again.
type spokesSeen struct {
	mu      sync.Mutex
	begun   map[string]bool
	fault   error
	removed []string // <deployment> <node>
}

func (s *spokesSeen) RemoveNode(task, deployment, node string, again func()) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun[task] {
		s.begun[task] = true
		go again()
		return false, nil
	}
	delete(s.begun, task)
	if s.fault == nil {
		s.removed = append(s.removed, deployment+" "+node)
	}
	return true, s.fault
}

func (s *spokesSeen) PausePool(task, deployment, pool string, paused bool, again func()) (bool, error) {
	return s.RemoveNode("pool "+task, deployment, fmt.Sprintf("%s %t", pool, paused), again)
}

func (s *spokesSeen) gone() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.removed...)
}

func (s *spokesSeen) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err
}

// reaching is a bench that reaches into clusters.
func (b *hostsBench) reaching() *spokesSeen {
	seen := &spokesSeen{begun: map[string]bool{}}
	b.Spokes = seen
	return seen
}

// later waits for what comes of calls beside the loop, whose clock goes on meanwhile.
func (b *hostsBench) later(what string, ok func() bool) {
	b.Helper()
	require.Eventually(b, func() bool {
		b.clock.Advance(time.Second)
		return ok()
	}, 10*time.Second, time.Millisecond, what)
}

// installedIn makes an Agent of a host that is installed in the cluster "one", bound late.
func installedIn(b *hostsBench) *machine {
	b.cluster("one")
	from := newHostsBench(b)
	from.apply(infraEnvManifest("pool"))
	kept := from.agent(from.boot("pool", 1))
	b.apply(infraEnvManifest("pool"))
	b.apply("kind: Agent\nmetadata:\n  namespace: site\n  name: " + kept.Name + "\n  labels: {" + labelInfraEnv +
		": pool}\n  annotations:\n" +
		"    " + annotationAgentState + ": installed\n    " + annotationAgentInventory + ": '" +
		kept.Annotations[annotationAgentInventory] + "'\n" +
		"spec: {approved: true, role: '', clusterDeploymentName: {namespace: site, name: one}}")
	return &machine{b: b, env: b.envID("pool"), number: 1, id: kept.Name}
}

func TestTheNodeOfAHostThatWasTakenFromItsClusterIsRemovedWhenTheHostIsBack(t *testing.T) {
	b := newHostsBench(t)
	seen := b.reaching()
	m := installedIn(b)
	b.change(m, func(spec *agentinstall.AgentSpec) { spec.ClusterDeploymentName = nil })
	b.agentCondition(m, conditionBound, corev1.ConditionFalse, "UnbindingPendingUserAction")
	require.Contains(t, b.agent(m).Status.DeprovisionInfo.Message, "removed from it when the host has booted")
	require.Empty(t, seen.gone(), "it may run still")

	seen.fail(errors.New("The cluster's API does not answer."))
	m.register()
	m.report()
	b.later("the fault is told",
		func() bool { return b.agent(m).Status.DeprovisionInfo.Message == "The cluster's API does not answer." })
	seen.fail(nil)
	b.later("the node is removed", func() bool { return b.agent(m).Status.DeprovisionInfo == nil })
	require.Equal(t, []string{"site/one node-1"}, seen.gone())
}

func TestAPersonKeepsANodeFromBeingRemoved(t *testing.T) {
	b := newHostsBench(t)
	seen := b.reaching()
	m := installedIn(b)
	b.update(func(tx *store.Tx) error {
		return b.Objects.Update(tx, objects.Agents, "site", m.id, func(u *unstructured.Unstructured) error {
			annotations := cloned(u.GetAnnotations())
			annotations[annotationSkipSpokeCleanup] = "true"
			u.SetAnnotations(annotations)
			return nil
		})
	})
	b.change(m, func(spec *agentinstall.AgentSpec) { spec.ClusterDeploymentName = nil })
	m.register()
	m.report()
	b.quiet()
	require.Nil(t, b.agent(m).Status.DeprovisionInfo)
	require.Empty(t, seen.gone())
}

func TestWhatIsKnownOfAHostOnItsWayIntoAClusterIsItsAgents(t *testing.T) {
	b := newClusterBench(t)
	b.engine.Follows = func(*store.Tx, string) (bool, error) { return true, nil }
	seen := b.reaching()
	b.given(threeNodesManifest, nil)
	b.apply(infraEnvOfOne)
	machines := b.machines(3)
	b.approve(machines...)
	b.prepare(machines...)
	b.finish(machines...)
	late := &machine{b: b.hostsBench, env: b.envID("one"), number: 4, id: "00000000-0000-4000-8000-000000000004"}
	late.register()
	b.report(late)
	b.approve(late)
	require.NoError(t, b.engine.HostProgress(t.Context(), late.env, late.id,
		&models.HostProgress{CurrentStage: models.HostStageRebooting}))
	b.quiet()
	require.Equal(t, models.HostStageRebooting, b.agent(late).Status.Progress.CurrentStage)

	key := late.env + "/" + late.id
	problem := engine.JoiningProblem{Reason: "ClusterUnreachable",
		Message: "The cluster's API at https://api.one.site.test:6443 does not answer."}
	require.NoError(t, b.engine.HostSeen(t.Context(), key, engine.Seen{Problem: problem}))
	require.Equal(t, problem.Message, agentConditionOf(b.agent(late).Status.Conditions, conditionJoining).Message)
	at := morning.Add(time.Hour)
	require.NoError(t, b.engine.HostSeen(t.Context(), key, engine.Seen{
		Approved: []engine.CertificateRequest{{Name: "csr-a", ApprovedAt: at}, {Name: "csr-b", Serving: true,
			ApprovedAt: at}}, Stage: models.HostStageJoined,
	}))
	agent := b.agent(late)
	require.Equal(t, models.HostStageJoined, agent.Status.Progress.CurrentStage)
	require.Equal(t, []string{"csr-a client", "csr-b serving"}, []string{
		agent.Status.CSRStatus.ApprovedCSRs[0].Name + " " + agent.Status.CSRStatus.ApprovedCSRs[0].Type,
		agent.Status.CSRStatus.ApprovedCSRs[1].Name + " " + agent.Status.CSRStatus.ApprovedCSRs[1].Type,
	})
	require.Equal(t, corev1.ConditionTrue, agentConditionOf(agent.Status.Conditions, conditionJoining).Status)
	require.NoError(t, b.engine.HostSeen(t.Context(), key, engine.Seen{Stage: models.HostStageDone}))
	require.Equal(t, models.HostStatusAddedToExistingCluster, b.agent(late).Status.DebugInfo.State)

	seen.fail(errors.New("The cluster's API does not answer."))
	b.delete(objects.Agents, "site", late.id)
	b.later("it can't go", func() bool {
		return agentConditionOf(b.agent(late).Status.Conditions, conditionCleanup).
			Message == "The cluster's API does not answer."
	})
	seen.fail(nil)
	b.later("its node is removed", func() bool { return len(seen.gone()) == 1 })
	b.quiet()
	require.Equal(t, []string{"site/one node-4"}, seen.gone())
}
