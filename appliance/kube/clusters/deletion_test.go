package clusters

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	"github.com/stretchr/testify/require"

	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// TestDeletion_hosts deletes a cluster with a host of its own infra-env and a late-bound host. The
// late-bound host is unbound, unless the cluster is preserved: then it is deregistered and keeps
// running the cluster.
func TestDeletion_hosts(t *testing.T) {
	for name, test := range map[string]struct {
		preserve bool
		deleted  objects.Kind
	}{
		"unbound with the ClusterDeployment":        {false, objects.ClusterDeployments},
		"unbound with the AgentClusterInstall":      {false, objects.AgentClusterInstalls},
		"deregistered with the ClusterDeployment":   {true, objects.ClusterDeployments},
		"deregistered with the AgentClusterInstall": {true, objects.AgentClusterInstalls},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSite(t)
			b.applyInstall(threeNodesManifest, nil)
			b.Apply(infraEnvOfOne, kubetest.InfraEnvManifest("pool"))
			own, late := b.machines(1)[0], b.Boot("pool", 2)
			b.EditAgent(late, func(spec *agentinstall.AgentSpec) {
				spec.ClusterDeploymentName = &agentinstall.ClusterReference{Namespace: "site", Name: "one"}
			})
			require.Equal(t, b.cluster().ID.String(), late.Host().ClusterID.String())
			b.Update(func(tx *store.Tx) error {
				return b.clusters.updateDeployment(tx, "site", "one", func(cd *hivev1.ClusterDeployment) error {
					cd.Spec.PreserveOnDelete = test.preserve
					return nil
				})
			})
			b.WaitIdle()
			b.Delete(test.deleted, "site", "one")
			require.Nil(t, b.cluster())
			require.False(t, b.exists(test.deleted, "site", "one"), "no finalizer blocks the deletion")
			require.False(t, b.exists(objects.Agents, "site", own.ID),
				"it is deleted with the cluster of its infra-env")
			if test.preserve {
				require.False(t, b.exists(objects.Agents, "site", late.ID))
				return
			}
			require.Nil(t, b.Agent(late).Spec.ClusterDeploymentName)
			require.Nil(t, late.Host().ClusterID)
		})
	}
}

// TestDeletion_infraEnvDuringInstallation deletes the InfraEnv of a cluster of which one host is
// installed. The installation needs all hosts until its end.
func TestDeletion_infraEnvDuringInstallation(t *testing.T) {
	b := newSite(t)
	b.applyInstall(threeNodesManifest, nil)
	b.Apply(infraEnvOfOne)
	machines := b.machines(3)
	b.approve(machines...)
	b.prepare(machines...)
	for _, m := range machines {
		for _, stage := range m.Host().ProgressStages {
			require.NoError(t, b.Engine.RecordHostProgress(t.Context(), m.InfraEnv, m.ID,
				&models.HostProgress{CurrentStage: stage}))
		}
		require.Equal(t, models.HostStatusInstalled, *m.Host().Status)
	}
	b.Delete(objects.InfraEnvs, "site", "one")
	require.True(t, b.exists(objects.InfraEnvs, "site", "one"))
	for _, m := range machines {
		require.True(t, b.exists(objects.Agents, "site", m.ID))
	}
}

// A damaged Secret of the installed cluster stays, because its owner is unknown.
func TestDeletion_damagedSecret(t *testing.T) {
	b := newSite(t)
	b.installThreeNodes()
	b.stop()
	b.Damage(objects.Secrets, "site", "one-admin-kubeconfig")
	b.open()
	b.run()
	b.Delete(objects.ClusterDeployments, "site", "one")
	require.Nil(t, b.cluster())
	require.False(t, b.exists(objects.ClusterDeployments, "site", "one"))
	require.False(t, b.exists(objects.Secrets, "site", "one-admin-password"))
}

