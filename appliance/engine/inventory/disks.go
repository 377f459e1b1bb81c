package inventory

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/openshift/assisted-service/models"
)

const gigabyte = 1000 * 1000 * 1000

// reasonMark begins every reason that this package adds to a disk, so that judging a disk again
// replaces the old verdict and keeps what the agent itself had against the disk.
const reasonMark = "Not usable for installation: "

// DiskID is the name that the API and the installer use for a disk: the id the agent chose (by-id,
// else by-path), or /dev/NAME where an old agent sent none.
func DiskID(d *models.Disk) string {
	if d.ID != "" {
		return d.ID
	}
	return "/dev/" + d.Name
}

// DiskByPath finds the disk that an installation disk id means: a disk's id, its by-path link or
// its /dev node. It returns nil when there is none.
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

// InstallationDiskPath is the id of the disk the host will be installed to, "" when none was
// chosen.
func (h *Host) InstallationDiskPath() string {
	if h.Record.InstallationDiskID != "" {
		return h.Record.InstallationDiskID
	}
	return h.Record.InstallationDiskPath
}

// InstallationDisk is the disk the host will be installed to, nil when none was chosen or it is no
// longer there.
func (h *Host) InstallationDisk() *models.Disk {
	if h.Inventory == nil {
		return nil
	}
	return DiskByPath(h.Inventory.Disks, h.InstallationDiskPath())
}

// SkipFormatting lists the ids of the disks that must keep what is on them.
func (h *Host) SkipFormatting() []string {
	if h.Record.SkipFormattingDisks == "" {
		return nil
	}
	return strings.Split(h.Record.SkipFormattingDisks, ",")
}

// DisksToFormat lists the ids of the disks whose first sectors the installer wipes before it writes
// the image: every bootable disk of the machine itself, so that the firmware cannot boot an old
// system from it.
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

// DiskRules are the limits a disk is judged by.
type DiskRules struct {
	MinGB            int64  // size in gigabytes (10^9 bytes)
	OpenshiftVersion string // "" allows what every version allows
}

// JudgeDisks fills installation_eligibility of every disk: what the agent had against it stays, the
// findings of an earlier judgement are replaced.
func JudgeDisks(inv *models.Inventory, rules DiskRules) {
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

// EligibleDisks lists the disks a host can be installed to, the best first: bootable before others,
// SATA and SAS before NVMe (fast disks are left for workloads), HDD before SSD for the same reason,
// then the smallest, then the physical order. JudgeDisks must have run.
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

// ChooseInstallationDisk keeps the chosen disk while the host has it and it is eligible, and else
// takes the best eligible one. It returns nil when no disk is eligible.
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
		faults = append(faults, fmt.Sprintf("it holds %s and at least %s are needed", Size(d.SizeBytes), Size(need)))
	}
	arch := ""
	if inv.CPU != nil {
		arch = inv.CPU.Architecture
	}
	if allowed := driveTypes(arch, rules.OpenshiftVersion); !slices.Contains(allowed, d.DriveType) {
		faults = append(faults, fmt.Sprintf("it is a drive of type %s, use one of %s", orUnknown(string(d.DriveType)),
			join(allowed)))
	}
	switch d.DriveType {
	case models.DriveTypeFC, models.DriveTypeISCSI:
		if holder := multipathHolder(d, inv); holder != "" {
			faults = append(faults, fmt.Sprintf("it is one path of the multipath device %s, use that device", holder))
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

// driveTypes are the kinds of drives an installation may go to. RAID came with OpenShift 4.14,
// iSCSI with 4.15; Fibre Channel and mainframe disks depend on the CPU.
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

// multipathHolder is the name of the multipath device that a disk is a path of, "" when it is none.
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

// PathsOf lists the disks that a multipath device is made of.
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
		return []string{"none of its paths is Fibre Channel or iSCSI"}
	}
	var faults []string
	if fc != len(paths) && iscsi != len(paths) {
		faults = append(faults, "its paths are of different types, they must all be Fibre Channel or all be iSCSI")
	}
	for _, p := range paths {
		if p.DriveType != models.DriveTypeISCSI {
			continue
		}
		if iscsiFault(p, inv) != "" || !AtLeast(rules.OpenshiftVersion, 4, 15) {
			faults = append(faults, fmt.Sprintf("its iSCSI path %s cannot be installed to", p.Name))
			break
		}
	}
	return faults
}

// iscsiFault tells why an iSCSI disk cannot be booted from. The disk must not be reached over the
// interface of the default route: that interface is set up anew during the installation, and the
// root disk with it.
func iscsiFault(d *models.Disk, inv *models.Inventory) string {
	if d.Iscsi == nil || d.Iscsi.HostIPAddress == "" {
		return "the address that the host uses for iSCSI is not known"
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
			return fmt.Sprintf("its iSCSI address %s is the one of the default route, use a separate network for "+
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

// Size renders a number of bytes for people in decimal units, as disks are sold: "120 GB", "1.5
// TB". A fraction is rounded down, so that a disk that is a little too small never looks large
// enough.
func Size(bytes int64) string {
	return scaled(bytes, 1000, []string{"B", "KB", "MB", "GB", "TB", "PB"})
}

// Memory renders a number of bytes for people in binary units, as memory is sold: "16 GiB". A
// fraction is rounded down.
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

// AtLeast compares the major and minor number of an OpenShift version ("4.17.3", "4.18.0-rc.1"). It
// is false for a version that cannot be read.
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
