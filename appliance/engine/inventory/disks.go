package inventory

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
)

const gigabyte = 1000 * 1000 * 1000

// reasonMark is the prefix of the reasons that this package adds to a disk. A new validation
// replaces these reasons and keeps the agent's.
const reasonMark = "Not usable for installation: "

// DiskID returns the id of a disk in the API and for the installer. It is the id that the agent
// chose (by-id, or else by-path). Old agents send none; the id is then /dev/NAME.
func DiskID(d *models.Disk) string {
	if d.ID != "" {
		return d.ID
	}
	return "/dev/" + d.Name
}

// DevicePath returns the device node of a disk. Some agents send no path; it is then /dev/NAME. It
// is "" for a disk without a name.
func DevicePath(d *models.Disk) string {
	switch {
	case strings.HasPrefix(d.Path, "/dev/"):
		return d.Path
	case d.Name != "":
		return "/dev/" + d.Name
	}
	return ""
}

// DiskByPath returns the disk with the given id, by-path link or /dev node. It returns nil if no
// disk has it.
func DiskByPath(disks []*models.Disk, path string) *models.Disk {
	if path == "" {
		return nil
	}
	for _, d := range disks {
		if d.ID == path || d.ByPath == path || "/dev/"+d.Name == path {
			return d
		}
	}
	return nil
}

// InstallationDiskPath returns the id of the host's installation disk, or "" if none is selected.
func (h *Host) InstallationDiskPath() string {
	if h.Record.InstallationDiskID != "" {
		return h.Record.InstallationDiskID
	}
	return h.Record.InstallationDiskPath
}

// BootDevice returns the path of the host's installation disk for the installer. The id of a disk
// is not always a path.
func (h *Host) BootDevice() string {
	if id := h.InstallationDiskPath(); strings.HasPrefix(id, "/dev/") {
		return id
	}
	return h.Record.InstallationDiskPath
}

// InstallationDisk returns the host's installation disk. It returns nil if none is selected, or the
// host no longer has the selected disk.
func (h *Host) InstallationDisk() *models.Disk {
	if h.Inventory == nil {
		return nil
	}
	return DiskByPath(h.Inventory.Disks, h.InstallationDiskPath())
}

// SkipFormatting returns the ids of the disks whose content must be kept.
func (h *Host) SkipFormatting() []string {
	if h.Record.SkipFormattingDisks == "" {
		return nil
	}
	return strings.Split(h.Record.SkipFormattingDisks, ",")
}

