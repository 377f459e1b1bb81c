package apply

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWarnings(t *testing.T) {
	const infraEnv = `
---
apiVersion: agent-install.openshift.io/v1beta1
kind: InfraEnv
metadata: {name: e, namespace: default}
spec: {clusterRef: {name: c, namespace: default}, nmStateConfigLabelSelector: {matchLabels: {net: e}}}`
	const networks = `
---
apiVersion: agent-install.openshift.io/v1beta1
kind: NMStateConfig
metadata: {name: net, namespace: default, labels: {net: LABEL}}
spec: {}`
	const install = `
---
apiVersion: extensions.hive.openshift.io/v1beta1
kind: AgentClusterInstall
metadata: {name: c, namespace: default}
spec: {clusterDeploymentRef: {name: c}, provisionRequirements: {controlPlaneAgents: 1, workerAgents: 1}}
---
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: c, namespace: default}
spec: {clusterInstallRef: {kind: AgentClusterInstall, group: extensions.hive.openshift.io, name: c}}`
	const host = `
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: NAME, namespace: default, labels: {infraenvs.agent-install.openshift.io: e}}
spec: {}`
	said := func(f *fakeAPI, text string) []string {
		problems, err := Missing(t.Context(), f.Server, site(t, text), Options{})
		require.NoError(t, err)
		var lines []string
		for _, p := range problems {
			lines = append(lines, p.Text)
		}
		return lines
	}
	with := func(text, word, instead string) string { return strings.ReplaceAll(text, word, instead) }
	f := newFakeAPI(t)
	require.Empty(t, said(f, infraEnv+with(networks, "LABEL", "e")+install),
		"users may boot the machines manually")
	require.Empty(t, said(f, infraEnv+with(networks, "LABEL", "e")+install+
		with(host, "NAME", "a")+with(host, "NAME", "b")))
	require.Equal(t, []string{
		"agentclusterinstall.extensions.hive.openshift.io/c requires 2 hosts in spec.provisionRequirements, but 1 " +
			"BareMetalHosts boot the image of its InfraEnvs; the installation starts automatically with exactly the " +
			"required number",
	}, said(f, infraEnv+with(networks, "LABEL", "e")+install+
		with(host, "NAME", "a")))
	const unused = "nmstateconfig.agent-install.openshift.io/net is selected by no InfraEnv of the namespace " +
		"default; give it the labels of an InfraEnv's spec.nmStateConfigLabelSelector"
	require.Equal(t, []string{unused}, said(f, with(networks, "LABEL", "x")))
	f.set(t, "/apis/agent-install.openshift.io/v1beta1/namespaces/default/infraenvs/e",
		`{"metadata":{"name":"e"},"spec":{"nmStateConfigLabelSelector":{"matchLabels":{"net":"e"}}}}`)
	require.Equal(t, []string{unused}, said(f, with(networks, "LABEL", "x")))
	require.Empty(t, said(f, with(networks, "LABEL", "e")), "the InfraEnv on the appliance selects it")
}
