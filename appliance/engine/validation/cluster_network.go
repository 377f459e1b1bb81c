package validation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/network"
)

func (in ClusterInput) discovered() bool {
	for _, h := range in.Hosts {
		if h.Inventory != nil {
			return true
		}
	}
	return false
}

// machineNetworkNeeded reports whether the cluster needs a machine network. All clusters need one,
// except clusters of several nodes with user-managed networking.
func machineNetworkNeeded(c *models.Cluster) bool {
	return !yes(c.UserManagedNetworking) || SingleNode(c)
}

func clusterMachineCIDRDefined(in ClusterInput) (Status, string) {
	switch {
	case !machineNetworkNeeded(in.Cluster):
		return Success, "Not needed with user-managed networking."
	case len(in.Cluster.MachineNetworks) > 0:
		return Success, "The machine network is defined."
	case !in.discovered():
		return Pending, "Waiting for the first host."
	case yes(in.Cluster.VipDhcpAllocation) || SingleNode(in.Cluster):
		return Failure, "The machine network is not defined; choose the network of the hosts."
	}
	return Failure, "The machine network is not defined; give the API and ingress IP addresses, which determine it."
}

func clusterCIDRDefined(in ClusterInput) (Status, string) {
	if len(in.Cluster.ClusterNetworks) == 0 {
		return Failure, "The cluster network is not defined; give a range for the addresses of pods."
	}
	return Success, "The cluster network is defined."
}

func serviceCIDRDefined(in ClusterInput) (Status, string) {
	if len(in.Cluster.ServiceNetworks) == 0 {
		return Failure, "The service network is not defined; give a range for the addresses of services."
	}
	return Success, "The service network is defined."
}

// rangesDefined reports whether the machine, cluster and service networks are defined.
func rangesDefined(in ClusterInput) bool {
	return len(in.Cluster.ClusterNetworks) > 0 && len(in.Cluster.ServiceNetworks) > 0 &&
		(!machineNetworkNeeded(in.Cluster) || len(in.Cluster.MachineNetworks) > 0)
}

const waitRanges = "Waiting for the cluster's machine, cluster and service networks."

// unreadableRange returns the first network of the cluster that is not a valid prefix.
func unreadableRange(c *models.Cluster) (string, bool) {
	var all []string
	for _, n := range c.MachineNetworks {
		if n != nil {
			all = append(all, string(n.Cidr))
		}
	}
	for _, n := range c.ClusterNetworks {
		if n != nil {
			all = append(all, string(n.Cidr))
		}
	}
	for _, n := range c.ServiceNetworks {
		if n != nil {
			all = append(all, string(n.Cidr))
		}
	}
	for _, s := range all {
		if _, err := netip.ParsePrefix(s); err != nil {
			return s, true
		}
	}
	return "", false
}

func noCIDRsOverlapping(in ClusterInput) (Status, string) {
	if !rangesDefined(in) {
		return Pending, waitRanges
	}
	if bad, found := unreadableRange(in.Cluster); found {
		return Error, fmt.Sprintf("%q is not a network; give an address and a prefix length, as in 192.168.1.0/24.",
			bad)
	}
	pods, services := network.ClusterNetworks(in.Cluster), network.ServiceNetworks(in.Cluster)
	pairs := []struct {
		names string
		a, b  []netip.Prefix
	}{{"service network %s and cluster network %s", services, pods}}
	if machineNetworkNeeded(in.Cluster) {
		machines := network.MachineNetworks(in.Cluster)
		pairs = append(pairs, []struct {
			names string
			a, b  []netip.Prefix
		}{{"machine network %s and service network %s", machines, services},
			{"machine network %s and cluster network %s", machines, pods}}...)
	}
	for _, p := range pairs {
		if a, b, found := network.Overlap(p.a, p.b); found {
			return Failure, fmt.Sprintf("The "+p.names+" overlap; give one of them another range.", a, b)
		}
	}
	return Success, "The cluster's networks do not overlap."
}

func sameAddressFamilies(in ClusterInput) (Status, string) {
	if !rangesDefined(in) {
		return Pending, waitRanges
	}
	if bad, found := unreadableRange(in.Cluster); found {
		return Error, fmt.Sprintf("%q is not a network; give an address and a prefix length, as in 192.168.1.0/24.",
			bad)
	}
	want := families(network.ServiceNetworks(in.Cluster))
	if got := families(network.ClusterNetworks(in.Cluster)); got != want {
		return Failure,
			fmt.Sprintf("The cluster networks are %s and the service networks are %s; give both the same address "+
				"families.", got, want)
	}
	if machineNetworkNeeded(in.Cluster) {
		if got := families(network.MachineNetworks(in.Cluster)); got != want {
			return Failure,
				fmt.Sprintf("The machine networks are %s and the service networks are %s; give both the same address "+
					"families.", got, want)
		}
	}
	return Success, fmt.Sprintf("All networks of the cluster are %s.", want)
}

