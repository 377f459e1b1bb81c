package siteservice

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/discovery"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/appliance/sentence"
	"landfall/appliance/siteservice/dhcpserver"
	"landfall/appliance/siteservice/link"
	"landfall/appliance/siteservice/tftpserver"
	"landfall/isogen"
	"landfall/store"
)

// Images provides the files with which machines boot from the network. Package discovery
// implements it.
type Images interface {
	NetworkBoot(ctx context.Context, infraEnvID string, at netip.Addr) (discovery.BootURLs, error)
	BootMenu(ctx context.Context, infraEnvID, mac string, at netip.Addr) ([]byte, error)
	BootLoaders(ctx context.Context, infraEnvID string) (*isogen.BootLoaders, error)
}

const (
	// machinesLifetime is the time for which the known machines are kept in memory.
	machinesLifetime = 10 * time.Second
	// maxLoader is the size of the largest boot loader of the operator in bytes.
	maxLoader = 8 << 20
	// menuName is the beginning of the names by which GRUB asks for its menu.
	menuName = "grub.cfg"
)

// diskMenu is the menu of a machine that boots from its disk: GRUB ends, and the firmware goes on
// with its next boot entry.
const diskMenu = "set timeout=0\nmenuentry 'Boot from the disk' {\n\texit\n}\n"

// boots decides what machines boot from the network.
type boots struct {
	m *Manager

	mu       sync.Mutex
	machines map[string]knownMachine // by MAC address
	read     time.Time
}

// knownMachine is a machine that the site knows by one of its MAC addresses.
type knownMachine struct {
	infraEnv string   // its ID; "" if only the damaged row of a host is known
	hosts    []string // the keys of the hosts that have registered from it
}

// known returns the machines that the site knows, by MAC address: servers with a BMC, hosts with a
// static network, and machines that have registered.
func (b *boots) known() (map[string]knownMachine, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.machines != nil && b.m.Clock.Since(b.read) < machinesLifetime {
		return b.machines, nil
	}
	machines := map[string]knownMachine{}
	err := b.m.DB.View(func(tx *store.Tx) error {
		rows := b.m.Site.Rows(tx)
		ids, err := rows.InfraEnvIDs()
		if err != nil {
			return err
		}
		for _, id := range ids {
			env, err := rows.InfraEnv(id)
			if store.IsDamaged(err) {
				continue
			}
			if err != nil {
				return err
			}
			for _, mac := range staticMACs(env.InfraEnv) {
				machines[mac] = knownMachine{infraEnv: id}
			}
		}
		return addHosts(tx, rows, machines)
	})
	if err != nil {
		return nil, fmt.Errorf("read the machines of the site: %w", err)
	}
	servers, err := b.m.Servers()
	if err != nil {
		return nil, fmt.Errorf("read the servers of the site: %w", err)
	}
	for _, server := range servers {
		if mac, err := net.ParseMAC(server.BootMAC); err == nil && server.InfraEnvID != "" {
			machines[mac.String()] = knownMachine{server.InfraEnvID, machines[mac.String()].hosts}
		}
	}
	b.machines, b.read = machines, b.m.Clock.Now()
	return machines, nil
}

func staticMACs(env *models.InfraEnv) []string {
	var hosts []*models.HostStaticNetworkConfig
	if json.Unmarshal([]byte(env.StaticNetworkConfig), &hosts) != nil {
		return nil // there is none
	}
	var macs []string
	for _, host := range hosts {
		for _, nic := range host.MacInterfaceMap {
			if mac, err := net.ParseMAC(nic.MacAddress); err == nil {
				macs = append(macs, mac.String())
			}
		}
	}
	return macs
}

func addHosts(tx *store.Tx, rows view.Rows, machines map[string]knownMachine) error {
	keys, err := rows.HostKeys()
	if err != nil {
		return err
	}
	for _, key := range keys {
		infraEnvID := ""
		facts := &inventory.Facts{}
		host, err := rows.Host(key)
		switch {
		case store.IsDamaged(err):
			facts, err = record.LoadFacts(tx, key)
		case err == nil:
			infraEnvID = host.InfraEnvID.String()
			facts.Inventory, _, err = inventory.ParseInventory(host.Inventory)
		default:
			return err
		}
		if err != nil || facts.Inventory == nil {
			continue // the interfaces of the host are unknown
		}
		for _, nic := range facts.Inventory.Interfaces {
			if mac, err := net.ParseMAC(nic.MacAddress); err == nil {
				before := machines[mac.String()]
				machines[mac.String()] = knownMachine{cmp.Or(infraEnvID, before.infraEnv), append(before.hosts, key)}
			}
		}
	}
	return nil
}

