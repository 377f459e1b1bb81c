package simulate

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strings"

	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"
)

// Hardware describes the hardware of simulated hosts. Zero fields have the values of
// DefaultHardware.
type Hardware struct {
	// CPUs is the number of cores.
	CPUs int
	// MemoryBytes is the physical memory.
	MemoryBytes int64
	// Disks is the number of disks, and DiskBytes the size of each.
	Disks     int
	DiskBytes int64
	// Architecture is x86_64 or aarch64, in the kernel's spelling.
	Architecture string
	// Manufacturer is the manufacturer in the firmware. Platforms identify their virtual machines
	// by it.
	Manufacturer string
}

// Planned contains the planned properties of a host. Zero fields are generated.
type Planned struct {
	Hostname string
	MAC      string       // of the first NIC
	Address  netip.Prefix // in the machine network, IPv4
	Hardware Hardware
}

// planned returns the planned properties of the host with the given number, or the zero value.
func (c *HostGroup) planned(number int) Planned {
	if i := number - max(c.First, 1); i >= 0 && i < len(c.Planned) {
		return c.Planned[i]
	}
	return Planned{}
}

const (
	gib = int64(1) << 30
	// gb is the unit of disk manufacturers and of the disk requirements.
	gb = int64(1_000_000_000)

	smallDiskBytes  = 20 * gb
	lowMemoryBytes  = 4 * gib
	slowCPUMHz      = 800
	ordinaryCPUMHz  = 2900
	slowSyncMillis  = 47
	ordinarySync    = 2
	firstAddress    = 10 // hosts use addresses from the tenth; the first address is the gateway's
	ordinaryMTU     = 1500
	ordinarySpeed   = 25_000
	addressFamilyV4 = 2 // AF_INET, the address family in routes
)

// DefaultHardware returns hardware that meets the requirements of every role.
func DefaultHardware() Hardware {
	return Hardware{CPUs: 16, MemoryBytes: 64 * gib, Disks: 2, DiskBytes: 480 * gb, Architecture: "x86_64",
		Manufacturer: "Landfall"}
}

func (h Hardware) withDefaults() Hardware { return h.or(DefaultHardware()) }

// or replaces zero fields with defaults.
func (h Hardware) or(defaults Hardware) Hardware {
	if h.CPUs == 0 {
		h.CPUs = defaults.CPUs
	}
	if h.MemoryBytes == 0 {
		h.MemoryBytes = defaults.MemoryBytes
	}
	if h.Disks == 0 {
		h.Disks = defaults.Disks
	}
	if h.DiskBytes == 0 {
		h.DiskBytes = defaults.DiskBytes
	}
	if h.Architecture == "" {
		h.Architecture = defaults.Architecture
	}
	if h.Manufacturer == "" {
		h.Manufacturer = defaults.Manufacturer
	}
	return h
}

// machine is the hardware of one host. It depends only on the seed, the infra-env and the number.
// The appliance therefore recognizes a host that boots again, even in another process.
type machine struct {
	id       string
	number   int
	hostname string
	serial   string
	address  netip.Prefix
	gateway  netip.Addr
	nics     []nic
	disks    []disk
	hardware Hardware
	cpuMHz   float64
	// described is the inventory of an existing machine, or nil for a generated machine.
	described *models.Inventory
}

type nic struct {
	name, mac string
	linked    bool
}

type disk struct {
	name, serial, wwn, byID, byPath string
	size                            int64
}

