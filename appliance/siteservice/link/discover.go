package link

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// OfferTime is the time for the offers of DHCP servers. dnsmasq waits up to three seconds for the
// answer to a ping before it offers an address.
const OfferTime = 6 * time.Second

// Discover broadcasts DHCPDISCOVER packets, which reserve no address, and collects the offers that
// arrive within a time.
func Discover(ctx context.Context, conn net.PacketConn, within time.Duration,
	packets ...*dhcpv4.DHCPv4) (offers []*dhcpv4.DHCPv4, err error) {
	sent := map[dhcpv4.TransactionID]bool{}
	for _, packet := range packets {
		sent[packet.TransactionID] = true
		to := &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpv4.ServerPort}
		if _, err := conn.WriteTo(packet.ToBytes(), to); err != nil {
			return nil, err
		}
	}
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // a closed connection needs no deadline
	})
	defer stop()
	for packet := make([]byte, 1500); ctx.Err() == nil; {
		n, _, err := conn.ReadFrom(packet)
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			return offers, ctx.Err()
		}
		if err != nil {
			return offers, err
		}
		answer, err := dhcpv4.FromBytes(packet[:n])
		if err == nil && sent[answer.TransactionID] && answer.MessageType() == dhcpv4.MessageTypeOffer {
			offers = append(offers, answer)
		}
	}
	return offers, ctx.Err()
}