// check returns an error of kind NotFound for a machine that boots from its disk, because the
// latest host that registered from it is installed. The host may be one of another infra-env than
// the machine would boot. A damaged host may be a node of a running cluster.
func (b *boots) check(mac net.HardwareAddr) error {
	machines, err := b.known()
	if err != nil {
		return err
	}
	return b.m.DB.View(func(tx *store.Tx) error {
		var latest *models.Host
		for _, key := range machines[mac.String()].hosts {
			row, err := record.Hosts.Get(tx, key)
			switch {
			case errors.Is(err, store.ErrNotFound):
				continue
			case store.IsDamaged(err):
				return fault.New(fault.NotFound,
					"Host %s (MAC address %s) boots from its disk, because its stored data is damaged.",
					path.Base(key), mac)
			case err != nil:
				return err
			}
			if latest == nil || time.Time(row.API.RegisteredAt).After(time.Time(latest.RegisteredAt)) {
				latest = &row.API
			}
		}
		if latest == nil || !lifecycle.StartsFromDisk(latest) {
			return nil
		}
		return fault.New(fault.NotFound, "Host %s (MAC address %s) boots from its disk, because its state is %s.",
			latest.ID, mac, conv.Value(latest.Status))
	})
}

func (b *boots) knows(mac net.HardwareAddr) bool {
	if _, ok := b.m.leases.Reserved(mac); ok {
		return true
	}
	machines, err := b.known()
	return err == nil && machines[mac.String()].infraEnv != ""
}

// infraEnvOf returns the infra-env of a machine: its own, the one in the configuration, or the only
// one for its architecture. A damaged infra-env may be for any architecture, so an unknown machine
// does not boot another one in its place.
func (b *boots) infraEnvOf(mac net.HardwareAddr, arch dhcpserver.Architecture) (string, error) {
	machines, err := b.known()
	if err != nil {
		return "", err
	}
	if id := machines[mac.String()].infraEnv; id != "" {
		return id, nil
	}
	var fits, all []string
	err = b.m.DB.View(func(tx *store.Tx) error {
		rows := b.m.Site.Rows(tx)
		ids, err := rows.InfraEnvIDs()
		wanted := b.m.Configured.DHCP.InfraEnv
		for _, id := range ids {
			env, err := rows.InfraEnv(id)
			if store.IsDamaged(err) {
				all = append(all, id+" (damaged)")
				if wanted == "" || wanted == id {
					fits = append(fits, id)
				}
				continue
			}
			if err != nil {
				return err
			}
			name := conv.Value(env.Name)
			all = append(all, name)
			if wanted != "" && wanted != id && wanted != name {
				continue
			}
			if arch == "" || env.CPUArchitecture == "" || env.CPUArchitecture == string(arch) ||
				env.CPUArchitecture == "arm64" && arch == dhcpserver.ARM64 {
				fits = append(fits, id)
			}
		}
		return err
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("read the infra-envs: %w", err)
	case len(fits) == 1:
		return fits[0], nil
	case len(all) == 0:
		return "", fault.New(fault.NotFound, "The machine has nothing to boot: create an infra-env.")
	case len(fits) == 0:
		return "", fault.New(fault.NotFound, "No infra-env fits the machine (%s): the infra-envs are %s.", arch,
			strings.Join(all, ", "))
	}
	return "", fault.New(fault.Conflict, "The machine is unknown and could boot several infra-envs (%s): name one in "+
		"site.dhcp.infra_env.", strings.Join(all, ", "))
}

// boot returns what a machine boots.
func (b *boots) boot(ctx context.Context, machine dhcpserver.Machine) (dhcpserver.Boot, error) {
	id, err := b.infraEnvOf(machine.MAC, machine.Architecture)
	if err != nil {
		return dhcpserver.Boot{}, err
	}
	if err = b.check(machine.MAC); err == nil {
		err = b.m.CheckNetworkBoot(id, machine.MAC.String())
	}
	if err != nil {
		return dhcpserver.Boot{}, fmt.Errorf("%w: %w", dhcpserver.ErrFromDisk, err)
	}
	urls, err := b.m.Images.NetworkBoot(ctx, id, machine.Appliance)
	switch {
	case err != nil:
		return dhcpserver.Boot{}, err
	case urls.Reason != "":
		return dhcpserver.Boot{}, errors.New(urls.Reason)
	}
	boot := dhcpserver.Boot{HTTPURL: urls.HTTPBootURL, ScriptURL: urls.IPXEURL + "?ipxe_script_type=boot-order-control"}
	loaders, err := b.m.Images.BootLoaders(ctx, id)
	if err != nil {
		b.m.Logger.WarnContext(ctx, "The live ISO has no boot loaders for TFTP.", "infra_env_id", id, "error", err)
		return boot, nil
	}
	// Some TFTP clients take a colon for the end of the name of a server.
	boot.TFTPFile = id + "/" + strings.ReplaceAll(machine.MAC.String(), ":", "-") + "/" + loaders.First
	return boot, nil
}

// open returns a file for a TFTP client. A path with an infra-env and a MAC address comes from the
// DHCP service. For other paths, the client is identified by its address.
func (b *boots) open(ctx context.Context, on link.Link, client netip.Addr, name string) ([]byte, error) {
	if content, err := b.loader(name); err == nil {
		return content, nil
	}
	var id string
	var mac net.HardwareAddr
	parts := strings.Split(name, "/")
	if len(parts) >= 3 {
		if parsed, err := net.ParseMAC(parts[1]); err == nil {
			id, mac = parts[0], parsed
		}
	}
	base := path.Base(name)
	isMenu := strings.HasPrefix(base, menuName)
	if !isMenu && path.Ext(base) != ".efi" {
		return nil, tftpserver.ErrNotFound
	}
	if id == "" {
		var err error
		if mac, err = b.macOf(ctx, client, base); err != nil {
			return nil, err
		}
		if id, err = b.infraEnvOf(mac, ""); err != nil {
			return nil, errors.Join(tftpserver.ErrNotFound, err)
		}
	}
	if b.m.Configured.DHCP.KnownOnly && !b.knows(mac) {
		return nil, tftpserver.ErrNotFound // as in an answer by DHCP
	}
	if isMenu {
		own, _ := on.IPv4()
		var menu []byte
		err := b.check(mac)
		if err == nil {
			menu, err = b.m.Images.BootMenu(ctx, id, mac.String(), own.Addr())
		}
		if fault.KindOf(err) == fault.NotFound {
			return []byte(diskMenu), nil
		}
		return menu, err
	}
	loaders, err := b.m.Images.BootLoaders(ctx, id)
	if err != nil {
		return nil, err
	}
	if content := loaders.Files[strings.ToLower(base)]; content != nil {
		return content, nil
	}
	return nil, tftpserver.ErrNotFound
}

// macOf returns the MAC address of a TFTP client: the one in the name of GRUB's menu
// (grub.cfg-01-52-54-00-12-34-56), or that of its address.
func (b *boots) macOf(ctx context.Context, client netip.Addr, name string) (net.HardwareAddr, error) {
	if text, ok := strings.CutPrefix(name, menuName+"-01-"); ok {
		if mac, err := net.ParseMAC(text); err == nil {
			return mac, nil
		}
	}
	text, err := b.m.Neighbour(ctx, client)
	if err != nil {
		return nil, errors.Join(tftpserver.ErrNotFound, err)
	}
	mac, err := net.ParseMAC(text)
	if err != nil {
		return nil, tftpserver.ErrNotFound
	}
	return mac, nil
}

// loader returns a boot loader of the operator.
func (b *boots) loader(name string) ([]byte, error) {
	directory := b.m.Configured.DHCP.Loaders
	if directory == "" || strings.Contains(name, "/") || strings.HasPrefix(name, ".") {
		return nil, tftpserver.ErrNotFound
	}
	file := filepath.Join(directory, name)
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxLoader {
		return nil, tftpserver.ErrNotFound
	}
	return os.ReadFile(file)
}

func (b *boots) hasLoader(name string) bool {
	_, err := b.loader(name)
	return err == nil
}

// maxEvents is the number of events that are kept in memory.
const maxEvents = 200

// events are the latest events of DHCP and TFTP.
type events struct {
	mu   sync.Mutex
	list []dhcpserver.Event // the oldest first
}

// add adds an event. An event that repeats another one of the machine replaces it.
func (e *events) add(event dhcpserver.Event) (repeated bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := slices.IndexFunc(e.list, func(o dhcpserver.Event) bool {
		return o.Kind == event.Kind && o.MAC == event.MAC && o.Interface == event.Interface &&
			o.Message == event.Message
	})
	if at >= 0 {
		e.list = slices.Delete(e.list, at, at+1)
	}
	if len(e.list) >= maxEvents {
		e.list = slices.Delete(e.list, 0, 1)
	}
	e.list = append(e.list, event)
	return at >= 0
}

// newest returns the events, the newest first.
func (e *events) newest() []dhcpserver.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := slices.Clone(e.list)
	slices.Reverse(list)
	if list == nil {
		list = []dhcpserver.Event{}
	}
	return list
}

