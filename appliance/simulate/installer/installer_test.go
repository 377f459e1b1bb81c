package installer

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_2"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/simulate/pki"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

const installConfigText = `apiVersion: v1
baseDomain: example.com
metadata:
  name: demo
pullSecret: '{"auths":{"mirror.example.com:5000":{"auth":"dTpw"}}}'
sshKey: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g someone
networking:
  networkType: OVNKubernetes
  machineNetwork:
  - cidr: 192.168.100.0/24
  clusterNetwork:
  - cidr: 10.128.0.0/14
    hostPrefix: 23
  serviceNetwork:
  - 172.30.0.0/16
controlPlane:
  name: master
  replicas: 3
compute:
- name: worker
  replicas: 1
imageDigestSources:
- source: quay.io/openshift-release-dev/ocp-release
  mirrors:
  - mirror.example.com:5000/openshift/release-images
  sourcePolicy: NeverContactSource
platform:
  baremetal:
    provisioningNetwork: Disabled
    apiVIPs: [192.168.100.2]
    ingressVIPs: [192.168.100.3]
    hosts:
    - {name: w0, role: worker, bootMACAddress: "52:54:00:00:00:0a"}
    - {name: m0, role: master, bootMACAddress: "52:54:00:00:00:01"}
    - {name: m1, role: master, bootMACAddress: "52:54:00:00:00:02"}
    - {name: m2, role: master, bootMACAddress: "52:54:00:00:00:03"}
`

const singleNodeText = `apiVersion: v1
baseDomain: example.com
metadata: {name: sno}
pullSecret: '{"auths":{"mirror.example.com:5000":{"auth":"dTpw"}}}'
networking:
  networkType: OVNKubernetes
  machineNetwork: [{cidr: 192.168.100.0/24}]
  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
  serviceNetwork: [172.30.0.0/16]
controlPlane: {name: master, replicas: 1}
compute: [{name: worker, replicas: 0}]
platform: {none: {}}
bootstrapInPlace: {installationDisk: /dev/sda}
`

func installerDirectory(t *testing.T, config string) string {
	dir := t.TempDir()
	if config != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "install-config.yaml"), []byte(config), 0o600))
	}
	return dir
}

func openshiftInstall(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	path := filepath.Join(t.TempDir(), installerName)
	require.NoError(t, os.WriteFile(path, []byte(Launcher()), 0o700))
	code = runInstaller(path, args, env, &out, &errs)
	return code, out.String(), errs.String()
}

func mustInstall(t *testing.T, env []string, args ...string) {
	code, _, stderr := openshiftInstall(t, env, args...)
	require.Zero(t, code, stderr)
}

func readOut(t *testing.T, dir, name string) []byte {
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return data
}

