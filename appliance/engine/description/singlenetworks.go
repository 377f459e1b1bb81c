package description

import (
	"net/netip"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
)

// The older fields of requests hold one network of each kind. The Assisted Installer ignores them.
// The functions of this file put lists of networks in their place. A list in the request has
// precedence over a single field.

// createdNetworks returns a request for a cluster with lists in place of the single fields.
func createdNetworks(params *models.ClusterCreateParams) *models.ClusterCreateParams {
	p := *params
	if p.ClusterNetworks == nil {
		p.ClusterNetworks = singleClusterNetwork(defaultClusterNetworks(), p.ClusterNetworkCidr,
			p.ClusterNetworkHostPrefix)
	}
	if p.ServiceNetworks == nil && p.ServiceNetworkCidr != nil {
		p.ServiceNetworks = []*models.ServiceNetwork{{Cidr: models.Subnet(*p.ServiceNetworkCidr)}}
	}
	return &p
}

// updatedNetworks returns an update with lists in place of the single fields. held are the networks
// of the cluster.
func updatedNetworks(params *models.V2ClusterUpdateParams,
	held []*models.ClusterNetwork) *models.V2ClusterUpdateParams {
	p := *params
	if p.ClusterNetworks == nil {
		p.ClusterNetworks = singleClusterNetwork(held, p.ClusterNetworkCidr, conv.Value(p.ClusterNetworkHostPrefix))
	}
	if p.ServiceNetworks == nil && p.ServiceNetworkCidr != nil {
		p.ServiceNetworks = []*models.ServiceNetwork{{Cidr: models.Subnet(*p.ServiceNetworkCidr)}}
	}
	if p.MachineNetworks == nil && p.MachineNetworkCidr != nil {
		p.MachineNetworks = []*models.MachineNetwork{{Cidr: models.Subnet(*p.MachineNetworkCidr)}}
	}
	return &p
}

// singleClusterNetwork returns the cluster networks that the single fields request, or nil if they
// request nothing. A CIDR replaces all networks, and a host prefix alone changes the first. The
// prefix 0 is not requested: a network of the same address family keeps it, and another gets the
// default of its family.
func singleClusterNetwork(held []*models.ClusterNetwork, cidr *string, prefix int64) []*models.ClusterNetwork {
	switch {
	case cidr == nil && (prefix == 0 || len(held) == 0):
		return nil
	case cidr == nil:
		first := *held[0]
		first.HostPrefix = prefix
		return append([]*models.ClusterNetwork{&first}, held[1:]...)
	}
	network := &models.ClusterNetwork{Cidr: models.Subnet(*cidr), HostPrefix: prefix}
	if prefix != 0 {
		return []*models.ClusterNetwork{network}
	}
	network.HostPrefix = DefaultClusterHostPrefix
	if isIPv6(network.Cidr) {
		network.HostPrefix = DefaultClusterHostPrefixIPv6
	}
	if len(held) > 0 && isIPv6(held[0].Cidr) == isIPv6(network.Cidr) {
		network.HostPrefix = held[0].HostPrefix
	}
	return []*models.ClusterNetwork{network}
}

func isIPv6(cidr models.Subnet) bool {
	prefix, err := netip.ParsePrefix(string(cidr))
	return err == nil && prefix.Addr().Is6()
}

func defaultClusterNetworks() []*models.ClusterNetwork {
	return []*models.ClusterNetwork{{Cidr: DefaultClusterNetwork, HostPrefix: DefaultClusterHostPrefix}}
}
