package metal

import (
	"strings"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/bmc"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
)

// hardwareOf converts an Agent's inventory to metal3's form. The result has an entry for each
// address of a network interface, IPv6 first. An interface without an address has no entry
// (metal3-io/baremetal-operator pull request 758).
func hardwareOf(agent *agentinstall.Agent) metal3.HardwareDetails {
	found := agent.Status.Inventory
	details := metal3.HardwareDetails{
		SystemVendor: metal3.HardwareSystemVendor{
			Manufacturer: found.SystemVendor.Manufacturer,
			ProductName:  found.SystemVendor.ProductName,
			SerialNumber: found.SystemVendor.SerialNumber,
		},
		RAMMebibytes: int(max(found.Memory.PhysicalBytes, 0) >> 20),
		CPU: metal3.CPU{
			Arch: found.CPU.Architecture, Model: found.CPU.ModelName, Flags: found.CPU.Flags,
			ClockMegahertz: metal3.ClockSpeed(found.CPU.ClockMegahertz), Count: int(found.CPU.Count),
		},
		Hostname: agent.Spec.Hostname,
	}
	if details.Hostname == "" {
		details.Hostname = found.Hostname
	}
	for _, nic := range found.Interfaces {
		for _, addresses := range [][]string{nic.IPV6Addresses, nic.IPV4Addresses} {
			for _, address := range addresses {
				ip, _, _ := strings.Cut(address, "/")
				details.NIC = append(details.NIC, metal3.NIC{
					Name: nic.Name, Model: nic.Vendor, MAC: nic.MACAddress, IP: ip,
					SpeedGbps: int(nic.SpeedMbps / 1024),
				})
			}
		}
	}
	for _, disk := range found.Disks {
		name := disk.ByPath
		if name == "" {
			name = disk.Path
		}
		details.Storage = append(details.Storage, metal3.Storage{
			Name: name, HCTL: disk.HCTL, Model: disk.Model, Vendor: disk.Vendor, SerialNumber: disk.Serial,
			WWN:        disk.WWN,
			SizeBytes:  metal3.Capacity(disk.SizeBytes),
			Rotational: strings.EqualFold(disk.DriveType, string(models.DriveTypeHDD)),
		})
	}
	return details
}

// hardwareByBMC returns the hardware that the BMC reports before an agent has run on the machine.
func hardwareByBMC(system *bmc.System) metal3.HardwareDetails {
	return metal3.HardwareDetails{
		SystemVendor: metal3.HardwareSystemVendor{
			Manufacturer: system.Manufacturer, ProductName: system.Model, SerialNumber: system.SerialNumber,
		},
		Firmware:     metal3.Firmware{BIOS: metal3.BIOS{Version: system.BIOSVersion}},
		RAMMebibytes: int(system.MemoryGiB * 1024),
	}
}

// installationDisk returns the disk that matches the root device hints: the first matching
// multipath device, else the first matching disk; objects.NoDiskFits if there is none. Without hints
// it returns "".
func installationDisk(disks []agentinstall.HostDisk, hints *metal3.RootDeviceHints) string {
	if hints == nil {
		return ""
	}
	chosen := ""
	for _, disk := range disks {
		switch {
		case !disk.InstallationEligibility.Eligible || !fits(disk, hints):
		case strings.EqualFold(disk.DriveType, string(models.DriveTypeMultipath)):
			return disk.ID
		case chosen == "":
			chosen = disk.ID
		}
	}
	if chosen == "" {
		return objects.NoDiskFits
	}
	return chosen
}

const gigabyte = 1_000_000_000

// fits reports whether a disk matches the hints: model and vendor as substrings, all other values
// exactly. The two extensions of the WWN are ignored, because an agent's inventory does not contain
// them.
func fits(disk agentinstall.HostDisk, hints *metal3.RootDeviceHints) bool {
	same := func(hint, value string) bool { return hint == "" || hint == value }
	part := func(hint, value string) bool { return strings.Contains(value, hint) }
	return (same(hints.DeviceName, disk.Path) || hints.DeviceName == disk.ByPath) &&
		same(hints.HCTL, disk.HCTL) && same(hints.SerialNumber, disk.Serial) && same(hints.WWN, disk.WWN) &&
		part(hints.Model, disk.Model) && part(hints.Vendor, disk.Vendor) &&
		disk.SizeBytes/gigabyte >= int64(hints.MinSizeGigabytes) &&
		(hints.Rotational == nil || *hints.Rotational == strings.EqualFold(disk.DriveType, string(models.DriveTypeHDD)))
}
