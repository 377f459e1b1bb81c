package nameserver

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/miekg/dns"
)

const (
	// forwardTimeout is the time for the answer of one DNS server of the site. Clients wait for 5 s
	// (resolv.conf(5)).
	forwardTimeout = 2 * time.Second
	// silence is the time without an answer to any question after which a server is silent. A name
	// whose own servers are away has no answer either, so one question says nothing.
	silence = 5 * time.Second
	// silentFor is the time for which a silent server is not asked while another one may answer.
	silentFor = 10 * time.Second
	// forgetAfter is the time after which a question without an answer says nothing about the
	// present.
	forgetAfter = time.Minute
	// maxForwarded is the maximum number of questions that wait for the site's DNS servers.
	maxForwarded = 256
)

// Forwarder asks the DNS servers of the site. Its methods are safe for concurrent use.
type Forwarder struct {
	servers []netip.AddrPort
	clock   clockwork.Clock
	places  chan struct{}
	timeout time.Duration // for the answer of one server

	mu       sync.Mutex
	failures map[netip.AddrPort]failure // servers that did not answer the last question
}

// failure describes a server since its last answer.
type failure struct {
	since  time.Time // when the first question without an answer was asked
	last   time.Time // when the last one had failed
	silent time.Time // until when the server is silent
}

// NewForwarder returns a Forwarder. Without servers, it refuses all questions.
func NewForwarder(servers []netip.AddrPort, clock clockwork.Clock) *Forwarder {
	return &Forwarder{servers: servers, clock: clock, places: make(chan struct{}, maxForwarded),
		timeout: forwardTimeout, failures: map[netip.AddrPort]failure{}}
}

// Answer returns the answer of the first server that answers. An error such as SERVFAIL counts only
// if no server answers otherwise. Without servers it refuses the question, so that a client asks
// its next server at once. own are addresses of the appliance, which are not asked.
func (f *Forwarder) Answer(ctx context.Context, request *dns.Msg, own []netip.Addr) *dns.Msg {
	refused := new(dns.Msg).SetRcode(request, dns.RcodeRefused)
	failed := new(dns.Msg).SetRcode(request, dns.RcodeServerFailure)
	servers := f.choose(own)
	if len(servers) == 0 {
		return refused
	}
	for _, server := range servers {
		select {
		case f.places <- struct{}{}:
		default:
			return failed
		}
		asked := f.clock.Now()
		answer, err := ask(ctx, server, request, f.timeout)
		<-f.places
		if ctx.Err() != nil {
			return failed // the server here stops
		}
		f.note(server, asked, err)
		if err == nil {
			answer.Id, answer.Authoritative = request.Id, false
			if !saysNothing(answer) {
				return answer
			}
			failed = answer
		}
	}
	return failed
}

// asks reports whether questions are forwarded to a server with an address.
func (f *Forwarder) asks(address netip.Addr) bool {
	return slices.ContainsFunc(f.servers, func(s netip.AddrPort) bool { return s.Addr().Unmap() == address })
}

// saysNothing reports whether an answer is an error of the server, which another server may not
// have, instead of a statement about the name.
func saysNothing(answer *dns.Msg) bool {
	return answer.Rcode != dns.RcodeSuccess && answer.Rcode != dns.RcodeNameError
}

// choose returns the servers to ask: those that are not silent. If all are silent, it is the one
// whose last failure is the oldest, so that a name without an answer never hides the others.
func (f *Forwarder) choose(own []netip.Addr) []netip.AddrPort {
	f.mu.Lock()
	defer f.mu.Unlock()
	var others, answering []netip.AddrPort
	for _, server := range f.servers {
		if slices.Contains(own, server.Addr().Unmap()) {
			continue
		}
		others = append(others, server)
		if !f.clock.Now().Before(f.failures[server].silent) {
			answering = append(answering, server)
		}
	}
	if len(answering) > 0 || len(others) == 0 {
		return answering
	}
	return []netip.AddrPort{slices.MinFunc(others, func(a, b netip.AddrPort) int {
		return f.failures[a].last.Compare(f.failures[b].last)
	})}
}

// note notes how a question to a server ended.
func (f *Forwarder) note(server netip.AddrPort, asked time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.failures, server)
		return
	}
	now, failure := f.clock.Now(), f.failures[server]
	if asked.Sub(failure.last) > forgetAfter {
		failure.since = asked
	}
	failure.last = now
	if now.Sub(failure.since) >= silence || errors.Is(err, syscall.ECONNREFUSED) {
		failure.silent = now.Add(silentFor)
	}
	f.failures[server] = failure
}

// ask sends a question to a server by UDP, and by TCP if the answer is longer than a datagram. If
// the server does not answer by TCP, the truncated answer is returned.
func ask(ctx context.Context, server netip.AddrPort, request *dns.Msg, timeout time.Duration) (*dns.Msg, error) {
	question := request.Copy()
	question.Id = dns.Id()
	client := &dns.Client{Timeout: timeout, UDPSize: payload}
	answer, _, err := client.ExchangeContext(ctx, question, server.String())
	if err != nil || !answer.Truncated {
		return answer, err
	}
	client.Net = "tcp"
	if whole, _, err := client.ExchangeContext(ctx, question, server.String()); err == nil {
		return whole, nil
	}
	return answer, nil
}
