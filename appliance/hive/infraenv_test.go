package hive

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"landfall/appliance/objects/agentinstall"
)

func TestAnAppliedInfraEnvGivesAnImageAndAHostThatBootsItAnAgent(t *testing.T) {
	b := newHostsBench(t)
	b.cluster("one")
	b.apply(infraEnvManifest("one", "clusterRef: {namespace: site, name: one}", "agentLabels: {rack: r7}"))
	env := b.imageCreated("one", corev1.ConditionTrue, "InfraEnvAvailable", "InfraEnv is available: Image has been created")
	require.Regexp(t, `^http://appliance\.site\.test:8090/byapikey/[^/]+\.[^/]+\.[^/]+/4\.20\.8/x86_64/minimal\.iso$`, env.Status.ISODownloadURL)
	require.Equal(t, morning, env.Status.CreatedTime.UTC())
	require.Equal(t, map[string]string{labelInfraEnv: "one"}, env.Status.AgentLabelSelector.MatchLabels)
	require.Equal(t, []string{infraEnvFinalizer}, env.Finalizers)
	id := b.envID("one")
	require.Equal(t, "http://appliance.site.test:8090/api/assisted-install/v2/events?infra_env_id="+id, env.Status.DebugInfo.EventsURL)
	require.Equal(t, agentinstall.BootArtifacts{
		KernelURL:            "http://appliance.site.test:8090/boot-artifacts/kernel?arch=x86_64&version=4.20.8",
		RootfsURL:            "http://appliance.site.test:8090/boot-artifacts/rootfs?arch=x86_64&version=4.20.8",
		InitrdURL:            "http://appliance.site.test:8090/images/" + id + "/pxe-initrd?arch=x86_64&version=4.20.8",
		IpxeScriptURL:        "http://appliance.site.test:8090/api/assisted-install/v2/infra-envs/" + id + "/downloads/files?file_name=ipxe-script",
		DiscoveryIgnitionURL: "http://appliance.site.test:8090/api/assisted-install/v2/infra-envs/" + id + "/downloads/files?file_name=discovery.ign",
	}, env.Status.BootArtifacts)

	m := b.boot("one", 1)
	agent := b.agent(m)
	require.Equal(t, &agentinstall.ClusterReference{Namespace: "site", Name: "one"}, agent.Spec.ClusterDeploymentName)
	require.False(t, agent.Spec.Approved)
	require.Equal(t, "r7", agent.Labels["rack"])
	require.Equal(t, "one", agent.Labels[labelInfraEnv])
	require.Equal(t, env.UID, agent.OwnerReferences[0].UID)
	require.Equal(t, "node-1", agent.Status.Inventory.Hostname)
	b.agentCondition(m, conditionRequirementsMet, corev1.ConditionFalse, "AgentIsNotApproved")

	b.change(m, func(spec *agentinstall.AgentSpec) { spec.Approved = true })
	b.agentCondition(m, conditionRequirementsMet, corev1.ConditionTrue, "AgentIsReady")
	b.agentCondition(m, conditionSpecSynced, corev1.ConditionTrue, "SyncOK")
}
