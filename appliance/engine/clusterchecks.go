package engine

import (
	"net/netip"
	"regexp"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
)

// What the description of a cluster must be, by the rules of the Assisted Installer
// (internal/cluster/validations, pkg/validations): what is refused here is refused there.

// tagForm is a tag of a cluster: words with single spaces between them.
var tagForm = regexp.MustCompile(`^\w+( \w+)*$`)

// checkTexts checks what people type beside names and networks.
func checkTexts(sshKeys, timeServers, noProxy, tags string) error {
	return firstOf(checkSSHKeys(sshKeys), checkTimeServers(timeServers), checkNoProxy(noProxy), checkTags(tags))
}

func checkTags(tags string) error {
	if tags == "" {
		return nil
	}
	for tag := range strings.SplitSeq(tags, ",") {
		if !tagForm.MatchString(tag) {
			return invalid("The tag %q is none: tags have letters, digits, underscores and single spaces, and commas "+
				"between them.", tag)
		}
	}
	return nil
}

// requestedNetworking is what a request asks for about addresses; nil is what it does not touch.
type requestedNetworking struct {
	apiVips     []*models.APIVip
	ingressVips []*models.IngressVip
	machine     []*models.MachineNetwork
	userManaged *bool
}

// checkRequestedVIPs refuses addresses that a request gives and that can't be, for a cluster as it
// will be.
func checkRequestedVIPs(cluster *models.Cluster, asked requestedNetworking) error {
	given := len(asked.apiVips) > 0 || len(asked.ingressVips) > 0
	switch {
	case given && conv.Value(cluster.VipDhcpAllocation):
		return invalid("The cluster gets its VIPs from a DHCP server (vip_dhcp_allocation); leave api_vips and " +
			"ingress_vips out or turn that off.")
	case given && conv.Value(asked.userManaged):
		return invalid("A cluster whose networking is the user's own has no VIPs; leave api_vips and ingress_vips " +
			"out or turn user_managed_networking off.")
	case conv.Value(asked.userManaged) && conv.Value(cluster.VipDhcpAllocation):
		return invalid("A cluster whose networking is the user's own gets no VIPs from a DHCP server; leave " +
			"vip_dhcp_allocation out or turn user_managed_networking off.")
	case !given:
		return nil
	}
	var machines []netip.Prefix
	for _, machine := range asked.machine {
		if prefix, err := netip.ParsePrefix(string(machine.Cidr)); err == nil {
			machines = append(machines, prefix)
		}
	}
	return checkVIPs(cluster, machines)
}

// checkVIPs refuses VIPs that don't belong together. Machine networks are those that a request
// names; without any the VIPs themselves say which network it is.
func checkVIPs(cluster *models.Cluster, machines []netip.Prefix) error {
	var api, ingress []string
	for _, vip := range cluster.APIVips {
		api = append(api, string(vip.IP))
	}
	for _, vip := range cluster.IngressVips {
		ingress = append(ingress, string(vip.IP))
	}
	if len(api) != len(ingress) {
		return invalid("There are %d API VIPs and %d ingress VIPs; give as many of the one as of the other.",
			len(api), len(ingress))
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

// checkFamilies refuses more than one VIP of each address family, an order that the version can't
// have, and what lies in none of the machine networks.
func checkFamilies(version, kind string, vips []string, machines []netip.Prefix) error {
	if len(vips) > 2 {
		return invalid("There are %d %s VIPs; a cluster has one, or two where it has IPv4 and IPv6.", len(vips), kind)
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
			return invalid("The %s VIP %s lies in none of the machine networks; choose an address in %s or another "+
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
		return invalid("The %s VIPs %s and %s are of the same family; two VIPs are one of IPv4 and one of IPv6.",
			kind, vips[0], vips[1])
	case !addresses[0].Is4() && !inventory.AtLeast(version, 4, 12):
		return invalid("OpenShift %s takes the IPv4 address first of two %s VIPs; the other order comes with 4.12.",
			version, kind)
	}
	return nil
}

// checkDualStack refuses networks of two families where one kind of network has one only.
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
				return invalid("OpenShift %s takes the IPv4 network first of the %s networks; the other order comes "+
					"with 4.12.", cluster.OpenshiftVersion, kind.name)
			}
		case len(kind.networks) > 0:
			single = kind.name
		}
	}
	if dual != "" && single != "" {
		return invalid("The %s networks are of IPv4 and IPv6 and the %s networks of one of them; give networks of "+
			"both families for each.", dual, single)
	}
	return nil
}
