package engine

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/validation"
)

// The platform part of the install-config, as the Assisted Installer writes it
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

// virtualIPs are the addresses of a cluster that looks after its networking. Versions before 4.12
// know one address of each kind only.
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

	// Before 4.13.
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

// platform is the platform part of the install-config.
func (p *plan) platform() map[string]any {
	switch kind := *p.row.API.Platform.Type; kind {
	case models.PlatformTypeBaremetal:
		return map[string]any{"baremetal": p.baremetal()}
	case models.PlatformTypeVsphere:
		return map[string]any{"vsphere": p.vsphere()}
	case models.PlatformTypeNutanix:
		return map[string]any{"nutanix": p.nutanix()}
	case models.PlatformTypeExternal:
		external := p.row.API.Platform.External
		return map[string]any{"external": externalPlatform{conv.Value(external.PlatformName),
			conv.Value(external.CloudControllerManager)}}
	}
	return map[string]any{"none": struct{}{}}
}

func (p *plan) userManaged() bool { return conv.Value(p.row.API.UserManagedNetworking) }

func (p *plan) virtualIPs() virtualIPs {
	if p.userManaged() {
		return virtualIPs{}
	}
	var ips virtualIPs
	for _, vip := range p.row.API.APIVips {
		ips.APIVIPs = append(ips.APIVIPs, string(vip.IP))
	}
	for _, vip := range p.row.API.IngressVips {
		ips.IngressVIPs = append(ips.IngressVIPs, string(vip.IP))
	}
	if !inventory.AtLeast(p.row.API.OpenshiftVersion, 4, 12) && len(ips.APIVIPs) > 0 && len(ips.IngressVIPs) > 0 {
		ips = virtualIPs{APIVIPs: ips.APIVIPs[:1], APIVIP: ips.APIVIPs[0], IngressVIPs: ips.IngressVIPs[:1],
			IngressVIP: ips.IngressVIPs[0]}
	}
	return ips
}

// loadBalancer is named when it is the user's; the cluster's own is the default.
func (p *plan) loadBalancer() *loadBalancerConfig {
	if validation.ExternalLoadBalancer(&p.row.API) {
		return &loadBalancerConfig{"UserManaged"}
	}
	return nil
}

func (p *plan) baremetal() baremetalPlatform {
	platform := baremetalPlatform{
		ProvisioningNetwork: "Disabled", virtualIPs: p.virtualIPs(), AdditionalNTPServers: p.ntpServers(),
		LoadBalancer: p.loadBalancer(),
	}
	for _, host := range p.hosts {
		entry := baremetalHost{Name: host.Hostname(), Role: string(host.Role()), BootMode: "UEFI",
			BMC: map[string]any{}}
		if host.Inventory != nil && host.Inventory.Boot != nil && host.Inventory.Boot.CurrentBootMode != "uefi" {
			entry.BootMode = "legacy"
		}
		if _, nic, ok := addressInMachineNetworks(&p.row.API, host); ok {
			entry.BootMACAddress = nic.MacAddress
		}
		platform.Hosts = append(platform.Hosts, entry)
	}
	order := []string{string(models.HostRoleMaster), string(models.HostRoleArbiter)} // the others after these
	slices.SortFunc(platform.Hosts, func(a, b baremetalHost) int {
		return cmp.Or(cmp.Compare(uint(slices.Index(order, a.Role)), uint(slices.Index(order, b.Role))),
			cmp.Compare(a.Name, b.Name))
	})
	return platform
}

