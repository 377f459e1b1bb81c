//go:build linux

package doctor

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
)

// TestAddresses_staleNeighbours reads tables with entries of machines that may have left.
func TestAddresses_staleNeighbours(t *testing.T) {
	const address, mac = "10.0.0.4", "52:54:00:00:00:01"
	hardware, err := net.ParseMAC(mac)
	require.NoError(t, err)
	entry := func(ip string, state int, hardware net.HardwareAddr) netlink.Neigh {
		return netlink.Neigh{LinkIndex: 2, IP: net.ParseIP(ip), State: state, HardwareAddr: hardware}
	}
	elsewhere := func(e netlink.Neigh) netlink.Neigh {
		e.LinkIndex = 3
		return e
	}
	for name, c := range map[string]struct {
		table []netlink.Neigh
		mac   string
		known bool
	}{
		"no entry":    {},
		"nobody yet":  {[]netlink.Neigh{entry(address, netlink.NUD_INCOMPLETE, nil)}, "", false},
		"nobody":      {[]netlink.Neigh{entry(address, netlink.NUD_FAILED, nil)}, "", true},
		"it answered": {[]netlink.Neigh{entry(address, netlink.NUD_REACHABLE, hardware)}, mac, true},
		"fixed":       {[]netlink.Neigh{entry(address, netlink.NUD_PERMANENT, hardware)}, mac, true},
		"stale":       {[]netlink.Neigh{entry(address, netlink.NUD_STALE, hardware)}, mac, false},
		"delayed":     {[]netlink.Neigh{entry(address, netlink.NUD_DELAY, hardware)}, mac, false},
		"asked again": {[]netlink.Neigh{entry(address, netlink.NUD_PROBE, hardware)}, mac, false},
		"it has left": {[]netlink.Neigh{entry(address, netlink.NUD_FAILED, hardware)}, "", true},
		"another's":   {[]netlink.Neigh{entry("10.0.0.5", netlink.NUD_REACHABLE, hardware)}, "", false},
		"stale on another interface": {[]netlink.Neigh{elsewhere(entry(address, netlink.NUD_STALE, hardware)),
			entry(address, netlink.NUD_FAILED, nil)}, "", true},
		"answer on another interface": {[]netlink.Neigh{elsewhere(entry(address, netlink.NUD_REACHABLE, hardware)),
			entry(address, netlink.NUD_INCOMPLETE, nil)}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			mac, known := entryOf(c.table, 2, netip.MustParseAddr(address))
			require.Equal(t, c.mac, mac)
			require.Equal(t, c.known, known)
		})
	}
}
