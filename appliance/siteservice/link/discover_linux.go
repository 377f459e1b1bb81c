package link

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
)

// OpenDHCPClient returns a packet connection to the DHCP client port of an interface, independent
// of the machine's own DHCP client. It needs CAP_NET_RAW.
func OpenDHCPClient(name string) (net.PacketConn, error) {
	conn, err := nclient4.NewRawUDPConn(name, dhcpv4.ClientPort)
	// A unit of systemd refuses kinds of sockets with EAFNOSUPPORT (RestrictAddressFamilies).
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EAFNOSUPPORT) {
		return nil, fmt.Errorf("the appliance has no right to look for other DHCP servers; %s: %w", grant(self()), err)
	}
	return conn, err
}
