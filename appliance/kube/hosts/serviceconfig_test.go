package hosts

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/mirror"
	"landfall/store"
)

const serviceConfigManifest = "kind: AgentServiceConfig\nmetadata: {name: agent}\nspec:\n  databaseStorage: " +
	"{accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}\n" +
	"  filesystemStorage: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 20Gi}}}\n"

func TestAgentServiceConfig(t *testing.T) {
	b := newSite(t)
	requires := func(name string, status corev1.ConditionStatus, reason, says string) {
		t.Helper()
		var config agentinstall.AgentServiceConfig
		require.True(t, b.Get(objects.AgentServiceConfigs, "", "agent", &config))
		c := agentConditionOf(config.Status.Conditions, name)
		require.Equal(t, []string{string(status), reason}, []string{string(c.Status), c.Reason}, c.Message)
		require.Contains(t, c.Message, says)
	}
	const iso = "http://mirror.site.test/rhcos-live.iso"
	b.Apply(serviceConfigManifest + "  osImages: [{openshiftVersion: '4.20', version: '420.1', url: '" + iso +
		"', cpuArchitecture: x86_64}]\n  mirrorRegistryRef: {name: mirrors}\n")
	requires(conditionReconciled, corev1.ConditionFalse, "ConfigFailure",
		"there is no ConfigMap mirrors in any namespace")
	requires(conditionDeployments, corev1.ConditionFalse, "DeploymentFailure", "OS images are not downloaded yet: "+iso)

	b.Apply("kind: ConfigMap\nmetadata: {namespace: hub, name: mirrors}\ndata: {registries.conf: " +
		"\"[[registry]]\\nlocation = 'quay.io'\\n[[registry.mirror]]\\nlocation = 'mirror.site.test:5000'\\n\"}")
	requires(conditionReconciled, corev1.ConditionTrue, "ReconcileSucceeded",
		"AgentServiceConfig reconcile completed without error.")
	require.Contains(t, string(b.rules[ruleSet{mirror.Level{}, mirrorOfSite}].Files[0].Data), "mirror.site.test:5000")
	b.images[iso] = ""
	require.Zero(t, b.reconcileAgain(serviceConfigs{b.Controllers}, "agent"))
	requires(conditionDeployments, corev1.ConditionTrue, "DeploymentSucceeded", "")
	b.images[iso] = "bad: no live ISO"
	require.Equal(t, imagesInterval, b.reconcileAgain(serviceConfigs{b.Controllers}, "agent"))
	requires(conditionDeployments, corev1.ConditionFalse, "DeploymentFailure", "bad: no live ISO")

	b.Apply(serviceConfigManifest + "  OSImageCACertRef: {name: ca}\n")
	requires(conditionReconciled, corev1.ConditionFalse, "OSImageCACertRefFailure", "there is no ConfigMap ca")
	b.Apply(serviceConfigManifest + "  OSImageAdditionalParamsRef: {name: headers}\n")
	const reason = "ReasonOSImageAdditionalParamsRefFailure"
	requires(conditionReconciled, corev1.ConditionFalse, reason,
		"there is no Secret headers in any namespace; it is read when it is created")
	secret := func(data string) {
		b.Apply("apiVersion: v1\nkind: Secret\nmetadata: {namespace: hub, name: headers}\nstringData: {" + data + "}")
	}
	secret("cookies: '{}'")
	requires(conditionReconciled, corev1.ConditionFalse, reason,
		"either `headers` and/or `query_params` and no other entries")
	secret("headers: token")
	requires(conditionReconciled, corev1.ConditionFalse, reason,
		"the key headers of Secret hub/headers is not a JSON object of strings")
	secret(`headers: '{"X-Token":"t"}', query_params: '{"site":"s1"}'`)
	requires(conditionReconciled, corev1.ConditionTrue, "ReconcileSucceeded", "")
	b.Apply(serviceConfigManifest + "  osImages: [{openshiftVersion: '4.20', version: '420.1', url: '" + iso +
		"', cpuArchitecture: x86_64}]\n  OSImageAdditionalParamsRef: {name: headers}\n")
	requires(conditionReconciled, corev1.ConditionTrue, "ReconcileSucceeded", "")
	require.Equal(t, map[string]string{"X-Token": "t"}, b.requested[iso].Headers)
	require.Equal(t, map[string]string{"site": "s1"}, b.requested[iso].Query)

	b.Delete(objects.AgentServiceConfigs, "", "agent")
	require.False(t, b.Get(objects.AgentServiceConfigs, "", "agent", &agentinstall.AgentServiceConfig{}))
	require.Empty(t, b.rules)
}

func TestAgentServiceConfig_otherName(t *testing.T) {
	b := newSite(t)
	b.Apply("kind: AgentServiceConfig\nmetadata: {name: mine}\nspec: {}")
	var config agentinstall.AgentServiceConfig
	require.True(t, b.Get(objects.AgentServiceConfigs, "", "mine", &config))
	require.Empty(t, config.Status.Conditions)
	var reasons []string
	require.NoError(t, b.DB.View(func(tx *store.Tx) error {
		return b.Objects.Each(tx, objects.Events, "", func(u *unstructured.Unstructured) error {
			reason, _, err := unstructured.NestedString(u.Object, "reason")
			reasons = append(reasons, reason)
			return err
		})
	}))
	require.Equal(t, []string{"Invalid name (mine)"}, reasons)
}

func TestAgentServiceConfig_defaultImageType(t *testing.T) {
	b := newSite(t)
	b.Apply("kind: ConfigMap\nmetadata: {namespace: multicluster-engine, name: settings}\ndata: {ISO_IMAGE_TYPE: " +
		"full-iso}\n---\n" +
		"kind: AgentServiceConfig\nmetadata: {name: agent, annotations: " +
		"{unsupported.agent-install.openshift.io/assisted-service-configmap: settings}}\nspec: {}")
	b.Apply(kubetest.InfraEnvManifest("pool"))
	require.Contains(t, b.InfraEnv("pool").Status.ISODownloadURL, "/full.iso")
}
