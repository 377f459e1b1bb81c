package doctor

import (
	"net"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
)

// openWire is a network card's packets to the port of DHCP clients, beside whatever client the
// machine has. It takes CAP_NET_RAW.
func openWire(iface net.Interface) (net.PacketConn, error) {
	return nclient4.NewRawUDPConn(iface.Name, dhcpv4.ClientPort)
}
