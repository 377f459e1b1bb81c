package abi

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// directory returns a directory of the agent-based installer as users write it: with comments, with
// fields in any order, and partly by hand.
func directory() map[string]string {
	return map[string]string{
		"cluster-manifests/cluster-deployment.yaml": `apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata:
  creationTimestamp: null
  name: edge
  namespace: edge
spec:
  baseDomain: example.com   # ours
  clusterInstallRef: {group: extensions.hive.openshift.io, kind: AgentClusterInstall, name: edge, version: v1beta1}
  clusterName: edge
  platform:
    agentBareMetal:
      agentSelector:
        matchLabels: {bla: aaa}
  pullSecretRef:
    name: edge-pull-secret
status: {}
`,
		"cluster-manifests/agent-cluster-install.yaml": `# asked for by Jane
apiVersion: extensions.hive.openshift.io/v1beta1
kind: AgentClusterInstall
metadata:
  annotations:
    agent-install.openshift.io/install-config-overrides: '{"fips":true,"capabilities":{"baselineCapabilitySet":"None","additionalEnabledCapabilities":["marketplace"]}}'
  name: edge
  namespace: edge
spec:
  apiVIP: 192.168.100.4
  apiVIPs: [192.168.100.4]
  ingressVIPs:
  - "192.168.100.5"
  clusterDeploymentRef:
    name: edge
  imageSetRef:
    name: openshift-4.20.8
  networking:
    clusterNetwork:
    - cidr: 10.128.0.0/14
      hostPrefix: 23
    machineNetwork:
    - cidr: 192.168.100.0/24
    serviceNetwork:
    - 172.30.0.0/16
  platformType: BareMetal
  provisionRequirements:
    controlPlaneAgents: 3
    workerAgents: 1
`,
		"cluster-manifests/cluster-image-set.yaml": `apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: openshift-4.20.8}
spec: {releaseImage: "quay.io/openshift-release-dev/ocp-release:4.20.8-x86_64"}`,
		"cluster-manifests/infraenv.yaml": `apiVersion: agent-install.openshift.io/v1beta1
kind: InfraEnv
metadata:
  name: edge
  namespace: edge
spec:
  clusterRef: {name: edge, namespace: edge}
  cpuArchitecture: amd64
  pullSecretRef: {name: edge-pull-secret}
  nmStateConfigLabelSelector:
    matchLabels:
      infraenvs.agent-install.openshift.io: edge
  kernelArguments:
  - {operation: append, value: console=ttyS0}
`,
		"cluster-manifests/pull-secret.yaml": `apiVersion: v1
kind: Secret
metadata: {name: edge-pull-secret, namespace: edge}
stringData:
  .dockerconfigjson: '{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}'
`,
		"cluster-manifests/nmstateconfig.yaml": `---
apiVersion: agent-install.openshift.io/v1beta1
kind: NMStateConfig
metadata:
  name: edge-0
  labels: {infraenvs.agent-install.openshift.io: edge}
spec:
  interfaces:
  - {name: eth0, macAddress: "52:54:00:00:00:0A"}
  config:
    interfaces: # one
    - name: eth0
      type: ethernet
      state: up
      ipv4: {enabled: true, dhcp: true}
---   # the second
apiVersion: agent-install.openshift.io/v1beta1
kind: NMStateConfig
metadata:
  name: edge-1
  labels: {infraenvs.agent-install.openshift.io: edge}
spec:
  interfaces:
  - {name: eth0, macAddress: "52:54:00:00:00:0b"}
  config: {interfaces: [{name: eth0, type: ethernet, state: up, ipv4: {enabled: true, dhcp: true}}]}
`,
		"agent-config.yaml": `apiVersion: v1beta1
kind: AgentConfig
metadata:
  name: edge
rendezvousIP: 192.168.100.10
additionalNTPSources: [192.168.100.1]
hosts:
- hostname: node-a
  role: master
  interfaces:
  - name: eth0
    macAddress: 52:54:00:00:00:0a
  rootDeviceHints:
    deviceName: /dev/sda
- interfaces:
  - name: eth0
    macAddress: 52:54:00:00:00:0b
`,
		"openshift/99-extra.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: default}\n",
		"mirror/registries.conf":  "# site\n[[registry]]\nlocation = \"quay.io\"\n",
	}
}

