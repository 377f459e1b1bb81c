package link

import (
	"bufio"
	"encoding/hex"
	"net/netip"
	"os"
	"strings"
)

// Gateway returns the default gateway of this machine for IPv4.
func Gateway() (netip.Addr, bool) {
	table, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return netip.Addr{}, false
	}
	return gatewayIn(string(table))
}

// gatewayIn reads the kernel's table of routes (proc(5)). Its addresses are in the order of bytes
// of the processor, which is little-endian on all processors of the appliance but s390x, where the
// result is an address that no interface contains.
func gatewayIn(table string) (netip.Addr, bool) {
	for lines := bufio.NewScanner(strings.NewReader(table)); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // interface, destination, gateway, flags, …, mask
		const destination, gateway, mask = 1, 2, 7
		if len(fields) <= mask || fields[destination] != "00000000" || fields[mask] != "00000000" {
			continue
		}
		b, err := hex.DecodeString(fields[gateway])
		if err == nil && len(b) == 4 && fields[gateway] != "00000000" {
			return netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]}), true
		}
	}
	return netip.Addr{}, false
}
