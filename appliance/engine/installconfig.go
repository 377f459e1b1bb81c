package engine

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
	"landfall/appliance/mirror"
	"landfall/ignition"
)

// installConfig is the part of openshift-install's install-config.yaml (v1) that the appliance
// writes. It is written as JSON, which the installer reads as the YAML that it also is.
type installConfig struct {
	APIVersion            string                     `json:"apiVersion"`
	Metadata              map[string]string          `json:"metadata"`
	BaseDomain            string                     `json:"baseDomain"`
	ControlPlane          machinePool                `json:"controlPlane"`
	Compute               []machinePool              `json:"compute"`
	Arbiter               *machinePool               `json:"arbiter,omitempty"`
	Networking            networking                 `json:"networking"`
	Platform              map[string]any             `json:"platform"`
	BootstrapInPlace      *bootstrapInPlace          `json:"bootstrapInPlace,omitempty"`
	PullSecret            string                     `json:"pullSecret"`
	SSHKey                string                     `json:"sshKey,omitempty"`
	FIPS                  bool                       `json:"fips"`
	Proxy                 *proxyConfig               `json:"proxy,omitempty"`
	AdditionalTrustBundle string                     `json:"additionalTrustBundle,omitempty"`
	TrustBundlePolicy     string                     `json:"additionalTrustBundlePolicy,omitempty"`
	ImageDigestSources    []mirror.ImageDigestSource `json:"imageDigestSources,omitempty"`
	ImageContentSources   []mirror.ImageDigestSource `json:"imageContentSources,omitempty"`
	FeatureSet            string                     `json:"featureSet,omitempty"`
}

// networkNone is a network type that is newer than the models of the API.
const networkNone = "None"

type machinePool struct {
	Name           string `json:"name"`
	Hyperthreading string `json:"hyperthreading"`
	Replicas       int    `json:"replicas"`
	// Fencing is of the control plane alone.
	Fencing *fencingPool `json:"fencing,omitempty"`
}

type networking struct {
	NetworkType    string           `json:"networkType,omitempty"`
	ClusterNetwork []clusterNetwork `json:"clusterNetwork"`
	ServiceNetwork []string         `json:"serviceNetwork"`
	MachineNetwork []machineCIDR    `json:"machineNetwork,omitempty"`
}

type clusterNetwork struct {
	CIDR       string `json:"cidr"`
	HostPrefix int64  `json:"hostPrefix"`
}

type machineCIDR struct {
	CIDR string `json:"cidr"`
}

type bootstrapInPlace struct {
	InstallationDisk string `json:"installationDisk"`
}

type proxyConfig struct {
	HTTPProxy  string `json:"httpProxy,omitempty"`
	HTTPSProxy string `json:"httpsProxy,omitempty"`
	NoProxy    string `json:"noProxy,omitempty"`
}

// installConfig renders the install-config of the planned installation.
func (p *plan) installConfig() []byte {
	api := &p.row.API
	config := installConfig{
		APIVersion: "v1", Metadata: map[string]string{"name": api.Name}, BaseDomain: api.BaseDNSDomain,
		ControlPlane: machinePool{"master", p.hyperthreading("masters"), p.count(models.HostRoleMaster), p.fencing()},
		Compute:      []machinePool{{"worker", p.hyperthreading("workers"), p.count(models.HostRoleWorker), nil}},
		Networking:   networking{MachineNetwork: p.machineNetworks()}, Platform: p.platform(), PullSecret: p.pullSecret,
		SSHKey: strings.TrimSpace(api.SSHPublicKey), Proxy: p.proxy(), FeatureSet: p.featureSet(),
	}
	if arbiters := p.count(models.HostRoleArbiter); arbiters > 0 {
		config.Arbiter = &machinePool{"arbiter", p.hyperthreading("arbiters"), arbiters, nil}
	}
	if *api.NetworkType != networkNone { // the plug-in comes with manifests that people add
		config.Networking.NetworkType = *api.NetworkType
	}
	for _, network := range api.ClusterNetworks {
		config.Networking.ClusterNetwork = append(config.Networking.ClusterNetwork,
			clusterNetwork{string(network.Cidr), network.HostPrefix})
	}
	for _, network := range api.ServiceNetworks {
		config.Networking.ServiceNetwork = append(config.Networking.ServiceNetwork, string(network.Cidr))
	}
	if p.singleNode() && len(p.hosts) > 0 {
		config.BootstrapInPlace = &bootstrapInPlace{p.hosts[0].InstallationDiskPath()}
	}
	bundle := joinBundles(append([]string{string(p.mirror.CABundle()), string(p.engine.ServiceCA)}, p.bundles...)...)
	if len(bundle) > 0 {
		config.AdditionalTrustBundle, config.TrustBundlePolicy = string(bundle), "Always"
	}
	if inventory.AtLeast(api.OpenshiftVersion, 4, 14) {
		config.ImageDigestSources = p.mirror.InstallConfig(p.mirrorTarget())
	} else {
		config.ImageContentSources = p.mirror.InstallConfig(p.mirrorTarget())
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil // maps of strings and structs of them can't fail to encode
	}
	return append(text, '\n')
}

func (p *plan) hyperthreading(pool string) string {
	if setting := p.row.API.Hyperthreading; setting == models.ClusterHyperthreadingAll ||
		strings.Contains(setting, pool) {
		return "Enabled"
	}
	return "Disabled"
}

func (p *plan) count(role models.HostRole) int {
	count := 0
	for _, host := range p.hosts {
		if host.Role() == role {
			count++
		}
	}
	return count
}

