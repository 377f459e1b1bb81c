package rehearsal

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/abi"
	"landfall/appliance/fault"
	"landfall/appliance/simulate"
)

// simulatedHosts are the hosts of a rehearsal.
type simulatedHosts struct {
	origin   string // origin of the list of hosts, for users
	network  netip.Prefix
	hosts    []simulate.Planned
	settings []abi.Host // name, role and credentials of each host
}

// simulatedHosts returns the hosts of a rehearsal. They are copies of the registered hosts. Without
// registered hosts, they come from the cluster's agent-based installer directory, from the static
// networks of its infra-env, or from the number of hosts of each role in the request.
func (s *Service) simulatedHosts(cluster *models.Cluster, request Request) (*simulatedHosts, error) {
	h := &simulatedHosts{network: machineNetwork(cluster)}
	if !h.network.IsValid() {
		return nil, fault.New(fault.Schema,
			"Cluster %s has no IPv4 machine network, but simulated hosts have only IPv4 addresses; check its mirror "+
				"(landfall mirror prove) and its site (landfall doctor) instead.", cluster.Name)
	}
	if err := s.addRegistered(h, cluster); err != nil || len(h.hosts) > 0 {
		return h, err
	}
	if request == (Request{}) {
		if err := s.addDescribed(h, cluster); err != nil || len(h.hosts) > 0 {
			return h, err
		}
		if cluster.ControlPlaneCount == 2 {
			request.Arbiters = 1
		}
	}
	if request.ControlPlanes == 0 {
		request.ControlPlanes = int(cluster.ControlPlaneCount)
	}
	if request.ControlPlanes != int(cluster.ControlPlaneCount) {
		return nil,
			fault.New(fault.Invalid, "Cluster %s has %d control-plane nodes, not %d; change the cluster or the number.",
				cluster.Name, cluster.ControlPlaneCount, request.ControlPlanes)
	}
	h.origin = "numbers"
	type pool struct {
		role  models.HostRole
		count int
	}
	pools := []pool{{models.HostRoleMaster, request.ControlPlanes}, {models.HostRoleArbiter, request.Arbiters},
		{models.HostRoleWorker, request.Workers}}
	total := 0
	for _, p := range pools {
		if p.count < 0 {
			return nil, fault.New(fault.Invalid, "The number of hosts with the role %s is %d; expected 0 to %d.",
				p.role, p.count, maxHosts)
		}
		total += min(p.count, maxHosts+1) // the sum of huge numbers overflows
	}
	if total == 0 || total > maxHosts {
		return nil, fault.New(fault.Invalid, "A rehearsal supports 1 to %d hosts, but the request has %d control "+
			"planes, %d arbiters and %d workers.", maxHosts, request.ControlPlanes, request.Arbiters, request.Workers)
	}
	for _, pool := range pools {
		for i := range pool.count {
			h.add(simulate.Planned{}, abi.Host{Hostname: fmt.Sprintf("%s-%d", pool.role, i), Role: string(pool.role)})
		}
	}
	return h, h.complete(cluster)
}

// maxHosts is the maximum number of hosts of a rehearsal. More hosts would not make the result more
// meaningful.
const maxHosts = 200

// add adds a host. It generates a MAC address for a host without one.
func (h *simulatedHosts) add(planned simulate.Planned, settings abi.Host) {
	if planned.MAC == "" {
		planned.MAC = fmt.Sprintf("52:54:00:ff:%02x:%02x", len(h.hosts)>>8, len(h.hosts)&0xff)
	}
	settings.MACs = []string{strings.ToLower(planned.MAC)}
	h.hosts, h.settings = append(h.hosts, planned), append(h.settings, settings)
}

// addRegistered adds the cluster's hosts that have reported their inventory.
func (s *Service) addRegistered(h *simulatedHosts, cluster *models.Cluster) error {
	for _, host := range cluster.Hosts {
		found, err := s.engine.HostHardware(host.InfraEnvID.String(), host.ID.String())
		if err != nil {
			return err
		}
		if found == nil {
			continue
		}
		planned := simulate.Planned{Hostname: found.Hostname}
		if found.CPU != nil {
			planned.Hardware.CPUs, planned.Hardware.Architecture = int(found.CPU.Count), found.CPU.Architecture
		}
		if found.Memory != nil {
			planned.Hardware.MemoryBytes = found.Memory.PhysicalBytes
		}
		if found.SystemVendor != nil {
			planned.Hardware.Manufacturer = found.SystemVendor.Manufacturer
		}
		for _, disk := range found.Disks {
			if disk.InstallationEligibility.Eligible {
				planned.Hardware.Disks++
				planned.Hardware.DiskBytes = max(planned.Hardware.DiskBytes, disk.SizeBytes)
			}
		}
		for _, nic := range found.Interfaces {
			for _, text := range nic.IPV4Addresses {
				if address, err := netip.ParsePrefix(text); err == nil && h.network.Contains(address.Addr()) &&
					planned.MAC == "" {
					planned.MAC, planned.Address = nic.MacAddress, address
				}
			}
		}
		settings := abi.Host{Hostname: host.RequestedHostname}
		if host.Role != models.HostRoleAutoAssign {
			settings.Role = string(host.Role)
		}
		h.add(planned, settings)
	}
	h.origin = "the registered hosts"
	return h.complete(cluster)
}

