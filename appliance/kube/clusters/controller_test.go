package clusters

import (
	"strings"
	"testing"

	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

func TestController_referencesInAnyOrder(t *testing.T) {
	manifests := []string{kubetest.PullSecretManifest, imageSetManifest, deploymentManifest, threeNodesManifest}
	for start := range manifests {
		b := newSite(t)
		for i := range manifests {
			require.Nil(t, b.cluster())
			b.Apply(manifests[(start+i)%len(manifests)])
		}
		cluster := b.cluster()
		require.NotNil(t, cluster)
		require.Equal(t, "edge", cluster.Name)
		require.Equal(t, "4.20.8", cluster.OpenshiftVersion)
		require.EqualValues(t, "192.168.10.4", cluster.APIVips[0].IP)
		b.requireCondition(hiveext.ClusterSpecSyncedCondition, "True", "SyncOK",
			"The Spec has been successfully applied")
		b.requireCondition(hiveext.ClusterRequirementsMetCondition, "False", "ClusterNotReady",
			"The cluster is not ready to begin the installation")

		aci, cd := b.aci(), b.cd()
		var order []string
		for _, c := range aci.Status.Conditions {
			order = append(order, string(c.Type))
		}
		require.Equal(t, []string{"SpecSynced", "Validated", "RequirementsMet", "Completed", "Failed", "Stopped",
			"LastInstallationPreparationFailed"}, order)
		require.Equal(t, []string{clusterInstallFinalizer}, aci.Finalizers)
		require.Equal(t, []string{clusterDeploymentFinalizer}, cd.Finalizers)
		require.Equal(t, cd.UID, aci.OwnerReferences[0].UID)
		require.Equal(t, "http://appliance.site.test:8090/api/assisted-install/v2/events?cluster_id="+
			cluster.ID.String(), aci.Status.DebugInfo.EventsURL)
		require.Equal(t, *cluster.Status, aci.Status.DebugInfo.State)
		secret := object[unstructured.Unstructured](b, objects.Secrets, "site", "pull")
		require.Equal(t, "true", secret.GetLabels()[objects.LabelWatch])
		b.requireDeploymentCondition("Provisioned", "False", "Provisioning")
	}
}

// A damaged object hides neither the references of the others nor those to itself.
func TestController_damagedObject(t *testing.T) {
	second := strings.Replace(deploymentManifest, "metadata: {name: one", "metadata: {name: two", 1)
	for _, c := range []struct {
		kind  objects.Kind
		name  string
		found []string
	}{
		{objects.ClusterDeployments, "one", []string{"one", "two"}},
		{objects.ClusterDeployments, "two", []string{"one"}},
		{objects.AgentClusterInstalls, "one", []string{"one", "two"}},
	} {
		b := newSite(t)
		b.Apply(kubetest.PullSecretManifest, imageSetManifest, deploymentManifest, singleNodeManifest, second)
		b.stop()
		b.Damage(c.kind, "site", c.name)
		b.open()
		b.run()
		b.WaitIdle()
		require.NoError(t, b.DB.View(func(tx *store.Tx) error {
			keys, err := b.clusters.deploymentsOfInstall(tx, "site", "one")
			var found []string
			for _, key := range keys {
				found = append(found, key.Name)
			}
			require.Equal(t, c.found, found, "%s %s", c.kind, c.name)
			return err
		}))
	}
}

const infraEnvOfOne = `
kind: InfraEnv
metadata: {name: one, namespace: site}
spec: {clusterRef: {name: one, namespace: site}, pullSecretRef: {name: pull}}`

func TestController_singleNodeInstallation(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.PullSecretManifest, imageSetManifest, deploymentManifest, singleNodeManifest, infraEnvOfOne)
	machines := b.machines(1)
	b.requireCondition(hiveext.ClusterRequirementsMetCondition, "False", "UnapprovedAgents",
		"The installation is pending on the approval of 1 agents")
	b.requireCondition(hiveext.ClusterValidatedCondition, "True", "ValidationsPassing",
		"The cluster's validations are passing")
	b.approve(machines...)
	require.Equal(t, "preparing-for-installation", *b.cluster().Status, "the installation starts automatically")
	b.requireCondition(hiveext.ClusterCompletedCondition, "False", "InstallationInProgress",
		"The installation is in progress:")
	b.prepare(machines...)
	require.Equal(t, "installing", *b.cluster().Status)
	require.Equal(t, "The installation is in progress: Installation in progress",
		installConditionOf(b.aci(), hiveext.ClusterCompletedCondition).Message)
	b.requireCondition(hiveext.ClusterRequirementsMetCondition, "True", "ClusterAlreadyInstalling",
		"The cluster requirements are met")
	kubeconfig := object[unstructured.Unstructured](b, objects.Secrets, "site", "one-admin-kubeconfig")
	require.Equal(t, "kubeconfig", kubeconfig.GetLabels()[labelSecretType])
	metadata := b.aci().Spec.ClusterMetadata
	require.NotNil(t, metadata)
	require.Nil(t, metadata.AdminPasswordSecretRef)
	require.Nil(t, b.cd().Spec.ClusterMetadata, "Hive requires the complete metadata")

	b.finish(machines...)
	require.Equal(t, "adding-hosts", *b.cluster().Status, "an installed cluster accepts hosts")
	aci, cd := b.aci(), b.cd()
	var shown string
	for _, c := range aci.Status.Conditions {
		shown += string(c.Type) + "\t" + c.Message + "\n"
	}
	require.Equal(t, "SpecSynced\tThe Spec has been successfully applied\n"+
		"Validated\tThe cluster's validations are passing\n"+
		"RequirementsMet\tThe cluster installation stopped\n"+
		"Completed\tThe installation has completed: Cluster is installed\n"+
		"Failed\tThe installation has not failed\n"+
		"Stopped\tThe installation has stopped because it completed successfully\n"+
		"LastInstallationPreparationFailed\t\n", shown)
	require.True(t, cd.Spec.Installed)
	require.Equal(t, "6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31", cd.Spec.ClusterMetadata.ClusterID)
	require.Equal(t, b.cluster().ID.String(), cd.Spec.ClusterMetadata.InfraID)
	require.Equal(t, "one-admin-password", cd.Spec.ClusterMetadata.AdminPasswordSecretRef.Name)
	require.NotNil(t, cd.Status.InstalledTimestamp)
	b.requireDeploymentCondition("Provisioned", "True", "Provisioned")
	b.requireDeploymentCondition("ClusterInstallCompleted", "True", "InstallationCompleted")
	password := object[unstructured.Unstructured](b, objects.Secrets, "site", "one-admin-password")
	data, _, err := unstructured.NestedStringMap(password.Object, "data")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"username": "a3ViZWFkbWlu", "password": "YWFhYWEtYmJiYmItY2NjY2MtZGRkZGQ="},
		data)
	require.EqualValues(t, 100, aci.Status.Progress.TotalPercentage)
}

