package doctor

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// neighbourNow returns the hardware address of an IP address in the kernel's neighbour table. known
// is false while the kernel asks: without an answer, mac is then the address of earlier.
func neighbourNow(address netip.Addr) (mac string, known bool, err error) {
	table, err := netlink.NeighList(0, netlink.FAMILY_V4)
	if err != nil {
		return "", false, fmt.Errorf("read the kernel's neighbour table: %w", err)
	}
	mac, known = freshest(table, address)
	return mac, known, nil
}

// freshest returns the entry of an IP address. There is one for each interface that has asked.
func freshest(table []netlink.Neigh, address netip.Addr) (mac string, known bool) {
	asked, failed := 0, 0
	for _, entry := range table {
		if of, ok := netip.AddrFromSlice(entry.IP); !ok || of.Unmap() != address {
			continue
		}
		asked++
		switch {
		case entry.State&(netlink.NUD_REACHABLE|netlink.NUD_PERMANENT) != 0:
			return entry.HardwareAddr.String(), true
		case entry.State&netlink.NUD_FAILED != 0:
			failed++
		case len(entry.HardwareAddr) > 0: // stale, or being asked again
			mac = entry.HardwareAddr.String()
		}
	}
	return mac, asked > 0 && failed == asked
}