func filesOf(texts map[string]string) []File {
	var files []File
	for name, text := range texts {
		files = append(files, File{name, []byte(text)})
	}
	return files
}

func textsOf(files []File) map[string]string {
	texts := map[string]string{}
	for _, file := range files {
		texts[file.Name] = string(file.Data)
	}
	return texts
}

func TestRead(t *testing.T) {
	site, err := Read(filesOf(directory()))
	require.NoError(t, err)
	params := site.Values.ClusterParams()
	require.Equal(t, []any{"edge", "example.com", int64(3), "x86_64", models.PlatformTypeBaremetal},
		[]any{*params.Name, params.BaseDNSDomain, *params.ControlPlaneCount, params.CPUArchitecture,
			*params.Platform.Type})
	require.Equal(t, models.IP("192.168.100.4"), params.APIVips[0].IP)
	require.EqualValues(t, "192.168.100.0/24", params.MachineNetworks[0].Cidr)
	require.Equal(t, "192.168.100.1", *params.AdditionalNtpSource)
	require.Nil(t, params.Hyperthreading)
	override, err := site.Values.Override()
	require.NoError(t, err)
	require.JSONEq(t,
		`{"fips":true,"capabilities":{"baselineCapabilitySet":"None","additionalEnabledCapabilities":["marketplace"]}}`,
		override)
	env := site.Values.InfraEnvParams("e8a7a4f8-0c2b-4f5f-8d55-7c1c2d0d6a11")
	require.Len(t, env.StaticNetworkConfig, 2)
	require.Equal(t, "52:54:00:00:00:0a", env.StaticNetworkConfig[0].MacInterfaceMap[0].MacAddress)
	require.Contains(t, env.StaticNetworkConfig[0].NetworkYaml, "type: ethernet")
	require.Equal(t, "console=ttyS0", env.KernelArguments[0].Value)
	require.Len(t, site.Hosts, 2)
	require.Equal(t, Host{MACs: []string{"52:54:00:00:00:0a"}, Hostname: "node-a", Role: "master",
		Hints: map[string]any{"deviceName": "/dev/sda"}, Where: "agent-config.yaml:8"}, site.Hosts[0])
	require.Equal(t, []File{{"99-extra.yaml", []byte(directory()["openshift/99-extra.yaml"])}}, site.Manifests)
	require.Equal(t, []Problem{{"agent-config.yaml", 5,
		"rendezvousIP has no effect: hosts register with the appliance, which selects the bootstrap host"}},
		site.Notes)
}

func TestRead_nestedDirectoryWithOtherFiles(t *testing.T) {
	moved := map[string]string{"sites/edge/README.md": "mine", "sites/edge/auth/kubeconfig": "old"}
	for name, text := range directory() {
		moved["sites/edge/"+name] = text
	}
	site, err := Read(filesOf(moved))
	require.NoError(t, err)
	require.Equal(t, "edge", site.Values[Name])
	require.Len(t, site.Notes, 3)
	require.Contains(t, site.Notes[1].String()+site.Notes[2].String(), "sites/edge/README.md: is ignored")
}

func TestWrite_unchangedValuesKeepTheirBytes(t *testing.T) {
	for name, alter := range map[string]func(string) string{
		"unchanged":               func(s string) string { return s },
		"DOS line ends":           func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"no line feed at the end": func(s string) string { return strings.TrimSuffix(s, "\n") },
		"with separators":         func(s string) string { return "---\n" + s + "\n---\n" },
		"comments at the end":     func(s string) string { return s + "\n# the end\n" },
	} {
		t.Run(name, func(t *testing.T) {
			texts := directory()
			for file, text := range texts {
				if strings.HasPrefix(file, "cluster-manifests/") || file == "agent-config.yaml" {
					texts[file] = alter(text)
				}
			}
			site, err := Read(filesOf(texts))
			require.NoError(t, err)
			files, unwritten, err := site.Write(site.Values, site.Values, site.Manifests)
			require.NoError(t, err)
			require.Empty(t, unwritten)
			require.Equal(t, texts, textsOf(files))
		})
	}
}

