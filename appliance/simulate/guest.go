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

// Guest is a host whose machine is there, be it emulated: a program that runs on it is its agent,
// its installer and, once it is up from its disk, its cluster's controller. Set the fields before
// Run.
type Guest struct {
	// ID is the host's, by which the appliance knows it again.
	ID strfmt.UUID
	// Config is what Ignition found.
	Config *ignition.Discovered
	// Inventory is what the machine is made of.
	Inventory *models.Inventory
	// WriteImage writes to the disk at a path of the inventory what the machine comes up from after
	// its installation.
	WriteImage func(ctx context.Context, path string) error
	// Speed and Logger are those of a HostGroup.
	Speed  float64
	Logger *slog.Logger
	// Observer is as a HostGroup's.
	Observer func(Event)
}

// Run lives one boot of the machine, from the discovery image or from its disk, and says whether
// the machine is to be restarted after it. It is not once the cluster that it was installed for is
// installed too. What fails for good is an error.
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
		end = h.live(ctx, nil)
	}
	var again *reboot
	if errors.As(end, &again) {
		h.emit(Event{Kind: EventRebooted, Info: string(again.into) + ": " + again.why})
		return true, nil
	}
	var settled *verdict
	if errors.As(end, &settled) {
		end = settled.Err
	}
	if end == nil {
		h.group.finish(h, nil)
		h.group.controllers.Wait() // they end with the cluster's installation
	}
	return false, end
}

// fromOwnDisk is a host that is up from its disk and has only the appliance to ask what became of
// it.
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

// machineOf is the machine that an inventory describes.
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
		// the first speaks for the host
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