func TestInstaller_writesTheFilesOfOpenshiftInstall(t *testing.T) {
	dir := installerDirectory(t, installConfigText)
	env := []string{envReleaseImage + "=quay.io/openshift-release-dev/ocp-release@sha256:1", envInvoker + "=landfall",
		envBootstrapIP + "=192.168.100.10"}
	mustInstall(t, env, "create", "manifests", "--dir", dir)
	require.NoFileExists(t, filepath.Join(dir, "install-config.yaml"), "create manifests removes install-config.yaml")
	require.FileExists(t, filepath.Join(dir, stateFile))
	require.Contains(t, string(readOut(t, dir, "manifests/openshift-install.yaml")), "invoker: landfall")
	require.Contains(t, string(readOut(t, dir, "manifests/image-digest-mirror-set.yaml")),
		"mirrorSourcePolicy: NeverContactSource")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "openshift", "mine.yaml"), []byte("kind: Mine\n"), 0o600))

	mustInstall(t, env, "create", "ignition-configs", "--dir", dir)
	require.NoDirExists(t, filepath.Join(dir, "manifests"))
	require.NoDirExists(t, filepath.Join(dir, "openshift"))
	require.Regexp(t, `^([A-Za-z2-9]{5}-){3}[A-Za-z2-9]{5}$`, string(readOut(t, dir, "auth/kubeadmin-password")))

	var metadata struct{ ClusterName, ClusterID, InfraID string }
	require.NoError(t, json.Unmarshal(readOut(t, dir, "metadata.json"), &metadata))
	require.Equal(t, "demo", metadata.ClusterName)
	require.Regexp(t, `^demo-[a-z0-9]{5}$`, metadata.InfraID)

	files, motd := bootstrapFiles(t, readOut(t, dir, "bootstrap.ign"))
	require.True(t, motd, "/etc/motd has only appended contents")
	require.Contains(t, files["/opt/openshift/manifests/cvo-overrides.yaml"], "clusterID: "+metadata.ClusterID)
	require.Equal(t, "kind: Mine\n", files["/opt/openshift/openshift/mine.yaml"])
	require.Contains(t, files["/usr/local/bin/release-image.sh"],
		"RELEASE_IMAGE=quay.io/openshift-release-dev/ocp-release@sha256:1\n")
	require.Contains(t, files["/usr/local/bin/bootkube.sh"], "BOOTSTRAP_NODE_IP=192.168.100.10\n")
	require.Contains(t, files["/etc/containers/registries.conf"], "blocked = true")
	for i, name := range []string{"m0", "m1", "m2", "w0"} {
		host := files["/opt/openshift/openshift/99_openshift-cluster-api_hosts-"+string(rune('0'+i))+".yaml"]
		require.Contains(t, host, "kind: BareMetalHost")
		require.Contains(t, host, "name: "+name+"\n")
		require.Contains(t, host, "\nstatus:\n")
	}

	for _, role := range []string{"master", "worker"} {
		config, report, err := v3_2.Parse(readOut(t, dir, role+".ign"))
		require.NoError(t, err, report.String())
		require.Equal(t, "https://192.168.100.2:22623/config/"+role, *config.Ignition.Config.Merge[0].Source)
		require.Len(t, config.Ignition.Security.TLS.CertificateAuthorities, 1)
	}
}

func bootstrapFiles(t *testing.T, data []byte) (files map[string]string, motdAppended bool) {
	config, report, err := v3_2.Parse(data)
	require.NoError(t, err, report.String())
	files = map[string]string{}
	for _, f := range config.Storage.Files {
		if f.Path == "/etc/motd" {
			motdAppended = len(f.Append) == 1 && f.Contents.Source == nil
			continue
		}
		_, encoded, _ := strings.Cut(*f.Contents.Source, "base64,")
		content, err := base64.StdEncoding.DecodeString(encoded)
		require.NoError(t, err)
		files[f.Path] = string(content)
	}
	return files, motdAppended
}

func TestInstaller_kubeconfigWithClientCertificate(t *testing.T) {
	dir := installerDirectory(t, installConfigText)
	mustInstall(t, nil, "create", "ignition-configs", "--dir", dir)
	var config struct {
		Clusters []struct {
			Cluster struct {
				CA     string `yaml:"certificate-authority-data"`
				Server string
			}
		}
		Users []struct {
			User struct {
				Cert string `yaml:"client-certificate-data"`
				Key  string `yaml:"client-key-data"`
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(readOut(t, dir, "auth/kubeconfig"), &config))
	require.Equal(t, "https://api.demo.example.com:6443", config.Clusters[0].Cluster.Server)
	decode := func(text string) []byte {
		data, err := base64.StdEncoding.DecodeString(text)
		require.NoError(t, err)
		return data
	}
	files, _ := bootstrapFiles(t, readOut(t, dir, "bootstrap.ign"))
	verify := func(certificate, ca []byte, usage x509.ExtKeyUsage, name string) *x509.Certificate {
		pool := x509.NewCertPool()
		require.True(t, pool.AppendCertsFromPEM(ca))
		block, _ := pem.Decode(certificate)
		cert, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		_, err = cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, KeyUsages: []x509.ExtKeyUsage{usage}})
		require.NoError(t, err)
		return cert
	}
	admin := verify(decode(config.Users[0].User.Cert), []byte(files["/opt/openshift/tls/admin-kubeconfig-signer.crt"]),
		x509.ExtKeyUsageClientAuth, "")
	require.Equal(t, "system:admin", admin.Subject.CommonName)
	require.Equal(t, []string{"system:masters"}, admin.Subject.Organization)
	verify([]byte(files["/opt/openshift/tls/kube-apiserver-lb-server.crt"]), decode(config.Clusters[0].Cluster.CA),
		x509.ExtKeyUsageServerAuth, "api.demo.example.com")
	verify([]byte(files["/opt/openshift/tls/machine-config-server.crt"]),
		[]byte(files["/opt/openshift/tls/root-ca.crt"]), x509.ExtKeyUsageServerAuth, "192.168.100.2")
}