func TestWrite_changedValueChangesOnlyItsDocuments(t *testing.T) {
	for name, change := range map[string]struct {
		to   Values
		says map[string]string // expected contents of the changed files
	}{
		"a domain": {Values{BaseDomain: "example.org"},
			map[string]string{"cluster-manifests/cluster-deployment.yaml": "baseDomain: example.org # ours"}},
		"a name in two places": {Values{Name: "far"},
			map[string]string{"cluster-manifests/cluster-deployment.yaml": "clusterName: far"}},
		"an address": {Values{APIVIPs: []string{"192.168.100.7"}},
			map[string]string{"cluster-manifests/agent-cluster-install.yaml": "apiVIP: 192.168.100.7\n  apiVIPs:\n"}},
		"a text in quotes": {Values{IngressVIPs: []string{"192.168.100.8"}},
			map[string]string{"cluster-manifests/agent-cluster-install.yaml": "192.168.100.8"}},
		"an override": {Values{"override/fips": false},
			map[string]string{"cluster-manifests/agent-cluster-install.yaml": `"fips":false`}},
		"a new proxy": {Values{HTTPProxy: "http://proxy:3128"},
			map[string]string{"cluster-manifests/agent-cluster-install.yaml": "  proxy:\n    httpProxy: " +
				"http://proxy:3128\n"}},
		"no time servers": {Values{EnvNTPSources: nil},
			map[string]string{"agent-config.yaml": "rendezvousIP: 192.168.100.10\nhosts:"}},
		"a host's name": {Values{"host/52:54:00:00:00:0b/hostname": "node-b"},
			map[string]string{"agent-config.yaml": "hostname: node-b"}},
		"a host's network": {Values{"network/52:54:00:00:00:0b": Network{nil, "interfaces: [{name: eth7}]\n"}},
			map[string]string{"cluster-manifests/nmstateconfig.yaml": "interfaces: # one\n    - name: eth0\n      " +
				"type: ethernet\n"}},
		"the mirror": {Values{RegistriesConf: "new"}, map[string]string{"mirror/registries.conf": "new"}},
		"a CA":       {Values{CABundle: "PEM"}, map[string]string{"mirror/ca-bundle.crt": "PEM"}},
	} {
		t.Run(name, func(t *testing.T) {
			site, err := Read(filesOf(directory()))
			require.NoError(t, err)
			now := Values{}
			for f, value := range site.Values {
				now[f] = value
			}
			for f, value := range change.to {
				if now[f] = value; value == nil {
					delete(now, f)
				}
			}
			files, unwritten, err := site.Write(site.Values, now, site.Manifests)
			require.NoError(t, err)
			require.Empty(t, unwritten)
			for file, text := range textsOf(files) {
				if says, changed := change.says[file]; changed {
					require.Contains(t, text, says)
					require.NotEqual(t, directory()[file], text)
				} else {
					require.Equal(t, directory()[file], text, file)
				}
			}
			again, err := Read(files)
			require.NoError(t, err, "the written files are a valid directory")
			for f, value := range change.to {
				require.Equal(t, text(value), text(normal(again.Values[f], value)), f)
			}
		})
	}
}

// normal removes the fields that a changed network description omits.
func normal(got, want any) any {
	network, ok := got.(Network)
	if !ok {
		return got
	}
	network.Interfaces, network.YAML = nil, want.(Network).YAML
	return network
}

func TestCompose(t *testing.T) {
	site, err := Read(filesOf(directory()))
	require.NoError(t, err)
	files, err := Compose(site.Values, site.Hosts, site.Manifests)
	require.NoError(t, err)
	again, err := Read(files)
	require.NoError(t, err)
	for f, value := range site.Values {
		if strings.HasPrefix(string(f), "ref/") || strings.HasPrefix(string(f), networkPrefix) {
			continue
		}
		require.Equal(t, text(value), text(again.Values[f]), f)
	}
	require.Len(t, again.Values.InfraEnvParams("x").StaticNetworkConfig, 2)
	require.Equal(t, site.Hosts[0].Hints, again.Hosts[0].Hints)
	require.Equal(t, site.Manifests, again.Manifests)
}

