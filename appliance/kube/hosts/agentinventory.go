package hosts

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"

	"landfall/appliance/kube/objects/agentinstall"
)

// inventoryOf converts a host's inventory to the form of an Agent's status. It returns nil if the
// host has not reported an inventory.
func inventoryOf(host *models.Host) (*agentinstall.HostInventory, error) {
	if host.Inventory == "" {
		return nil, nil
	}
	reported, _, err := inventory.ParseInventory(host.Inventory)
	if err != nil {
		return nil, fmt.Errorf("read the inventory of host %s: %w", host.ID, err)
	}
	inv := &agentinstall.HostInventory{
		Hostname: reported.Hostname, BMCAddress: reported.BmcAddress, BMCV6Address: reported.BmcV6address,
		Memory: agentinstall.HostMemory{PhysicalBytes: reported.Memory.PhysicalBytes,
			UsableBytes: reported.Memory.UsableBytes},
		CPU: agentinstall.HostCPU{
			Count: reported.CPU.Count, ClockMegahertz: int64(reported.CPU.Frequency), Flags: reported.CPU.Flags,
			ModelName: reported.CPU.ModelName, Architecture: reported.CPU.Architecture,
		},
	}
	if boot := reported.Boot; boot != nil {
		inv.Boot = agentinstall.HostBoot{CurrentBootMode: boot.CurrentBootMode, PXEInterface: boot.PxeInterface,
			DeviceType: boot.DeviceType}
	}
	if v := reported.SystemVendor; v != nil {
		inv.SystemVendor = agentinstall.HostSystemVendor{SerialNumber: v.SerialNumber, ProductName: v.ProductName,
			Manufacturer: v.Manufacturer, Virtual: v.Virtual}
	}
	for _, nic := range reported.Interfaces {
		inv.Interfaces = append(inv.Interfaces, agentinstall.HostInterface{
			IPV4Addresses: listed(nic.IPV4Addresses), IPV6Addresses: listed(nic.IPV6Addresses),
			Flags: listed(nic.Flags),
			Name:  nic.Name, MACAddress: nic.MacAddress, HasCarrier: nic.HasCarrier, MTU: nic.Mtu,
			SpeedMbps: nic.SpeedMbps,
			Vendor:    nic.Vendor, Product: nic.Product, BIOSDevName: nic.Biosdevname, ClientID: nic.ClientID,
		})
	}
	for _, disk := range reported.Disks {
		inv.Disks = append(inv.Disks, diskOf(disk))
	}
	for _, gpu := range reported.Gpus {
		inv.GPUs = append(inv.GPUs, agentinstall.HostGPU{Address: gpu.Address, DeviceID: gpu.DeviceID, Name: gpu.Name,
			Vendor: gpu.Vendor, VendorID: gpu.VendorID})
	}
	return inv, nil
}

func diskOf(disk *models.Disk) agentinstall.HostDisk {
	shown := agentinstall.HostDisk{
		ID: inventory.DiskID(disk), DriveType: string(disk.DriveType), Vendor: disk.Vendor, Name: disk.Name,
		Path: disk.Path, HCTL: disk.Hctl,
		ByPath: disk.ByPath, ByID: disk.ByID, Model: disk.Model, WWN: disk.Wwn, Serial: disk.Serial,
		SizeBytes: disk.SizeBytes,
		Bootable:  disk.Bootable, SMART: disk.Smart,
		InstallationEligibility: agentinstall.DiskEligibility{
			Eligible:           disk.InstallationEligibility.Eligible,
			NotEligibleReasons: listed(disk.InstallationEligibility.NotEligibleReasons),
		},
	}
	if disk.IoPerf != nil {
		shown.IOPerf.SyncDurationMilliseconds = disk.IoPerf.SyncDuration
	}
	return shown
}

// listed converts a nil list to an empty list, which is encoded as [] instead of null.
func listed(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// Labels and annotations of an Agent that describe the hardware of its host.
const (
	inventoryPrefix        = "inventory.agent-install.openshift.io/"
	labelNonrotationalDisk = inventoryPrefix + "storage-hasnonrotationaldisk"
	labelCPUArchitecture   = inventoryPrefix + "cpu-architecture"
	labelCPUVirtEnabled    = inventoryPrefix + "cpu-virtenabled"
	labelManufacturer      = inventoryPrefix + "host-manufacturer"
	labelProductName       = inventoryPrefix + "host-productname"
	labelIsVirtual         = inventoryPrefix + "host-isvirtual"
	annotationInventory    = inventoryPrefix + "version"
	inventoryVersion       = "0.1"
)

// inventoryLabels returns the labels of an Agent that describe its hardware. The values may be
// invalid as label values.
func inventoryLabels(inv *agentinstall.HostInventory) map[string]string {
	solid := slices.ContainsFunc(inv.Disks,
		func(d agentinstall.HostDisk) bool { return d.DriveType == string(models.DriveTypeSSD) })
	virtualizes := slices.Contains(inv.CPU.Flags, "vmx") || slices.Contains(inv.CPU.Flags, "svm")
	return map[string]string{
		labelNonrotationalDisk: strconv.FormatBool(solid),
		labelCPUArchitecture:   inv.CPU.Architecture,
		labelCPUVirtEnabled:    strconv.FormatBool(virtualizes),
		labelManufacturer:      inv.SystemVendor.Manufacturer,
		labelProductName:       inv.SystemVendor.ProductName,
		labelIsVirtual:         strconv.FormatBool(inv.SystemVendor.Virtual),
	}
}

// unfitInLabel matches the characters that Kubernetes does not allow in label values.
var unfitInLabel = regexp.MustCompile(`[^-A-Za-z0-9_.]+`)

// fitLabel matches valid label values.
var fitLabel = regexp.MustCompile(`^(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?$`)

// labelValue removes the invalid characters from a text. ok is false if the result is still not a
// valid label value.
func labelValue(text string) (value string, ok bool) {
	value = unfitInLabel.ReplaceAllString(text, "")
	return value, fitLabel.MatchString(value)
}
