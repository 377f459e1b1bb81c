package link

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
)

// OpenDHCPClient returns a packet connection to the DHCP client port of an interface, independent
// of the machine's own DHCP client. It needs CAP_NET_RAW.
func OpenDHCPClient(name string) (net.PacketConn, error) {
	conn, err := nclient4.NewRawUDPConn(name, dhcpv4.ClientPort)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EPERM) {
		program, errProgram := os.Executable()
		if errProgram != nil {
			program = os.Args[0]
		}
		return nil, fmt.Errorf("the appliance has no right to look for other DHCP servers; grant it with: setcap "+
			"cap_net_bind_service,cap_net_raw+ep %s, and restart the appliance: %w", program, err)
	}
	return conn, err
}
