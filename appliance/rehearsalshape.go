package appliance

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/abi"
	"landfall/appliance/simulate"
	"landfall/web/console"
	"landfall/web/problem"
)

// shape is which hosts a rehearsal plays.
type shape struct {
	from    string // where it is known from, for people
	network netip.Prefix
	hosts   []simulate.Planned
	wanted  []abi.Host // what each is to be called and to become
}

// shapeOf takes the hosts of a rehearsal from those that have reported, or else from the folder
// that the cluster was made of, from the static networks of its infra-env, or from numbers.
func (r *rehearsals) shapeOf(cluster *models.Cluster, numbers console.RehearsalRequest) (*shape, error) {
	s := &shape{network: machineNetworkOf(cluster)}
	if !s.network.IsValid() {
		return nil, problem.New(422,
			"Cluster %s has no IPv4 machine network, and simulated hosts have IPv4 addresses only; prove its mirror "+
				"(landfall mirror prove) and look at its site (landfall doctor) instead.", cluster.Name)
	}
	if err := r.reported(s, cluster); err != nil || len(s.hosts) > 0 {
		return s, err
	}
	if numbers == (console.RehearsalRequest{}) {
		if err := r.described(s, cluster); err != nil || len(s.hosts) > 0 {
			return s, err
		}
		if cluster.ControlPlaneCount == 2 {
			numbers.Arbiters = 1
		}
	}
	if numbers.ControlPlanes == 0 {
		numbers.ControlPlanes = int(cluster.ControlPlaneCount)
	}
	if numbers.ControlPlanes != int(cluster.ControlPlaneCount) {
		return nil,
			problem.BadRequest("Cluster %s has %d control-plane nodes, not %d; change the cluster or the number.",
				cluster.Name, cluster.ControlPlaneCount, numbers.ControlPlanes)
	}
	s.from = "numbers"
	for _, pool := range []struct {
		role  models.HostRole
		count int
	}{{models.HostRoleMaster, numbers.ControlPlanes}, {models.HostRoleArbiter, numbers.Arbiters},
		{models.HostRoleWorker, numbers.Workers}} {
		for i := range pool.count {
			s.add(simulate.Planned{}, abi.Host{Hostname: fmt.Sprintf("%s-%d", pool.role, i), Role: string(pool.role)})
		}
	}
	if len(s.hosts) == 0 || len(s.hosts) > rehearsedHosts {
		return nil, problem.BadRequest("A rehearsal has 1 to %d hosts, not %d.", rehearsedHosts, len(s.hosts))
	}
	return s, s.complete(cluster)
}

// rehearsedHosts bounds the hosts of a rehearsal: more of them prove nothing more.
const rehearsedHosts = 200

func (s *shape) add(planned simulate.Planned, wanted abi.Host) {
	if planned.MAC == "" {
		planned.MAC = fmt.Sprintf("52:54:00:ff:%02x:%02x", len(s.hosts)>>8, len(s.hosts)&0xff)
	}
	wanted.MACs = []string{strings.ToLower(planned.MAC)}
	s.hosts, s.wanted = append(s.hosts, planned), append(s.wanted, wanted)
}

// reported are the cluster's hosts as they are.
func (r *rehearsals) reported(s *shape, cluster *models.Cluster) error {
	for _, host := range cluster.Hosts {
		found, err := r.appliance.engine.HostHardware(host.InfraEnvID.String(), host.ID.String())
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
				if address, err := netip.ParsePrefix(text); err == nil && s.network.Contains(address.Addr()) &&
					planned.MAC == "" {
					planned.MAC, planned.Address = nic.MacAddress, address
				}
			}
		}
		wanted := abi.Host{Hostname: host.RequestedHostname}
		if host.Role != models.HostRoleAutoAssign {
			wanted.Role = string(host.Role)
		}
		s.add(planned, wanted)
	}
	s.from = "the hosts that have reported"
	return s.complete(cluster)
}

// described are the hosts of which the cluster's folder or its infra-env's static networks tell.
func (r *rehearsals) described(s *shape, cluster *models.Cluster) error {
	directoryHosts, err := r.appliance.abiHosts.Hosts(cluster.ID.String())
	if err != nil {
		return err
	}
	networks := map[string]netip.Prefix{} // by MAC
	envs, err := r.appliance.engine.InfraEnvs(cluster.ID.String())
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
				networks[mac], order = addressIn(host.NetworkYaml, s.network), append(order, mac)
			}
		}
	}
	s.from = "the static networks of its infra-env"
	for _, host := range directoryHosts {
		s.from = "the folder that it was made of"
		s.add(simulate.Planned{MAC: host.MACs[0], Address: networks[host.MACs[0]]},
			abi.Host{Hostname: host.Hostname, Role: host.Role, Fencing: host.Fencing, Hints: host.Hints,
				Where: host.Where})
		order = slices.DeleteFunc(order, func(mac string) bool { return slices.Contains(host.MACs, mac) })
	}
	for _, mac := range order {
		s.add(simulate.Planned{MAC: mac, Address: networks[mac]}, abi.Host{})
	}
	if len(s.hosts) < int(cluster.ControlPlaneCount) { // it tells of some only
		s.hosts, s.wanted = nil, nil
		return nil
	}
	return s.complete(cluster)
}

// addressIn is the first address of a network description that is in a network.
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

// complete gives addresses to the hosts that have none, beside those that are taken and the
// cluster's own, credentials to two nodes without an arbiter, and to all the maker by which their
// platform knows them.
func (s *shape) complete(cluster *models.Cluster) error {
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
	for _, host := range s.hosts {
		taken[host.Address.Addr()] = true
	}
	next := s.network.Masked().Addr()
	for range 9 { // gateways are among the first
		next = next.Next()
	}
	arbiters := slices.ContainsFunc(s.wanted, func(h abi.Host) bool { return h.Role == string(models.HostRoleArbiter) })
	makers := map[models.PlatformType]string{models.PlatformTypeVsphere: "VMware, Inc.",
		models.PlatformTypeNutanix: "Nutanix"}
	for i := range s.hosts {
		if !s.hosts[i].Address.IsValid() {
			for next = next.Next(); taken[next]; next = next.Next() {
			}
			if !s.network.Contains(next) {
				return problem.BadRequest("The machine network %s has no room for %d hosts.", s.network, len(s.hosts))
			}
			s.hosts[i].Address = netip.PrefixFrom(next, s.network.Bits())
		}
		if s.hosts[i].Hardware.Manufacturer == "" && cluster.Platform != nil {
			s.hosts[i].Hardware.Manufacturer = makers[*cluster.Platform.Type]
		}
		if cluster.ControlPlaneCount == 2 && !arbiters && len(s.wanted[i].Fencing) == 0 {
			s.wanted[i].Fencing = map[string]string{
				"address": fmt.Sprintf("redfish+https://192.0.2.%d/redfish/v1/Systems/1", i+1), "username": "rehearsal",
				"password": "rehearsal",
			}
		}
	}
	return nil
}

// machineNetworkOf is the IPv4 network of a cluster's hosts: the one that is said, or a guess.
func machineNetworkOf(cluster *models.Cluster) netip.Prefix {
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