func TestInstaller_singleNodeInPlace(t *testing.T) {
	dir := installerDirectory(t, singleNodeText)
	mustInstall(t, nil, "create", "manifests", "--dir="+dir)
	mustInstall(t, nil, "create", "single-node-ignition-config", "--dir="+dir)
	files, _ := bootstrapFiles(t, readOut(t, dir, "bootstrap-in-place-for-live-iso.ign"))
	require.Contains(t, files["/usr/local/bin/install-to-disk.sh"], "INSTALLATION_DISK=/dev/sda")
	require.NoFileExists(t, filepath.Join(dir, "bootstrap.ign"))
	require.Contains(t, string(readOut(t, dir, "worker.ign")), "https://api-int.sno.example.com:22623/config/worker")
}

func TestInstaller_domainOfOneLabel(t *testing.T) {
	dir := installerDirectory(t, strings.Replace(singleNodeText, "baseDomain: example.com", "baseDomain: localdomain",
		1))
	mustInstall(t, nil, "create", "manifests", "--dir="+dir)
	mustInstall(t, nil, "create", "single-node-ignition-config", "--dir="+dir)
	require.Contains(t, string(readOut(t, dir, "worker.ign")), "https://api-int.sno.localdomain:22623/config/worker")
}

func TestInstaller_invalidInstallConfigs(t *testing.T) {
	leaf := "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	for name, c := range map[string]struct{ old, new, says string }{
		"no YAML":                 {"apiVersion: v1", "apiVersion: [", "error converting YAML to JSON"},
		"an unknown field":        {"baseDomain:", "baseDomian: x\nbaseDomain:", `unknown field \"baseDomian\"`},
		"an unknown field within": {"networkType:", "networkTyp: x\n  networkType:", `unknown field \"networkTyp\"`},
		"a wrong type":            {"replicas: 3", "replicas: three", "cannot unmarshal string"},
		"another version":         {"apiVersion: v1", "apiVersion: v2", `cannot upconvert from version \"v2\"`},
		"an invalid name":         {"name: demo", "name: De_mo", "metadata.name: Invalid value"},
		"no domain":               {"baseDomain: example.com", "baseDomain: ''", "baseDomain: Invalid value"},
		"no pull secret": {`'{"auths":{"mirror.example.com:5000":{"auth":"dTpw"}}}'`, "''",
			"pullSecret: Required value"},
		"a pull secret that is not JSON": {`'{"auths"`, `'{auths`, "pullSecret: Invalid value"},
		"an empty pull secret": {`'{"auths":{"mirror.example.com:5000":{"auth":"dTpw"}}}'`, "'{}'",
			"auths required"},
		"an invalid SSH key":   {"ssh-ed25519 AAAA", "ssh-ed25519 !", "sshKey: Invalid value"},
		"a bad CIDR":           {"192.168.100.0/24", "192.168.100.0/33", "invalid CIDR address: 192.168.100.0/33"},
		"a host's address":     {"192.168.100.0/24", "192.168.100.7/24", "expecting 192.168.100.0/24"},
		"overlapping networks": {"172.30.0.0/16", "10.130.0.0/16", "must not overlap with"},
		"a short host prefix":  {"hostPrefix: 23", "hostPrefix: 12", "must not be larger size than CIDR"},
		"incomplete dual stack": {"- 172.30.0.0/16", "- 172.30.0.0/16\n  - fd02::/112",
			"dual-stack IPv4/IPv6 requires a machine network of each address family"},
		"a VIP elsewhere": {"[192.168.100.2]", "[192.168.101.2]",
			"IP expected to be in one of the machine networks: 192.168.100.0/24"},
		"an invalid VIP": {"[192.168.100.2]", "[api]", `is not a valid IP`},
		"no VIP": {"apiVIPs: [192.168.100.2]", "apiVIPs: []",
			"must specify at least one VIP for the API"},
		"one VIP for both": {"ingressVIPs: [192.168.100.3]", "ingressVIPs: [192.168.100.2]",
			"VIP for API must not be one of the Ingress VIPs"},
		"too few masters": {"replicas: 3", "replicas: 4",
			"not enough hosts found (3) to support all the configured ControlPlane replicas (4)"},
		"too few workers": {"replicas: 1", "replicas: 2",
			"not enough hosts found (1) to support all the configured Compute replicas (2)"},
		"no control plane": {"replicas: 3", "replicas: 0",
			"number of control plane replicas must be positive"},
		"a host twice":   {"name: m1", "name: m0", `hosts[2].name: Duplicate value: \"m0\"`},
		"a MAC twice":    {"00:00:02", "00:00:01", "bootMACAddress: Duplicate value"},
		"an invalid MAC": {"52:54:00:00:00:02", "zz", "bootMACAddress: Invalid value"},
		"both kinds of mirrors": {"imageDigestSources:",
			"imageContentSources:\n- {source: a.b/c, mirrors: [d.e/f]}\nimageDigestSources:",
			"cannot set imageContentSources and imageDigestSources at the same time"},
		"a mirror by digest": {"source: quay.io/openshift-release-dev/ocp-release", "source: quay.io/x@sha256:1",
			"must be repository--not reference"},
		"a bundle that is not PEM": {"sshKey:", "additionalTrustBundle: hello\nsshKey:",
			"unable to parse certificate"},
		"a bundle without X.509 certificates": {"sshKey:", "additionalTrustBundle: " + quoted(leaf) + "\nsshKey:",
			"additionalTrustBundle: Invalid value"},
		"an invalid trust policy": {"sshKey:", "additionalTrustBundlePolicy: Never\nsshKey:",
			"additionalTrustBundlePolicy: Invalid value"},
		"an invalid proxy": {"sshKey:", "proxy: {httpProxy: squid}\nsshKey:",
			"proxy.httpProxy: Invalid value"},
		"two platforms":            {"platform:\n", "platform:\n  none: {}\n", "must specify one of the platforms"},
		"the removed network type": {"OVNKubernetes", "OpenShiftSDN", "OpenShiftSDN is not supported"},
		"an unknown CPU partitioning": {"sshKey:", "cpuPartitioningMode: Some\nsshKey:",
			"cpuPartitioningMode: Invalid value"},
		"an unknown feature set": {"sshKey:", "featureSet: Mine\nsshKey:", "featureSet: Invalid value"},
		"feature gates without their feature set": {"sshKey:", "featureGates: [A=true]\nsshKey:",
			"can only be used with the CustomNoUpgrade feature set"},
		"an unknown capability set": {"sshKey:", "capabilities: {baselineCapabilitySet: Some}\nsshKey:",
			"capabilities.baselineCapabilitySet: Invalid value"},
		"no capabilities": {"sshKey:",
			"capabilities: {baselineCapabilitySet: None, additionalEnabledCapabilities: [MachineAPI]}\nsshKey:",
			"platform baremetal requires the baremetal capability"},
		"the marketplace capability alone": {"sshKey:",
			"capabilities: {baselineCapabilitySet: None, additionalEnabledCapabilities: [MachineAPI, baremetal, " +
				"marketplace]}\nsshKey:", "requires the OperatorLifecycleManager capability"},
		"an invalid IPv6 host prefix": {"hostPrefix: 23", "hostPrefix: 23\n  - cidr: fd01::/48\n    hostPrefix: 60",
			"must be 64 for IPv6 networks"},
		"two errors": {"replicas: 3", "replicas: -1\nfips: maybe", "cannot unmarshal string"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, installConfigText, c.old)
			dir := installerDirectory(t, strings.Replace(installConfigText, c.old, c.new, 1))
			code, _, stderr := openshiftInstall(t, nil, "create", "manifests", "--dir", dir)
			require.Equal(t, 1, code)
			require.Contains(t, stderr, "level=fatal msg=\"")
			require.Contains(t, strings.ReplaceAll(stderr, `\\\"`, `\"`), c.says)
			require.FileExists(t, filepath.Join(dir, "install-config.yaml"), "a rejected install-config is not removed")
			require.NoFileExists(t, filepath.Join(dir, stateFile))
		})
	}
}

