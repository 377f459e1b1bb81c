package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
)

// inventory contains the description of the machine and its identity.
type inventory struct {
	*models.Inventory
	id strfmt.UUID
}

const (
	sectorBytes     = 512 // unit of /sys/block, independent of the disk's sector size
	addressFamilyV4 = 2   // AF_INET, the address family in routes
)

// readInventory reads the kernel's description of the machine below root.
func readInventory(root fs.FS) (*inventory, error) {
	machine := &kernel{root: root}
	inv := &inventory{
		id: strfmt.UUID(strings.ToLower(machine.line("sys/class/dmi/id/product_uuid"))),
		Inventory: &models.Inventory{
			Boot: machine.boot(), CPU: machine.cpu(), Memory: machine.memory(), Disks: machine.disks(),
			Gpus:       []*models.Gpu{},
			BmcAddress: "0.0.0.0", BmcV6address: "::/0", TpmVersion: models.InventoryTpmVersionNone,
			SystemVendor: &models.SystemVendor{
				Manufacturer: machine.line("sys/class/dmi/id/sys_vendor"),
				ProductName:  machine.line("sys/class/dmi/id/product_name"),
				SerialNumber: machine.line("sys/class/dmi/id/product_serial"), Virtual: true,
			},
			Routes: machine.routes(),
		},
	}
	hostname, nameErr := os.Hostname()
	interfaces, cardErr := machine.interfaces()
	inv.Hostname, inv.Interfaces = hostname, interfaces
	if err := errors.Join(machine.err, nameErr, cardErr); err != nil {
		return nil, fmt.Errorf("read the inventory: %w", err)
	}
	if !strfmt.IsUUID(inv.id.String()) {
		return nil, fmt.Errorf("read the inventory: the firmware reports %q as the machine's UUID", inv.id)
	}
	return inv, nil
}

// kernel reads /proc and /sys. err holds the first error.
type kernel struct {
	root fs.FS
	err  error
}

// text returns the content of a required file.
func (k *kernel) text(name string) string {
	content, err := fs.ReadFile(k.root, name)
	k.err = errors.Join(k.err, err)
	return string(content)
}

func (k *kernel) line(name string) string { return strings.TrimSpace(k.text(name)) }

// number returns the number in a required file.
func (k *kernel) number(name string) int64 {
	n, err := strconv.ParseInt(k.line(name), 10, 64)
	k.err = errors.Join(k.err, err)
	return n
}

