package installconfig

import (
	"net/netip"
	"slices"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/validation"
)

// machineNetworks returns the networks of the nodes. With user-managed networking and without
// configured networks, it returns the first network of each address family of the bootstrap host.
// With user-managed networking on several nodes, the network of the bootstrap node's address
// replaces the configured network of its family.
func (in *Installation) machineNetworks() []machineCIDR {
	networks := network.MachineNetworks(in.Cluster)
	bootstrap := slices.IndexFunc(in.Hosts, func(h *inventory.Host) bool { return h.Record.Bootstrap })
	if in.userManaged() && bootstrap >= 0 {
		if len(networks) == 0 {
			networks = firstOfEachFamily(network.Networks(in.Hosts[bootstrap].Inventory))
		}
		if address, ok := in.nodeAddresses()[in.Hosts[bootstrap].ID()]; ok && !in.singleNode() {
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

// nodeAddresses returns the addresses of the nodes with their networks, by host id. The map is nil
// if the nodes can choose their addresses themselves. For a single node it contains the first
// machine network. For a user-managed load balancer it contains the addresses at which all hosts
// can reach each other.
func (in *Installation) nodeAddresses() map[strfmt.UUID]netip.Prefix {
	cluster := in.Cluster
	machines := network.MachineNetworks(cluster)
	if in.singleNode() {
		if len(machines) == 0 || len(in.Hosts) == 0 {
			return nil
		}
		return map[strfmt.UUID]netip.Prefix{in.Hosts[0].ID(): machines[0]}
	}
	if *cluster.Platform.Type != models.PlatformTypeNone && !validation.ExternalLoadBalancer(cluster) {
		return nil
	}
	groups, err := network.ParseGroups(cluster.ConnectivityMajorityGroups)
	if err != nil {
		return nil // the stored groups are damaged, so the nodes choose their addresses themselves
	}
	v4, _ := network.Families(slices.Concat(machines, network.ClusterNetworks(cluster),
		network.ServiceNetworks(cluster)))
	return network.NodeAddresses(in.Hosts, groups, v4)
}

// bootstrapAddress returns the address of the bootstrap host: its node address, or else its address
// in the machine networks, or else "".
func (in *Installation) bootstrapAddress() string {
	addresses := in.nodeAddresses()
	for _, host := range in.Hosts {
		if !host.Record.Bootstrap {
			continue
		}
		if address, ok := addresses[host.ID()]; ok && !in.singleNode() {
			return address.Addr().String()
		}
		if address, _, ok := addressInMachineNetworks(in.Cluster, host); ok {
			return address.String()
		}
	}
	return ""
}

// addressInMachineNetworks returns a host's address in the cluster's machine networks, and its
// interface.
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