// addressInMachineNetworks finds a host's address in the cluster's machine networks, and the
// interface that has it.
func addressInMachineNetworks(cluster *models.Cluster, host *inventory.Host) (netip.Addr, *models.Interface, bool) {
	if host.Inventory == nil {
		return netip.Addr{}, nil, false
	}
	for _, machine := range network.MachineNetworks(cluster) {
		if address, nic, ok := network.AddressIn(machine, host.Inventory); ok {
			return address, nic, true
		}
	}
	return netip.Addr{}, nil, false
}

func (p *plan) hasIPv6() bool {
	_, v6 := network.Families(network.MachineNetworks(&p.row.API))
	return v6
}

// proxy is the cluster's proxy. What must be reached without it on a disconnected site is added:
// the cluster itself, its networks, the appliance and the mirror.
func (p *plan) proxy() *proxyConfig {
	api := &p.row.API
	if api.HTTPProxy == "" && api.HTTPSProxy == "" {
		return nil
	}
	config := &proxyConfig{HTTPProxy: api.HTTPProxy, HTTPSProxy: api.HTTPSProxy, NoProxy: api.NoProxy}
	if api.NoProxy == "*" {
		return config
	}
	around := commaList(api.NoProxy, "."+api.Name+"."+api.BaseDNSDomain)
	for _, network := range slices.Concat(network.ClusterNetworks(api), network.ServiceNetworks(api),
		network.MachineNetworks(api)) {
		around = append(around, network.String())
	}
	if appliance, err := url.Parse(p.engine.URL); err == nil && appliance.Hostname() != "" {
		around = append(around, appliance.Hostname())
	}
	around = append(around, p.mirror.Hosts()...)
	config.NoProxy = strings.Join(commaList(strings.Join(around, ",")), ",")
	return config
}

// ntpServers are the time servers that people named for the cluster.
func (p *plan) ntpServers() []string {
	return commaList(p.row.API.AdditionalNtpSource)
}

// timeManifests set the nodes' time servers: those that people named and no public pool, which a
// disconnected site does not reach.
func (p *plan) timeManifests() map[string][]byte {
	servers := p.ntpServers()
	if len(servers) == 0 {
		return nil
	}
	var conf strings.Builder
	for _, server := range servers {
		fmt.Fprintf(&conf, "server %s iburst\n", server)
	}
	conf.WriteString("driftfile /var/lib/chrony/drift\nmakestep 1.0 3\nrtcsync\nlogdir /var/log/chrony\n")
	manifests := make(map[string][]byte)
	for _, role := range p.roles() {
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

// roles are those that the cluster's nodes have; MCO knows the first two in every cluster.
func (p *plan) roles() []string {
	roles := []string{"master", "worker"}
	if p.count(models.HostRoleArbiter) > 0 {
		roles = append(roles, "arbiter")
	}
	return roles
}

// joinAuthority puts a PEM certificate before the base64 text of others.
func joinAuthority(held any, certificate string) (string, error) {
	text, _ := held.(string)
	before, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("the generated kubeconfig has a certificate-authority-data that is not base64: %w", err)
	}
	return base64.StdEncoding.EncodeToString([]byte(strings.TrimSpace(certificate) + "\n" + string(before))), nil
}

// bareMetalHosts describes the hosts for the BareMetalHost objects of the new cluster, on the
// platform that has them.
func (p *plan) bareMetalHosts() []ignition.BareMetalHost {
	if *p.row.API.Platform.Type != models.PlatformTypeBaremetal {
		return nil
	}
	hosts := make([]ignition.BareMetalHost, 0, len(p.hosts))
	for _, host := range p.hosts {
		hosts = append(hosts, ignition.BareMetalHost{Name: host.Hostname(), Role: string(host.Role()),
			Hardware: hardware(host)})
	}
	return hosts
}

// hardware turns an inventory into what metal3 keeps of a machine.
func hardware(host *inventory.Host) ignition.Hardware {
	found := host.Inventory
	details := ignition.Hardware{Hostname: host.Hostname()}
	if vendor := found.SystemVendor; vendor != nil {
		details.SystemVendor = ignition.HardwareVendor{Manufacturer: vendor.Manufacturer,
			ProductName: vendor.ProductName, SerialNumber: vendor.SerialNumber}
	}
	if found.Memory != nil {
		details.RAMMebibytes = int(found.Memory.PhysicalBytes >> 20)
	}
	if cpu := found.CPU; cpu != nil {
		details.CPU = ignition.HardwareCPU{Arch: cpu.Architecture, Model: cpu.ModelName, ClockMegahertz: cpu.Frequency,
			Flags: cpu.Flags, Count: int(cpu.Count)}
	}
	for _, nic := range found.Interfaces {
		for _, address := range inventory.Addresses(nic) {
			details.NICs = append(details.NICs, ignition.HardwareNIC{
				Name: nic.Name, Model: nic.Product, MAC: nic.MacAddress, IP: address.Addr().String(),
				SpeedGbps: int(nic.SpeedMbps / 1000),
			})
		}
	}
	for _, disk := range found.Disks {
		details.Storage = append(details.Storage, ignition.HardwareStorage{
			Name: disk.Path, Rotational: disk.DriveType == models.DriveTypeHDD, SizeBytes: disk.SizeBytes,
			Vendor: disk.Vendor,
			Model:  disk.Model, SerialNumber: disk.Serial, WWN: disk.Wwn, HCTL: disk.Hctl,
		})
	}
	return details
}
