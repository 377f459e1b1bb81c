package installer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_2/types"

	"landfall/appliance/simulate/pki"
)

// ignitionVersion is the version of all written configs.
const ignitionVersion = "3.2.0"

// ignitionFiles returns the files of the second step.
func (in *run) ignitionFiles(state *installState, manifests map[string][]byte,
	singleNode bool) (map[string][]byte, error) {
	certs, err := newClusterPKI(state)
	if err != nil {
		return nil, err
	}
	bootstrap, err := in.bootstrapConfig(state, certs, manifests, singleNode)
	if err != nil {
		return nil, fmt.Errorf("write the bootstrap ignition config: %w", err)
	}
	metadata, err := json.Marshal(map[string]any{
		"clusterName": state.config.Metadata.Name, "clusterID": state.ClusterID.UUID,
		"infraID": state.ClusterID.InfraID,
		strings.ToLower(state.config.platformType()): map[string]any{},
	})
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"metadata.json":           metadata,
		"auth/kubeconfig":         certs.kubeconfig(state.config),
		"auth/kubeadmin-password": []byte(kubeadminPassword()),
		"worker.ign":              []byte(pointerConfig(state, "worker")),
	}
	if singleNode {
		files["bootstrap-in-place-for-live-iso.ign"] = bootstrap
		return files, nil
	}
	files["bootstrap.ign"], files["master.ign"] = bootstrap, []byte(pointerConfig(state, "master"))
	if state.config.Arbiter.count() > 0 {
		files["arbiter.ign"] = []byte(pointerConfig(state, "arbiter"))
	}
	return files, nil
}

// kubeadminPassword returns four groups of five letters and digits, without similar-looking
// characters.
func kubeadminPassword() string {
	const alphabet = "ABCDEFGHIJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
	groups := make([]string, 4)
	for i := range groups {
		groups[i] = randomText(alphabet, 5)
	}
	return strings.Join(groups, "-")
}

// pointerConfig returns a config that refers a host of the role to the machine config server. The
// root CA signs that server's certificate.
func pointerConfig(state *installState, role string) string {
	source := "https://" + net.JoinHostPort(state.config.apiHost(), "22623") + "/config/" + role
	return fmt.Sprintf(
		`{"ignition":{"config":{"merge":[{"source":%q}]},"security":{"tls":{"certificateAuthorities":[{"source":%q}]}},"version":%q}}`,
		source, dataURL(state.RootCA.Cert), ignitionVersion)
}

func dataURL(data []byte) string {
	return "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString(data)
}

// bootstrapConfig returns a config with the manifests, the keys and the programs for the bootstrap
// host.
func (in *run) bootstrapConfig(state *installState, certs *clusterPKI, manifests map[string][]byte,
	singleNode bool) ([]byte, error) {
	c := state.config
	config := types.Config{Ignition: types.Ignition{Version: ignitionVersion}}
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		addFile(&config, path.Join("/opt/openshift", name), 0o600, manifests[name])
	}
	for _, name := range slices.Sorted(maps.Keys(certs.files())) {
		addFile(&config, path.Join("/opt/openshift/tls", name), 0o600, certs.files()[name])
	}
	addFile(&config, "/opt/openshift/auth/kubeconfig", 0o600, certs.kubeconfig(c))
	addFile(&config, "/root/.docker/config.json", 0o600, []byte(c.PullSecret))
	addFile(&config, "/usr/local/bin/release-image.sh", 0o555, fmt.Appendf(nil,
		"#!/usr/bin/env bash\nRELEASE_IMAGE=%s\n", in.releaseImage()))
	addFile(&config, "/usr/local/bin/bootkube.sh", 0o555, in.bootkube())
	if c.AdditionalTrustBundle != "" {
		addFile(&config, "/etc/pki/ca-trust/source/anchors/ca.crt", 0o600, []byte(c.AdditionalTrustBundle))
	}
	if len(c.mirrors()) > 0 {
		addFile(&config, "/etc/containers/registries.conf", 0o600, mirrorRegistriesConf(c.mirrors()))
	}
	if singleNode {
		addFile(&config, "/usr/local/bin/install-to-disk.sh", 0o555, fmt.Appendf(nil,
			"#!/usr/bin/env bash\nINSTALLATION_DISK=%s\n", c.BootstrapInPlace.InstallationDisk))
	}
	motd := "This is the bootstrap node of a stand-in cluster; it will be destroyed when the master is fully up.\n"
	source, zero := dataURL([]byte(motd)), ""
	config.Storage.Files = append(config.Storage.Files, types.File{
		Node: types.Node{Path: "/etc/motd", User: types.NodeUser{Name: pointer("root")}},
		FileEmbedded1: types.FileEmbedded1{Append: []types.Resource{{Source: &source, Compression: &zero}},
			Mode: pointer(0o644)},
	})
	for _, unit := range []string{"release-image", "bootkube", "kubelet"} {
		config.Systemd.Units = append(config.Systemd.Units, types.Unit{
			Name: unit + ".service", Enabled: pointer(true),
			Contents: pointer("[Unit]\nDescription=" + unit + "\n[Service]\nExecStart=/usr/local/bin/" + unit +
				".sh\n[Install]\nWantedBy=multi-user.target\n"),
		})
	}
	if keys := sshKeys(c.SSHKey); len(keys) > 0 {
		user := types.PasswdUser{Name: "core"}
		for _, key := range keys {
			user.SSHAuthorizedKeys = append(user.SSHAuthorizedKeys, types.SSHAuthorizedKey(key))
		}
		config.Passwd.Users = append(config.Passwd.Users, user)
	}
	return json.Marshal(config)
}