func TestInstaller_invalidPlatformsAndControlPlanes(t *testing.T) {
	const vsphere = `platform: {vsphere: {vcenters: [{server: vc, user: u, password: p, datacenters: [dc]}], failureDomains: [{name: a, region: b, zone: c, server: vc, ` +
		`topology: {datacenter: dc, computeCluster: /dc/host/c, datastore: /dc/datastore/d, networks: [n]}}]}}`
	const nutanix = `platform: {nutanix: {apiVIPs: [192.168.100.4], ingressVIPs: [192.168.100.5], prismCentral: {endpoint: {address: pc, port: 9440}, username: u, password: p}, ` +
		`prismElements: [{endpoint: {address: pe, port: 9440}, uuid: u, name: n}], subnetUUIDs: [s]}}`
	const fencing = `fencing: {credentials: [{hostname: a, address: x, username: u, password: p}, {hostname: b, address: y, username: u, password: p}]}`
	two := strings.NewReplacer("replicas: 1", "replicas: 2", "bootstrapInPlace: {installationDisk: /dev/sda}\n",
		"").Replace(singleNodeText)
	on := func(platform string) string {
		return strings.NewReplacer("replicas: 1", "replicas: 3", "platform: {none: {}}", platform,
			"bootstrapInPlace: {installationDisk: /dev/sda}\n", "").Replace(singleNodeText)
	}
	fenced := strings.Replace(two, "replicas: 2", "replicas: 2, "+fencing, 1)
	arbiter := two + "arbiter: {name: arbiter, replicas: 1}\n"
	for name, c := range map[string]struct {
		version, config, old, new, says string
	}{
		"vsphere": {"4.20.8", on(vsphere), "", "", ""},
		"no vCenter": {"4.20.8", on(vsphere), "[{server: vc, user: u, password: p, datacenters: [dc]}]",
			"[]", "must specify at least one vCenter"},
		"a vCenter without password": {"4.20.8", on(vsphere), "password: p", "password: ''",
			"vcenters[0].password: Required value"},
		"another vCenter's domain": {"4.20.8", on(vsphere), "c, server: vc", "c, server: other",
			"server does not exist in vcenters"},
		"no domain": {"4.20.8", on(vsphere), "failureDomains: [{name: a", "failureDomains: [{name: ''",
			"failureDomains[0].name: Required value"},
		"a datastore without a path": {"4.20.8", on(vsphere), "/dc/datastore/d", "d", "full path must be provided"},
		"one kind of VIP": {"4.20.8", on(vsphere), "{vcenters", "{apiVIPs: [192.168.100.4], vcenters",
			"must specify VIPs for both"},
		"nutanix": {"4.20.8", on(nutanix), "", "", ""},
		"nutanix without VIPs": {"4.20.8", on(nutanix), "ingressVIPs: [192.168.100.5]", "ingressVIPs: []",
			"must specify at least one VIP for the Ingress"},
		"no Prism Central": {"4.20.8", on(nutanix), "address: pc", "address: ''",
			"must specify the Prism Central endpoint address"},
		"an invalid port": {"4.20.8", on(nutanix), "address: pe, port: 9440", "address: pe, port: 0",
			"must specify a port between 1 and 65535"},
		"no subnet": {"4.20.8", on(nutanix), "subnetUUIDs: [s]", "subnetUUIDs: []",
			"must specify at least one subnet"},
		"external": {"4.20.8",
			on("platform: {external: {platformName: x, cloudControllerManager: External}}"), "", "", ""},
		"external without a name": {"4.20.8", on("platform: {external: {}}"), "", "",
			"must specify a platform name"},
		"an external manager": {"4.20.8",
			on("platform: {external: {platformName: x, cloudControllerManager: Mine}}"), "",
			"", `supported values: \"\", \"External\"`},
		"six control-plane nodes": {"4.20.8", two, "replicas: 2", "replicas: 6", "supported values: 1, 2, 3, 4, 5"},
		"four before 4.18":        {"4.17.1", two, "replicas: 2", "replicas: 4", "supported values: 1, 3"},
		"two without an arbiter":  {"4.22.0", two, "", "", "requires an arbiter or fencing credentials"},
		"an arbiter":              {"4.22.0", arbiter, "", "", ""},
		"an arbiter in an older release": {"4.19.1", arbiter, "", "",
			"protected by the HighlyAvailableArbiter feature gate"},
		"no arbiter": {"4.22.0", arbiter, "name: arbiter, replicas: 1", "name: arbiter, replicas: 0",
			"number of arbiter replicas must be positive"},
		"an arbiter on platform none in an older release": {"4.21.0", arbiter, "", "",
			"an arbiter is supported on the platform baremetal only"},
		"fencing": {"4.22.0", fenced, "", "", ""},
		"fencing as a preview": {"4.20.8", fenced, "apiVersion: v1",
			"apiVersion: v1\nfeatureSet: TechPreviewNoUpgrade", ""},
		"fencing without its feature gate": {"4.20.8", fenced, "", "", "protected by the DualReplica feature gate"},
		"fencing with three nodes": {"4.22.0", fenced, "replicas: 2", "replicas: 3",
			"fencing requires a control plane of two replicas"},
		"fencing with one credential": {"4.22.0", fenced, ", {hostname: b, address: y, username: u, password: p}",
			"", "exactly two fencing credentials"},
		"fencing without a password": {"4.22.0", fenced, "address: y, username: u, password: p",
			"address: y, username: u", "credentials[1].password: Required value"},
		"fencing with equal addresses": {"4.22.0", fenced, "address: y", "address: x",
			"credentials[1]: Duplicate value"},
		"fencing with an arbiter": {"4.22.0", fenced + "arbiter: {name: arbiter, replicas: 1}\n",
			"", "", "fencing is mutually exclusive with an arbiter"},
		"fencing of workers": {"4.22.0", fenced, "{name: worker, replicas: 0}",
			"{name: worker, replicas: 0, " + fencing + "}", "compute[0].fencing: Invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, c.config, c.old)
			_, _, err := parseInstallConfig([]byte(strings.Replace(c.config, c.old, c.new, 1)),
				(&run{stamp: releaseStamp{version: c.version}}).release())
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, strings.ReplaceAll(c.says, `\"`, `"`))
		})
	}
}

