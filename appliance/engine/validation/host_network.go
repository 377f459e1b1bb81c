package validation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
)

// The maximum differences between a host's clock and the appliance's clock. A slow clock is worse
// than a fast one: certificates then seem not to be valid yet.
const (
	maxHostBehind = 20 * time.Minute
	maxHostAhead  = time.Hour
)

// minDownloadRate is the minimum rate in MB/s at which a host must download an image. An image with
// a lower rate counts as unavailable.
const minDownloadRate = 0.001

func hostMachineCIDRDefined(c *hostContext) (Status, string) {
	switch {
	case c.Cluster == nil:
		return Success, unbound
	case AddingHosts(c.Cluster):
		return Success, day2
	case yes(c.Cluster.UserManagedNetworking):
		return Success, "Not needed with user-managed networking."
	case len(c.Cluster.MachineNetworks) > 0:
		return Success, "The machine network is defined."
	}
	return Failure, "The cluster's machine network is not defined; give the API and ingress IP addresses or choose " +
		"the machine network."
}

func belongsToMachineCIDR(c *hostContext) (Status, string) {
	switch {
	case c.Cluster == nil:
		return Success, unbound
	case AddingHosts(c.Cluster):
		return Success, day2
	}
	networks := network.MachineNetworks(c.Cluster)
	if yes(c.Cluster.UserManagedNetworking) && !SingleNode(c.Cluster) && (!c.Host.Record.Bootstrap ||
		len(networks) == 0) {
		return Success, "Not needed with user-managed networking."
	}
	switch {
	case c.Host.Inventory == nil:
		return Pending, waitInventory
	case len(networks) == 0:
		return Pending, "Waiting for the cluster's machine network."
	}
	var missing []string
	for _, n := range networks {
		if _, _, ok := network.AddressIn(n, c.Host.Inventory); !ok {
			missing = append(missing, n.String())
		}
	}
	if ExternalLoadBalancer(c.Cluster) && len(missing) < len(networks) {
		return Success, "The host has an address in a machine network."
	}
	if len(missing) > 0 {
		return Failure,
			fmt.Sprintf("The host has no address in machine network %s (it is in %s); connect it to that network or "+
				"choose another machine network.",
				strings.Join(missing, ", "), join(network.Networks(c.Host.Inventory)))
	}
	return Success, "The host has an address in every machine network."
}

func join(list []netip.Prefix) string {
	if len(list) == 0 {
		return "no network"
	}
	parts := make([]string, len(list))
	for i, p := range list {
		parts[i] = p.String()
	}
	return strings.Join(parts, ", ")
}

func ignitionDownloadable(c *hostContext) (Status, string) {
	switch r := c.Host.APIConnectivity; {
	case c.Cluster == nil:
		return Success, unbound
	case !c.Host.Day2():
		return Success, "Required only for hosts that join an installed cluster."
	case r == nil:
		return Pending, "Waiting for the host to download its ignition config from the cluster."
	case r.IsSuccess:
		return Success, "The host can download its ignition config from the cluster."
	case r.URL == "":
		return Failure, "The host could not download its ignition config from the cluster; check that it can reach " +
			"the " +
			"cluster's API address."
	default:
		return Failure,
			fmt.Sprintf("The host could not download its ignition config from %s (%s); check that it can reach that "+
				"address.", r.URL, oneLine(r.DownloadError))
	}
}

