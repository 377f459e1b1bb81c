package installconfig

import (
	"cmp"
	"slices"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/validation"
)

// The types below are the platform part of the install-config, as in the Assisted Installer
// (internal/provider/*/installConfig.go).

type loadBalancerConfig struct {
	Type string `json:"type"`
}

type baremetalPlatform struct {
	ProvisioningNetwork string `json:"provisioningNetwork"`
	virtualIPs
	AdditionalNTPServers []string            `json:"additionalNTPServers,omitempty"`
	LoadBalancer         *loadBalancerConfig `json:"loadBalancer,omitempty"`
	Hosts                []baremetalHost     `json:"hosts"`
}

type baremetalHost struct {
	Name            string         `json:"name"`
	Role            string         `json:"role"`
	BootMACAddress  string         `json:"bootMACAddress"`
	BootMode        string         `json:"bootMode"`
	BMC             map[string]any `json:"bmc"`
	HardwareProfile string         `json:"hardwareProfile"`
}

// virtualIPs holds the VIPs of a cluster with cluster-managed networking. Versions before 4.12 have
// the singular fields, for one address of each kind.
type virtualIPs struct {
	APIVIPs     []string `json:"apiVIPs,omitempty"`
	APIVIP      string   `json:"apiVIP,omitempty"`
	IngressVIPs []string `json:"ingressVIPs,omitempty"`
	IngressVIP  string   `json:"ingressVIP,omitempty"`
}

type externalPlatform struct {
	PlatformName           string `json:"platformName"`
	CloudControllerManager string `json:"cloudControllerManager"`
}

type vspherePlatform struct {
	virtualIPs
	VCenters       []vsphereCenter     `json:"vcenters,omitempty"`
	FailureDomains []vsphereDomain     `json:"failureDomains,omitempty"`
	LoadBalancer   *loadBalancerConfig `json:"loadBalancer,omitempty"`

	// The fields for versions before 4.13.
	VCenter          string `json:"vCenter,omitempty"`
	Username         string `json:"username,omitempty"`
	Password         string `json:"password,omitempty"`
	Datacenter       string `json:"datacenter,omitempty"`
	DefaultDatastore string `json:"defaultDatastore,omitempty"`
	Network          string `json:"network,omitempty"`
	Cluster          string `json:"cluster,omitempty"`
}

type vsphereCenter struct {
	Server      string   `json:"server"`
	User        string   `json:"user"`
	Password    string   `json:"password"`
	Datacenters []string `json:"datacenters"`
}

type vsphereDomain struct {
	Name     string          `json:"name"`
	Region   string          `json:"region"`
	Zone     string          `json:"zone"`
	Server   string          `json:"server"`
	Topology vsphereTopology `json:"topology"`
}

type vsphereTopology struct {
	ComputeCluster string   `json:"computeCluster"`
	Datacenter     string   `json:"datacenter"`
	Datastore      string   `json:"datastore"`
	Folder         string   `json:"folder"`
	Networks       []string `json:"networks"`
}

type nutanixPlatform struct {
	virtualIPs
	PrismCentral  nutanixCentral   `json:"prismCentral"`
	PrismElements []nutanixElement `json:"prismElements"`
	SubnetUUIDs   []string         `json:"subnetUUIDs"`
}

type nutanixCentral struct {
	Endpoint nutanixEndpoint `json:"endpoint"`
	Username string          `json:"username"`
	Password string          `json:"password"`
}

type nutanixElement struct {
	Endpoint nutanixEndpoint `json:"endpoint"`
	UUID     string          `json:"uuid"`
	Name     string          `json:"name"`
}

type nutanixEndpoint struct {
	Address string `json:"address"`
	Port    int    `json:"port"`
}

// platform returns the platform part of the install-config.
func (in *Installation) platform() map[string]any {
	switch kind := *in.Cluster.Platform.Type; kind {
	case models.PlatformTypeBaremetal:
		return map[string]any{"baremetal": in.baremetal()}
	case models.PlatformTypeVsphere:
		return map[string]any{"vsphere": in.vsphere()}
	case models.PlatformTypeNutanix:
		return map[string]any{"nutanix": in.nutanix()}
	case models.PlatformTypeExternal:
		external := in.Cluster.Platform.External
		return map[string]any{"external": externalPlatform{conv.Value(external.PlatformName),
			conv.Value(external.CloudControllerManager)}}
	}
	return map[string]any{"none": struct{}{}}
}

