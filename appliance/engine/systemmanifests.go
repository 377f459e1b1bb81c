package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/engine/steps"
	"landfall/appliance/engine/validation"
	"landfall/ignition"
)

// What an installation gets from the appliance beside the install-config: manifests, and patches of
// those that openshift-install writes. Their names and effects are those of the Assisted Installer
// (internal/network/manifests_generator.go, internal/ignition/installmanifests.go).

// Ciphers of encrypted disks; the first is not allowed where FIPS rules.
const (
	usualCipher = "aes-cbc-essiv:sha256"
	fipsCipher  = "aes-xts-plain64"
)

// machineConfig is a MachineConfig (machineconfiguration.openshift.io/v1) of one role.
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

// platformManifests are the manifests that follow from the cluster's topology, disks and
// scheduling.
func (p *plan) platformManifests() (map[string][]byte, error) {
	manifests := make(map[string][]byte)
	if conv.Value(p.row.API.SchedulableMastersForcedTrue) || conv.Value(p.row.API.SchedulableMasters) {
		manifests["openshift/cluster-scheduler-02-config.yml.patch_ai_set_masters_schedulable"] = patchOf(
			"/spec/mastersSchedulable", true)
	}
	if p.count(models.HostRoleWorker) == 1 {
		// One worker alone would make the installer think of a cluster that has no second place for
		// anything; its masters have.
		manifests["manifests/cluster-infrastructure-02-config.yml.patch_infrastructure_topology"] = patchOf(
			"/status/infrastructureTopology", "HighlyAvailable")
	}
	for _, role := range p.roles() {
		reapply, err := newMachineConfig(role, "50-"+role+"s-iscsi-nic-reapply", "3.1.0",
			map[string]any{"systemd": map[string]any{"units": []any{
				map[string]any{"name": "iscsi-nic-reapply.service", "enabled": true, "contents": iscsiReapply},
			}}})
		if err != nil {
			return nil, err
		}
		manifests["openshift/50-"+role+"s-iscsi-nic-reapply.yaml"] = reapply
		name, encryption, err := p.encryption(role)
		if err != nil {
			return nil, err
		}
		if encryption != nil {
			manifests[path.Join("openshift", name)] = encryption
		}
	}
	return manifests, nil
}

// patchOf is a patch that replaces one value of a manifest.
func patchOf(at string, value any) []byte {
	return fmt.Appendf(nil, "---\n- op: replace\n  path: %s\n  value: %v\n", at, value)
}

// iscsiReapply is a unit that has a node which boots from an iSCSI volume take its network settings
// anew on its first boot: the name servers of the boot firmware do not reach the installed system
// by themselves. Elsewhere it does nothing.
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

// encryption is the manifest that has the nodes of a role encrypt their root file system, nil when
// they don't.
func (p *plan) encryption(role string) (name string, manifest []byte, err error) {
	wanted := p.row.API.DiskEncryption
	if !validation.Encrypts(&p.row.API, models.HostRole(role)) {
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
			return "", nil, invalid("The Tang servers %q are no list of {\"url\": …, \"thumbprint\": …}.",
				wanted.TangServers)
		}
		mode, clevis, arguments = "tang", map[string]any{"tang": servers}, []string{"rd.neednet=1"}
	}
	cipher := usualCipher
	if p.fips() {
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

// fips tells whether people have the cluster run by the rules of FIPS.
func (p *plan) fips() bool {
	var over struct {
		FIPS bool `json:"fips"`
	}
	if p.row.API.InstallConfigOverrides == "" {
		return false
	}
	return json.Unmarshal([]byte(p.row.API.InstallConfigOverrides), &over) == nil && over.FIPS
}

// leaseFiles are what a control-plane node keeps the leases of the cluster's addresses with, when a
// DHCP server gave them.
func (p *plan) leaseFiles() []ignition.File {
	api := &p.row.API
	if !conv.Value(api.VipDhcpAllocation) || p.userManaged() || len(api.APIVips) == 0 || len(api.IngressVips) == 0 {
		return nil
	}
	var monitor strings.Builder
	for _, vip := range []struct {
		name string
		ip   models.IP
	}{{"api", api.APIVips[0].IP}, {"ingress", api.IngressVips[0].IP}} {
		fmt.Fprintf(&monitor, "%[1]s-vip:\n  name: %[1]s\n  mac-address: %[2]s\n  ip-address: %[3]s\n", vip.name,
			steps.VIPMAC(api, vip.name), vip.ip)
	}
	files := []ignition.File{{Path: "/etc/keepalived/unsupported-monitor.conf", Mode: 0o644,
		Data: []byte(monitor.String())}}
	for name, lease := range map[string]string{"api": p.row.APILease, "ingress": p.row.IngressLease} {
		if lease != "" {
			files = append(files, ignition.File{Path: "/etc/keepalived/lease-" + name, Mode: 0o644,
				Data: []byte(lease)})
		}
	}
	return files
}
