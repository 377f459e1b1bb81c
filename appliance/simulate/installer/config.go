package installer

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// installConfig contains the fields of openshift-install's documented install-config that bare
// hosts need. Parts that are copied unchanged stay raw.
type installConfig struct {
	APIVersion                  string              `json:"apiVersion"`
	BaseDomain                  string              `json:"baseDomain"`
	Metadata                    configMetadata      `json:"metadata"`
	Networking                  configNetworking    `json:"networking"`
	ControlPlane                *configMachinePool  `json:"controlPlane"`
	Compute                     []configMachinePool `json:"compute"`
	Arbiter                     *configMachinePool  `json:"arbiter"`
	Platform                    configPlatform      `json:"platform"`
	BootstrapInPlace            *configInPlace      `json:"bootstrapInPlace"`
	PullSecret                  string              `json:"pullSecret"`
	SSHKey                      string              `json:"sshKey"`
	FIPS                        bool                `json:"fips"`
	Proxy                       *configProxy        `json:"proxy"`
	AdditionalTrustBundle       string              `json:"additionalTrustBundle"`
	AdditionalTrustBundlePolicy string              `json:"additionalTrustBundlePolicy"`
	ImageContentSources         []configMirror      `json:"imageContentSources"`
	ImageDigestSources          []configMirror      `json:"imageDigestSources"`
	Capabilities                json.RawMessage     `json:"capabilities"`
	CPUPartitioningMode         string              `json:"cpuPartitioningMode"`
	CredentialsMode             string              `json:"credentialsMode"`
	FeatureSet                  string              `json:"featureSet"`
	FeatureGates                []string            `json:"featureGates"`
	OSImageStream               string              `json:"osImageStream"`
	Publish                     string              `json:"publish"`
}

type configMetadata struct {
	Name string `json:"name"`
}

type configNetworking struct {
	NetworkType         string          `json:"networkType"`
	MachineNetwork      []configCIDR    `json:"machineNetwork"`
	ClusterNetwork      []configCIDR    `json:"clusterNetwork"`
	ServiceNetwork      []string        `json:"serviceNetwork"`
	ClusterNetworkMTU   int             `json:"clusterNetworkMTU"`
	OVNKubernetesConfig json.RawMessage `json:"ovnKubernetesConfig"`
}

// configCIDR is an entry of machineNetwork or clusterNetwork. Only clusterNetwork has a HostPrefix.
type configCIDR struct {
	CIDR       string `json:"cidr"`
	HostPrefix int    `json:"hostPrefix"`
}

type configMachinePool struct {
	Name           string          `json:"name"`
	Replicas       *int            `json:"replicas"`
	Hyperthreading string          `json:"hyperthreading"`
	Architecture   string          `json:"architecture"`
	Platform       json.RawMessage `json:"platform"`
	Fencing        *configFencing  `json:"fencing"`
}

// count returns the pool's replicas; the default is three.
func (p *configMachinePool) count() int {
	if p == nil {
		return 0
	}
	if p.Replicas == nil {
		return 3
	}
	return *p.Replicas
}

type configPlatform struct {
	BareMetal *configBareMetal `json:"baremetal"`
	None      *struct{}        `json:"none"`
	External  *configExternal  `json:"external"`
	VSphere   *configVSphere   `json:"vsphere"`
	Nutanix   *configNutanix   `json:"nutanix"`
}

type configExternal struct {
	PlatformName           string `json:"platformName"`
	CloudControllerManager string `json:"cloudControllerManager"`
}

type configBareMetal struct {
	ProvisioningNetwork          string              `json:"provisioningNetwork"`
	APIVIP                       string              `json:"apiVIP"`
	APIVIPs                      []string            `json:"apiVIPs"`
	IngressVIP                   string              `json:"ingressVIP"`
	IngressVIPs                  []string            `json:"ingressVIPs"`
	Hosts                        []configHost        `json:"hosts"`
	AdditionalNTPServers         []string            `json:"additionalNTPServers"`
	LoadBalancer                 *configLoadBalancer `json:"loadBalancer"`
	ClusterOSImage               string              `json:"clusterOSImage"`
	ClusterProvisioningIP        string              `json:"clusterProvisioningIP"`
	ProvisioningNetworkInterface string              `json:"provisioningNetworkInterface"`
	ProvisioningNetworkCIDR      *string             `json:"provisioningNetworkCIDR"`
	ProvisioningDHCPRange        string              `json:"provisioningDHCPRange"`
}