func belongsToMajorityGroup(c *hostContext) (Status, string) {
	switch {
	case c.Cluster == nil:
		return Success, unbound
	case c.Host.Day2():
		return Success, day2
	case SingleNode(c.Cluster):
		return Success, "Not needed on a single node."
	case c.Groups == nil:
		return Pending, "Waiting for the hosts to report their connectivity."
	}
	acrossRouters := yes(c.Cluster.UserManagedNetworking) || ExternalLoadBalancer(c.Cluster)
	if !acrossRouters && len(c.Cluster.MachineNetworks) == 0 {
		return Pending, "Waiting for the cluster's machine network."
	}
	missing := ""
	if acrossRouters {
		missing = c.unreachedFamily()
	} else {
		missing = c.unreachedNetwork()
	}
	switch {
	case missing == "":
		return Success, "The host can communicate with most of the other hosts."
	case c.clusterSize() < SmallestGroup(c.Cluster, c.Peers):
		return Pending, fmt.Sprintf("Waiting for at least %d hosts.", SmallestGroup(c.Cluster, c.Peers))
	case c.Host.Connectivity == nil, c.reportsOfConnectivity() < SmallestGroup(c.Cluster, c.Peers):
		return Pending, "Waiting for the hosts to report their connectivity." // after a restart of their agents
	}
	return Failure,
		fmt.Sprintf("The host cannot communicate with most of the other hosts in %s; check cables, VLANs, switches "+
			"and firewalls between them.", missing)
}

// unreachedNetwork returns the first machine network whose group of connected hosts lacks the host.
func (c *hostContext) unreachedNetwork() string {
	for _, n := range network.MachineNetworks(c.Cluster) {
		if !slices.Contains(c.Groups.MajorityGroups[n.String()], c.Host.ID()) {
			return n.String()
		}
	}
	return ""
}

// unreachedFamily returns the first address family of the cluster in which some other hosts cannot
// reach the host.
func (c *hostContext) unreachedFamily() string {
	v4, v6 := network.Families(slices.Concat(network.MachineNetworks(c.Cluster), network.ClusterNetworks(c.Cluster),
		network.ServiceNetworks(c.Cluster)))
	for _, s := range c.Groups.L3ConnectedAddresses[c.Host.ID()] {
		ip, err := netip.ParseAddr(s)
		if err != nil {
			continue
		}
		if ip.Is4() {
			v4 = false
		} else {
			v6 = false
		}
	}
	switch {
	case v4:
		return "IPv4"
	case v6:
		return "IPv6"
	}
	return ""
}

// clusterSize returns the number of hosts of the cluster, including this one.
func (c *hostContext) clusterSize() int {
	n := 1
	for _, peer := range c.Peers {
		if peer.ID() != c.Host.ID() {
			n++
		}
	}
	return n
}

// reportsOfConnectivity returns the number of hosts of the cluster that reported their
// connectivity, including this one.
func (c *hostContext) reportsOfConnectivity() int {
	n := 1
	for _, peer := range c.Peers {
		if peer.ID() != c.Host.ID() && peer.Connectivity != nil {
			n++
		}
	}
	return n
}

func mtuValid(c *hostContext) (Status, string) {
	switch {
	case c.Cluster == nil:
		return Success, unbound
	case c.Host.Inventory == nil:
		return Pending, waitInventory
	case c.Host.Day2():
		return Success, day2
	case SingleNode(c.Cluster):
		return Success, "Not needed on a single node."
	case c.Host.Connectivity == nil:
		return Pending, "Waiting for the host to report its connectivity."
	}
	networks := network.MachineNetworks(c.Cluster)
	for _, remote := range c.Host.Connectivity.RemoteHosts {
		for _, r := range remote.MtuReport {
			if r.MtuSuccessful || !yes(c.Cluster.UserManagedNetworking) && !c.betweenMachines(networks, r) {
				continue
			}
			return Failure,
				fmt.Sprintf("Full-size packets sent over %s do not reach %s; set the same MTU on the host, the "+
					"switches and the other hosts.",
					r.OutgoingNic, r.RemoteIPAddress)
		}
	}
	return Success, "Full-size packets reach the other hosts."
}

