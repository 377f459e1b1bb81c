package doctor

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// neighbourNow returns the hardware address of an IP address in the kernel's neighbour table. known
// is false while the kernel asks: without an answer, mac is then the address of earlier.
func neighbourNow(address netip.Addr) (mac string, known bool, err error) {
	routes, err := netlink.RouteGet(address.AsSlice())
	if err != nil {
		return "", false, fmt.Errorf("find the interface for %s: %w", address, err)
	}
	table, err := netlink.NeighList(routes[0].LinkIndex, netlink.FAMILY_V4)
	if err != nil {
		return "", false, fmt.Errorf("read the kernel's neighbour table: %w", err)
	}
	mac, known = entryOf(table, routes[0].LinkIndex, address)
	return mac, known, nil
}

// entryOf returns the entry of an IP address on an interface. An entry on another interface stays
// as it is, because the kernel does not ask there.
func entryOf(table []netlink.Neigh, link int, address netip.Addr) (mac string, known bool) {
	for _, entry := range table {
		if of, ok := netip.AddrFromSlice(entry.IP); !ok || of.Unmap() != address || entry.LinkIndex != link {
			continue
		}
		switch {
		case entry.State&(netlink.NUD_REACHABLE|netlink.NUD_PERMANENT) != 0:
			return entry.HardwareAddr.String(), true
		case entry.State&netlink.NUD_FAILED != 0:
			return "", true
		}
		return entry.HardwareAddr.String(), false // stale, or being asked again
	}
	return "", false
}
