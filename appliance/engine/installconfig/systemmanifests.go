package installconfig

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/engine/validation"
)

// The ciphers of encrypted disks. FIPS mode does not support the default cipher.
const (
	defaultCipher = "aes-cbc-essiv:sha256"
	fipsCipher    = "aes-xts-plain64"
)

// SystemManifests returns the manifests that the appliance adds to each installation, by folder and
// name. Some are patches of manifests from openshift-install. Names and effects are those of the
// Assisted Installer (internal/network/manifests_generator.go,
// internal/ignition/installmanifests.go).
func (in *Installation) SystemManifests() (map[string][]byte, error) {
	manifests := make(map[string][]byte)
	for name, content := range in.timeManifests() {
		manifests[path.Join("openshift", name)] = content
	}
	platform, err := in.platformManifests()
	if err != nil {
		return nil, err
	}
	maps.Copy(manifests, platform)
	operators, err := in.operatorManifests()
	if err != nil {
		return nil, err
	}
	for name, content := range operators.Install {
		manifests[path.Join("openshift", name)] = content
	}
	mirrored, err := in.mirrorManifests(operators.Install)
	if err != nil {
		return nil, err
	}
	maps.Copy(manifests, mirrored)
	return manifests, nil
}

// timeManifests returns manifests that configure the nodes' NTP servers. A disconnected site cannot
// reach public pools, so the nodes use only the servers that users configured.
func (in *Installation) timeManifests() map[string][]byte {
	servers := in.ntpServers()
	if len(servers) == 0 {
		return nil
	}
	var conf strings.Builder
	for _, server := range servers {
		fmt.Fprintf(&conf, "server %s iburst\n", server)
	}
	conf.WriteString("driftfile /var/lib/chrony/drift\nmakestep 1.0 3\nrtcsync\nlogdir /var/log/chrony\n")
	manifests := make(map[string][]byte)
	for _, role := range in.roles() {
		manifests["50-"+role+"s-chrony-configuration.yaml"] = fmt.Appendf(nil, `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  labels:
    machineconfiguration.openshift.io/role: %[1]s
  name: 50-%[1]ss-chrony-configuration
spec:
  config:
    ignition:
      version: 3.2.0
    storage:
      files:
      - path: /etc/chrony.conf
        mode: 420
        overwrite: true
        contents:
          source: data:text/plain;charset=utf-8;base64,%[2]s
`, role, base64.StdEncoding.EncodeToString([]byte(conf.String())))
	}
	return manifests
}

// machineConfig is a MachineConfig (machineconfiguration.openshift.io/v1) for one role.
type machineConfig struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   machineConfigMeta `yaml:"metadata"`
	Spec       machineConfigSpec `yaml:"spec"`
}

type machineConfigMeta struct {
	Name   string            `yaml:"name"`
	Labels map[string]string `yaml:"labels"`
}

type machineConfigSpec struct {
	Config          map[string]any `yaml:"config"`
	KernelArguments []string       `yaml:"kernelArguments,omitempty"`
}

func newMachineConfig(role, name, version string, config map[string]any, arguments ...string) ([]byte, error) {
	config["ignition"] = map[string]any{"version": version}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	err := encoder.Encode(machineConfig{
		APIVersion: "machineconfiguration.openshift.io/v1", Kind: "MachineConfig",
		Metadata: machineConfigMeta{Name: name,
			Labels: map[string]string{"machineconfiguration.openshift.io/role": role}},
		Spec: machineConfigSpec{Config: config, KernelArguments: arguments},
	})
	return text.Bytes(), err
}

