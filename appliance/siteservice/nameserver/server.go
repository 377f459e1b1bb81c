package nameserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/siteservice/link"
)

// Port is the port of DNS.
const Port = 53

const (
	// stopTimeout is the time for answers that are being written when a server stops.
	stopTimeout = 2 * time.Second
	// idleTimeout is the time after which an idle TCP connection is closed.
	idleTimeout = 8 * time.Second
	// maxQueries is the number of questions on one TCP connection.
	maxQueries = 128
)

// Server is the DNS server on one network interface.
type Server struct {
	Table   func() *Table // returns the present zones
	Forward *Forwarder
	Limit   func(net.Listener) net.Listener // limits the TCP connections of clients
	Port    uint16                          // Port, or another one for tests
	counters
}

type counters struct{ own, forwarded, refused atomic.Uint64 }

// Counts are the numbers of questions since the start.
type Counts struct {
	Own       uint64 `json:"own"` // for names of the appliance's zones
	Forwarded uint64 `json:"forwarded"`
	Refused   uint64 `json:"refused"`
}

// Counts returns the numbers of questions.
func (s *Server) Counts() Counts { return Counts{s.own.Load(), s.forwarded.Load(), s.refused.Load()} }

// Serve answers questions to the addresses of an interface until the context ends. It calls ready
// when all sockets are open.
func (s *Server) Serve(ctx context.Context, on link.Link, ready func()) error {
	if len(on.Prefixes) == 0 {
		return link.ErrNoAddress
	}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, request *dns.Msg) { s.serve(ctx, on, w, request) })
	var servers []*dns.Server
	closeAll := func() error {
		var errs []error
		for _, server := range servers {
			errs = append(errs, closeSocket(server))
		}
		return errors.Join(errs...)
	}
	for _, address := range on.Addresses() {
		at := netip.AddrPortFrom(address, s.Port)
		packets, err := link.ListenUDP(ctx, at)
		if err != nil {
			return errors.Join(err, closeAll())
		}
		servers = append(servers, &dns.Server{PacketConn: packets, Handler: handler, UDPSize: payload})
		streams, err := link.ListenTCP(ctx, at)
		if err != nil {
			return errors.Join(err, closeAll())
		}
		servers = append(servers, &dns.Server{Listener: s.Limit(streams), Handler: handler, MaxTCPQueries: maxQueries,
			IdleTimeout: func() time.Duration { return idleTimeout }})
	}
	return run(ctx, servers, ready)
}

// run runs servers until the context ends or one of them fails.
func run(ctx context.Context, servers []*dns.Server, ready func()) error {
	group, failed := errgroup.WithContext(ctx)
	started := make(chan struct{}, len(servers))
	for _, server := range servers {
		server.NotifyStartedFunc = func() { started <- struct{}{} }
		group.Go(server.ActivateAndServe)
	}
	for range servers {
		select {
		case <-started:
		case <-failed.Done():
		}
	}
	if failed.Err() == nil {
		ready()
	}
	<-failed.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	for _, server := range servers {
		// The error is that of a server which has failed already, or of a client that is too slow.
		// A server that starts only now ends because its socket is closed.
		_ = server.ShutdownContext(stopping)
		_ = closeSocket(server)
	}
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

func closeSocket(server *dns.Server) error {
	if server.PacketConn != nil {
		return server.PacketConn.Close()
	}
	return server.Listener.Close()
}

func (s *Server) serve(ctx context.Context, on link.Link, w dns.ResponseWriter, request *dns.Msg) {
	client, datagram := addressOf(w.RemoteAddr())
	answer := s.Answer(ctx, on, client, request)
	if answer == nil {
		return
	}
	size := dns.MaxMsgSize
	if datagram {
		size = dns.MinMsgSize
	}
	if options := request.IsEdns0(); options != nil {
		if datagram {
			size = min(max(int(options.UDPSize()), dns.MinMsgSize), payload)
		}
		if answer.IsEdns0() == nil {
			answer.SetEdns0(payload, false)
		}
		if options.Version() != 0 {
			answer.SetRcode(request, dns.RcodeBadVers)
		}
	}
	answer.Truncate(size)
	// A client that has left needs no answer, and a server that stops writes none.
	_ = w.WriteMsg(answer)
}

func addressOf(remote net.Addr) (client netip.Addr, datagram bool) {
	switch remote := remote.(type) {
	case *net.UDPAddr:
		return remote.AddrPort().Addr().Unmap(), true
	case *net.TCPAddr:
		return remote.AddrPort().Addr().Unmap(), false
	}
	return netip.Addr{}, false
}

// Answer answers a question of a client on an interface. It returns nil for a message that is no
// question. Only clients in the networks of the interface may ask for names outside of the zones,
// except the DNS servers to which such questions are forwarded.
func (s *Server) Answer(ctx context.Context, on link.Link, client netip.Addr, request *dns.Msg) *dns.Msg {
	switch {
	case request.Response:
		return nil
	case request.Opcode != dns.OpcodeQuery:
		s.refused.Add(1)
		return new(dns.Msg).SetRcode(request, dns.RcodeNotImplemented)
	case len(request.Question) != 1:
		s.refused.Add(1)
		return new(dns.Msg).SetRcode(request, dns.RcodeFormatError)
	case request.Question[0].Qclass != dns.ClassINET:
		s.refused.Add(1)
		return new(dns.Msg).SetRcode(request, dns.RcodeRefused)
	}
	if answer, ok := s.Table().Answer(request, on.Addresses()); ok {
		s.own.Add(1)
		return answer
	}
	// Questions of a DNS server that is asked here would go in circles, also through another one.
	if !on.Contains(client) || s.Forward.asks(client) {
		s.refused.Add(1)
		return new(dns.Msg).SetRcode(request, dns.RcodeRefused)
	}
	answer := s.Forward.Answer(ctx, request, on.Addresses())
	if answer.Rcode == dns.RcodeRefused {
		s.refused.Add(1)
	} else {
		s.forwarded.Add(1)
	}
	answer.RecursionAvailable = len(s.Forward.servers) > 0
	return answer
}