// newMachine generates the host with the given number (from 1) of an infra-env.
func newMachine(c *HostGroup, number int) (machine, error) {
	address, gateway, err := hostAddress(c.Network, number)
	if err != nil {
		return machine{}, err
	}
	planned := c.planned(number)
	hardware := planned.Hardware.or(c.Hardware).withDefaults()
	m := machine{number: number, hostname: fmt.Sprintf("host-%d", number), address: address, gateway: gateway,
		cpuMHz: ordinaryCPUMHz}
	identity := fmt.Sprintf("%d/%s/%d", c.Seed, c.InfraEnvID, number)
	m.id = uuid.NewSHA1(uuid.NameSpaceOID, []byte("landfall simulated host "+identity)).String()
	m.serial = fmt.Sprintf("SIM%09X", fingerprint(identity, "serial")&0xfffffffff)

	if _, small := c.Faults.find(SmallDisk, number); small {
		hardware.Disks, hardware.DiskBytes = 1, smallDiskBytes
	}
	if _, low := c.Faults.find(LowMemory, number); low {
		hardware.MemoryBytes = lowMemoryBytes
	}
	if _, slow := c.Faults.find(SlowCPU, number); slow {
		hardware.CPUs, m.cpuMHz = 1, slowCPUMHz
	}
	if _, duplicate := c.Faults.find(DuplicateHostname, number); duplicate {
		m.hostname = "host-1"
	}
	if planned.Hostname != "" {
		m.hostname = planned.Hostname
	}
	if planned.Address.IsValid() {
		m.address = planned.Address
	}
	m.hardware = hardware
	for i := range 2 {
		m.nics = append(m.nics, newNIC(identity, i))
	}
	if planned.MAC != "" {
		m.nics[0].mac = planned.MAC
	}
	for i := range hardware.Disks {
		m.disks = append(m.disks, newDisk(identity, i, hardware.DiskBytes))
	}
	return m, nil
}

// fingerprint returns a pseudo-random number that depends only on the words.
func fingerprint(words ...string) uint64 {
	sum := fnv.New64a()
	for _, word := range words {
		sum.Write([]byte(word + "\x00"))
	}
	return sum.Sum64()
}

func newNIC(identity string, index int) nic {
	tail := binary.BigEndian.AppendUint64(nil, fingerprint(identity, "nic", fmt.Sprint(index)))
	mac := fmt.Sprintf("52:54:%02x:%02x:%02x:%02x", tail[0], tail[1], tail[2], tail[3])
	return nic{name: fmt.Sprintf("eno%d", index+1), mac: mac, linked: index == 0}
}

func newDisk(identity string, index int, size int64) disk {
	wwn := fmt.Sprintf("eui.%016x", fingerprint(identity, "disk", fmt.Sprint(index)))
	return disk{
		name:   fmt.Sprintf("nvme%dn1", index),
		serial: strings.ToUpper(wwn[len(wwn)-10:]),
		wwn:    wwn,
		byID:   "/dev/disk/by-id/nvme-" + wwn,
		byPath: fmt.Sprintf("/dev/disk/by-path/pci-0000:%02x:00.0-nvme-1", 0x41+index),
		size:   size,
	}
}

// hostAddress returns the address of the host with the given number (from 1) and the network's
// gateway.
func hostAddress(network netip.Prefix, number int) (netip.Prefix, netip.Addr, error) {
	room := uint64(1)<<(network.Addr().BitLen()-network.Bits()) - 1
	offset := uint64(firstAddress + number - 1)
	if offset >= room {
		return netip.Prefix{}, netip.Addr{},
			fmt.Errorf("network %s is too small for simulated host %d, which needs the network's address %d; use "+
				"a larger network",
				network, number, offset)
	}
	base := binary.BigEndian.Uint32(network.Masked().Addr().AsSlice())
	address := func(offset uint32) netip.Addr {
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, base+offset)))
	}
	return netip.PrefixFrom(address(uint32(offset)), network.Bits()), address(1), nil
}

// inventory returns the result of the agent's inventory step. It does not change between calls,
// because an agent does not send an unchanged inventory again.
func (m machine) inventory() *models.Inventory {
	if m.described != nil {
		return m.described
	}
	return &models.Inventory{
		BmcAddress:   "0.0.0.0",
		BmcV6address: "::/0",
		Boot: &models.Boot{CurrentBootMode: "uefi", SecureBootState: models.SecureBootStateDisabled,
			CommandLine: "ignition.firstboot ignition.platform.id=metal"},
		CPU:        m.cpu(),
		Disks:      m.inventoryDisks(),
		Gpus:       []*models.Gpu{},
		Hostname:   m.hostname,
		Interfaces: m.inventoryInterfaces(),
		Memory: &models.Memory{
			PhysicalBytes: m.hardware.MemoryBytes, PhysicalBytesMethod: models.MemoryMethodDmidecode,
			UsableBytes: m.hardware.MemoryBytes - m.hardware.MemoryBytes/64,
		},
		Routes: m.routes(),
		SystemVendor: &models.SystemVendor{Manufacturer: m.hardware.Manufacturer, ProductName: "Simulated Host",
			SerialNumber: m.serial},
		TpmVersion: models.InventoryTpmVersionNr20,
	}
}

