package description

import (
	"net/netip"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
)

// Default networks of a cluster, as in the Assisted Installer.
const (
	DefaultClusterNetwork        = "10.128.0.0/14"
	DefaultClusterHostPrefix     = 23
	DefaultClusterHostPrefixIPv6 = 64
	DefaultServiceNetwork        = "172.30.0.0/16"
)

// completeNetworks checks the networks and VIPs of a cluster, sets the cluster's id in them, and
// fills the older single fields of the API.
func completeNetworks(cluster *models.Cluster) error {
	if cluster.MachineNetworks == nil {
		cluster.MachineNetworks = []*models.MachineNetwork{}
	}
	if cluster.APIVips == nil {
		cluster.APIVips = []*models.APIVip{}
	}
	if cluster.IngressVips == nil {
		cluster.IngressVips = []*models.IngressVip{}
	}
	var networks []namedNetwork
	for _, network := range cluster.ClusterNetworks {
		network.ClusterID = *cluster.ID
		networks = append(networks, namedNetwork{"cluster network", string(network.Cidr)})
	}
	for _, network := range cluster.ServiceNetworks {
		network.ClusterID = *cluster.ID
		networks = append(networks, namedNetwork{"service network", string(network.Cidr)})
	}
	for _, network := range cluster.MachineNetworks {
		network.ClusterID = *cluster.ID
		networks = append(networks, namedNetwork{"machine network", string(network.Cidr)})
	}
	if err := checkNetworks(networks); err != nil {
		return err
	}
	for _, vip := range cluster.APIVips {
		vip.ClusterID = *cluster.ID
		if _, err := netip.ParseAddr(string(vip.IP)); err != nil {
			return invalid("The API VIP %q is not an IP address.", vip.IP)
		}
	}
	for _, vip := range cluster.IngressVips {
		vip.ClusterID = *cluster.ID
		if _, err := netip.ParseAddr(string(vip.IP)); err != nil {
			return invalid("The ingress VIP %q is not an IP address.", vip.IP)
		}
	}
	fillSingleNetworks(cluster)
	return nil
}

// fillSingleNetworks sets the older fields of the API, which hold the first network of each kind.
func fillSingleNetworks(cluster *models.Cluster) {
	cluster.ClusterNetworkCidr, cluster.ClusterNetworkHostPrefix = "", 0
	cluster.ServiceNetworkCidr, cluster.MachineNetworkCidr = "", ""
	if len(cluster.ClusterNetworks) > 0 {
		first := cluster.ClusterNetworks[0]
		cluster.ClusterNetworkCidr, cluster.ClusterNetworkHostPrefix = string(first.Cidr), first.HostPrefix
	}
	if len(cluster.ServiceNetworks) > 0 {
		cluster.ServiceNetworkCidr = string(cluster.ServiceNetworks[0].Cidr)
	}
	if len(cluster.MachineNetworks) > 0 {
		cluster.MachineNetworkCidr = string(cluster.MachineNetworks[0].Cidr)
	}
}

type namedNetwork struct{ name, cidr string }

// checkNetworks rejects invalid CIDRs, and networks that overlap.
func checkNetworks(networks []namedNetwork) error {
	prefixes := make([]netip.Prefix, len(networks))
	for i, network := range networks {
		prefix, err := netip.ParsePrefix(network.cidr)
		if err != nil {
			return invalid("The %s %q is not a network in CIDR notation, such as 192.168.0.0/24.", network.name,
				network.cidr)
		}
		if prefix != prefix.Masked() {
			return invalid("The %s %s has bits set after its prefix; the network is %s.", network.name, network.cidr,
				prefix.Masked())
		}
		prefixes[i] = prefix
		for j := range i {
			if prefixes[j].Overlaps(prefix) {
				return invalid("The %s %s overlaps with the %s %s; change one of them.", network.name,
					network.cidr, networks[j].name, networks[j].cidr)
			}
		}
	}
	return nil
}

// requestedNetworking holds the requested networking fields. Nil fields are not requested.
type requestedNetworking struct {
	apiVips     []*models.APIVip
	ingressVips []*models.IngressVip
	machine     []*models.MachineNetwork
	userManaged *bool
	update      bool // of an existing cluster
}

// check rejects requested addresses that the cluster does not support. The request has already been
// applied to the cluster.
func (r requestedNetworking) check(cluster *models.Cluster) error {
	given := len(r.apiVips) > 0 || len(r.ingressVips) > 0
	switch {
	case given && conv.Value(cluster.VipDhcpAllocation):
		return invalid("The cluster gets its VIPs from a DHCP server (vip_dhcp_allocation); leave api_vips and " +
			"ingress_vips out or set it to false.")
	case given && conv.Value(r.userManaged):
		return r.vipsWithoutUse()
	case conv.Value(r.userManaged) && conv.Value(cluster.VipDhcpAllocation):
		return invalid("A cluster with user-managed networking gets no VIPs from a DHCP server; leave " +
			"vip_dhcp_allocation out, or set user_managed_networking to false.")
	case !given:
		return nil
	}
	var machines []netip.Prefix
	for _, machine := range r.machine {
		if prefix, err := netip.ParsePrefix(string(machine.Cidr)); err == nil {
			machines = append(machines, prefix)
		}
	}
	return checkVIPs(cluster, machines)
}