// TestController_leavesOtherSecretsAlone installs a cluster whose ClusterDeployment names a Secret
// of others. Operators may write ClusterDeployments, but no Secrets.
func TestController_leavesOtherSecretsAlone(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.PullSecretManifest, imageSetManifest, deploymentManifest, singleNodeManifest, infraEnvOfOne)
	b.Update(func(tx *store.Tx) error {
		name := func(u *unstructured.Unstructured) error {
			return unstructured.SetNestedMap(u.Object, map[string]any{"clusterID": "", "infraID": "",
				"adminKubeconfigSecretRef": map[string]any{"name": "pull"}}, "spec", "clusterMetadata")
		}
		return b.Objects.Update(tx, objects.ClusterDeployments, "site", "one", name)
	})
	before := object[unstructured.Unstructured](b, objects.Secrets, "site", "pull").Object["data"]
	machines := b.machines(1)
	b.approve(machines...)
	b.prepare(machines...)
	b.finish(machines...)
	require.Equal(t, "adding-hosts", *b.cluster().Status)
	require.Equal(t, before, object[unstructured.Unstructured](b, objects.Secrets, "site", "pull").Object["data"])
	var messages []string
	require.NoError(t, b.DB.View(func(tx *store.Tx) error {
		return objects.EachAs(b.Objects, tx, objects.Events, "site", func(e *corev1.Event) error {
			if e.Reason == "SecretOfAnother" {
				messages = append(messages, e.Message)
			}
			return nil
		})
	}))
	require.Equal(t, []string{"The Secret pull for the cluster's kubeconfig is not written, because it exists " +
		"already and does not belong to this ClusterDeployment. Delete it, or name another one in " +
		"spec.clusterMetadata."}, messages)
}

