package doctor

import (
	"net"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
)

// openDHCP returns a packet connection to the DHCP client port of a network interface, independent
// of the machine's DHCP client. It needs CAP_NET_RAW.
func openDHCP(iface net.Interface) (net.PacketConn, error) {
	return nclient4.NewRawUDPConn(iface.Name, dhcpv4.ClientPort)
}