// KeepDisks returns a list of disks whose content must be kept, after the choices of a request. A
// choice can have any form of a disk that [DiskByPath] accepts; the list has the disks' ids. ok is
// false if the inventory lacks the disk of a choice, whose text is then unknown.
func KeepDisks(inv *models.Inventory, list string,
	choices []*models.DiskSkipFormattingParams) (kept, unknown string, ok bool) {
	var disks []*models.Disk
	if inv != nil {
		disks = inv.Disks
	}
	var ids []string
	for id := range strings.SplitSeq(list, ",") {
		if disk := DiskByPath(disks, id); disk != nil {
			id = DiskID(disk)
		}
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, choice := range choices {
		disk := DiskByPath(disks, conv.Value(choice.DiskID))
		if disk == nil {
			return list, conv.Value(choice.DiskID), false
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { return id == DiskID(disk) })
		if conv.Value(choice.SkipFormatting) {
			ids = append(ids, DiskID(disk))
		}
	}
	return strings.Join(ids, ","), "", true
}

// DisksToFormat returns the ids of the disks whose first sectors the installer wipes before it
// writes the image. These are all bootable internal disks, from which the firmware could otherwise
// boot an old system.
func DisksToFormat(inv *models.Inventory) []string {
	var ids []string
	for _, d := range inv.Disks {
		removable := d.Removable || strings.Contains(d.ByPath, "mmcblk")
		switch d.DriveType {
		case models.DriveTypeFC, models.DriveTypeISCSI, models.DriveTypeLVM, models.DriveTypeMultipath:
			continue
		}
		if d.Bootable && !removable && !d.IsInstallationMedia {
			ids = append(ids, DiskID(d))
		}
	}
	return ids
}

// DiskRules holds the requirements for installation disks.
type DiskRules struct {
	MinGB            int64  // size in gigabytes (10^9 bytes)
	OpenshiftVersion string // "" allows the types that all versions support
}

// ValidateDisks sets installation_eligibility of every disk. It keeps the agent's reasons and
// replaces those of an earlier validation.
func ValidateDisks(inv *models.Inventory, rules DiskRules) {
	for _, d := range inv.Disks {
		reasons := slices.DeleteFunc(slices.Clone(d.InstallationEligibility.NotEligibleReasons), func(r string) bool {
			return strings.HasPrefix(r, reasonMark)
		})
		for _, r := range diskFaults(d, inv, rules) {
			reasons = append(reasons, reasonMark+r)
		}
		d.InstallationEligibility.NotEligibleReasons = reasons
		d.InstallationEligibility.Eligible = len(reasons) == 0
	}
}

// EligibleDisks returns the disks to which a host can be installed, the best first. Bootable disks
// come first, then SATA and SAS before NVMe, and HDD before SSD, because fast disks are left for
// workloads. The last criteria are the smallest size and the physical order. ValidateDisks must
// have run.
func EligibleDisks(inv *models.Inventory) []*models.Disk {
	var disks []*models.Disk
	for _, d := range inv.Disks {
		if d.InstallationEligibility.Eligible {
			disks = append(disks, d)
		}
	}
	slices.SortStableFunc(disks, func(a, b *models.Disk) int {
		return cmp.Or(
			first(a.Bootable, b.Bootable),
			first(!isNVMe(a), !isNVMe(b)),
			cmp.Compare(a.DriveType, b.DriveType),
			cmp.Compare(a.SizeBytes, b.SizeBytes),
			cmp.Compare(a.Hctl, b.Hctl),
		)
	})
	return disks
}

// ChooseInstallationDisk returns the selected disk if it is eligible. Otherwise it returns the best
// eligible disk, or nil if no disk is eligible.
func ChooseInstallationDisk(inv *models.Inventory, chosen string) *models.Disk {
	disks := EligibleDisks(inv)
	if d := DiskByPath(disks, chosen); d != nil {
		return d
	}
	if len(disks) == 0 {
		return nil
	}
	return disks[0]
}

func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func isNVMe(d *models.Disk) bool { return strings.HasPrefix(d.Name, "nvme") }

func diskFaults(d *models.Disk, inv *models.Inventory, rules DiskRules) []string {
	var faults []string
	if need := rules.MinGB * gigabyte; d.SizeBytes < need {
		faults = append(faults, fmt.Sprintf("the disk has %s, but at least %s are required", Size(d.SizeBytes),
			Size(need)))
	}
	if DevicePath(d) == "" && !strings.HasPrefix(d.ID, "/dev/") {
		faults = append(faults, "the agent reported neither its name nor a path below /dev")
	}
	arch := ""
	if inv.CPU != nil {
		arch = inv.CPU.Architecture
	}
	if allowed := driveTypes(arch, rules.OpenshiftVersion); !slices.Contains(allowed, d.DriveType) {
		faults = append(faults, fmt.Sprintf("the drive type %s is not supported, use one of %s",
			orUnknown(string(d.DriveType)),
			join(allowed)))
	}
	switch d.DriveType {
	case models.DriveTypeFC, models.DriveTypeISCSI:
		if holder := multipathHolder(d, inv); holder != "" {
			faults = append(faults, fmt.Sprintf("the disk is a path of the multipath device %s, use that device",
				holder))
		}
	case models.DriveTypeMultipath:
		faults = append(faults, multipathFaults(d, inv, rules)...)
	}
	if d.DriveType == models.DriveTypeISCSI {
		if fault := iscsiFault(d, inv); fault != "" {
			faults = append(faults, fault)
		}
	}
	return faults
}

// driveTypes returns the types of drives that can be installation disks. OpenShift 4.14 added RAID,
// and 4.15 iSCSI. Fibre Channel and mainframe disks depend on the CPU.
func driveTypes(arch, version string) []models.DriveType {
	types := []models.DriveType{models.DriveTypeHDD, models.DriveTypeSSD, models.DriveTypeMultipath}
	if AtLeast(version, 4, 14) {
		types = append(types, models.DriveTypeRAID)
	}
	if AtLeast(version, 4, 15) {
		types = append(types, models.DriveTypeISCSI)
	}
	switch arch {
	case models.ClusterCPUArchitectureX8664:
		types = append(types, models.DriveTypeFC)
	case models.ClusterCPUArchitectureS390x:
		types = append(types, models.DriveTypeFC, models.DriveTypeECKDESE, models.DriveTypeECKD, models.DriveTypeFBA)
	}
	return types
}

// multipathHolder returns the name of the multipath device that has a disk as a path, or "".
func multipathHolder(d *models.Disk, inv *models.Inventory) string {
	if d.Holders == "" {
		return ""
	}
	holders := strings.Split(d.Holders, ",")
	for _, other := range inv.Disks {
		if other.DriveType == models.DriveTypeMultipath && slices.Contains(holders, other.Name) {
			return other.Name
		}
	}
	return ""
}

// PathsOf returns the disks that are the paths of a multipath device.
func PathsOf(device *models.Disk, inv *models.Inventory) []*models.Disk {
	var paths []*models.Disk
	for _, d := range inv.Disks {
		if d.Holders != "" && slices.Contains(strings.Split(d.Holders, ","), device.Name) {
			paths = append(paths, d)
		}
	}
	return paths
}

func multipathFaults(d *models.Disk, inv *models.Inventory, rules DiskRules) []string {
	paths := PathsOf(d, inv)
	count := map[models.DriveType]int{}
	for _, p := range paths {
		count[p.DriveType]++
	}
	fc, iscsi := count[models.DriveTypeFC], count[models.DriveTypeISCSI]
	if fc == 0 && iscsi == 0 {
		return []string{"the disk has no Fibre Channel or iSCSI path"}
	}
	var faults []string
	if fc != len(paths) && iscsi != len(paths) {
		faults = append(faults, "the paths of the disk have different types, all must be Fibre Channel or all iSCSI")
	}
	for _, p := range paths {
		if p.DriveType != models.DriveTypeISCSI {
			continue
		}
		if iscsiFault(p, inv) != "" || !AtLeast(rules.OpenshiftVersion, 4, 15) {
			faults = append(faults, fmt.Sprintf("the iSCSI path %s cannot be used", p.Name))
			break
		}
	}
	return faults
}

// iscsiFault returns the reason why the host cannot boot from an iSCSI disk, or "". The interface
// of the default route must not connect the disk: the installation configures that interface again,
// which would disconnect the root disk.
func iscsiFault(d *models.Disk, inv *models.Inventory) string {
	if d.Iscsi == nil || d.Iscsi.HostIPAddress == "" {
		return "the address of the host for iSCSI is unknown"
	}
	ip, err := netip.ParseAddr(d.Iscsi.HostIPAddress)
	if err != nil {
		return fmt.Sprintf("the host's iSCSI address %q is not an IP address", d.Iscsi.HostIPAddress)
	}
	route := defaultRoute(inv, ip.Is6())
	if route == nil {
		return ""
	}
	i := slices.IndexFunc(inv.Interfaces, func(n *models.Interface) bool { return n.Name == route.Interface })
	if i < 0 {
		return fmt.Sprintf("the interface %q of the default route is not in the inventory", route.Interface)
	}
	for _, cidr := range Addresses(inv.Interfaces[i]) {
		if cidr.Addr() == ip {
			return fmt.Sprintf("the iSCSI address %s is that of the default route, use a separate network for "+
				"storage", ip)
		}
	}
	return ""
}

func join(types []models.DriveType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// Size formats a number of bytes in decimal units, as on disk labels: "120 GB", "1.5 TB". It rounds
// down, so that a disk that is slightly too small does not seem large enough.
func Size(bytes int64) string {
	return scaled(bytes, 1000, []string{"B", "KB", "MB", "GB", "TB", "PB"})
}

// Memory formats a number of bytes in binary units: "16 GiB". It rounds down.
func Memory(bytes int64) string {
	return scaled(bytes, 1024, []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"})
}

func scaled(bytes, base int64, units []string) string {
	unit, div := 0, int64(1)
	for bytes/div >= base && unit < len(units)-1 {
		div *= base
		unit++
	}
	hundredths := (bytes % div * 100) / div
	s := strconv.FormatInt(bytes/div, 10)
	if hundredths != 0 {
		s += strings.TrimRight(fmt.Sprintf(".%02d", hundredths), "0")
	}
	return s + " " + units[unit]
}

// AtLeast reports whether an OpenShift version ("4.17.3", "4.18.0-rc.1") has at least the given
// major and minor number. It is false for an invalid version.
func AtLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	x, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	y, err := strconv.Atoi(strings.SplitN(parts[1], "-", 2)[0])
	if err != nil {
		return false
	}
	return x > major || x == major && y >= minor
}