func (in *run) bootkube() []byte {
	script := "#!/usr/bin/env bash\nset -euoE pipefail\n. /usr/local/bin/release-image.sh\n"
	if ip := in.env[envBootstrapIP]; ip != "" {
		script += "BOOTSTRAP_NODE_IP=" + ip + "\n"
	}
	return []byte(script)
}

func mirrorRegistriesConf(mirrors []configMirror) []byte {
	var b bytes.Buffer
	for _, m := range mirrors {
		fmt.Fprintf(&b, "[[registry]]\n  prefix = \"\"\n  location = %q\n  mirror-by-digest-only = true\n", m.Source)
		if m.SourcePolicy == "NeverContactSource" {
			b.WriteString("  blocked = true\n")
		}
		for _, location := range m.Mirrors {
			fmt.Fprintf(&b, "  [[registry.mirror]]\n    location = %q\n", location)
		}
	}
	return b.Bytes()
}

func addFile(config *types.Config, path string, mode int, data []byte) {
	config.Storage.Files = append(config.Storage.Files, types.File{
		Node: types.Node{Path: path, Overwrite: pointer(true), User: types.NodeUser{Name: pointer("root")}},
		FileEmbedded1: types.FileEmbedded1{Contents: types.Resource{Source: pointer(dataURL(data))},
			Mode: pointer(mode)},
	})
}

func pointer[T any](v T) *T { return &v }

func sshKeys(text string) []string {
	var keys []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			keys = append(keys, line)
		}
	}
	return keys
}

// clusterPKI contains the certificates of a cluster that clients and nodes receive.
type clusterPKI struct {
	root, localSigner, lbSigner, adminSigner pki.Pair
	api, machineConfig, admin                pki.Pair
}

func newClusterPKI(state *installState) (*clusterPKI, error) {
	c, certs := state.config, &clusterPKI{root: state.RootCA}
	for _, signer := range []struct {
		name string
		into *pki.Pair
	}{
		{"kube-apiserver-localhost-signer", &certs.localSigner}, {"kube-apiserver-lb-signer", &certs.lbSigner},
		{"admin-kubeconfig-signer", &certs.adminSigner},
	} {
		ca, err := pki.NewCA(signer.name, "openshift", pki.TenYears)
		if err != nil {
			return nil, err
		}
		*signer.into = *ca
	}
	var ips []net.IP
	if ip := net.ParseIP(c.apiHost()); ip != nil {
		ips = append(ips, ip)
	}
	api, err := pki.NewServer("system:kube-apiserver", []string{"api." + c.domain(), "api-int." + c.domain()},
		ips, pki.Day, &certs.lbSigner)
	if err != nil {
		return nil, err
	}
	machineConfig, err := pki.NewServer("system:machine-config-server", []string{"api-int." + c.domain()}, ips,
		pki.TenYears, &certs.root)
	if err != nil {
		return nil, err
	}
	admin, err := pki.NewClient("system:admin", "system:masters", pki.TenYears, &certs.adminSigner)
	if err != nil {
		return nil, err
	}
	certs.api, certs.machineConfig, certs.admin = *api, *machineConfig, *admin
	return certs, nil
}

func (p *clusterPKI) files() map[string][]byte {
	all := map[string][]byte{}
	for name, pair := range map[string]pki.Pair{
		"root-ca": p.root, "kube-apiserver-localhost-signer": p.localSigner, "kube-apiserver-lb-signer": p.lbSigner,
		"admin-kubeconfig-signer": p.adminSigner, "kube-apiserver-lb-server": p.api,
		"machine-config-server": p.machineConfig,
	} {
		all[name+".crt"], all[name+".key"] = pair.Cert, pair.Key
	}
	return all
}

// kubeconfigFormat has five arguments: CA bundle, domain, cluster name, certificate and key.
const kubeconfigFormat = `clusters:
- cluster:
    certificate-authority-data: %[1]s
    server: https://api.%[2]s:6443
  name: %[3]s
contexts:
- context:
    cluster: %[3]s
    user: admin
  name: admin
current-context: admin
preferences: {}
users:
- name: admin
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
kind: Config
apiVersion: v1
`

// kubeconfig returns the administrator's kubeconfig with a client certificate, without the ingress
// CA.
func (p *clusterPKI) kubeconfig(c *installConfig) []byte {
	encode := base64.StdEncoding.EncodeToString
	ca := append(bytes.Clone(p.localSigner.Cert), p.lbSigner.Cert...)
	return fmt.Appendf(nil, kubeconfigFormat, encode(ca), c.domain(), c.Metadata.Name, encode(p.admin.Cert),
		encode(p.admin.Key))
}