// installConfig describes the same cluster in the format of install-config.
const installConfig = `apiVersion: v1
metadata: {name: edge}
baseDomain: example.com
compute:
- name: worker
  replicas: 1
  hyperthreading: Disabled
controlPlane:
  name: master
  replicas: 2
  fencing:
    credentials:
    - {hostName: node-a, address: "redfish+https://192.168.101.1/redfish/v1/Systems/1", username: admin, password: secret}
networking:
  networkType: OVNKubernetes
  machineNetwork: [{cidr: 192.168.100.0/24}]
platform:
  baremetal:
    apiVIPs: [192.168.100.4]
    ingressVIPs: [192.168.100.5]
    provisioningNetwork: Disabled
    hosts:
    - {name: node-a, role: master, bootMACAddress: "52:54:00:00:00:0A", bmc: {address: x}}
fips: true
pullSecret: '{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}'
imageDigestSources:
- {source: quay.io/a, mirrors: [mirror/a]}
`

func TestRead_installConfigAlone(t *testing.T) {
	site, err := Read([]File{{"install-config.yaml", []byte(installConfig)}})
	require.NoError(t, err)
	params := site.Values.ClusterParams()
	require.Equal(t, []any{"edge", int64(2), "masters", models.PlatformTypeBaremetal},
		[]any{*params.Name, *params.ControlPlaneCount, *params.Hyperthreading, *params.Platform.Type})
	require.Equal(t, "secret", site.Hosts[0].Fencing["password"])
	require.Equal(t, []string{"52:54:00:00:00:0a"}, site.Hosts[0].MACs)
	require.Contains(t, text(site.Values[DigestSources]), "mirror/a")
	require.Len(t, site.Notes, 1)
	override, err := site.Values.Override()
	require.NoError(t, err)
	require.JSONEq(t, `{"fips":true}`, override)

	now := Values{}
	for f, value := range site.Values {
		now[f] = value
	}
	now["override/fips"], now[SSHKey] = false, "ssh-ed25519 AAAA me"
	files, unwritten, err := site.Write(site.Values, now, nil)
	require.NoError(t, err)
	require.Empty(t, unwritten)
	require.Contains(t, string(files[0].Data), "fips: false")
	require.Contains(t, string(files[0].Data), "sshKey: ssh-ed25519 AAAA me")
}

