package nameserver

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/miekg/dns"
)

const (
	// forwardTimeout is the time for the answer of one DNS server of the site. Clients wait for 5 s
	// (resolv.conf(5)).
	forwardTimeout = 2 * time.Second
	// silentFor is the time for which a server that did not answer is not asked again.
	silentFor = 10 * time.Second
	// maxForwarded is the maximum number of questions that wait for the site's DNS servers.
	maxForwarded = 256
)

// Forwarder asks the DNS servers of the site. Its methods are safe for concurrent use.
type Forwarder struct {
	servers []netip.AddrPort
	clock   clockwork.Clock
	places  chan struct{}

	mu     sync.Mutex
	silent map[netip.AddrPort]time.Time // until when a server is not asked
}

// NewForwarder returns a Forwarder. Without servers, it refuses all questions.
func NewForwarder(servers []netip.AddrPort, clock clockwork.Clock) *Forwarder {
	return &Forwarder{servers: servers, clock: clock, places: make(chan struct{}, maxForwarded),
		silent: map[netip.AddrPort]time.Time{}}
}

// Answer returns the answer of the first server that answers. Without servers it refuses the
// question, so that a client asks its next server at once. own are addresses of the appliance,
// which are not asked.
func (f *Forwarder) Answer(ctx context.Context, request *dns.Msg, own []netip.Addr) *dns.Msg {
	refused := new(dns.Msg).SetRcode(request, dns.RcodeRefused)
	failed := new(dns.Msg).SetRcode(request, dns.RcodeServerFailure)
	asked := false
	for _, server := range f.servers {
		if slices.Contains(own, server.Addr().Unmap()) {
			continue
		}
		asked = true
		if f.isSilent(server) {
			continue
		}
		select {
		case f.places <- struct{}{}:
		default:
			return failed
		}
		answer, err := ask(ctx, server, request)
		<-f.places
		if err != nil {
			f.note(server)
			continue
		}
		answer.Id, answer.Authoritative = request.Id, false
		return answer
	}
	if asked {
		return failed
	}
	return refused
}

func (f *Forwarder) isSilent(server netip.AddrPort) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clock.Now().Before(f.silent[server])
}

func (f *Forwarder) note(server netip.AddrPort) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silent[server] = f.clock.Now().Add(silentFor)
}

// ask sends a question to a server by UDP, and by TCP if the answer is longer than a datagram.
func ask(ctx context.Context, server netip.AddrPort, request *dns.Msg) (*dns.Msg, error) {
	question := request.Copy()
	question.Id = dns.Id()
	client := &dns.Client{Timeout: forwardTimeout, UDPSize: payload}
	answer, _, err := client.ExchangeContext(ctx, question, server.String())
	if err == nil && answer.Truncated {
		client.Net = "tcp"
		answer, _, err = client.ExchangeContext(ctx, question, server.String())
	}
	return answer, err
}
