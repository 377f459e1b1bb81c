//go:build !linux

package link

import (
	"errors"
	"net"
)

// OpenDHCPClient returns an error: looking for DHCP servers requires Linux.
func OpenDHCPClient(string) (net.PacketConn, error) {
	return nil, errors.New("looking for DHCP servers requires Linux")
}