// betweenMachines reports whether both addresses of a packet are in machine networks.
func (c *hostContext) betweenMachines(networks []netip.Prefix, r *models.MtuReport) bool {
	ip, err := netip.ParseAddr(r.RemoteIPAddress)
	if err != nil || !slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(ip) }) {
		return false
	}
	i := slices.IndexFunc(c.Host.Inventory.Interfaces,
		func(nic *models.Interface) bool { return nic.Name == r.OutgoingNic })
	if i < 0 {
		return false
	}
	return slices.ContainsFunc(inventory.Addresses(c.Host.Inventory.Interfaces[i]), func(p netip.Prefix) bool {
		return p.Addr().Is4() == ip.Is4() && slices.ContainsFunc(networks,
			func(n netip.Prefix) bool { return n.Contains(p.Addr()) })
	})
}

func validPlatformNetworkSettings(c *hostContext) (Status, string) {
	if c.Host.Inventory == nil {
		return Pending, waitInventory
	}
	if c.Host.Inventory.SystemVendor == nil {
		return Error, "The inventory lacks the manufacturer and product of the host; restart its agent."
	}
	product := c.Host.Inventory.SystemVendor.ProductName
	if product == openStack && c.Cluster != nil && !yes(c.Cluster.UserManagedNetworking) {
		return Failure, "Virtual machines of OpenStack cannot share IP addresses; choose user-managed networking or " +
			"a single node."
	}
	return Success, fmt.Sprintf("A host of type %q can be used with the cluster's networking.", product)
}

func ntpSynced(c *hostContext) (Status, string) {
	var names []string
	for _, s := range c.Host.NTPSources {
		if s.SourceState == models.SourceStateSynced {
			return Success, fmt.Sprintf("The host's clock is synchronized with %s.", s.SourceName)
		}
		names = append(names, s.SourceName)
	}
	if len(names) > 0 {
		return Failure,
			fmt.Sprintf("The host's clock is not synchronized with any of its time sources (%s); give an NTP server "+
				"that the host "+
				"reaches.", sentenceList(names))
	}
	if c.Cluster == nil && (c.InfraEnv == nil || c.InfraEnv.AdditionalNtpSources == "") {
		return Success, "No time source is configured yet."
	}
	return Failure, "The host has no time source; give an NTP server that it can reach, in the cluster's settings or " +
		"by DHCP."
}

func timeSynced(c *hostContext) (Status, string) {
	if c.Host.Record.Timestamp == 0 {
		return Pending, "Waiting for the host to report its time."
	}
	polled := c.Polled
	if polled.IsZero() {
		polled = c.Now
	}
	behind := polled.Sub(time.Unix(c.Host.Record.Timestamp, 0)).Round(time.Second)
	switch {
	case behind > maxHostBehind:
		return Failure,
			fmt.Sprintf("The host's clock is %s behind this appliance's; set it, or give an NTP server to both.",
				behind)
	case -behind > maxHostAhead:
		return Failure,
			fmt.Sprintf("The host's clock is %s ahead of this appliance's; set it, or give an NTP server to both.",
				-behind)
	}
	return Success, "The clocks of the host and of the appliance agree."
}

func containerImagesAvailable(c *hostContext) (Status, string) {
	var failed []string
	for name, image := range c.Host.Images {
		if unavailable(image) {
			failed = append(failed, name)
		}
	}
	if len(failed) == 0 {
		return Success, "The images for the installation were pulled, or have not been requested yet."
	}
	slices.Sort(failed)
	return Failure,
		fmt.Sprintf("The host could not pull %s; check the mirror registry, its certificate and the pull secret, "+
			"then install again.", strings.Join(failed, ", "))
}

func unavailable(image *models.ContainerImageAvailability) bool {
	return image.Result == models.ContainerImageAvailabilityResultFailure || image.SizeBytes > 0 &&
		image.DownloadRate < minDownloadRate
}