type configLoadBalancer struct {
	Type string `json:"type"`
}

func (b *configBareMetal) apiVIPs() []string {
	if len(b.APIVIPs) == 0 && b.APIVIP != "" {
		return []string{b.APIVIP}
	}
	return b.APIVIPs
}

func (b *configBareMetal) ingressVIPs() []string {
	if len(b.IngressVIPs) == 0 && b.IngressVIP != "" {
		return []string{b.IngressVIP}
	}
	return b.IngressVIPs
}

func (b *configBareMetal) userManaged() bool {
	return b.LoadBalancer != nil && b.LoadBalancer.Type == "UserManaged"
}

type configHost struct {
	Name            string          `json:"name"`
	Role            string          `json:"role"`
	BootMACAddress  string          `json:"bootMACAddress"`
	BootMode        string          `json:"bootMode"`
	HardwareProfile string          `json:"hardwareProfile"`
	BMC             configBMC       `json:"bmc"`
	RootDeviceHints json.RawMessage `json:"rootDeviceHints"`
	NetworkConfig   json.RawMessage `json:"networkConfig"`
}

type configBMC struct {
	Address                        string `json:"address"`
	Username                       string `json:"username"`
	Password                       string `json:"password"`
	DisableCertificateVerification bool   `json:"disableCertificateVerification"`
}

type configInPlace struct {
	InstallationDisk string `json:"installationDisk"`
}

type configProxy struct {
	HTTPProxy  string `json:"httpProxy"`
	HTTPSProxy string `json:"httpsProxy"`
	NoProxy    string `json:"noProxy"`
}

type configMirror struct {
	Source       string   `json:"source"`
	Mirrors      []string `json:"mirrors"`
	SourcePolicy string   `json:"sourcePolicy"`
}

func (c *installConfig) mirrors() []configMirror {
	return append(append([]configMirror(nil), c.ImageDigestSources...), c.ImageContentSources...)
}

// computeCount returns the number of worker nodes.
func (c *installConfig) computeCount() int {
	n := 0
	for i := range c.Compute {
		n += c.Compute[i].count()
	}
	return n
}

// apiHost returns the API's address for nodes: the first VIP, or the API's name.
func (c *installConfig) apiHost() string {
	var vips []string
	switch {
	case c.Platform.BareMetal != nil:
		vips = c.Platform.BareMetal.apiVIPs()
	case c.Platform.VSphere != nil:
		vips = c.Platform.VSphere.APIVIPs
	case c.Platform.Nutanix != nil:
		vips = c.Platform.Nutanix.APIVIPs
	}
	if len(vips) > 0 {
		return vips[0]
	}
	return "api-int." + c.domain()
}

func (c *installConfig) domain() string { return c.Metadata.Name + "." + c.BaseDomain }

// parseInstallConfig parses YAML or JSON strictly and validates it. It also returns the config as
// JSON.
func parseInstallConfig(raw []byte, version release) (*installConfig, []byte, error) {
	var tree any
	if err := yaml.Unmarshal(raw, &tree); err != nil {
		return nil, nil, fmt.Errorf("failed to unmarshal install-config.yaml: error converting YAML to JSON: %w", err)
	}
	canonical, err := json.Marshal(tree)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to unmarshal install-config.yaml: error converting YAML to JSON: %w", err)
	}
	config := &installConfig{}
	decoder := json.NewDecoder(bytes.NewReader(canonical))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(config); err != nil {
		return nil, nil,
			fmt.Errorf("failed to unmarshal install-config.yaml: error unmarshaling JSON: while decoding JSON: %w", err)
	}
	if config.APIVersion != "v1" {
		return nil, nil, fmt.Errorf("failed to upconvert install config: cannot upconvert from version %q",
			config.APIVersion)
	}
	if problems := config.validate(version); len(problems) > 0 {
		return nil, nil, fmt.Errorf("invalid \"install-config.yaml\" file: %w", problems)
	}
	return config, canonical, nil
}