func TestStatus_logsURLs(t *testing.T) {
	b := newSite(t)
	machines := b.installingSingleNode()
	require.Empty(t, b.aci().Status.DebugInfo.LogsURL)
	require.Empty(t, b.Agent(machines[0]).Status.DebugInfo.LogsURL)
	id := b.cluster().ID.String()
	root := "http://appliance.site.test:8090/api/assisted-install/v2/clusters/" + id + "/logs"

	require.NoError(t, b.Engine.StoreHostLogs(t.Context(), id, machines[0].ID, strings.NewReader("of the host")))
	b.WaitIdle()
	require.Equal(t, root+"?host_id="+machines[0].ID+"&logs_type=host", b.Agent(machines[0]).Status.DebugInfo.LogsURL)
	require.Equal(t, root, b.aci().Status.DebugInfo.LogsURL, "the URL has the logs of all hosts")
	require.NoError(t, b.Engine.StoreControllerLogs(t.Context(), id, strings.NewReader("of the controller")))
	b.WaitIdle()
	require.Equal(t, root, b.aci().Status.DebugInfo.LogsURL)

	b.finish(machines...)
	require.Equal(t, root, b.aci().Status.DebugInfo.LogsURL, "the URL stays after the installation")
}

// TestDeletion_infraEnvFollowsItsCluster deletes an InfraEnv with bound Agents and then the
// ClusterDeployment. The clock stands still.
func TestDeletion_infraEnvFollowsItsCluster(t *testing.T) {
	for name, lateBinding := range map[string]bool{"of the cluster": false, "late binding": true} {
		t.Run(name, func(t *testing.T) {
			b := newSite(t)
			b.Apply(kubetest.PullSecretManifest, imageSetManifest, deploymentManifest, threeNodesManifest)
			if lateBinding {
				b.Apply(kubetest.InfraEnvManifest("one"))
			} else {
				b.Apply(infraEnvOfOne)
			}
			machines := b.machines(3)
			if lateBinding {
				for _, m := range machines {
					b.EditAgent(m, func(spec *agentinstall.AgentSpec) {
						spec.ClusterDeploymentName = &agentinstall.ClusterReference{Namespace: "site", Name: "one"}
					})
				}
			}
			b.Delete(objects.InfraEnvs, "site", "one")
			require.True(t, b.exists(objects.InfraEnvs, "site", "one"), "the Agents are bound")
			b.Delete(objects.ClusterDeployments, "site", "one")
			require.False(t, b.exists(objects.ClusterDeployments, "site", "one"))
			require.False(t, b.exists(objects.InfraEnvs, "site", "one"))
		})
	}
}

// TestUnbind_duringInstallation unbinds an Agent whose host is installed, while the installation of
// its cluster goes on. The host is unbound at the end of the installation.
func TestUnbind_duringInstallation(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.PullSecretManifest, imageSetManifest, deploymentManifest, threeNodesManifest)
	b.Apply(kubetest.InfraEnvManifest("one"))
	machines := b.machines(3)
	for _, m := range machines {
		b.EditAgent(m, func(spec *agentinstall.AgentSpec) {
			spec.Approved = true
			spec.ClusterDeploymentName = &agentinstall.ClusterReference{Namespace: "site", Name: "one"}
		})
	}
	for _, m := range machines {
		m.Register()
	}
	b.report(machines...)
	b.prepare(machines...)
	first := machines[0]
	for _, stage := range first.Host().ProgressStages {
		require.NoError(t, b.Engine.RecordHostProgress(t.Context(), first.InfraEnv, first.ID,
			&models.HostProgress{CurrentStage: stage}))
	}
	require.Equal(t, models.HostStatusInstalled, *first.Host().Status)
	b.WaitIdle()
	b.EditAgent(first, func(spec *agentinstall.AgentSpec) { spec.ClusterDeploymentName = nil })
	agents := b.hosts.Reconcilers()
	agents = agents[slices.IndexFunc(agents, func(r controller.Reconciler) bool { return r.Kind() == objects.Agents }):]
	again, err := agents[0].Reconcile(t.Context(), "site", first.ID)
	require.NoError(t, err)
	require.Equal(t, time.Minute, again)
	require.NotNil(t, first.Host().ClusterID)
	b.finish(machines...)
	_, err = agents[0].Reconcile(t.Context(), "site", first.ID)
	require.NoError(t, err)
	require.Nil(t, first.Host().ClusterID)
}
