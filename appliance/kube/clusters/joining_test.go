package clusters

import (
	"errors"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"landfall/appliance/engine"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

func TestJoiningHost_agentStatus(t *testing.T) {
	b := newSite(t, func(options *engine.Options) {
		options.Follows = func(*store.Tx, view.Rows, string) (bool, error) { return true, nil }
	})
	spokes := kubetest.NewSpokes()
	b.hosts.Spokes = spokes
	b.installThreeNodes()
	late := b.joiningHost()
	require.NoError(t, b.Engine.RecordHostProgress(t.Context(), late.InfraEnv, late.ID,
		&models.HostProgress{CurrentStage: models.HostStageRebooting}))
	b.WaitIdle()
	require.Equal(t, models.HostStageRebooting, b.Agent(late).Status.Progress.CurrentStage)

	key := late.InfraEnv + "/" + late.ID
	problem := record.JoiningProblem{Reason: "ClusterUnreachable",
		Message: "The cluster's API at https://api.one.site.test:6443 does not answer."}
	require.NoError(t, b.Engine.UpdateJoining(t.Context(), key, engine.JoiningUpdate{Problem: problem}))
	require.Equal(t, problem.Message, agentCondition(b.Agent(late).Status.Conditions, "Joining").Message)
	at := kubetest.Morning.Add(time.Hour)
	require.NoError(t, b.Engine.UpdateJoining(t.Context(), key, engine.JoiningUpdate{
		Approved: []record.CertificateRequest{{Name: "csr-a", ApprovedAt: at}, {Name: "csr-b", Serving: true,
			ApprovedAt: at}}, Stage: models.HostStageJoined,
	}))
	agent := b.Agent(late)
	require.Equal(t, models.HostStageJoined, agent.Status.Progress.CurrentStage)
	require.Equal(t, []string{"csr-a client", "csr-b serving"}, []string{
		agent.Status.CSRStatus.ApprovedCSRs[0].Name + " " + agent.Status.CSRStatus.ApprovedCSRs[0].Type,
		agent.Status.CSRStatus.ApprovedCSRs[1].Name + " " + agent.Status.CSRStatus.ApprovedCSRs[1].Type,
	})
	require.Equal(t, corev1.ConditionTrue, agentCondition(agent.Status.Conditions, "Joining").Status)
	require.NoError(t, b.Engine.UpdateJoining(t.Context(), key, engine.JoiningUpdate{Stage: models.HostStageDone}))
	require.Equal(t, models.HostStatusAddedToExistingCluster, b.Agent(late).Status.DebugInfo.State)

	spokes.Fail(errors.New("The cluster's API does not answer."))
	b.Delete(objects.Agents, "site", late.ID)
	b.Eventually("the error is in the status", func() bool {
		return agentCondition(b.Agent(late).Status.Conditions, "Cleanup").
			Message == "The cluster's API does not answer."
	})
	spokes.Fail(nil)
	b.Eventually("the node is removed", func() bool { return len(spokes.Removed()) == 1 })
	b.WaitIdle()
	require.Equal(t, []string{"site/one node-4"}, spokes.Removed())
}

// TestJoiningHost_besideDamagedHost damages a node of a cluster. Other hosts still join it.
func TestJoiningHost_besideDamagedHost(t *testing.T) {
	b := newSite(t)
	machines := b.installThreeNodes()
	b.Update(func(tx *store.Tx) error {
		return store.NewBucket[string]("hosts", 1).Put(tx, machines[0].InfraEnv+"/"+machines[0].ID, new("damaged"))
	})
	b.joiningHost()
}

// TestJoiningHost_deletionOfItsCluster deletes a cluster while a host joins it, before the restart
// of the host. The engine refuses that, and no manifest can reset a host.
func TestJoiningHost_deletionOfItsCluster(t *testing.T) {
	b := newSite(t)
	b.installThreeNodes()
	b.joiningHost()
	b.Delete(objects.ClusterDeployments, "site", "one")
	require.Nil(t, b.cluster())
	require.False(t, b.exists(objects.ClusterDeployments, "site", "one"))
}

// TestJoiningHost_deletionRefused deletes a cluster that hosted clusters run on, while a host joins
// it. The refusal must leave the host alone.
func TestJoiningHost_deletionRefused(t *testing.T) {
	b := newSite(t, func(o *engine.Options) {
		o.KeepCluster = func(*store.Tx, string) error { return fault.New(fault.Conflict, "It has hosted clusters.") }
	})
	b.installThreeNodes()
	late := b.joiningHost()
	b.Delete(objects.ClusterDeployments, "site", "one")
	require.NotNil(t, b.cluster())
	require.Equal(t, models.HostStatusInstalling, *late.Host().Status)
}

// joiningHost returns a host that joins the installed cluster.
func (b *testSite) joiningHost() *kubetest.Machine {
	b.Helper()
	late := b.Machine(b.InfraEnvID("one"), 4)
	late.Register()
	b.report(late)
	b.approve(late)
	require.Equal(b, models.HostStatusInstalling, *late.Host().Status)
	return late
}

func agentCondition(conditions []agentinstall.Condition, name string) agentinstall.Condition {
	for _, c := range conditions {
		if c.Type == name {
			return c
		}
	}
	return agentinstall.Condition{}
}
