package dhcpserver

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/siteservice/link"
)

const (
	// maxPacket is the size of the largest packet in bytes.
	maxPacket = 1500
	// maxRequests is the number of requests that are answered at the same time. Further ones are
	// dropped; clients repeat them.
	maxRequests = 512
)

// Serve answers requests on an interface until the context ends. It calls ready when its sockets
// are open.
func (s *Server) Serve(ctx context.Context, on link.Link, ready func()) error {
	prefix, ok := on.IPv4()
	if !ok {
		return link.ErrNoAddress
	}
	if s.Mode == Dynamic && (!prefix.Contains(s.Range.First) || !prefix.Contains(s.Range.Last)) {
		return fmt.Errorf("the range of addresses %s-%s is not in the network %s of %s; choose addresses of that "+
			"network",
			s.Range.First, s.Range.Last, prefix.Masked(), on.Name)
	}
	main, err := link.ListenBroadcast(ctx, on, s.Port)
	if err != nil {
		return err
	}
	proxy, err := link.ListenBroadcast(ctx, on, s.ProxyPort)
	if err != nil {
		return errors.Join(err, main.Close())
	}
	ready()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return s.serve(ctx, main, func(request *dhcpv4.DHCPv4, _ *net.UDPAddr) (*dhcpv4.DHCPv4, *net.UDPAddr) {
			answer := s.Answer(ctx, on, request)
			if answer == nil {
				return nil, nil
			}
			return answer, destination(request, answer, s.ClientPort)
		})
	})
	group.Go(func() error {
		return s.serve(ctx, proxy, func(request *dhcpv4.DHCPv4, client *net.UDPAddr) (*dhcpv4.DHCPv4, *net.UDPAddr) {
			return s.AnswerProxy(ctx, on, request), client
		})
	})
	group.Go(func() error {
		<-ctx.Done()
		return errors.Join(main.Close(), proxy.Close())
	})
	return group.Wait()
}

// serve answers the requests to one socket. Requests wait for the store and for ARP, so they are
// answered at the same time.
func (s *Server) serve(ctx context.Context, socket *net.UDPConn,
	answer func(*dhcpv4.DHCPv4, *net.UDPAddr) (*dhcpv4.DHCPv4, *net.UDPAddr)) error {
	var group errgroup.Group
	group.SetLimit(maxRequests)
	for packet := make([]byte, maxPacket); ; {
		n, client, err := socket.ReadFromUDP(packet)
		if err != nil {
			waited := group.Wait()
			if ctx.Err() != nil {
				return waited
			}
			return errors.Join(fmt.Errorf("receive a DHCP packet: %w", err), waited)
		}
		request, err := dhcpv4.FromBytes(packet[:n])
		if err != nil {
			continue // not DHCP
		}
		group.TryGo(func() error {
			if reply, to := answer(request, client); reply != nil {
				// A client that can't be reached repeats its request.
				_, _ = socket.WriteToUDP(reply.ToBytes(), to)
			}
			return nil
		})
	}
}
