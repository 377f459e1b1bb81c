package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/ignition"
)

// Guest is a host on a real or emulated machine. It acts as the machine's agent, as its installer
// and, after the boot from disk, as the controller of its cluster. Set the fields before Run.
type Guest struct {
	// ID is the host's ID. The appliance identifies the host by it.
	ID strfmt.UUID
	// Config is the config that Ignition found.
	Config *ignition.Discovered
	// Inventory describes the machine.
	Inventory *models.Inventory
	// WriteImage writes the installed system to a disk. The path is that of the inventory.
	WriteImage func(ctx context.Context, path string) error
	// Speed and Logger have the same meaning as in HostGroup.
	Speed  float64
	Logger *slog.Logger
	// Observer has the same meaning as in HostGroup.
	Observer func(Event)
}

// Run runs one boot of the machine, from the discovery image or from its disk. It reports whether
// the machine must be restarted afterwards. This is false when its cluster is installed. The error
// is a final failure.
func (g *Guest) Run(ctx context.Context, up bool) (restart bool, err error) {
	h, err := g.host()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, linkKey{}, h.link))
	defer h.group.controllers.Wait()
	defer cancel()
	h.group.lifetime, h.group.pending = ctx, 1

	var end error
	if up {
		end = h.fromOwnDisk(ctx)
	} else {
		end = h.runDiscovery(ctx, nil)
	}
	var again *reboot
	if errors.As(end, &again) {
		h.emit(Event{Kind: EventRebooted, Info: string(again.into) + ": " + again.reason})
		return true, nil
	}
	var result *hostResult
	if errors.As(end, &result) {
		end = result.Err
	}
	if end == nil {
		h.group.finish(h, nil)
		h.group.controllers.Wait() // the controllers end with the cluster's installation
	}
	return false, end
}

// fromOwnDisk runs a host that has booted from its disk. It reads the host's state only from the
// appliance.
func (h *host) fromOwnDisk(ctx context.Context) error {
	recorded, up, err := h.resume(ctx)
	if err != nil {
		return err
	}
	if up != fromDisk {
		return errors.New("the machine booted from its disk, but the appliance did not install it")
	}
	return h.onDisk(ctx, recorded)
}

// host returns a host for the machine, in a group of its own.
func (g *Guest) host() (*host, error) {
	m, err := machineOf(g.ID, g.Inventory)
	if err != nil {
		return nil, err
	}
	group := &HostGroup{
		URL: g.Config.ServiceURL, InfraEnvID: g.Config.InfraEnvID, Count: 1, Speed: g.Speed,
		Network: m.address.Masked(), Logger: g.Logger, Observer: g.Observer,
	}
	if err := group.prepare(); err != nil {
		return nil, err
	}
	h := newHost(group, m)
	h.disc, h.write = &media{config: g.Config}, g.WriteImage
	group.hosts[h.ref.host] = h
	return h, nil
}

// machineOf returns the machine that an inventory describes.
func machineOf(id strfmt.UUID, inventory *models.Inventory) (machine, error) {
	m := machine{id: id.String(), number: 1, hostname: inventory.Hostname, described: inventory}
	for _, found := range inventory.Interfaces {
		if len(found.IPV4Addresses) == 0 || m.address.IsValid() {
			m.nics = append(m.nics, nic{name: found.Name, mac: found.MacAddress, linked: found.HasCarrier})
			continue
		}
		address, err := netip.ParsePrefix(found.IPV4Addresses[0])
		if err != nil {
			return machine{}, fmt.Errorf("the NIC %s has the invalid address %q: %w", found.Name,
				found.IPV4Addresses[0], err)
		}
		m.address = address
		// the host uses the first NIC
		m.nics = append([]nic{{name: found.Name, mac: found.MacAddress, linked: found.HasCarrier}}, m.nics...)
	}
	if !m.address.IsValid() {
		return machine{}, errors.New("no NIC of the machine has an IPv4 address")
	}
	for _, route := range inventory.Routes {
		if gateway, err := netip.ParseAddr(route.Gateway); err == nil && !gateway.IsUnspecified() {
			m.gateway = gateway
		}
	}
	for _, d := range inventory.Disks {
		if d.DriveType != models.DriveTypeODD {
			m.disks = append(m.disks, disk{name: d.Name, serial: d.Serial, wwn: d.Wwn, byID: d.ByID, byPath: d.ByPath,
				size: d.SizeBytes})
		}
	}
	return m, nil
}
