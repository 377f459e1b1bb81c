package apply

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/kube/objects"
)

const clusterInstance = `
apiVersion: siteconfig.open-cluster-management.io/v1alpha1
kind: ClusterInstance
metadata: {name: edge, namespace: edge}
spec:
  clusterName: edge
  baseDomain: site.test
  clusterImageSetNameRef: openshift-4.20
  pullSecretRef: {name: pull}
  sshPublicKey: ssh-ed25519 AAAA
  networkType: OVNKubernetes
  cpuPartitioningMode: AllNodes
  installConfigOverrides: '{"fips":true}'
  holdInstallation: true
  apiVIPs: [192.0.2.4]
  ingressVIPs: [192.0.2.5]
  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
  machineNetwork: [{cidr: 192.0.2.0/24}]
  serviceNetwork: [{cidr: 172.30.0.0/16}]
  additionalNTPSources: [192.0.2.1]
  extraManifestsRefs: [{name: extra}]
  extraLabels: {ManagedCluster: {common: true, site: ""}, BareMetalHost: {rack: r7}}
  suppressedManifests: [KlusterletAddonConfig]
  templateRefs: [{name: ai-cluster-templates-v1, namespace: siteconfig-operator}]
  nodes:
  - hostName: node-1
    role: master
    bmcAddress: redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1
    bmcCredentialsName: {name: bmc-1}
    bootMACAddress: 52:54:00:00:00:01
    nodeLabels: {site/hall: 1, node-role.kubernetes.io/du: }
    installerArgs: '["--append-karg","a"]'
    rootDeviceHints: {deviceName: /dev/sda}
    nodeNetwork: {interfaces: [{name: eno1, macAddress: 52:54:00:00:00:01}], config: {interfaces: [{name: eno1}]}}
    templateRefs: [{name: ai-node-templates-v1, namespace: siteconfig-operator}]
  - {hostName: node-2, role: arbiter, bmcAddress: redfish-virtualmedia://192.0.2.8, bmcCredentialsName: {name: bmc-2}, bootMACAddress: 52:54:00:00:00:02, bootMode: UEFISecureBoot, suppressedManifests: [BareMetalHost]}
  - {hostName: node-3, role: worker, bmcAddress: redfish-virtualmedia://192.0.2.9, bmcCredentialsName: {name: bmc-3}, bootMACAddress: 52:54:00:00:00:03}
`

func TestClusterInstance(t *testing.T) {
	made := map[string]*Object{}
	for _, o := range site(t, clusterInstance) {
		made[o.String()] = o
		if o.Is(objects.ManagedClusters) {
			require.Empty(t, o.Namespace)
			continue
		}
		require.Equal(t, "edge", o.Namespace, "%s", o)
	}
	require.Len(t, made, 7, "without the suppressed objects")
	expect := func(object, content string) {
		t.Helper()
		require.Contains(t, made, object)
		text, err := encode(made[object].Content)
		require.NoError(t, err)
		require.JSONEq(t, content, string(text))
	}
	expect("clusterdeployment.hive.openshift.io/edge", `{"apiVersion":"hive.openshift.io/v1","kind":"ClusterDeployment","metadata":{"name":"edge","namespace":"edge"},"spec":{
		"baseDomain":"site.test","clusterName":"edge","pullSecretRef":{"name":"pull"},"platform":{"agentBareMetal":{"agentSelector":{"matchLabels":{"cluster-name":"edge"}}}},
		"clusterInstallRef":{"group":"extensions.hive.openshift.io","kind":"AgentClusterInstall","name":"edge","version":"v1beta1"}}}`)
	expect("agentclusterinstall.extensions.hive.openshift.io/edge", `{"apiVersion":"extensions.hive.openshift.io/v1beta1","kind":"AgentClusterInstall",
		"metadata":{"name":"edge","namespace":"edge","annotations":{"agent-install.openshift.io/install-config-overrides":"{\"cpuPartitioningMode\":\"AllNodes\",\"fips\":true}"}},
		"spec":{"clusterDeploymentRef":{"name":"edge"},"imageSetRef":{"name":"openshift-4.20"},"holdInstallation":true,"apiVIPs":["192.0.2.4"],"ingressVIPs":["192.0.2.5"],
		"networking":{"clusterNetwork":[{"cidr":"10.128.0.0/14","hostPrefix":23}],"machineNetwork":[{"cidr":"192.0.2.0/24"}],"serviceNetwork":["172.30.0.0/16"],"networkType":"OVNKubernetes"},
		"provisionRequirements":{"controlPlaneAgents":1,"workerAgents":1,"arbiterAgents":1},"sshPublicKey":"ssh-ed25519 AAAA","manifestsConfigMapRefs":[{"name":"extra"}]}}`)
	expect("infraenv.agent-install.openshift.io/edge", `{"apiVersion":"agent-install.openshift.io/v1beta1","kind":"InfraEnv","metadata":{"name":"edge","namespace":"edge"},"spec":{
		"clusterRef":{"name":"edge","namespace":"edge"},"pullSecretRef":{"name":"pull"},"sshAuthorizedKey":"ssh-ed25519 AAAA","additionalNTPSources":["192.0.2.1"],
		"nmStateConfigLabelSelector":{"matchLabels":{"nmstate-label":"edge"}}}}`)
	expect("managedcluster.cluster.open-cluster-management.io/edge",
		`{"apiVersion":"cluster.open-cluster-management.io/v1","kind":"ManagedCluster","metadata":{"name":"edge","labels":{"common":"true","site":""}},"spec":{"hubAcceptsClient":true}}`)
	expect("nmstateconfig.agent-install.openshift.io/node-1", `{"apiVersion":"agent-install.openshift.io/v1beta1","kind":"NMStateConfig","metadata":{"name":"node-1","namespace":"edge","labels":{"nmstate-label":"edge"}},
		"spec":{"config":{"interfaces":[{"name":"eno1"}]},"interfaces":[{"name":"eno1","macAddress":"52:54:00:00:00:01"}]}}`)
	expect("baremetalhost.metal3.io/node-1", `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"node-1","namespace":"edge","labels":{"infraenvs.agent-install.openshift.io":"edge","rack":"r7"},"annotations":{
		"bmac.agent-install.openshift.io/hostname":"node-1","bmac.agent-install.openshift.io/role":"master","bmac.agent-install.openshift.io/installer-args":"[\"--append-karg\",\"a\"]",
		"bmac.agent-install.openshift.io.node-label.site/hall":"1","bmac.agent-install.openshift.io.node-label.node-role.kubernetes.io/du":""}},
		"spec":{"automatedCleaningMode":"disabled","bootMode":"UEFI","bootMACAddress":"52:54:00:00:00:01","online":true,"rootDeviceHints":{"deviceName":"/dev/sda"},
		"bmc":{"address":"redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1","credentialsName":"bmc-1","disableCertificateVerification":true}}}`)
}