// vsphere names a vCenter that does not exist: it is replaced when the installed cluster is
// connected with the real one, whose credentials nobody needs for the installation.
func (p *plan) vsphere() vspherePlatform {
	const center, datacenter, cluster, datastore, folder, net = "vcenterplaceholder", "datacenterplaceholder",
		"clusterplaceholder",
		"defaultdatastoreplaceholder", "folderplaceholder", "networkplaceholder"
	platform := vspherePlatform{virtualIPs: p.virtualIPs(), LoadBalancer: p.loadBalancer()}
	if !inventory.AtLeast(p.row.API.OpenshiftVersion, 4, 13) {
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

// nutanix names a Prism Central that does not exist, for the same reason as [plan.vsphere].
func (p *plan) nutanix() nutanixPlatform {
	const port = 9440
	return nutanixPlatform{
		virtualIPs: p.virtualIPs(),
		PrismCentral: nutanixCentral{nutanixEndpoint{"prism.central.placeholder.address", port}, "username_placeholder",
			"password_placeholder"},
		PrismElements: []nutanixElement{{
			nutanixEndpoint{"prism.element.placeholder.address", port}, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
			"prism_endpoint_name_placeholder",
		}},
		SubnetUUIDs: []string{"yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy"},
	}
}

// machineNetworks are the networks of the nodes. Where the user looks after the networking and
// named none, they are the first network of each family that the bootstrap host is in; and of
// several nodes the one in which its address lies comes first.
func (p *plan) machineNetworks() []machineCIDR {
	networks := network.MachineNetworks(&p.row.API)
	bootstrap := slices.IndexFunc(p.hosts, func(h *inventory.Host) bool { return h.Record.Bootstrap })
	if p.userManaged() && bootstrap >= 0 {
		if len(networks) == 0 {
			networks = firstOfEachFamily(network.Networks(p.hosts[bootstrap].Inventory))
		}
		if address, ok := p.nodeAddresses()[p.hosts[bootstrap].ID()]; ok && !p.singleNode() {
			i := slices.IndexFunc(networks, func(n netip.Prefix) bool { return n.Addr().Is4() == address.Addr().Is4() })
			if i >= 0 {
				networks[i] = address.Masked()
			}
		}
	}
	var list []machineCIDR
	for _, n := range networks {
		list = append(list, machineCIDR{n.String()})
	}
	return list
}

func firstOfEachFamily(networks []netip.Prefix) []netip.Prefix {
	var found []netip.Prefix
	for _, v4 := range []bool{true, false} {
		if i := slices.IndexFunc(networks, func(n netip.Prefix) bool { return n.Addr().Is4() == v4 }); i >= 0 {
			found = append(found, networks[i])
		}
	}
	return found
}

// nodeAddresses are the addresses that the nodes are to have, with their networks, where they are
// not plain: of a single node that in the first machine network, and of the hosts behind the user's
// load balancer those by which all reach each other.
func (p *plan) nodeAddresses() map[strfmt.UUID]netip.Prefix {
	api := &p.row.API
	machines := network.MachineNetworks(api)
	if p.singleNode() {
		if len(machines) == 0 || len(p.hosts) == 0 {
			return nil
		}
		return map[strfmt.UUID]netip.Prefix{p.hosts[0].ID(): machines[0]}
	}
	if *api.Platform.Type != models.PlatformTypeNone && !validation.ExternalLoadBalancer(api) {
		return nil
	}
	groups, err := network.ParseGroups(api.ConnectivityMajorityGroups)
	if err != nil {
		return nil // what was kept is damaged: the nodes choose for themselves
	}
	v4, _ := network.Families(slices.Concat(machines, network.ClusterNetworks(api), network.ServiceNetworks(api)))
	return network.NodeAddresses(p.hosts, groups, v4)
}

// bootstrapAddress is the bootstrap host's address: that of its node, or else the one in the first
// machine network, or "".
func (p *plan) bootstrapAddress() string {
	addresses := p.nodeAddresses()
	for _, host := range p.hosts {
		if !host.Record.Bootstrap {
			continue
		}
		if address, ok := addresses[host.ID()]; ok && !p.singleNode() {
			return address.Addr().String()
		}
		if address, _, ok := addressInMachineNetworks(&p.row.API, host); ok {
			return address.String()
		}
	}
	return ""
}

// withoutMachines tells whether the manifests of machines are left out: those of platforms that
// would make machines of their own, which no one asked for and whose credentials are not there.
func (p *plan) withoutMachines() bool {
	kind := *p.row.API.Platform.Type
	return kind == models.PlatformTypeVsphere || kind == models.PlatformTypeNutanix
}
