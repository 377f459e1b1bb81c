package bmc

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// findSystem finds the system in the BMC's address, or the only system of the BMC.
func (s *session) findSystem(ctx context.Context) error {
	root, err := s.get(ctx, "/redfish/v1/")
	if err != nil {
		return err
	}
	s.root = root
	if s.address.System != "" {
		if s.system, err = s.get(ctx, s.address.System); err != nil {
			return err
		}
		s.vendor = vendorOf(root.object, s.system.object)
		return nil
	}
	collection := root.link("Systems")
	if collection == "" {
		collection = "/redfish/v1/Systems"
	}
	members, err := s.members(ctx, collection)
	if err != nil {
		return err
	}
	systems := slices.DeleteFunc(members, func(r *resource) bool { return !bootable(r.object) })
	switch len(systems) {
	case 0:
		return &Error{Type: RegistrationError,
			Message: fmt.Sprintf("The BMC of %s at %s has no bootable system in %s; check that its address "+
				"is the one of the server's BMC and not of a chassis or switch.", s.name, s.address.URL, collection)}
	case 1:
	default:
		var paths []string
		for _, system := range systems {
			paths = append(paths, system.path)
		}
		return &Error{Type: RegistrationError,
			Message: fmt.Sprintf("The BMC of %s at %s has several systems (%s); add the path of one to its "+
				"address.", s.name, s.address.URL, strings.Join(paths, ", "))}
	}
	s.system = systems[0]
	s.vendor = vendorOf(root.object, s.system.object)
	return nil
}

// bootable reports whether a system is a server. Baseboards of accelerators and enclosures are not
// servers.
func bootable(system object) bool {
	if kind := system.text("@odata.type"); kind != "" && !strings.HasPrefix(kind, "#ComputerSystem.") {
		return false
	}
	return system.has("Actions", resetAction) || system.has("Boot")
}

// managers returns the managers of the system. If it has none, it returns all managers of the BMC.
func (s *session) managers(ctx context.Context) ([]*resource, error) {
	var found []*resource
	for _, link := range s.system.links("Links", "ManagedBy") {
		manager, err := s.get(ctx, link)
		if f, ok := asFailure(err); ok && f.status == http.StatusNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, manager)
	}
	if len(found) > 0 {
		return found, nil
	}
	collection := s.root.link("Managers")
	if collection == "" {
		collection = "/redfish/v1/Managers"
	}
	found, err := s.members(ctx, collection)
	if f, ok := asFailure(err); ok && f.status == http.StatusNotFound {
		return nil, nil
	}
	return found, err
}

// describeSystem reads the hardware of the server.
func (s *session) describeSystem(ctx context.Context) (*System, error) {
	of := s.system
	described := &System{
		Path: of.path, Vendor: s.vendor, Manufacturer: of.text("Manufacturer"), Model: of.text("Model"),
		SerialNumber: of.text("SerialNumber"), UUID: of.text("UUID"), BIOSVersion: of.text("BiosVersion"),
		MemoryGiB:  of.number("MemorySummary", "TotalSystemMemoryGiB"),
		Processors: int(of.number("ProcessorSummary", "Count")),
	}
	if s.vendor == Dell && of.text("SKU") != "" {
		// The SKU is the service tag, which the firmware reports to the operating system as the
		// serial number.
		described.SerialNumber = of.text("SKU")
	}
	managers, err := s.managers(ctx)
	if err != nil {
		return nil, err
	}
	if len(managers) > 0 {
		described.BMCModel, described.BMCFirmware = managers[0].text("Model"), managers[0].text("FirmwareVersion")
	}
	if link := of.link("EthernetInterfaces"); link != "" {
		described.MACs = s.macs(ctx, link)
	}
	return described, nil
}

// macs returns the MAC addresses of the system's network interfaces. It ignores a BMC that does not
// report them.
func (s *session) macs(ctx context.Context, collection string) []string {
	cards, err := s.members(ctx, collection)
	if err != nil {
		s.log.Debug("The BMC did not return the network interfaces of the server.", "server", s.name, "error",
			redact(err.Error(), s.password))
		return nil
	}
	var macs []string
	for _, card := range cards {
		for _, field := range []string{"PermanentMACAddress", "MACAddress"} {
			if mac, err := ParseMAC(card.text(field)); err == nil && !slices.Contains(macs, mac) {
				macs = append(macs, mac)
			}
		}
	}
	return macs
}