// noteEvent keeps and logs an event.
func (m *Manager) noteEvent(event dhcpserver.Event) {
	if m.events.add(event) {
		return
	}
	log := m.Logger.Info
	if event.Kind != dhcpserver.KindBoot {
		log = m.Logger.Warn
	}
	log("A machine used DHCP or network boot.", "interface", event.Interface, "mac", event.MAC, "kind", event.Kind,
		"message", event.Message)
}

// KindTransfer is the kind of the event of a TFTP transfer that has failed.
const KindTransfer dhcpserver.Kind = "transfer"

// noteTransfer notes a TFTP transfer that has stopped, with the machine that asked for the file.
func (m *Manager) noteTransfer(ctx context.Context, on link.Link, transfer tftpserver.Transfer) {
	if transfer.Err == nil || transfer.Bytes == 0 {
		return // firmware asks for the size of a file and then ends the transfer
	}
	mac, err := m.Neighbour(ctx, transfer.Client)
	if err != nil {
		mac = "" // a client of another network
	}
	m.noteEvent(dhcpserver.Event{At: m.Clock.Now().UTC(), Kind: KindTransfer, Interface: on.Name, MAC: mac,
		Address: transfer.Client.String(), Message: fmt.Sprintf("The TFTP transfer of %s stopped after %d bytes: %s",
			path.Base(transfer.File), transfer.Bytes, sentence.Ending(transfer.Err))})
}
