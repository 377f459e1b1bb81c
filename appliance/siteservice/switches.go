package siteservice

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"landfall/appliance/fault"
	"landfall/appliance/siteservice/dhcpserver"
	"landfall/store"
)

// Sources of a switch.
const (
	SourceConfiguration = "configuration"
	SourceAdministrator = "administrator"
)

// Switch switches a service on for one interface.
type Switch struct {
	Service   Service `json:"service"`
	Interface string  `json:"interface"`
	Source    string  `json:"source"`
	// LocalClock declares this machine's clock as the time of the site if it is not synchronised.
	// It is for NTP only.
	LocalClock bool `json:"local_clock,omitempty"`
	// Mode is the way to serve DHCP. Range is the range of addresses of the mode "range".
	Mode  dhcpserver.Mode `json:"mode,omitempty"`
	Range string          `json:"range,omitempty"`
}

type switchKey struct {
	service Service
	iface   string
}

func (s Switch) key() switchKey { return switchKey{s.Service, s.Interface} }

func (s Service) title() string { return strings.ToUpper(string(s)) }

func (s Switch) check() error {
	switch {
	case !slices.Contains(Services(), s.Service):
		return fault.New(fault.NotFound, "There is no service %q; the services are %s.", s.Service, serviceNames())
	case s.Interface == "":
		return fault.New(fault.Invalid, "The name of a network interface is missing.")
	case s.LocalClock && s.Service != NTP:
		return fault.New(fault.Invalid, "Only the NTP service has a local clock.")
	}
	if s.Service != DHCP {
		if s.Mode != "" || s.Range != "" {
			return fault.New(fault.Invalid, "Only the DHCP service has a mode and a range of addresses.")
		}
		return nil
	}
	return s.checkMode()
}

func (s Switch) checkMode() error {
	switch s.Mode {
	case dhcpserver.Proxy, dhcpserver.Reservations:
		if s.Range != "" {
			return fault.New(fault.Invalid, "Only the DHCP mode %s has a range of addresses.", dhcpserver.Dynamic)
		}
		return nil
	case dhcpserver.Dynamic:
		if _, err := dhcpserver.ParseRange(s.Range); err != nil {
			return fault.Wrap(fault.Invalid, err)
		}
		return nil
	}
	return fault.New(fault.Invalid, "The DHCP mode is %q; the modes are %s (beside another DHCP server), %s "+
		"(addresses "+
		"for reserved machines) and %s (addresses for all "+
		"machines).", s.Mode, dhcpserver.Proxy, dhcpserver.Reservations,
		dhcpserver.Dynamic)
}

func serviceNames() string {
	var names []string
	for _, service := range Services() {
		names = append(names, string(service))
	}
	return strings.Join(names, ", ")
}

// Configured are the services in the configuration. An administrator can't change a service that
// the configuration switches on.
type Configured struct {
	Switches []Switch
	// Names are the DNS names of the appliance itself.
	Names []string
	// Forward are the DNS servers for names that are not the appliance's.
	Forward []netip.AddrPort
	DHCP    DHCPSettings
}

// rows has the switches that an administrator set, by service and interface.
var rows = store.NewBucket[Switch]("site-services", 1)

func (k switchKey) String() string { return string(k.service) + "/" + k.iface }

// switches are the switches of the configuration and of the store.
type switches struct {
	db         *store.DB
	configured []Switch
	writing    sync.Mutex // makes the switches in memory those of the last commit

	mu  sync.Mutex
	set []Switch // by administrators
}

func openSwitches(db *store.DB, configured Configured) (*switches, error) {
	s := &switches{db: db}
	for _, c := range configured.Switches {
		c.Source = SourceConfiguration
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("read the services of the site in the configuration: %w", err)
		}
		s.configured = append(s.configured, c)
	}
	if err := db.View(func(tx *store.Tx) error {
		return rows.Each(tx, "", func(_ string, row *Switch) error {
			s.set = append(s.set, *row)
			return nil
		})
	}); err != nil {
		return nil, fmt.Errorf("read the services of the site: %w", err)
	}
	return s, nil
}

// list returns the switches ordered by service and interface. The configuration precedes the store.
// DHCP includes TFTP, which serves the boot loaders.
func (s *switches) list() []Switch {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.configured)
	for _, set := range s.set {
		if !slices.ContainsFunc(all, func(c Switch) bool { return c.key() == set.key() }) {
			all = append(all, set)
		}
	}
	for _, s := range slices.Clone(all) {
		boot := Switch{Service: TFTP, Interface: s.Interface, Source: s.Source}
		if s.Service == DHCP && !slices.ContainsFunc(all, func(c Switch) bool { return c.key() == boot.key() }) {
			all = append(all, boot)
		}
	}
	slices.SortFunc(all, func(a, b Switch) int {
		return cmp.Or(cmp.Compare(slices.Index(Services(), a.Service), slices.Index(Services(), b.Service)),
			cmp.Compare(a.Interface, b.Interface))
	})
	return all
}

// checkFree returns an error if the configuration switches the service on for the interface.
func (s *switches) checkFree(key switchKey) error {
	if !slices.ContainsFunc(s.configured, func(c Switch) bool { return c.key() == key }) {
		return nil
	}
	return fault.New(fault.Conflict, "The configuration file switches %s on for %s (key site.%s.interfaces). "+
		"Change the key there and restart the appliance.", key.service.title(), key.iface, key.service)
}

func (s *switches) put(ctx context.Context, wanted Switch) error {
	if err := s.checkFree(wanted.key()); err != nil {
		return err
	}
	return s.change(ctx, wanted.key(), func(tx *store.Tx) error { return rows.Put(tx, wanted.key().String(), &wanted) },
		&wanted)
}

func (s *switches) remove(ctx context.Context, key switchKey) error {
	if err := s.checkFree(key); err != nil {
		return err
	}
	listed := func(key switchKey) bool {
		return slices.ContainsFunc(s.list(), func(c Switch) bool { return c.key() == key })
	}
	if key.service == TFTP && listed(switchKey{DHCP, key.iface}) {
		return fault.New(fault.Conflict, "TFTP belongs to the DHCP service on %s; switch that off.", key.iface)
	}
	if !listed(key) {
		return fault.New(fault.NotFound, "%s is not switched on for %s.", key.service.title(), key.iface)
	}
	return s.change(ctx, key, func(tx *store.Tx) error { return rows.Delete(tx, key.String()) }, nil)
}

// change stores the changed switch of a key, then keeps it in memory; nil removes it.
func (s *switches) change(ctx context.Context, key switchKey, write func(*store.Tx) error, changed *Switch) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.db.Update(ctx, write); err != nil {
		return fmt.Errorf("store the services of the site: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = slices.DeleteFunc(slices.Clone(s.set), func(c Switch) bool { return c.key() == key })
	if changed != nil {
		s.set = append(s.set, *changed)
	}
	return nil
}
