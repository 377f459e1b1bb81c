package installconfig

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
	"landfall/appliance/mirror"
)

// config is the part of openshift-install's install-config.yaml (v1) that the appliance writes. Its
// JSON is valid YAML.
type config struct {
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

// NetworkNone is the network type of clusters whose network plug-in comes from a user's manifests.
// The API's models lack it.
const NetworkNone = "None"

type machinePool struct {
	Name           string `json:"name"`
	Hyperthreading string `json:"hyperthreading"`
	Replicas       int    `json:"replicas"`
	// Fencing is set only for the control plane.
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

// plainInstallConfig renders the install-config without the users' overrides.
func (in *Installation) plainInstallConfig() []byte {
	cluster := in.Cluster
	rendered := config{
		APIVersion: "v1", Metadata: map[string]string{"name": cluster.Name}, BaseDomain: cluster.BaseDNSDomain,
		ControlPlane: machinePool{"master", in.hyperthreading("masters"), in.count(models.HostRoleMaster),
			in.fencing()},
		Compute:    []machinePool{{"worker", in.hyperthreading("workers"), in.count(models.HostRoleWorker), nil}},
		Networking: networking{MachineNetwork: in.machineNetworks()}, Platform: in.platform(),
		PullSecret: in.PullSecret, SSHKey: strings.TrimSpace(cluster.SSHPublicKey), Proxy: in.proxy(),
		FeatureSet: in.featureSet(),
	}
	if arbiters := in.count(models.HostRoleArbiter); arbiters > 0 {
		rendered.Arbiter = &machinePool{"arbiter", in.hyperthreading("arbiters"), arbiters, nil}
	}
	if *cluster.NetworkType != NetworkNone {
		rendered.Networking.NetworkType = *cluster.NetworkType
	}
	for _, network := range cluster.ClusterNetworks {
		rendered.Networking.ClusterNetwork = append(rendered.Networking.ClusterNetwork,
			clusterNetwork{string(network.Cidr), network.HostPrefix})
	}
	for _, network := range cluster.ServiceNetworks {
		rendered.Networking.ServiceNetwork = append(rendered.Networking.ServiceNetwork, string(network.Cidr))
	}
	if in.singleNode() && len(in.Hosts) > 0 {
		rendered.BootstrapInPlace = &bootstrapInPlace{in.Hosts[0].BootDevice()}
	}
	bundles := append([]string{string(in.Mirror.CABundle()), string(in.ServiceCA)}, in.TrustBundles...)
	if bundle := mirror.JoinBundles(bundles...); len(bundle) > 0 {
		rendered.AdditionalTrustBundle, rendered.TrustBundlePolicy = string(bundle), "Always"
	}
	if inventory.AtLeast(cluster.OpenshiftVersion, 4, 14) {
		rendered.ImageDigestSources = in.Mirror.InstallConfig(in.mirrorTarget())
	} else {
		rendered.ImageContentSources = in.Mirror.InstallConfig(in.mirrorTarget())
	}
	text, err := json.MarshalIndent(rendered, "", "  ")
	if err != nil {
		return nil // not reached: encoding maps and structs of strings does not fail
	}
	return append(text, '\n')
}

func (in *Installation) hyperthreading(pool string) string {
	if setting := in.Cluster.Hyperthreading; setting == models.ClusterHyperthreadingAll ||
		strings.Contains(setting, pool) {
		return "Enabled"
	}
	return "Disabled"
}

// proxy returns the cluster's proxy settings. The noProxy list also has the destinations that a
// disconnected site reaches without a proxy: the cluster, its networks, the appliance and the
// mirror.
func (in *Installation) proxy() *proxyConfig {
	cluster := in.Cluster
	if cluster.HTTPProxy == "" && cluster.HTTPSProxy == "" {
		return nil
	}
	settings := &proxyConfig{HTTPProxy: cluster.HTTPProxy, HTTPSProxy: cluster.HTTPSProxy, NoProxy: cluster.NoProxy}
	if cluster.NoProxy == "*" {
		return settings
	}
	direct := []string{cluster.NoProxy, "." + cluster.Name + "." + cluster.BaseDNSDomain}
	for _, network := range slices.Concat(network.ClusterNetworks(cluster), network.ServiceNetworks(cluster),
		network.MachineNetworks(cluster)) {
		direct = append(direct, network.String())
	}
	if appliance, err := url.Parse(in.ServiceURL); err == nil && appliance.Hostname() != "" {
		direct = append(direct, appliance.Hostname())
	}
	direct = append(direct, in.Mirror.Hosts()...)
	settings.NoProxy = strings.Join(commaList(strings.Join(direct, ",")), ",")
	return settings
}