// maybe returns the only line of an optional file, or "".
func (k *kernel) maybe(name string) string {
	content, err := fs.ReadFile(k.root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// fields returns the lines of the form "name : value" up to the first empty line.
func (k *kernel) fields(name string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(k.text(name)) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			break
		}
		fields[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return fields
}

func (k *kernel) boot() *models.Boot {
	boot := &models.Boot{CurrentBootMode: "bios", SecureBootState: models.SecureBootStateNotSupported,
		CommandLine: k.line("proc/cmdline")}
	if _, err := fs.Stat(k.root, "sys/firmware/efi"); err == nil {
		boot.CurrentBootMode, boot.SecureBootState = "uefi", models.SecureBootStateDisabled
	}
	return boot
}

func (k *kernel) cpu() *models.CPU {
	fields := k.fields("proc/cpuinfo")
	mhz, err := strconv.ParseFloat(fields["cpu MHz"], 64)
	k.err = errors.Join(k.err, err)
	return &models.CPU{Architecture: "x86_64", Count: int64(runtime.NumCPU()), Flags: strings.Fields(fields["flags"]),
		Frequency: mhz, ModelName: fields["model name"]}
}

func (k *kernel) memory() *models.Memory {
	kib, err := strconv.ParseInt(strings.TrimSuffix(k.fields("proc/meminfo")["MemTotal"], " kB"), 10, 64)
	k.err = errors.Join(k.err, err)
	return &models.Memory{PhysicalBytes: kib << 10, PhysicalBytesMethod: models.MemoryMethodMeminfo,
		UsableBytes: kib << 10}
}

func (k *kernel) disks() []*models.Disk {
	var disks []*models.Disk
	entries, err := fs.ReadDir(k.root, "sys/block")
	k.err = errors.Join(k.err, err)
	for _, entry := range entries {
		name, dir := entry.Name(), path.Join("sys/block", entry.Name())
		d := &models.Disk{
			Name: name, Path: "/dev/" + name, ID: "/dev/" + name, SizeBytes: k.number(dir+"/size") * sectorBytes,
			Removable: k.number(dir+"/removable") != 0,
			Serial:    k.maybe(dir + "/serial"), Model: k.maybe(dir + "/device/model"),
			Vendor: k.maybe(dir + "/device/vendor"), DriveType: models.DriveTypeSSD, HasUUID: true,
			InstallationEligibility: models.DiskInstallationEligibility{Eligible: true, NotEligibleReasons: []string{}},
		}
		switch {
		case strings.HasPrefix(name, "sr"):
			d.DriveType, d.IsInstallationMedia = models.DriveTypeODD, true
		case !strings.HasPrefix(name, "vd"):
			continue // the kernel's own device in memory
		}
		if d.Removable {
			d.InstallationEligibility = models.DiskInstallationEligibility{NotEligibleReasons: []string{
				"Disk is removable"}}
		}
		disks = append(disks, d)
	}
	return disks
}

func (k *kernel) interfaces() ([]*models.Interface, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var interfaces []*models.Interface
	for _, link := range links {
		if link.Flags&net.FlagLoopback != 0 {
			continue
		}
		device := path.Join("sys/class/net", link.Name)
		described := &models.Interface{
			Name: link.Name, MacAddress: link.HardwareAddr.String(), Mtu: int64(link.MTU), Type: "physical",
			HasCarrier: k.maybe(device+"/carrier") == "1",
			Flags:      strings.Split(link.Flags.String(), "|"), IPV4Addresses: []string{}, IPV6Addresses: []string{},
			SpeedMbps: -1,
			Vendor:    k.maybe(device + "/device/vendor"), Product: k.maybe(device + "/device/device"),
		}
		addresses, err := link.Addrs()
		if err != nil {
			return nil, err
		}
		for _, address := range addresses {
			at, err := netip.ParsePrefix(address.String())
			switch {
			case err != nil:
				return nil, err
			case at.Addr().Is4():
				described.IPV4Addresses = append(described.IPV4Addresses, at.String())
			case !at.Addr().IsLinkLocalUnicast():
				described.IPV6Addresses = append(described.IPV6Addresses, at.String())
			}
		}
		interfaces = append(interfaces, described)
	}
	return interfaces, nil
}

// routes parses the kernel's routing table. Its addresses are hexadecimal numbers in the machine's
// byte order.
func (k *kernel) routes() []*models.Route {
	var routes []*models.Route
	for line := range strings.Lines(k.text("proc/net/route")) {
		columns := strings.Fields(line) // Iface Destination Gateway Flags RefCnt Use Metric …
		if len(columns) < 7 || columns[0] == "Iface" {
			continue
		}
		metric, err := strconv.ParseInt(columns[6], 10, 32)
		k.err = errors.Join(k.err, err)
		routes = append(routes, &models.Route{
			Interface: columns[0], Destination: k.address(columns[1]), Gateway: k.address(columns[2]),
			Metric: int32(metric), Family: addressFamilyV4,
		})
	}
	return routes
}

func (k *kernel) address(number string) string {
	raw, err := hex.DecodeString(number)
	if err != nil || len(raw) != 4 {
		k.err = errors.Join(k.err, fmt.Errorf("%q is not an address of the routing table", number))
		return ""
	}
	return netip.AddrFrom4([4]byte(binary.LittleEndian.AppendUint32(nil, binary.BigEndian.Uint32(raw)))).String()
}
