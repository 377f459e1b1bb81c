package installconfig

import (
	"fmt"
	"maps"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/steps"
	"landfall/appliance/release"
	"landfall/ignition"
)

// Files returns the files that are stored after a run of openshift-install: the generated files
// with edited ignition configs, an ignition config for each host, and the operators' custom
// resources.
func (in *Installation) Files(generated *release.Generated) (map[string][]byte, error) {
	files := maps.Clone(generated.Files)
	operators, err := in.operatorManifests()
	if err != nil {
		return nil, err
	}
	if operators.Controller != nil {
		files[operator.ControllerFile] = operators.Controller
	}
	if bootstrap, ok := files[release.BootstrapIgnition]; ok {
		edited, err := ignition.EditBootstrap(bootstrap, ignition.BootstrapEdits{SingleNode: in.singleNode(),
			Hosts: in.bareMetalHosts()})
		if err != nil {
			return nil, fmt.Errorf("editing the generated bootstrap ignition: %w", err)
		}
		files[release.BootstrapIgnition] = edited
	}
	for _, role := range []string{release.MasterIgnition, release.WorkerIgnition, release.ArbiterIgnition} {
		config, ok := files[role]
		if !ok {
			continue
		}
		edits := ignition.RoleEdits{ServiceCA: in.ServiceCA, IPv6: in.hasIPv6()}
		if role == release.MasterIgnition {
			edits.Files = in.leaseFiles()
		}
		edited, err := ignition.EditRole(config, edits)
		if err != nil {
			return nil, fmt.Errorf("editing the generated %s: %w", role, err)
		}
		files[role] = edited
	}
	return files, in.addHostConfigs(files)
}

// addHostConfigs adds an ignition config for each host, based on the config of its role.
func (in *Installation) addHostConfigs(files map[string][]byte) error {
	addresses := in.nodeAddresses()
	for _, host := range in.Hosts {
		role := string(host.Role())
		config, ok := files[role+".ign"]
		if !ok {
			return fmt.Errorf("openshift-install generated no %s.ign, which host %s needs", role, host.Name())
		}
		edits := ignition.HostEdits{Hostname: host.Hostname(), Overrides: host.Record.IgnitionConfigOverrides,
			MachineConfigPool: host.Record.MachineConfigPoolName}
		if address, ok := addresses[host.ID()]; ok {
			edits.NodeIPHint = address.Masked().Addr().String()
		}
		own, err := ignition.HostConfig(config, edits)
		if err != nil {
			return fmt.Errorf("making the ignition config of host %s: %w", host.Name(), err)
		}
		files[HostIgnition(host)] = own
	}
	return nil
}

// HostIgnition returns the name of a host's ignition config among the files of its cluster.
func HostIgnition(host *inventory.Host) string {
	return string(host.Role()) + "-" + host.ID().String() + ".ign"
}

// bareMetalHosts describes the hosts for the BareMetalHost objects of the new cluster. Only the
// platform baremetal has these objects.
func (in *Installation) bareMetalHosts() []ignition.BareMetalHost {
	if *in.Cluster.Platform.Type != models.PlatformTypeBaremetal {
		return nil
	}
	hosts := make([]ignition.BareMetalHost, 0, len(in.Hosts))
	for _, host := range in.Hosts {
		hosts = append(hosts, ignition.BareMetalHost{Name: host.Hostname(), Role: string(host.Role()),
			Hardware: hardware(host)})
	}
	return hosts
}

// hardware converts an inventory to the hardware details of metal3.
func hardware(host *inventory.Host) ignition.Hardware {
	found := host.Inventory
	details := ignition.Hardware{Hostname: host.Hostname()}
	if vendor := found.SystemVendor; vendor != nil {
		details.SystemVendor = ignition.HardwareVendor{Manufacturer: vendor.Manufacturer,
			ProductName: vendor.ProductName, SerialNumber: vendor.SerialNumber}
	}
	if found.Memory != nil {
		details.RAMMebibytes = int(found.Memory.PhysicalBytes >> 20)
	}
	if cpu := found.CPU; cpu != nil {
		details.CPU = ignition.HardwareCPU{Arch: cpu.Architecture, Model: cpu.ModelName, ClockMegahertz: cpu.Frequency,
			Flags: cpu.Flags, Count: int(cpu.Count)}
	}
	for _, nic := range found.Interfaces {
		for _, address := range inventory.Addresses(nic) {
			details.NICs = append(details.NICs, ignition.HardwareNIC{
				Name: nic.Name, Model: nic.Product, MAC: nic.MacAddress, IP: address.Addr().String(),
				SpeedGbps: int(nic.SpeedMbps / 1000),
			})
		}
	}
	for _, disk := range found.Disks {
		details.Storage = append(details.Storage, ignition.HardwareStorage{
			Name: disk.Path, Rotational: disk.DriveType == models.DriveTypeHDD, SizeBytes: disk.SizeBytes,
			Vendor: disk.Vendor, Model: disk.Model, SerialNumber: disk.Serial, WWN: disk.Wwn, HCTL: disk.Hctl,
		})
	}
	return details
}

// leaseFiles returns the files with which control-plane nodes renew the DHCP leases of the
// cluster's VIPs. It returns none if the VIPs do not come from DHCP.
func (in *Installation) leaseFiles() []ignition.File {
	cluster := in.Cluster
	if !conv.Value(cluster.VipDhcpAllocation) || in.userManaged() || len(cluster.APIVips) == 0 ||
		len(cluster.IngressVips) == 0 {
		return nil
	}
	var monitor strings.Builder
	for _, vip := range []struct {
		name string
		ip   models.IP
	}{{"api", cluster.APIVips[0].IP}, {"ingress", cluster.IngressVips[0].IP}} {
		fmt.Fprintf(&monitor, "%[1]s-vip:\n  name: %[1]s\n  mac-address: %[2]s\n  ip-address: %[3]s\n", vip.name,
			steps.VIPMAC(cluster, vip.name), vip.ip)
	}
	files := []ignition.File{{Path: "/etc/keepalived/unsupported-monitor.conf", Mode: 0o644,
		Data: []byte(monitor.String())}}
	for name, lease := range map[string]string{"api": in.APILease, "ingress": in.IngressLease} {
		if lease != "" {
			files = append(files, ignition.File{Path: "/etc/keepalived/lease-" + name, Mode: 0o644,
				Data: []byte(lease)})
		}
	}
	return files
}
