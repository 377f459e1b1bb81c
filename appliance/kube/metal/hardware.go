package metal

import (
	"strings"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/kube/objects/agentinstall"

	"landfall/appliance/bmc"
)

// hardwareOf tells what an Agent found of its machine as metal3 shows it. A card has an entry for
// each of its addresses, those of IPv6 first, and none if it has no address
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
	for _, card := range found.Interfaces {
		for _, addresses := range [][]string{card.IPV6Addresses, card.IPV4Addresses} {
			for _, address := range addresses {
				ip, _, _ := strings.Cut(address, "/")
				details.NIC = append(details.NIC, metal3.NIC{
					Name: card.Name, Model: card.Vendor, MAC: card.MACAddress, IP: ip,
					SpeedGbps: int(card.SpeedMbps / 1024),
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

// hardwareByBMC is what the BMC tells of a machine before an agent ran on it.
func hardwareByBMC(system *bmc.System) metal3.HardwareDetails {
	return metal3.HardwareDetails{
		SystemVendor: metal3.HardwareSystemVendor{
			Manufacturer: system.Manufacturer, ProductName: system.Model, SerialNumber: system.SerialNumber,
		},
		Firmware:     metal3.Firmware{BIOS: metal3.BIOS{Version: system.BIOSVersion}},
		RAMMebibytes: int(system.MemoryGiB * 1024),
	}
}

// noDiskFits stands for the installation disk when no disk fits the hints: the host is refused
// then, rather than installed to a disk that was to be spared.
const noDiskFits = "/dev/not-found-by-hints"

// installationDisk chooses the disk that root device hints describe: a multipath device if there is
// one, else the first that fits. Without hints it is "".
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
		return noDiskFits
	}
	return chosen
}

const gigabyte = 1_000_000_000

// fits compares a disk with what a hint says of it: model and vendor as a part, the rest as a
// whole. The two extensions of the WWN are not among what an agent tells and are not looked at.
func fits(disk agentinstall.HostDisk, hints *metal3.RootDeviceHints) bool {
	same := func(hint, value string) bool { return hint == "" || hint == value }
	part := func(hint, value string) bool { return strings.Contains(value, hint) }
	return (same(hints.DeviceName, disk.Path) || hints.DeviceName == disk.ByPath) &&
		same(hints.HCTL, disk.HCTL) && same(hints.SerialNumber, disk.Serial) && same(hints.WWN, disk.WWN) &&
		part(hints.Model, disk.Model) && part(hints.Vendor, disk.Vendor) &&
		disk.SizeBytes/gigabyte >= int64(hints.MinSizeGigabytes) &&
		(hints.Rotational == nil || *hints.Rotational == strings.EqualFold(disk.DriveType, string(models.DriveTypeHDD)))
}