func families(list []netip.Prefix) string {
	switch v4, v6 := network.Families(list); {
	case v4 && v6:
		return "IPv4 and IPv6"
	case v6:
		return "IPv6"
	default:
		return "IPv4"
	}
}

// The assumed host prefixes of network plug-ins from users' manifests. These plug-ins ignore the
// host prefix of the cluster network.
const (
	assumedPrefixIPv4 = 25
	assumedPrefixIPv6 = 64
)

func networkPrefixValid(in ClusterInput) (Status, string) {
	if len(in.Cluster.ClusterNetworks) == 0 {
		return Pending, "Waiting for the cluster network."
	}
	for _, n := range in.Cluster.ClusterNetworks {
		if n == nil {
			continue
		}
		p, err := netip.ParsePrefix(string(n.Cidr))
		if err != nil {
			return Failure,
				fmt.Sprintf("The cluster network %q is not a network; give an address and a prefix length, as in "+
					"10.128.0.0/14.", n.Cidr)
		}
		hostPrefix, check := int(n.HostPrefix), network.CheckHostPrefix
		if NeedsOwnManifests(text(in.Cluster.NetworkType)) {
			hostPrefix, check = assumedPrefixIPv6, network.CheckParts
			if p.Addr().Is4() {
				hostPrefix = assumedPrefixIPv4
			}
		}
		if fault := check(p.Masked(), hostPrefix, len(in.Hosts)); fault != "" {
			return Failure, fault
		}
	}
	return Success, "The cluster network is large enough for all hosts."
}

func machineCIDREqualsCalculated(in ClusterInput) (Status, string) {
	c := in.Cluster
	switch {
	case yes(c.UserManagedNetworking):
		return Success, "Not needed with user-managed networking."
	case ExternalLoadBalancer(c):
		return Success, "Not needed behind an external load balancer."
	case SingleNode(c):
		return Success, "Not needed on a single node."
	case len(c.APIVips) == 0 && len(c.IngressVips) == 0:
		return Pending, "Waiting for the API and ingress IP addresses."
	case !in.discovered():
		return Pending, "Waiting for the first host."
	}
	ips := vips(c).api
	if len(ips) == 0 {
		ips = vips(c).ingress
	}
	machines := network.MachineNetworks(c)
	for i, v := range ips {
		ip, err := netip.ParseAddr(v.ip)
		if err != nil {
			return Failure, fmt.Sprintf("%q is not an IP address; give the address that the cluster is to have.", v.ip)
		}
		found, ok := network.NetworkOf(ip, in.Hosts)
		if !ok {
			return Failure, fmt.Sprintf("No host is in a network with %s; give an address in the network of the hosts.",
				ip)
		}
		if i < len(machines) && machines[i] != found {
			return Failure,
				fmt.Sprintf("The machine network is %s, but the network of %s is %s; choose that network or another "+
					"address.", machines[i], ip, found)
		}
	}
	return Success, "The machine network is the network of the API and ingress IP addresses."
}

// vip is a virtual IP address of a cluster with the hosts' reports about it.
type vip struct {
	ip           string
	verification models.VipVerification
}

type vipLists struct{ api, ingress []vip }

func vips(c *models.Cluster) vipLists {
	var l vipLists
	for _, v := range c.APIVips {
		if v != nil {
			l.api = append(l.api, newVIP(v.IP, v.Verification))
		}
	}
	for _, v := range c.IngressVips {
		if v != nil {
			l.ingress = append(l.ingress, newVIP(v.IP, v.Verification))
		}
	}
	return l
}

func newVIP(ip models.IP, verification *models.VipVerification) vip {
	v := vip{ip: string(ip), verification: models.VipVerificationUnverified}
	if verification != nil {
		v.verification = *verification
	}
	return v
}

func apiVIPsDefined(in ClusterInput) (Status, string) {
	return vipsDefined(in, "API", vips(in.Cluster).api)
}

func ingressVIPsDefined(in ClusterInput) (Status, string) {
	return vipsDefined(in, "ingress", vips(in.Cluster).ingress)
}

func apiVIPsValid(in ClusterInput) (Status, string) {
	return vipsValid(in, "API", vips(in.Cluster).api, vips(in.Cluster).ingress)
}