func (in *Installation) virtualIPs() virtualIPs {
	if in.userManaged() {
		return virtualIPs{}
	}
	var ips virtualIPs
	for _, vip := range in.Cluster.APIVips {
		ips.APIVIPs = append(ips.APIVIPs, string(vip.IP))
	}
	for _, vip := range in.Cluster.IngressVips {
		ips.IngressVIPs = append(ips.IngressVIPs, string(vip.IP))
	}
	if !inventory.AtLeast(in.Cluster.OpenshiftVersion, 4, 12) && len(ips.APIVIPs) > 0 && len(ips.IngressVIPs) > 0 {
		ips = virtualIPs{APIVIPs: ips.APIVIPs[:1], APIVIP: ips.APIVIPs[0], IngressVIPs: ips.IngressVIPs[:1],
			IngressVIP: ips.IngressVIPs[0]}
	}
	return ips
}

// loadBalancer returns the section for a user-managed load balancer. It is nil for the default, the
// cluster's own load balancer.
func (in *Installation) loadBalancer() *loadBalancerConfig {
	if validation.ExternalLoadBalancer(in.Cluster) {
		return &loadBalancerConfig{"UserManaged"}
	}
	return nil
}

func (in *Installation) baremetal() baremetalPlatform {
	platform := baremetalPlatform{
		ProvisioningNetwork: "Disabled", virtualIPs: in.virtualIPs(), AdditionalNTPServers: in.ntpServers(),
		LoadBalancer: in.loadBalancer(),
	}
	for _, host := range in.Hosts {
		entry := baremetalHost{Name: host.Hostname(), Role: string(host.Role()), BootMode: "UEFI",
			BMC: map[string]any{}}
		if host.Inventory != nil && host.Inventory.Boot != nil && host.Inventory.Boot.CurrentBootMode != "uefi" {
			entry.BootMode = "legacy"
		}
		if _, nic, ok := addressInMachineNetworks(in.Cluster, host); ok {
			entry.BootMACAddress = nic.MacAddress
		}
		platform.Hosts = append(platform.Hosts, entry)
	}
	// The index of other roles is -1, the largest unsigned number, so they come last.
	order := []string{string(models.HostRoleMaster), string(models.HostRoleArbiter)}
	slices.SortFunc(platform.Hosts, func(a, b baremetalHost) int {
		return cmp.Or(cmp.Compare(uint(slices.Index(order, a.Role)), uint(slices.Index(order, b.Role))),
			cmp.Compare(a.Name, b.Name))
	})
	return platform
}

// vsphere returns a platform section with placeholders for the vCenter. The installation needs no
// credentials. An administrator replaces the placeholders to connect the installed cluster to the
// vCenter.
func (in *Installation) vsphere() vspherePlatform {
	const (
		center     = "vcenterplaceholder"
		datacenter = "datacenterplaceholder"
		cluster    = "clusterplaceholder"
		datastore  = "defaultdatastoreplaceholder"
		folder     = "folderplaceholder"
		net        = "networkplaceholder"
	)
	platform := vspherePlatform{virtualIPs: in.virtualIPs(), LoadBalancer: in.loadBalancer()}
	if !inventory.AtLeast(in.Cluster.OpenshiftVersion, 4, 13) {
		platform.VCenter, platform.Username, platform.Password = center, "usernameplaceholder", "passwordplaceholder"
		platform.Datacenter, platform.DefaultDatastore, platform.Network, platform.Cluster = datacenter, datastore,
			net, cluster
		return platform
	}
	platform.VCenters = []vsphereCenter{{Server: center, User: "usernameplaceholder", Password: "passwordplaceholder",
		Datacenters: []string{datacenter}}}
	platform.FailureDomains = []vsphereDomain{{
		Name: "assisted-generated-failure-domain", Region: "assisted-generated-region", Zone: "assisted-generated-zone",
		Server: center,
		Topology: vsphereTopology{
			ComputeCluster: "/" + datacenter + "/host/" + cluster, Datacenter: datacenter,
			Datastore: "/" + datacenter + "/datastore/" + datastore,
			Folder:    "/" + datacenter + "/vm/" + folder, Networks: []string{net},
		},
	}}
	return platform
}

// nutanix returns a platform section with placeholders for Prism Central, like
// [Installation.vsphere].
func (in *Installation) nutanix() nutanixPlatform {
	const port = 9440
	return nutanixPlatform{
		virtualIPs: in.virtualIPs(),
		PrismCentral: nutanixCentral{nutanixEndpoint{"prism.central.placeholder.address", port}, "username_placeholder",
			"password_placeholder"},
		PrismElements: []nutanixElement{{
			nutanixEndpoint{"prism.element.placeholder.address", port}, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
			"prism_endpoint_name_placeholder",
		}},
		SubnetUUIDs: []string{"yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy"},
	}
}
