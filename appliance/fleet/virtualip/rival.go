package virtualip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/mdlayher/packet"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
)

// A machine is asked several times whether it has the address, because a frame may be lost. It has
// answerTime for each answer.
const questions, answerTime = 3, 500 * time.Millisecond

// Operations of ARP (RFC 826).
const requestARP, replyARP = 1, 2

// findRival asks the network for another machine with the address, and returns its hardware
// address, or nil if none answers.
func (a *Address) findRival() (net.HardwareAddr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	// Another interface of this machine may answer, too, if it is in the same network.
	isOwn := func(found net.HardwareAddr) bool {
		return slices.ContainsFunc(interfaces, func(device net.Interface) bool {
			return slices.Equal(device.HardwareAddr, found)
		})
	}
	if a.ip.Is4() {
		return a.askARP(isOwn)
	}
	return a.askNDP(isOwn)
}

// askARP sends an ARP probe (RFC 5227, section 2.1.1).
func (a *Address) askARP(isOwn func(net.HardwareAddr) bool) (_ net.HardwareAddr, err error) {
	conn, err := packet.Listen(&a.device, packet.Raw, protocolARP, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	frame := a.frameARP(requestARP, netip.IPv4Unspecified(), make(net.HardwareAddr, len(broadcast)))
	ask := func() error {
		_, err := conn.WriteTo(frame, &packet.Addr{HardwareAddr: broadcast})
		return err
	}
	const header, senderHardware, senderAddress = 14, 14 + 8, 14 + 14 // offsets in a frame
	return answer(conn, ask, func(frame []byte) net.HardwareAddr {
		if len(frame) < senderAddress+net.IPv4len || binary.BigEndian.Uint16(frame[header-2:]) != protocolARP {
			return nil
		}
		sender := net.HardwareAddr(frame[senderHardware:senderAddress])
		if ip, _ := netip.AddrFromSlice(frame[senderAddress : senderAddress+net.IPv4len]); ip != a.ip || isOwn(sender) {
			return nil
		}
		return slices.Clone(sender)
	})
}

// askNDP sends a neighbour solicitation (RFC 4861, section 4.3).
func (a *Address) askNDP(isOwn func(net.HardwareAddr) bool) (_ net.HardwareAddr, err error) {
	conn, err := a.listenBeside()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	through := ipv6.NewPacketConn(conn)
	filter := new(ipv6.ICMPFilter)
	filter.SetAll(true)
	filter.Accept(ipv6.ICMPTypeNeighborAdvertisement)
	if err := errors.Join(through.SetMulticastHopLimit(hopLimit), through.SetMulticastInterface(&a.device),
		through.SetMulticastLoopback(false), through.SetICMPFilter(filter)); err != nil {
		return nil, err
	}
	const sourceLinkLayerAddress = 1
	message, err := a.messageNDP(ipv6.ICMPTypeNeighborSolicitation, 0, sourceLinkLayerAddress)
	if err != nil {
		return nil, err
	}
	// The solicited-node multicast address (RFC 4291, section 2.7.1).
	ip := a.ip.As16()
	group := append(net.ParseIP("ff02::1:ff00:0")[:13], ip[13:]...)
	ask := func() error {
		_, err := conn.WriteTo(message, &net.IPAddr{IP: group, Zone: a.zone()})
		return err
	}
	const target, option, hardware = 8, 24, 26 // offsets in a neighbour advertisement
	return answer(conn, ask, func(message []byte) net.HardwareAddr {
		if len(message) < hardware+len(broadcast) || message[option] != targetLinkLayerAddress {
			return nil
		}
		sender := net.HardwareAddr(message[hardware : hardware+len(broadcast)])
		if of, _ := netip.AddrFromSlice(message[target:option]); of != a.ip || isOwn(sender) {
			return nil
		}
		return slices.Clone(sender)
	})
}

// listenBeside listens at another address of the interface: a machine does not answer questions
// that come from an address that it has itself.
func (a *Address) listenBeside() (net.PacketConn, error) {
	addresses, err := a.device.Addrs()
	if err != nil {
		return nil, err
	}
	errs := []error{fmt.Errorf("the interface %s has no other IPv6 address that can be used", a.device.Name)}
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if err != nil || !prefix.Addr().Is6() || prefix.Addr() == a.ip {
			continue
		}
		ip := prefix.Addr()
		if ip.IsLinkLocalUnicast() {
			ip = ip.WithZone(a.zone())
		}
		conn, err := net.ListenPacket("ip6:ipv6-icmp", ip.String())
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err) // for example, the network is still asked whether the address is free
	}
	return nil, errors.Join(errs...)
}

// answer asks, and reads from a connection until parse returns an address or nobody has answered.
func answer(conn net.PacketConn, ask func() error, parse func([]byte) net.HardwareAddr) (net.HardwareAddr, error) {
	buffer := make([]byte, 1500)
	for range questions {
		// The time is that of the network, whatever the clock of the appliance is.
		if err := errors.Join(ask(), conn.SetReadDeadline(time.Now().Add(answerTime))); err != nil {
			return nil, err
		}
		for {
			n, _, err := conn.ReadFrom(buffer)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return nil, err
			}
			if found := parse(buffer[:n]); found != nil {
				return found, nil
			}
		}
	}
	return nil, nil
}

// messageNDP returns a message about the address with the hardware address of this machine.
func (a *Address) messageNDP(kind ipv6.ICMPType, flags, option byte) ([]byte, error) {
	body := append([]byte{flags, 0, 0, 0}, a.ip.AsSlice()...)
	body = append(append(body, option, 1), a.device.HardwareAddr...) // its length: one unit of 8 bytes
	message := icmp.Message{Type: kind, Body: &icmp.RawBody{Data: body}}
	return message.Marshal(nil)
}

// frameARP returns a frame with the hardware address of this machine, about the address.
func (a *Address) frameARP(operation byte, sender netip.Addr, target net.HardwareAddr) []byte {
	frame := append(slices.Clone(broadcast), a.device.HardwareAddr...)
	frame = append(frame, protocolARP>>8, protocolARP&0xff, 0, 1, 0x08, 0, 6, 4, 0, operation) // for Ethernet and IPv4
	frame = append(append(frame, a.device.HardwareAddr...), sender.AsSlice()...)
	return append(append(frame, target...), a.ip.AsSlice()...)
}