func ingressVIPsValid(in ClusterInput) (Status, string) {
	return vipsValid(in, "ingress", vips(in.Cluster).ingress, vips(in.Cluster).api)
}

// vipsNeedless returns the reason why a cluster needs no VIPs, or "" if it needs them.
func vipsNeedless(c *models.Cluster) string {
	switch {
	case yes(c.UserManagedNetworking):
		return "Not needed with user-managed networking."
	case SingleNode(c):
		return "Not needed on a single node."
	}
	return ""
}

func vipsDefined(in ClusterInput, name string, list []vip) (Status, string) {
	if needless := vipsNeedless(in.Cluster); needless != "" {
		return Success, needless
	}
	switch {
	case len(list) > 0:
		return Success, fmt.Sprintf("The %s IP address is defined.", name)
	case yes(in.Cluster.VipDhcpAllocation) && len(in.Cluster.MachineNetworks) == 0:
		return Pending, "Waiting for the cluster's machine network, where the hosts request the addresses by DHCP."
	case yes(in.Cluster.VipDhcpAllocation):
		return Failure,
			fmt.Sprintf("The %s IP address is not defined: the hosts are still requesting it, or IP allocation from "+
				"the DHCP server timed out. Wait for two minutes, then check that the server has free addresses.", name)
	}
	return Failure, fmt.Sprintf("The %s IP address is not defined; give an unused address in the network of the hosts.",
		name)
}

func vipsValid(in ClusterInput, name string, list, others []vip) (Status, string) {
	if needless := vipsNeedless(in.Cluster); needless != "" {
		return Success, needless
	}
	machines := network.MachineNetworks(in.Cluster)
	switch {
	case len(list) == 0:
		return Pending, fmt.Sprintf("Waiting for the %s IP address.", name)
	case !in.discovered():
		return Pending, "Waiting for the first host."
	case len(machines) == 0:
		return Pending, "Waiting for the cluster's machine network."
	}
	external := ExternalLoadBalancer(in.Cluster)
	for i, v := range list {
		if !external && slices.ContainsFunc(others, func(o vip) bool { return o.ip == v.ip }) {
			return Failure, fmt.Sprintf("%s is the API and the ingress IP address; give two different addresses.", v.ip)
		}
		if slices.ContainsFunc(list[:i], func(o vip) bool { return o.ip == v.ip }) {
			return Failure, fmt.Sprintf("%s is given twice as %s IP address; remove one of the two.", v.ip, name)
		}
		if fault := in.vipFault(name, v, i, machines, external); fault != "" {
			return Failure, fault
		}
	}
	return Success, fmt.Sprintf("The %s IP address is in the machine network and not in use.", name)
}

func (in ClusterInput) vipFault(name string, v vip, index int, machines []netip.Prefix, external bool) string {
	ip, err := netip.ParseAddr(v.ip)
	if err != nil {
		return fmt.Sprintf("The %s IP address %q is not an IP address; give the address that the cluster is to have.",
			name, v.ip)
	}
	i := index
	if external || index >= len(machines) {
		i = slices.IndexFunc(machines, func(n netip.Prefix) bool { return n.Contains(ip) })
	}
	if i < 0 || !machines[i].Contains(ip) {
		return fmt.Sprintf("The %s IP address %s is not in machine network %s; give an address in that network.",
			name, ip, joinPrefixes(machines))
	}
	machine := machines[i]
	if reserved := network.Reserved(ip, machine); reserved != "" {
		return fmt.Sprintf("The %s IP address %s is the %s of %s; give another address.", name, ip, reserved,
			machine)
	}
	if external {
		return ""
	}
	verification := v.verification
	if verification == models.VipVerificationUnverified {
		verification = network.FreeAddress(ip, machine, in.Hosts)
	}
	switch verification {
	case models.VipVerificationSucceeded:
		return ""
	case models.VipVerificationFailed:
		if !network.RoomFor(len(in.Hosts), machine) {
			return fmt.Sprintf("The %s IP address %s is in use, and machine network %s is too small for the cluster; "+
				"use a larger network.", name, ip, machine)
		}
		return fmt.Sprintf("The %s IP address %s is in use by another machine; give an unused address.",
			name, ip)
	}
	return fmt.Sprintf("The hosts have not verified yet whether the %s IP address %s is free; they do so within a "+
		"minute.", name, ip)
}

func joinPrefixes(list []netip.Prefix) string {
	parts := make([]string, len(list))
	for i, p := range list {
		parts[i] = p.String()
	}
	return strings.Join(parts, " or ")
}
