package hosts

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// connectSpokes connects the site to simulated clusters.
func (b *testSite) connectSpokes() *kubetest.Spokes {
	spokes := kubetest.NewSpokes()
	b.Spokes = spokes
	return spokes
}

// installedIn returns a machine whose host is installed in the cluster "one". It was bound late.
func installedIn(b *testSite) *kubetest.Machine {
	b.RegisterCluster("one")
	from := newSite(b)
	from.Apply(kubetest.InfraEnvManifest("pool"))
	kept := from.Agent(from.Boot("pool", 1))
	b.Apply(kubetest.InfraEnvManifest("pool"))
	b.Apply(installedAgent(kept.Name, kept))
	return &kubetest.Machine{Site: b.Site, InfraEnv: b.InfraEnvID("pool"), Number: 1, ID: kept.Name}
}

// installedAgent returns an Agent with the inventory of another whose host is installed in the
// cluster "one".
func installedAgent(name string, like *agentinstall.Agent) string {
	return "kind: Agent\nmetadata:\n  namespace: site\n  name: " + name + "\n  labels: {" + labelInfraEnv +
		": pool}\n  annotations:\n" +
		"    " + annotationAgentState + ": installed\n    " + annotationAgentInventory + ": '" +
		like.Annotations[annotationAgentInventory] + "'\n" +
		"spec: {approved: true, role: '', clusterDeploymentName: {namespace: site, name: one}}"
}

// A machine leaves a cluster whose API does not answer. Another machine with its name joins the
// cluster before the API answers again.
func TestNodeRemoval_sparesReplacement(t *testing.T) {
	b := newSite(t)
	spokes := b.connectSpokes()
	m := installedIn(b)
	replacement := installedAgent("00000000-0000-4000-8000-000000000002", b.Agent(m))
	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.ClusterDeploymentName = nil })
	spokes.Fail(errors.New("The cluster's API does not answer."))
	m.Register()
	m.Report()
	b.Eventually("the removal fails",
		func() bool { return b.Agent(m).Status.DeprovisionInfo.Message == "The cluster's API does not answer." })
	b.Apply(replacement)
	spokes.Fail(nil)
	b.Eventually("the removal ends", func() bool { return b.Agent(m).Status.DeprovisionInfo == nil })
	require.Empty(t, spokes.Removed())
}

func TestNodeRemoval_afterUnbinding(t *testing.T) {
	b := newSite(t)
	spokes := b.connectSpokes()
	m := installedIn(b)
	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.ClusterDeploymentName = nil })
	b.RequireCondition(m, conditionBound, corev1.ConditionFalse, "UnbindingPendingUserAction")
	require.Contains(t, b.Agent(m).Status.DeprovisionInfo.Message, "removed when the host has booted")
	require.Empty(t, spokes.Removed(), "the node may still run")

	spokes.Fail(errors.New("The cluster's API does not answer."))
	m.Register()
	m.Report()
	b.Eventually("the error is in the status",
		func() bool { return b.Agent(m).Status.DeprovisionInfo.Message == "The cluster's API does not answer." })
	spokes.Fail(nil)
	b.Eventually("the node is removed", func() bool { return b.Agent(m).Status.DeprovisionInfo == nil })
	require.Equal(t, []string{"site/one node-1"}, spokes.Removed())
}

func TestNodeRemoval_skipAnnotation(t *testing.T) {
	b := newSite(t)
	spokes := b.connectSpokes()
	m := installedIn(b)
	b.Update(func(tx *store.Tx) error {
		return b.Objects.Update(tx, objects.Agents, "site", m.ID, func(u *unstructured.Unstructured) error {
			annotations := cloned(u.GetAnnotations())
			annotations[annotationSkipSpokeCleanup] = "true"
			u.SetAnnotations(annotations)
			return nil
		})
	})
	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.ClusterDeploymentName = nil })
	m.Register()
	m.Report()
	b.WaitIdle()
	require.Nil(t, b.Agent(m).Status.DeprovisionInfo)
	require.Empty(t, spokes.Removed())
}