// platformManifests returns the manifests for the cluster's topology, disk encryption and
// scheduling.
func (in *Installation) platformManifests() (map[string][]byte, error) {
	manifests := make(map[string][]byte)
	if conv.Value(in.Cluster.SchedulableMastersForcedTrue) || conv.Value(in.Cluster.SchedulableMasters) {
		manifests["openshift/cluster-scheduler-02-config.yml.patch_ai_set_masters_schedulable"] = replaceValue(
			"/spec/mastersSchedulable", true)
	}
	if in.count(models.HostRoleWorker) == 1 {
		// With one worker, openshift-install sets a single-replica topology. But the control plane
		// can also run the workloads.
		manifests["manifests/cluster-infrastructure-02-config.yml.patch_infrastructure_topology"] = replaceValue(
			"/status/infrastructureTopology", "HighlyAvailable")
	}
	for _, role := range in.roles() {
		reapply, err := newMachineConfig(role, "50-"+role+"s-iscsi-nic-reapply", "3.1.0",
			map[string]any{"systemd": map[string]any{"units": []any{
				map[string]any{"name": "iscsi-nic-reapply.service", "enabled": true, "contents": iscsiReapply},
			}}})
		if err != nil {
			return nil, err
		}
		manifests["openshift/50-"+role+"s-iscsi-nic-reapply.yaml"] = reapply
		name, encryption, err := in.encryption(role)
		if err != nil {
			return nil, err
		}
		if encryption != nil {
			manifests[path.Join("openshift", name)] = encryption
		}
	}
	return manifests, nil
}

// replaceValue returns a patch (RFC 6902) that replaces one value of a manifest.
func replaceValue(at string, value any) []byte {
	return fmt.Appendf(nil, "---\n- op: replace\n  path: %s\n  value: %v\n", at, value)
}

// iscsiReapply is a systemd unit that reapplies the network settings on the first boot from an
// iSCSI volume. Without it, the installed system lacks the name servers of the boot firmware. The
// unit has no effect on other nodes.
const iscsiReapply = `[Unit]
Description=Take the network settings anew on the first boot from an iSCSI volume
After=NetworkManager.service

[Service]
Type=oneshot
ExecStart=-/bin/sh -c 'lsblk -sno TRAN "$$(findmnt -nvo SOURCE /sysroot)" | grep -qx iscsi && nmcli -t -f DEVICE device status | xargs -l nmcli device reapply'
ExecStartPost=-/usr/bin/systemctl disable iscsi-nic-reapply.service

[Install]
WantedBy=multi-user.target
`

// encryption returns the manifest that encrypts the root file system of the nodes of a role. It is
// nil without disk encryption.
func (in *Installation) encryption(role string) (name string, manifest []byte, err error) {
	wanted := in.Cluster.DiskEncryption
	if !validation.Encrypts(in.Cluster, models.HostRole(role)) {
		return "", nil, nil
	}
	mode, clevis := "tpm", map[string]any{"tpm2": true}
	var arguments []string
	if conv.Value(wanted.Mode) == models.DiskEncryptionModeTang {
		var servers []struct {
			URL        string `json:"url" yaml:"url"`
			Thumbprint string `json:"thumbprint" yaml:"thumbprint"`
		}
		if err := json.Unmarshal([]byte(wanted.TangServers), &servers); err != nil {
			return "", nil, invalid("The Tang servers %q are not a JSON list of {\"url\": …, \"thumbprint\": …}.",
				wanted.TangServers)
		}
		mode, clevis, arguments = "tang", map[string]any{"tang": servers}, []string{"rd.neednet=1"}
	}
	cipher := defaultCipher
	if in.fips() {
		cipher = fipsCipher
	}
	manifest, err = newMachineConfig(role, role+"-"+mode, "3.2.0", map[string]any{"storage": map[string]any{
		"luks": []any{map[string]any{
			"name": "root", "label": "luks-root", "device": "/dev/disk/by-partlabel/root", "clevis": clevis,
			"options": []string{"--cipher", cipher}, "wipeVolume": true,
		}},
		"filesystems": []any{map[string]any{"device": "/dev/mapper/root", "format": "xfs", "wipeFilesystem": true,
			"label": "root"}},
	}}, arguments...)
	return "99-openshift-" + role + "-" + mode + "-encryption.yaml", manifest, err
}

// fips reports whether users enabled FIPS mode in their overrides of the install-config.
func (in *Installation) fips() bool {
	var over struct {
		FIPS bool `json:"fips"`
	}
	if in.Cluster.InstallConfigOverrides == "" {
		return false
	}
	return json.Unmarshal([]byte(in.Cluster.InstallConfigOverrides), &over) == nil && over.FIPS
}
