package siteservice

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/validation"
	"landfall/appliance/engine/view"
	"landfall/appliance/siteservice/nameserver"
	"landfall/store"
)

// hasZone reports whether the DNS service answers for a cluster. The site's own DNS has the names
// of an imported cluster, and only it knows their addresses.
func hasZone(cluster *models.Cluster) bool {
	return cluster.Name != "" && cluster.BaseDNSDomain != "" && !conv.Value(cluster.Imported)
}

// readZones returns the DNS zones of the clusters that this appliance installs. A damaged row costs
// only its own records.
func readZones(db *store.DB, site Site) ([]nameserver.Zone, error) {
	zones := []nameserver.Zone{}
	err := db.View(func(tx *store.Tx) error {
		return record.Clusters.Each(tx, "", func(id string, row *record.Cluster) error {
			if !hasZone(&row.API) {
				return nil
			}
			hosts, err := hostsOf(tx, site.Rows(tx), id)
			zones = append(zones, zoneOf(&row.API, hosts))
			return err
		})
	})
	nameserver.SortZones(zones)
	return zones, err
}

// hostsOf returns the hosts of a cluster that can be read.
func hostsOf(tx *store.Tx, rows view.Rows, clusterID string) ([]*inventory.Host, error) {
	keys, err := record.ClusterHostKeys(tx, clusterID)
	if err != nil {
		return nil, err
	}
	var hosts []*inventory.Host
	for _, key := range keys {
		host, err := rows.Host(key)
		if store.IsDamaged(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		parsed, err := inventory.ParseHost(host.Host)
		if err != nil {
			continue // its stored reports are damaged
		}
		hosts = append(hosts, parsed)
	}
	return hosts, nil
}

// zoneOf returns the zone of a cluster: the names that OpenShift requires (OpenShift documentation,
// "User-provisioned DNS requirements") and those of the hosts.
func zoneOf(cluster *models.Cluster, hosts []*inventory.Host) nameserver.Zone {
	domain := zoneName(cluster)
	zone := nameserver.Zone{Name: domain, Cluster: cluster.Name, ClusterID: cluster.ID.String(),
		Records: []nameserver.Record{}}
	var api, ingress []netip.Addr
	for _, vip := range cluster.APIVips {
		api = appendAddress(api, string(vip.IP))
	}
	for _, vip := range cluster.IngressVips {
		ingress = appendAddress(ingress, string(vip.IP))
	}
	// A host that joins the cluster does not serve its API.
	node := slices.IndexFunc(hosts, func(host *inventory.Host) bool { return !host.Day2() && !disabled(host) })
	if validation.SingleNode(cluster) && node >= 0 && len(api) == 0 {
		api = addressesOf(cluster, hosts[node])
		ingress = api
	}
	zone.Add("api."+domain, true, api...)
	zone.Add("api-int."+domain, false, api...)
	zone.Add("*.apps."+domain, false, ingress...)
	if len(api) == 0 {
		zone.Missing = append(zone.Missing, "api."+domain, "api-int."+domain)
	}
	if len(ingress) == 0 {
		zone.Missing = append(zone.Missing, "*.apps."+domain)
	}
	for _, host := range hosts {
		name := strings.ToLower(host.Hostname())
		short, _, _ := strings.Cut(name, ".")
		// Any machine can report any name. It must not add addresses to the names of the cluster,
		// or lines to the zone file.
		if network.CheckHostname(name) != "" || slices.Contains(clusterNames(), short) || disabled(host) {
			continue
		}
		zone.Add(short+"."+domain, true, addressesOf(cluster, host)...)
	}
	return zone
}

func disabled(host *inventory.Host) bool {
	return conv.Value(host.Record.Status) == models.HostStatusDisabled
}

// clusterNames returns the names in a zone that are not those of hosts.
func clusterNames() []string { return []string{"api", "api-int", "apps", nameserver.OwnName} }

// addressesOf returns a host's addresses in the cluster's machine networks. Without such networks,
// these are the first IPv4 and the first IPv6 address of the host.
func addressesOf(cluster *models.Cluster, host *inventory.Host) []netip.Addr {
	networks := network.MachineNetworks(cluster)
	if len(networks) == 0 {
		networks = []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0),
			netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	}
	var addresses []netip.Addr
	for _, machines := range networks {
		if address, _, ok := network.AddressIn(machines, host.Inventory); ok {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

func appendAddress(addresses []netip.Addr, text string) []netip.Addr {
	if address, err := netip.ParseAddr(text); err == nil {
		return append(addresses, address.Unmap())
	}
	return addresses
}