// TestController_writesSecretsAgain deletes the Secret of others that has the name of the
// kubeconfig, as the Event about it advises.
func TestController_writesSecretsAgain(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.PullSecretManifest, imageSetManifest, deploymentManifest, singleNodeManifest, infraEnvOfOne,
		"kind: Secret\nmetadata: {namespace: site, name: one-admin-kubeconfig}\nstringData: {kubeconfig: other}")
	machines := b.machines(1)
	b.approve(machines...)
	b.prepare(machines...)
	b.finish(machines...)
	remove := func(name string) {
		t.Helper()
		b.Update(func(tx *store.Tx) error { return b.Objects.Delete(tx, objects.Secrets, "site", name, b.Clock.Now()) })
		b.WaitIdle()
	}
	for range 2 {
		remove("one-admin-kubeconfig")
		secret := object[unstructured.Unstructured](b, objects.Secrets, "site", "one-admin-kubeconfig")
		require.Equal(t, "one", secret.GetLabels()[labelDeploymentName])
	}
	remove("one-admin-password")
	password := object[unstructured.Unstructured](b, objects.Secrets, "site", "one-admin-password")
	require.NotEmpty(t, password.Object["data"])
}

// TestController_labelsNoOtherSecrets names a Secret that is no pull secret.
func TestController_labelsNoOtherSecrets(t *testing.T) {
	b := newSite(t)
	b.Apply("kind: Secret\nmetadata: {namespace: site, name: pull}\nstringData: {ignition-token: s3cret}",
		imageSetManifest, deploymentManifest, threeNodesManifest)
	require.Empty(t, object[unstructured.Unstructured](b, objects.Secrets, "site", "pull").GetLabels())
	b.Apply(kubetest.PullSecretManifest)
	require.Equal(t, "true", object[unstructured.Unstructured](b, objects.Secrets, "site", "pull").
		GetLabels()[objects.LabelWatch])
}

// TestController_arm64Installation installs a release whose payload spells its architecture
// aarch64, through an InfraEnv of each spelling.
func TestController_arm64Installation(t *testing.T) {
	for _, spelling := range []string{"arm64", "aarch64"} {
		t.Run(spelling, func(t *testing.T) {
			b := newSite(t)
			b.releases.arch = "aarch64"
			b.Apply(kubetest.PullSecretManifest, imageSetManifest, deploymentManifest, singleNodeManifest,
				kubetest.InfraEnvManifest("one", "clusterRef: {namespace: site, name: one}",
					"cpuArchitecture: "+spelling),
				kubetest.InfraEnvManifest("x86", "clusterRef: {namespace: site, name: one}",
					"cpuArchitecture: x86_64"))
			require.Equal(t, "arm64", b.cluster().CPUArchitecture)
			b.RequireImage("x86", corev1.ConditionFalse, "ImageCreationError", "")
			machine := b.Machine(b.InfraEnvID("one"), 1)
			machine.Architecture = "aarch64"
			machine.Register()
			b.report(machine)
			b.approve(machine)
			b.prepare(machine)
			b.finish(machine)
			require.Equal(t, "adding-hosts", *b.cluster().Status)
		})
	}
}