func TestInstaller_machinesOfVirtualPlatforms(t *testing.T) {
	config := strings.NewReplacer("replicas: 1", "replicas: 3", "bootstrapInPlace: {installationDisk: /dev/sda}\n",
		"", "platform: {none: {}}",
		`platform: {vsphere: {vcenters: [{server: vc, user: u, password: p, datacenters: [dc]}], failureDomains: [{name: a, region: b, zone: c, server: vc, `+
			`topology: {datacenter: dc, computeCluster: /dc/host/c, datastore: /dc/datastore/d, networks: [n]}}]}}`).
		Replace(singleNodeText)
	dir := installerDirectory(t, config)
	mustInstall(t, nil, "create", "manifests", "--dir", dir)
	for _, name := range []string{"cluster-api_master-machines-2", "cluster-api_worker-machineset-0",
		"machine-api_master-control-plane-machine-set"} {
		require.FileExists(t, filepath.Join(dir, "openshift", "99_openshift-"+name+".yaml"))
	}
}

func quoted(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func TestInstaller_trustBundleWithoutNewline(t *testing.T) {
	ca, err := pki.NewCA("site", "x", pki.Day)
	require.NoError(t, err)
	with := func(bundle string) string {
		return strings.Replace(installConfigText, "sshKey:",
			"additionalTrustBundlePolicy: Always\nadditionalTrustBundle: "+quoted(bundle)+"\nsshKey:", 1)
	}
	dir := installerDirectory(t, with(string(ca.Cert)+string(ca.Cert)))
	mustInstall(t, nil, "create", "manifests", "--dir", dir)
	require.Contains(t, string(readOut(t, dir, "manifests/cluster-proxy-01-config.yaml")), "user-ca-bundle")
	code, _, stderr := openshiftInstall(t, nil, "create", "manifests", "--dir",
		installerDirectory(t, with(string(ca.Cert)+"\n")))
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "unable to parse certificate")
}