// addDescribed adds the hosts in the cluster's agent-based installer directory and in the static
// networks of its infra-env.
func (s *Service) addDescribed(h *simulatedHosts, cluster *models.Cluster) error {
	directoryHosts, err := s.directories.Hosts(cluster.ID.String())
	if err != nil {
		return err
	}
	networks := map[string]netip.Prefix{} // by MAC
	envs, err := s.engine.InfraEnvs(cluster.ID.String())
	if err != nil {
		return err
	}
	var order []string
	for _, env := range envs {
		var hosts []*models.HostStaticNetworkConfig
		if env.StaticNetworkConfig == "" {
			continue
		}
		if err := json.Unmarshal([]byte(env.StaticNetworkConfig), &hosts); err != nil {
			return err
		}
		for _, host := range hosts {
			if len(host.MacInterfaceMap) > 0 {
				mac := strings.ToLower(host.MacInterfaceMap[0].MacAddress)
				networks[mac], order = addressIn(host.NetworkYaml, h.network), append(order, mac)
			}
		}
	}
	h.origin = "the static networks of its infra-env"
	for _, host := range directoryHosts {
		h.origin = "its agent-based installer directory"
		h.add(simulate.Planned{MAC: host.MACs[0], Address: networks[host.MACs[0]]},
			abi.Host{Hostname: host.Hostname, Role: host.Role, Fencing: host.Fencing, Hints: host.Hints,
				Where: host.Where})
		order = slices.DeleteFunc(order, func(mac string) bool { return slices.Contains(host.MACs, mac) })
	}
	for _, mac := range order {
		h.add(simulate.Planned{MAC: mac, Address: networks[mac]}, abi.Host{})
	}
	if len(h.hosts) < int(cluster.ControlPlaneCount) { // the description is incomplete
		h.hosts, h.settings = nil, nil
		return nil
	}
	return h.complete(cluster)
}

// addressIn returns the first address in an nmstate document that belongs to a network.
func addressIn(description string, network netip.Prefix) netip.Prefix {
	var state struct {
		Interfaces []struct {
			IPv4 struct {
				Address []struct {
					IP     string `yaml:"ip"`
					Length int    `yaml:"prefix-length"`
				} `yaml:"address"`
			} `yaml:"ipv4"`
		} `yaml:"interfaces"`
	}
	if err := yaml.Unmarshal([]byte(description), &state); err != nil {
		return netip.Prefix{}
	}
	for _, nic := range state.Interfaces {
		for _, given := range nic.IPv4.Address {
			if ip, err := netip.ParseAddr(given.IP); err == nil && network.Contains(ip) {
				return netip.PrefixFrom(ip, given.Length)
			}
		}
	}
	return netip.Prefix{}
}

// complete fills in missing data of the hosts: an unused address, BMC credentials if the cluster
// has two nodes without an arbiter, and the manufacturer that identifies the platform.
func (h *simulatedHosts) complete(cluster *models.Cluster) error {
	taken := map[netip.Addr]bool{}
	for _, vip := range cluster.APIVips {
		if address, err := netip.ParseAddr(string(vip.IP)); err == nil {
			taken[address] = true
		}
	}
	for _, vip := range cluster.IngressVips {
		if address, err := netip.ParseAddr(string(vip.IP)); err == nil {
			taken[address] = true
		}
	}
	for _, host := range h.hosts {
		taken[host.Address.Addr()] = true
	}
	next := h.network.Masked().Addr()
	for range 9 { // the first addresses may belong to gateways
		next = next.Next()
	}
	arbiters := slices.ContainsFunc(h.settings,
		func(host abi.Host) bool { return host.Role == string(models.HostRoleArbiter) })
	makers := map[models.PlatformType]string{models.PlatformTypeVsphere: "VMware, Inc.",
		models.PlatformTypeNutanix: "Nutanix"}
	for i := range h.hosts {
		if !h.hosts[i].Address.IsValid() {
			for next = next.Next(); taken[next]; next = next.Next() {
			}
			if !h.network.Contains(next) {
				return fault.New(fault.Invalid, "The machine network %s has too few addresses for %d hosts.", h.network,
					len(h.hosts))
			}
			h.hosts[i].Address = netip.PrefixFrom(next, h.network.Bits())
		}
		if h.hosts[i].Hardware.Manufacturer == "" && cluster.Platform != nil {
			h.hosts[i].Hardware.Manufacturer = makers[*cluster.Platform.Type]
		}
		if cluster.ControlPlaneCount == 2 && !arbiters && len(h.settings[i].Fencing) == 0 {
			h.settings[i].Fencing = map[string]string{
				"address": fmt.Sprintf("redfish+https://192.0.2.%d/redfish/v1/Systems/1", i+1), "username": "rehearsal",
				"password": "rehearsal",
			}
		}
	}
	return nil
}

// machineNetwork returns the IPv4 network of a cluster's hosts: the configured network, or a
// default. It returns an invalid prefix if the cluster has no IPv4 network.
func machineNetwork(cluster *models.Cluster) netip.Prefix {
	for _, n := range cluster.MachineNetworks {
		if prefix, err := netip.ParsePrefix(string(n.Cidr)); err == nil && prefix.Addr().Is4() {
			return prefix
		}
	}
	if len(cluster.MachineNetworks) > 0 {
		return netip.Prefix{}
	}
	if len(cluster.APIVips) == 0 {
		return simulate.DefaultNetwork()
	}
	address, err := netip.ParseAddr(string(cluster.APIVips[0].IP))
	if err != nil || !address.Is4() {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(address, 24).Masked()
}
