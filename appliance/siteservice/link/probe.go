package link

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/mdlayher/packet"
)

const (
	// probeInterval is the time between two requests, because a frame may be lost.
	probeInterval = 200 * time.Millisecond
	protocolARP   = 0x0806 // EtherType
)

// Probe asks the network of an interface by ARP (RFC 826) which machine has an IPv4 address. It
// returns the MAC address of the machine, or "" if none answers until the context ends. The
// kernel's table would not do: it keeps machines that have left. Probe needs CAP_NET_RAW.
func Probe(ctx context.Context, on Link, address netip.Addr) (mac string, err error) {
	if IsOwn(address) {
		return on.MAC.String(), nil
	}
	device, err := net.InterfaceByName(on.Name)
	if err != nil {
		return "", err
	}
	conn, err := packet.Listen(device, packet.Datagram, protocolARP, nil)
	if err != nil {
		return "", fmt.Errorf("ask %s for the machine with address %s: %w", on.Name, address, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	own, _ := on.IPv4()
	message := []byte{0, 1, 0x08, 0, 6, 4, 0, 1} // for Ethernet and IPv4, a request
	message = append(append(message, device.HardwareAddr...), own.Addr().AsSlice()...)
	message = append(append(message, make([]byte, 6)...), address.AsSlice()...)
	broadcast := &packet.Addr{HardwareAddr: net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	for ctx.Err() == nil {
		_, err := conn.WriteTo(message, broadcast)
		// The time is that of the network, whatever the clock of the appliance is.
		if err = errors.Join(err, conn.SetReadDeadline(time.Now().Add(probeInterval))); err != nil {
			return "", err
		}
		sender, err := readARP(conn, address)
		if err != nil || sender != nil {
			return sender.String(), err
		}
	}
	return "", nil
}

// readARP returns the MAC address of the first machine that says in an ARP packet that it has an
// address. It returns nil at the deadline of the connection.
func readARP(conn *packet.Conn, address netip.Addr) (net.HardwareAddr, error) {
	const protocol, senderMAC, senderAddress, targetMAC = 2, 8, 14, 18 // offsets
	for message := make([]byte, 1500); ; {
		n, _, err := conn.ReadFrom(message)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if n < targetMAC || binary.BigEndian.Uint16(message[protocol:]) != 0x0800 {
			continue // not for IPv4
		}
		if sender, _ := netip.AddrFromSlice(message[senderAddress:targetMAC]); sender == address {
			return slices.Clone(message[senderMAC:senderAddress]), nil
		}
	}
}