func TestInstaller_orderOfCommands(t *testing.T) {
	dir := installerDirectory(t, "")
	for _, target := range []string{"manifests", "ignition-configs", "single-node-ignition-config"} {
		code, _, stderr := openshiftInstall(t, nil, "create", target, "--dir", dir)
		require.Equal(t, 1, code, target)
		require.Contains(t, stderr, "level=fatal", target)
	}
	for name, c := range map[string]struct{ config, old, new, says string }{
		"no disk": {singleNodeText, "bootstrapInPlace: {installationDisk: /dev/sda}\n", "",
			"bootstrapInPlace.installationDisk: Required value"},
		"three masters": {singleNodeText, "replicas: 1", "replicas: 3",
			"bootstrapInPlace requires a single control plane replica"},
		"an additional worker": {singleNodeText, "replicas: 0", "replicas: 1",
			"bootstrapInPlace requires zero compute replicas"},
	} {
		dir := installerDirectory(t, strings.Replace(c.config, c.old, c.new, 1))
		mustInstall(t, nil, "create", "manifests", "--dir", dir)
		code, _, stderr := openshiftInstall(t, nil, "create", "single-node-ignition-config", "--dir", dir)
		require.Equal(t, 1, code, name)
		require.Contains(t, stderr, c.says, name)
	}
	for _, args := range [][]string{{"destroy", "cluster"}, {"create", "cluster"},
		{"create", "manifests", "--dri", "x"}} {
		code, _, stderr := openshiftInstall(t, nil, args...)
		require.Equal(t, 1, code, args)
		require.Contains(t, stderr, "level=fatal", args)
	}
}