func TestClusterInstance_errors(t *testing.T) {
	for from, c := range map[string]struct{ to, says string }{
		"  baseDomain: site.test\n":           {"", "has no spec.baseDomain"},
		"hostName: node-3, ":                  {"", "has no spec.nodes[2].hostName"},
		"bmcCredentialsName: {name: bmc-2}, ": {"", "has no spec.nodes[1].bmcCredentialsName.name"},
		"name: ai-cluster-templates-v1": {"name: ibi-cluster-templates-v1",
			`specifies the templates "ibi-cluster-templates-v1", but only those of the Assisted Installer`},
		`installConfigOverrides: '{"fips":true}'`: {"installConfigOverrides: 'fips'",
			"has spec.installConfigOverrides that are not a JSON object"},
		"role: worker":                                 {"role: wrker", `has spec.nodes[2].role "wrker"; expected master, worker or arbiter`},
		"[{cidr: 172.30.0.0/16}]":                      {"[172.30.0.0/16]", "has no spec.serviceNetwork[0].cidr"},
		"[{name: extra}]":                              {"[extra]", "has no spec.extraManifestsRefs[0].name"},
		`'["--append-karg","a"]'`:                      {`["--append-karg","a"]`, "has spec.nodes[0].installerArgs of a wrong type; expected a text"},
		"[KlusterletAddonConfig]":                      {"KlusterletAddonConfig", "has spec.suppressedManifests of a wrong type; expected a list"},
		"{site/hall: 1, node-role.kubernetes.io/du: }": {"[site/hall]", "has spec.nodes[0].nodeLabels of a wrong type; expected an object"},
		"interfaces: [{name: eno1, macAddress: 52:54:00:00:00:01}], ": {"", "has no list spec.nodes[0].nodeNetwork.interfaces"},
		"  nodes:\n" + clusterInstance[nodesBegin(t):]:                {"", "has no spec.nodes"},
	} {
		inDirectory(t, map[string]string{"site.yaml": strings.Replace(clusterInstance, from, c.to, 1)})
		_, err := Read(Sources{Paths: []string{"site.yaml"}})
		require.ErrorContains(t, err, c.says)
		require.ErrorContains(t, err, "site.yaml:1: ")
	}
	inDirectory(t, map[string]string{"site.yaml": strings.Replace(clusterInstance, "networkType:",
		"caBundleRef: {name: ca}\n  networkType:", 1)})
	read, err := Read(Sources{Paths: []string{"site.yaml"}})
	require.NoError(t, err)
	require.Contains(t, strings.Join(read.Notes, "\n"), "spec.caBundleRef has no effect here")
}

func nodesBegin(t *testing.T) int {
	_, after, found := strings.Cut(clusterInstance, "  nodes:\n")
	require.True(t, found)
	return len(clusterInstance) - len(after)
}

// TestClusterInstance_siteconfigSamples reads the unchanged samples of the siteconfig operator.
func TestClusterInstance_siteconfigSamples(t *testing.T) {
	dir := os.Getenv("LANDFALL_REALDATA")
	if dir == "" {
		t.Skip("LANDFALL_REALDATA is not set to the directory of real data")
	}
	samples, err := filepath.Glob(filepath.Join(dir, "siteconfig", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, samples)
	for _, sample := range samples {
		read, err := Read(Sources{Paths: []string{sample}})
		require.NoError(t, err, sample)
		require.Len(t, read.Notes, 1, "all fields are supported")
		require.GreaterOrEqual(t, len(read.Objects), 7)
	}
}
