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

// Guest is a host with a real or emulated machine. A program on the machine is its agent, its
// installer and, after the boot from disk, its cluster's controller. Set the fields before Run.
type Guest struct {
	// ID is the host's ID, which the appliance recognizes.
	ID strfmt.UUID
	// Config is the config that Ignition found.
	Config *ignition.Discovered
	// Inventory describes the machine.
	Inventory *models.Inventory
	// WriteImage writes the installed system to the disk with the given path in the inventory.
	WriteImage func(ctx context.Context, path string) error
	// Speed and Logger have the meaning of a HostGroup's.
	Speed  float64
	Logger *slog.Logger
	// Observer has the meaning of a HostGroup's.
	Observer func(Event)
}

// Run runs one boot of the machine, from the discovery image or from its disk, and reports whether
// the machine must be restarted afterwards. That is not the case once its cluster is installed. The
// error is a final failure.
func (g *Guest) Run(ctx context.Context, up bool) (restart bool, err error) {
	h, err := g.host()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, linkKey{}, h.link))
	defer h.group.controllers.Wait()
	defer cancel()
	h.group.life, h.group.pending = ctx, 1

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
		h.group.controllers.Wait() // they end with the cluster's installation
	}
	return false, end
}

// fromOwnDisk runs a host that has booted from its disk and can ask only the appliance for its
// state.
func (h *host) fromOwnDisk(ctx context.Context) error {
	known, up, err := h.resume(ctx)
	if err != nil {
		return err
	}
	if up != fromDisk {
		return errors.New("the machine is up from its disk, but the appliance has not installed it")
	}
	return h.onDisk(ctx, known)
}

// host makes the machine the only one of a group.
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
	for _, card := range inventory.Interfaces {
		if len(card.IPV4Addresses) == 0 || m.address.IsValid() {
			m.nics = append(m.nics, nic{name: card.Name, mac: card.MacAddress, linked: card.HasCarrier})
			continue
		}
		address, err := netip.ParsePrefix(card.IPV4Addresses[0])
		if err != nil {
			return machine{}, fmt.Errorf("the network card %s has the address %q, which is none: %w", card.Name,
				card.IPV4Addresses[0], err)
		}
		m.address = address
		// the first one is the host's
		m.nics = append([]nic{{name: card.Name, mac: card.MacAddress, linked: card.HasCarrier}}, m.nics...)
	}
	if !m.address.IsValid() {
		return machine{}, errors.New("no network card of the machine has an IPv4 address")
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