func TestInstaller_unstampedVersion(t *testing.T) {
	code, stdout, _ := openshiftInstall(t, nil, "version")
	require.Zero(t, code)
	require.Contains(t, stdout, "openshift-install unreleased\n")
	require.Contains(t, stdout, "release image registry.ci.openshift.org/")
}

func TestLauncher_runsFromAnyDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a directory with 'quotes' and blanks")
	require.NoError(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, installerName)
	text := Launcher()
	for _, value := range []string{"quay.io/x@sha256:1", "4.20.8", "linux/amd64"} {
		at := strings.Index(text, "\x00_RELEASE_")
		text = text[:at] + value + "\x00" + text[at+len(value)+1:]
	}
	require.Len(t, text, len(Launcher()), "a stamp does not change the size")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o700))

	cmd := exec.Command(path, "version", "--dir", dir)
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "openshift-install 4.20.8\n")
	require.Contains(t, string(out), "release image quay.io/x@sha256:1\nrelease architecture linux/amd64\n")

	out, err = exec.Command(path, "create", "manifests", "--dir", dir).CombinedOutput()
	var failed *exec.ExitError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 1, failed.ExitCode())
	require.Contains(t, string(out), dir+" holds neither install-config.yaml nor a state file")
}

func TestLauncher_truncatedHasNoStamp(t *testing.T) {
	for _, length := range []int{0, len(launcherText), len(launcherText) + 100} {
		require.Equal(t, "unreleased", stampOf(Launcher()[:length]).version)
	}
}