func (m machine) cpu() *models.CPU {
	flags := "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ht " +
		"syscall nx pdpe1gb rdtscp lm " +
		"pni pclmulqdq vmx ssse3 fma cx16 sse4_1 sse4_2 x2apic movbe popcnt aes xsave avx f16c rdrand lahf_lm abm " +
		"avx2 bmi1 bmi2 erms invpcid rdseed adx smap sha_ni"
	model := "Simulated Processor (x86-64-v3)"
	if m.hardware.Architecture != "x86_64" {
		flags = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop"
		model = "Simulated Processor (armv8)"
	}
	return &models.CPU{
		Architecture: m.hardware.Architecture, Count: int64(m.hardware.CPUs), Flags: strings.Fields(flags),
		Frequency: m.cpuMHz, ModelName: model,
	}
}

func (m machine) inventoryDisks() []*models.Disk {
	disks := []*models.Disk{{
		Bootable: true, ByPath: "/dev/disk/by-path/pci-0000:00:14.0-usb-0:1:1.0-scsi-0:0:0:0",
		DriveType: models.DriveTypeODD, Hctl: "0:0:0:0",
		ID:                      "/dev/disk/by-path/pci-0000:00:14.0-usb-0:1:1.0-scsi-0:0:0:0",
		InstallationEligibility: models.DiskInstallationEligibility{NotEligibleReasons: []string{"Disk is removable"}},
		IsInstallationMedia:     true, Model: "Virtual_CDROM", Name: "sr0", Path: "/dev/sr0", Removable: true,
		SizeBytes: 1_100_000_000, Vendor: "Landfall",
	}}
	for _, d := range m.disks {
		disks = append(disks, &models.Disk{
			ByID: d.byID, ByPath: d.byPath, DriveType: models.DriveTypeSSD, HasUUID: true, ID: d.byID,
			InstallationEligibility: models.DiskInstallationEligibility{Eligible: true, NotEligibleReasons: []string{}},
			Model:                   "Simulated NVMe", Name: d.name, Path: "/dev/" + d.name, Serial: d.serial,
			SizeBytes: d.size, Smart: smart(d), Wwn: d.wwn,
		})
	}
	return disks
}

// smart returns smartctl's report of a healthy disk, with only the fields that are read.
func smart(d disk) string {
	return fmt.Sprintf(
		`{"json_format_version":[1,0],"device":{"name":"/dev/%s","type":"nvme","protocol":"NVMe"},"serial_number":%q,"smart_status":{"passed":true}}`,
		d.name, d.serial)
}

func (m machine) inventoryInterfaces() []*models.Interface {
	var interfaces []*models.Interface
	for _, n := range m.nics {
		described := &models.Interface{
			Biosdevname: n.name, Flags: []string{"broadcast", "multicast"}, HasCarrier: n.linked,
			IPV4Addresses: []string{}, IPV6Addresses: []string{},
			MacAddress: n.mac, Mtu: ordinaryMTU, Name: n.name, Product: "0x159b", SpeedMbps: -1, Type: "physical",
			Vendor: "0x8086",
		}
		if n.linked {
			described.Flags = append([]string{"up"}, described.Flags...)
			described.IPV4Addresses = []string{m.address.String()}
			described.SpeedMbps = ordinarySpeed
		}
		interfaces = append(interfaces, described)
	}
	return interfaces
}

func (m machine) routes() []*models.Route {
	return []*models.Route{
		{Destination: "0.0.0.0", Family: addressFamilyV4, Gateway: m.gateway.String(), Interface: m.nics[0].name,
			Metric: 100},
		{Destination: m.address.Masked().Addr().String(), Family: addressFamilyV4, Interface: m.nics[0].name,
			Metric: 100},
	}
}

// disk returns the disk with a path in /dev.
func (m machine) disk(path string) (disk, bool) {
	for _, d := range m.disks {
		if path != "" && (path == "/dev/"+d.name || path == d.byID || path == d.byPath) {
			return d, true
		}
	}
	return disk{}, false
}
