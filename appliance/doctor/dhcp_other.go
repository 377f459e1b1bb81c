//go:build !linux

package doctor

import "net"

func openWire(net.Interface) (net.PacketConn, error) { return nil, ErrNoWire }
