//go:build !linux

package doctor

import "net"

func openDHCP(net.Interface) (net.PacketConn, error) { return nil, ErrDHCPUnsupported }