func TestRead_errorsNameFileAndLine(t *testing.T) {
	const aci, cd, env, secret, networks = "cluster-manifests/agent-cluster-install.yaml",
		"cluster-manifests/cluster-deployment.yaml", "cluster-manifests/infraenv.yaml",
		"cluster-manifests/pull-secret.yaml", "cluster-manifests/nmstateconfig.yaml"
	for name, wrong := range map[string]struct{ file, old, new, says string }{
		"an unknown field": {aci, "spec:\n", "spec:\n  apiVIPss: []\n",
			aci + ":10: spec.apiVIPss is not a field of AgentClusterInstall supported by the appliance; correct or " +
				"remove it"},
		"an unsupported field": {aci, "spec:\n", "spec:\n  manifestsConfigMapRefs: [{name: x}]\n",
			aci + ":10: spec.manifestsConfigMapRefs is not supported: the appliance has no ConfigMaps; put the " +
				"manifests into openshift/"},
		"an invalid address": {aci, `"192.168.100.5"`, `"192.168.100.555"`,
			aci + `:13: spec.ingressVIPs has "192.168.100.555", which is not an IP address`},
		"an invalid network": {aci, "10.128.0.0/14", "10.128.0.0",
			aci + `:20: spec.networking.clusterNetwork has "10.128.0.0", which is not a network`},
		"another platform": {aci, "BareMetal", "AWS",
			aci + ":26: spec.platformType takes one of BareMetal, External, None, Nutanix, VSphere"},
		"an invalid count": {aci, "controlPlaneAgents: 3", "controlPlaneAgents: three",
			aci + ":28: spec.provisionRequirements.controlPlaneAgents takes a whole number from 0"},
		"an invalid annotation": {aci, `'{"fips":true`, `'{"fips":`,
			aci + ":6: the annotation agent-install.openshift.io/install-config-overrides is not a JSON object"},
		"a reference to a missing object": {aci, "  clusterDeploymentRef:\n    name: edge",
			"  clusterDeploymentRef:\n    name: far",
			cd +
				`:5: metadata.name is "edge", but cluster-manifests/agent-cluster-install.yaml:15: spec.clusterDeploymentRef.name is "far"`},
		"a field twice": {cd, "  clusterName: edge\n", "  clusterName: edge\n  clusterName: far\n",
			cd + ":11: can't be read as YAML: mapping key \"clusterName\" already defined"},
		"a tab": {cd, "  clusterName: edge", "\tclusterName: edge",
			cd + ":10: can't be read as YAML"},
		"a tab in the second document": {networks, "metadata:\n  name: edge-1", "metadata:\n\tname: edge-1",
			networks + ":20: can't be read as YAML"},
		"an unknown kind": {env, "kind: InfraEnv", "kind: BareMetalHost",
			env + `:1: the kind "BareMetalHost" is unknown to the agent-based installer`},
		"another version": {env, "v1beta1", "v1alpha1",
			env +
				`:1: the apiVersion of InfraEnv is agent-install.openshift.io/v1beta1, not "agent-install.openshift.io/v1alpha1"`},
		"a list": {env, directory()[env], "- a\n",
			env + ":1: can't be read as YAML: a document must be a mapping of fields"},
		"nothing": {secret, directory()[secret], "",
			secret + ": is missing; without install-config.yaml the directory needs its Secret"},
		"a secret without secret": {secret, ".dockerconfigjson", "other",
			secret + ":5: stringData.other is not a field of Secret"},
		"an unselected network": {networks, "labels: {infraenvs.agent-install.openshift.io: edge}",
			"labels: {x: edge}", networks + ":2: the InfraEnv selects NMStateConfigs with the label " +
				"infraenvs.agent-install.openshift.io: edge"},
		"one interface in two networks": {networks, "52:54:00:00:00:0b", "52:54:00:00:00:0a",
			networks + ":25: spec.config differs from cluster-manifests/nmstateconfig.yaml:11: spec.config"},
		"an invalid MAC address": {networks, "52:54:00:00:00:0b", "52:54",
			networks + `:24: spec.interfaces[0] has the invalid macAddress "52:54"`},
		"a host without interfaces": {"agent-config.yaml",
			"- interfaces:\n  - name: eth0\n    macAddress: 52:54:00:00:00:0b", "- hostname: b",
			"agent-config.yaml:15: hosts[1] has no network interface that identifies it"},
		"an invalid role": {"agent-config.yaml", "role: master", "role: boss",
			`agent-config.yaml:9: hosts[0].role is "boss"; a role is master, worker or arbiter`},
		"an unknown hint": {"agent-config.yaml", "deviceName", "device",
			`agent-config.yaml:14: hosts[0].rootDeviceHints has the unknown field "device"`},
	} {
		t.Run(name, func(t *testing.T) {
			texts := directory()
			require.Contains(t, texts[wrong.file], wrong.old)
			if texts[wrong.file] = strings.Replace(texts[wrong.file], wrong.old, wrong.new,
				1); texts[wrong.file] == "" {
				delete(texts, wrong.file)
			}
			_, err := Read(filesOf(texts))
			require.ErrorContains(t, err, wrong.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestRead_contradictionIsRefused(t *testing.T) {
	texts := directory()
	texts["install-config.yaml"] = strings.Replace(strings.Replace(installConfig, "edge}", "far}", 1), "replicas: 2",
		"replicas: 3", 1)
	_, err := Read(filesOf(texts))
	require.ErrorContains(t, err,
		`install-config.yaml:2: metadata.name is "far", but cluster-manifests/cluster-deployment.yaml:10: spec.clusterName is "edge"; both must be equal in a directory`)
}

func TestHost_diskByHints(t *testing.T) {
	disks := []*models.Disk{
		{Name: "sda", Path: "/dev/sda", ByPath: "/dev/disk/by-path/pci-1", Model: "PERC H740", SizeBytes: 100 << 30,
			DriveType: models.DriveTypeHDD, InstallationEligibility: models.DiskInstallationEligibility{
				Eligible: true}},
		{Name: "nvme0n1", Path: "/dev/nvme0n1", Serial: "S1", Wwn: "eui.1", SizeBytes: 500 << 30,
			DriveType: models.DriveTypeSSD, InstallationEligibility: models.DiskInstallationEligibility{
				Eligible: true}},
		{Name: "sdb", Path: "/dev/sdb", SizeBytes: 900 << 30},
	}
	for hint, want := range map[string]string{
		`{"deviceName": "/dev/disk/by-path/pci-1"}`: "sda", `{"model": "H740"}`: "sda",
		`{"minSizeGigabytes": 200}`: "nvme0n1", `{"rotational": false}`: "nvme0n1",
		`{"serialNumber": "S1", "wwn": "eui.1"}`: "nvme0n1", `{"minSizeGigabytes": 600}`: "", `{"vendor": "none"}`: "",
	} {
		t.Run(hint, func(t *testing.T) {
			var host Host
			require.NoError(t, jsonInto(`{"root_device_hints": `+hint+`}`, &host))
			name := ""
			if disk := host.Disk(disks); disk != nil {
				name = disk.Name
			}
			require.Equal(t, want, name)
		})
	}
}

func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	for name, text := range directory() {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".openshift_install.log"), nil, 0o600))
	files, leftOut, err := ReadDir(dir)
	require.NoError(t, err)
	require.Equal(t, directory(), textsOf(files))
	require.Equal(t, []string{".openshift_install.log"}, leftOut)
	_, _, err = ReadDir(t.TempDir())
	require.ErrorContains(t, err, "neither install-config.yaml nor cluster-manifests")
	require.NoError(t, os.Truncate(filepath.Join(dir, "agent-config.yaml"), FileBytes+1))
	_, _, err = ReadDir(dir)
	require.ErrorContains(t, err, "agent-config.yaml: is larger than 1024 KiB")
}

func FuzzRead(f *testing.F) {
	for name, text := range directory() {
		f.Add(name, text)
	}
	f.Add("install-config.yaml", installConfig)
	f.Add("install-config.yaml", "a: &x [*x]")
	f.Add("agent-config.yaml", "hosts: {}\n")
	f.Add("agent-config.yaml", "apiVersion: v1beta1\nhosts: x\n")
	f.Fuzz(func(t *testing.T, name, text string) {
		site, err := Read([]File{{name, []byte(text)}, {"install-config.yaml", []byte(installConfig)}})
		if err != nil {
			return
		}
		files, _, err := site.Write(site.Values, site.Values, site.Manifests)
		require.NoError(t, err)
		for _, file := range files {
			if file.Name == name && name != "install-config.yaml" {
				require.Equal(t, text, string(file.Data))
			}
		}
	})
}

func jsonInto(text string, into any) error { return json.Unmarshal([]byte(text), into) }

// TestRead_upstreamFieldsAreKnown reads upstream's sample objects. The appliance must know each of
// their fields. The samples are not complete directories, and some request features that the
// appliance does not support.
func TestRead_upstreamFieldsAreKnown(t *testing.T) {
	data := os.Getenv("LANDFALL_REALDATA")
	if data == "" {
		t.Skip("LANDFALL_REALDATA is not set")
	}
	read := 0
	for _, pattern := range []string{"agentClusterInstall*.yaml", "cluster*.yaml", "infraEnv*.yaml", "nmstate.yaml",
		"pullsecret.yaml", "namespace.yaml"} {
		samples, err := filepath.Glob(filepath.Join(data, "hive-samples", pattern))
		require.NoError(t, err)
		for _, sample := range samples {
			text, err := os.ReadFile(sample)
			require.NoError(t, err)
			read++
			t.Run(filepath.Base(sample), func(t *testing.T) {
				_, err := Read([]File{{"cluster-manifests/" + filepath.Base(sample), text}})
				require.Error(t, err, "the directory lacks four of five objects")
				require.NotRegexp(t, "is not a field of (AgentCluster|Cluster|Infra|NMState)", err.Error())
			})
		}
	}
	require.GreaterOrEqual(t, read, 12)
}