// slowPeers returns the hosts of the same role with a measurement above the limit. It names at most
// four hosts.
func (c *hostContext) slowPeers(unit string, measure func(*models.L3Connectivity) float64, limit float64) string {
	var found []string
	seen := make(map[string]bool)
	for _, remote := range c.Host.Connectivity.RemoteHosts {
		i := slices.IndexFunc(c.Peers, func(p *inventory.Host) bool { return p.ID() == remote.HostID })
		if i < 0 || c.Peers[i].Role() != c.Host.Role() {
			continue
		}
		for _, l3 := range remote.L3Connectivity {
			if measure(l3) > limit && !seen[l3.RemoteIPAddress] {
				seen[l3.RemoteIPAddress] = true
				found = append(found, fmt.Sprintf("%s at %s (%.4g %s)", c.Peers[i].Name(), l3.RemoteIPAddress,
					measure(l3), unit))
			}
		}
	}
	if len(found) > 4 {
		found = append(found[:4], fmt.Sprintf("%d more", len(found)-4))
	}
	return strings.Join(found, ", ")
}

// betweenHosts returns the result of the validations of latency and packet loss in cases without a
// measurement. The last value is false if there are measurements to compare.
func (c *hostContext) betweenHosts(limit *float64) (Status, string, bool) {
	switch {
	case c.Cluster == nil:
		return Success, unbound, true
	case c.Host.Inventory == nil:
		return Pending, waitInventory, true
	case c.Host.Day2():
		return Success, day2, true
	case c.clusterSize() == 1 || limit == nil:
		return Success, "Not needed on a single node.", true
	case c.Host.Role() == models.HostRoleAutoAssign:
		return Success, "Validated when the host's role is known.", true
	case c.Host.Connectivity == nil:
		return Pending, "Waiting for the host to report its connectivity.", true
	}
	return "", "", false
}

func sufficientLatency(c *hostContext) (Status, string) {
	limit := c.needs.NetworkLatencyThresholdMs
	if status, message, done := c.betweenHosts(limit); done {
		return status, message
	}
	slow := c.slowPeers("ms", func(l3 *models.L3Connectivity) float64 { return l3.AverageRTTMs }, *limit)
	if slow != "" {
		return Failure, fmt.Sprintf("Packets take longer than %.4g ms to %s; check the network between these hosts.",
			*limit, slow)
	}
	return Success, fmt.Sprintf("Packets to hosts of role %s take at most %.4g ms.", c.Host.Role(), *limit)
}

func sufficientPacketLoss(c *hostContext) (Status, string) {
	limit := c.needs.PacketLossPercentage
	if status, message, done := c.betweenHosts(limit); done {
		return status, message
	}
	lossy := c.slowPeers("%", func(l3 *models.L3Connectivity) float64 { return l3.PacketLossPercentage }, *limit)
	if lossy != "" {
		return Failure,
			fmt.Sprintf("More than %.4g %% of the packets are lost to %s; check for two interfaces in one network, "+
				"cables and switches.", *limit, lossy)
	}
	return Success, fmt.Sprintf("At most %.4g %% of the packets to hosts of role %s are lost.", *limit, c.Host.Role())
}

func hasDefaultRoute(c *hostContext) (Status, string) {
	switch {
	case c.Host.Inventory == nil:
		return Pending, waitInventory
	case slices.ContainsFunc(c.Host.Inventory.Routes, inventory.IsDefault):
		return Success, "The host has a default route."
	}
	return Failure, "The host has no default route; give it a gateway by DHCP or in its network settings, even if " +
		"the gateway has no route to other networks."
}

func nonOverlappingSubnets(c *hostContext) (Status, string) {
	switch {
	case c.Cluster == nil:
		return Success, unbound
	case c.Host.Inventory == nil:
		return Pending, waitInventory
	}
	v4, v6 := network.Families(slices.Concat(network.MachineNetworks(c.Cluster), network.ClusterNetworks(c.Cluster),
		network.ServiceNetworks(c.Cluster)))
	type place struct {
		network netip.Prefix
		nic     string
	}
	var places []place
	for _, nic := range c.Host.Inventory.Interfaces {
		var own []netip.Prefix
		for _, p := range inventory.Addresses(nic) {
			p = p.Masked()
			if (p.Addr().Is4() && !v4) || (p.Addr().Is6() && !v6) || slices.Contains(own, p) {
				continue
			}
			own = append(own, p)
			places = append(places, place{p, nic.Name})
		}
	}
	for i, a := range places {
		for _, b := range places[:i] {
			if a.network.Overlaps(b.network) {
				return Failure,
					fmt.Sprintf("Network %s of interface %s and %s of interface %s overlap; give each interface a "+
						"network of its own or join them in a bond.",
						b.network, b.nic, a.network, a.nic)
			}
		}
	}
	return Success, "The networks of the host's interfaces do not overlap."
}

