package clusters

import (
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// events returns the types and messages of the Events about objects of a kind, by reason.
func (b *testSite) events(kind objects.Kind) map[string]string {
	b.Helper()
	reasons := map[string]string{}
	require.NoError(b, b.DB.View(func(tx *store.Tx) error {
		return b.Objects.Each(tx, objects.Events, "", func(u *unstructured.Unstructured) error {
			var event corev1.Event
			if err := objects.Into(u, &event); err != nil {
				return err
			}
			if event.InvolvedObject.Kind == kind.Kind {
				require.NotEmpty(b, event.InvolvedObject.UID)
				reasons[event.Reason] = event.Type + " " + event.Message
			}
			return nil
		})
	}))
	return reasons
}

// installing returns a site with a single node whose installation has started.
func installing(t *testing.T) (*testSite, []*kubetest.Machine) {
	b := newSite(t)
	b.Apply("kind: Namespace\nmetadata: {name: site}", kubetest.PullSecretManifest, imageSetManifest,
		deploymentManifest,
		singleNodeManifest, infraEnvOfOne)
	machines := b.machines(1)
	b.approve(machines...)
	b.prepare(machines...)
	return b, machines
}

func TestEvents_installation(t *testing.T) {
	b, machines := installing(t)
	b.finish(machines...)
	cluster := b.events(objects.AgentClusterInstalls)
	require.Contains(t, cluster, "ClusterPrepareInstallationStarted")
	require.Contains(t, cluster, "ClusterStatusUpdated")
	require.Contains(t, cluster["ClusterInstallationCompleted"], "Normal ")
	host := b.events(objects.Agents)
	require.Contains(t, host, "HostRegistrationSucceeded")
	require.Contains(t, host, "HostStatusUpdated")
	require.NotContains(t, host, "HostInstallProgressUpdated", "the Agent's status shows the stages")
}

func TestEvents_warnings(t *testing.T) {
	b, machines := installing(t)
	require.NoError(t, b.Engine.RecordHostProgress(t.Context(), machines[0].InfraEnv, machines[0].ID,
		&models.HostProgress{CurrentStage: models.HostStageFailed, ProgressInfo: "the disk failed"}))
	b.WaitIdle()
	require.Contains(t, b.events(objects.AgentClusterInstalls)["ClusterInstallationFailed"], "Warning ")
}

func TestEvents_deletedNamespace(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.PullSecretManifest, imageSetManifest, deploymentManifest, singleNodeManifest, infraEnvOfOne)
	require.Empty(t, b.events(objects.AgentClusterInstalls))
}

func TestEvents_unsupportedClusterInstall(t *testing.T) {
	b := newSite(t)
	b.Apply("kind: Namespace\nmetadata: {name: site}", strings.Replace(deploymentManifest, "kind: AgentClusterInstall",
		"kind: AgentClusterInstal", 1))
	said := b.events(objects.ClusterDeployments)
	require.Contains(t, said["UnsupportedClusterInstall"],
		"Warning The clusterInstallRef names the kind AgentClusterInstal of extensions.hive.openshift.io, but "+
			"this appliance installs only clusters of the kind AgentClusterInstall")
}

func TestEvents_ignoredDelayOnce(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.PullSecretManifest, imageSetManifest, deploymentManifest, singleNodeManifest,
		strings.Replace(infraEnvOfOne, "spec: {", "spec: {networkDiscoveryDelaySeconds: 20, ", 1))
	b.Apply(strings.Replace(infraEnvOfOne, "spec: {",
		"spec: {networkDiscoveryDelaySeconds: 20, additionalNTPSources: [192.0.2.1], ", 1))
	require.Equal(t,
		map[string]string{"NetworkDiscoveryDelayLeftOut": "Normal networkDiscoveryDelaySeconds has no effect: a host " +
			"waits up to 30 seconds for the network interfaces that NMStateConfigs name, " +
			"and continues when all have appeared."}, b.events(objects.InfraEnvs))
}