// vipsWithoutUse returns the error for VIPs with user-managed networking. It begins with the text
// of the Assisted Installer, because scripts search for it in conditions. An update names the
// change first.
func (r requestedNetworking) vipsWithoutUse() error {
	first, second := "API VIPs", "User Managed Networking"
	if len(r.apiVips) == 0 {
		first = "Ingress VIPs"
	}
	if r.update {
		first, second = second, first
	}
	return invalid("%s cannot be set with %s; leave api_vips and ingress_vips out, or set user_managed_networking "+
		"to false.", first, second)
}

// checkVIPs rejects inconsistent VIPs and VIPs outside the requested machine networks. Without
// requested machine networks, the VIPs determine the machine network.
func checkVIPs(cluster *models.Cluster, machines []netip.Prefix) error {
	var api, ingress []string
	for _, vip := range cluster.APIVips {
		api = append(api, string(vip.IP))
	}
	for _, vip := range cluster.IngressVips {
		ingress = append(ingress, string(vip.IP))
	}
	if len(api) != len(ingress) {
		return invalid("There are %d API VIPs and %d ingress VIPs; give the same number of both.", len(api),
			len(ingress))
	}
	shared := cluster.LoadBalancer != nil && cluster.LoadBalancer.Type == models.LoadBalancerTypeUserManaged
	for _, address := range ingress {
		for _, other := range api {
			if address == other && !shared {
				return invalid("%s is both an API VIP and an ingress VIP; choose another address for one of them.",
					address)
			}
		}
	}
	if err := checkFamilies(cluster.OpenshiftVersion, "API", api, machines); err != nil {
		return err
	}
	return checkFamilies(cluster.OpenshiftVersion, "ingress", ingress, machines)
}

// checkFamilies rejects several VIPs of one address family, an order that the version does not
// support, and VIPs outside the machine networks.
func checkFamilies(version, kind string, vips []string, machines []netip.Prefix) error {
	if len(vips) > 2 {
		return invalid("There are %d %s VIPs; a cluster has one, or two if it has IPv4 and IPv6.", len(vips), kind)
	}
	var addresses []netip.Addr
	for _, vip := range vips {
		address, err := netip.ParseAddr(vip)
		if err != nil {
			return invalid("The %s VIP %q is not an IP address.", kind, vip)
		}
		inside := len(machines) == 0
		for _, machine := range machines {
			inside = inside || machine.Contains(address)
		}
		if !inside {
			return invalid("The %s VIP %s is not in a machine network; choose an address in %s or another "+
				"machine network.", kind, vip, machines[0])
		}
		addresses = append(addresses, address)
	}
	if len(addresses) < 2 {
		return nil
	}
	switch {
	case addresses[0] == addresses[1]:
		return invalid("The %s VIP %s is given twice.", kind, vips[0])
	case addresses[0].Is4() == addresses[1].Is4():
		return invalid("The %s VIPs %s and %s are of the same family; give one of IPv4 and one of IPv6.",
			kind, vips[0], vips[1])
	case !addresses[0].Is4() && !inventory.AtLeast(version, 4, 12):
		return invalid("OpenShift %s requires the IPv4 address first in two %s VIPs; 4.12 and later accept any order.",
			version, kind)
	}
	return nil
}

// checkDualStack rejects dual-stack networks if another kind of network has only one address
// family.
func checkDualStack(cluster *models.Cluster) error {
	kinds := []struct {
		name     string
		networks []netip.Prefix
	}{
		{"machine", network.MachineNetworks(cluster)}, {"cluster", network.ClusterNetworks(cluster)},
		{"service", network.ServiceNetworks(cluster)},
	}
	dual, single := "", ""
	for _, kind := range kinds {
		v4, v6 := network.Families(kind.networks)
		switch {
		case v4 && v6:
			dual = kind.name
			if !kind.networks[0].Addr().Is4() && !inventory.AtLeast(cluster.OpenshiftVersion, 4, 12) {
				return invalid("OpenShift %s requires the IPv4 network first in the %s networks; 4.12 and later "+
					"accept any order.", cluster.OpenshiftVersion, kind.name)
			}
		case len(kind.networks) > 0:
			single = kind.name
		}
	}
	if dual != "" && single != "" {
		return invalid("The %s networks have IPv4 and IPv6, but the %s networks only one of them; give networks of "+
			"both families for each.", dual, single)
	}
	return nil
}