func noIPCollisions(c *hostContext) (Status, string) {
	switch {
	case c.Cluster == nil:
		return Success, unbound
	case AddingHosts(c.Cluster):
		return Success, day2
	case c.Host.Inventory == nil || len(c.Collisions) == 0:
		return Success, "No other machine uses the host's addresses."
	}
	for _, nic := range c.Host.Inventory.Interfaces {
		for _, p := range inventory.Addresses(nic) {
			if macs := c.Collisions[p.Addr().String()]; len(macs) > 0 {
				return Failure,
					fmt.Sprintf("Several machines use address %s of interface %s (MAC addresses %s); give one "+
						"of them another address.",
						p.Addr(), nic.Name, strings.Join(macs, ", "))
			}
		}
	}
	return Success, "No other machine uses the host's addresses."
}

func noISCSINICInMachineCIDR(c *hostContext) (Status, string) {
	switch {
	case c.Cluster == nil:
		return Success, unbound
	case AddingHosts(c.Cluster) || yes(c.Cluster.Imported):
		return Success, day2
	case yes(c.Cluster.UserManagedNetworking) && !SingleNode(c.Cluster):
		return Success, "Not needed with user-managed networking."
	}
	disk := c.Host.InstallationDisk()
	if disk == nil || disk.DriveType != models.DriveTypeISCSI && disk.DriveType != models.DriveTypeMultipath {
		return Success, "The installation disk is not an iSCSI disk."
	}
	networks := network.MachineNetworks(c.Cluster)
	if len(networks) == 0 {
		return Pending, "Waiting for the cluster's machine network."
	}
	paths := []*models.Disk{disk}
	if disk.DriveType == models.DriveTypeMultipath {
		paths = slices.DeleteFunc(inventory.PathsOf(disk, c.Host.Inventory),
			func(d *models.Disk) bool { return d.DriveType != models.DriveTypeISCSI })
	}
	for _, p := range paths {
		if status, message := iscsiApart(c.Host.Inventory, p, networks); status != Success {
			return status, message
		}
	}
	return Success, "The interfaces used for iSCSI are not in the machine network."
}

func iscsiApart(inv *models.Inventory, disk *models.Disk, networks []netip.Prefix) (Status, string) {
	if disk.Iscsi == nil {
		return Error,
			fmt.Sprintf("The inventory lacks the address that the host uses for iSCSI disk %s; restart its agent.",
				disk.Name)
	}
	ip, err := netip.ParseAddr(disk.Iscsi.HostIPAddress)
	if err != nil {
		return Error, fmt.Sprintf("The iSCSI address %q of disk %s is not an IP address; restart the host's agent.",
			disk.Iscsi.HostIPAddress, disk.Name)
	}
	for _, nic := range inv.Interfaces {
		addresses := inventory.Addresses(nic)
		if !slices.ContainsFunc(addresses, func(p netip.Prefix) bool { return p.Addr() == ip }) {
			continue
		}
		for _, p := range addresses {
			for _, n := range networks {
				if n.Contains(p.Addr()) {
					return Failure,
						fmt.Sprintf("Interface %s, which connects iSCSI disk %s, is in machine network %s; use a "+
							"separate interface for iSCSI.", nic.Name, disk.Name, n)
				}
			}
		}
		return Success, ""
	}
	return Error, fmt.Sprintf("No interface of the host has the iSCSI address %s of disk %s; restart the host's agent.",
		ip, disk.Name)
}
