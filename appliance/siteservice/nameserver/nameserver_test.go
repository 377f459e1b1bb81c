package nameserver

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"landfall/appliance/siteservice/link"
)

func address(text string) netip.Addr { return netip.MustParseAddr(text) }

// loopback is the loopback interface as a network of the site.
func loopback() link.Link {
	return link.Link{Name: "lo", Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}}
}

// berlin is the zone of a cluster with two virtual addresses and one host.
func berlin() Zone {
	zone := Zone{Name: "berlin.site.example", Cluster: "berlin", ClusterID: "1"}
	zone.Add("api.berlin.site.example", true, address("192.0.2.5"))
	zone.Add("api-int.berlin.site.example", false, address("192.0.2.5"))
	zone.Add("*.apps.berlin.site.example", false, address("192.0.2.6"), address("2001:db8::6"))
	zone.Add("node-1.berlin.site.example", true, address("192.0.2.11"))
	return zone
}

func question(name string, kind uint16) *dns.Msg {
	return new(dns.Msg).SetQuestion(dns.Fqdn(name), kind)
}

// values returns the values of the records in an answer.
func values(answer *dns.Msg) []string {
	var found []string
	for _, record := range answer.Answer {
		found = append(found, strings.TrimPrefix(record.String(), record.Header().String()))
	}
	return found
}

func TestTable_answers(t *testing.T) {
	table := NewTable([]Zone{berlin()}, []string{"landfall.site.example"}, 7)
	for _, c := range []struct {
		name   string
		kind   uint16
		rcode  int
		values []string
	}{
		{"api.berlin.site.example", dns.TypeA, dns.RcodeSuccess, []string{"192.0.2.5"}},
		{"API.Berlin.site.example", dns.TypeA, dns.RcodeSuccess, []string{"192.0.2.5"}},
		{"api.berlin.site.example", dns.TypeAAAA, dns.RcodeSuccess, nil},
		{"api.berlin.site.example", dns.TypeANY, dns.RcodeSuccess, []string{"192.0.2.5"}},
		{"console.apps.berlin.site.example", dns.TypeA, dns.RcodeSuccess, []string{"192.0.2.6"}},
		{"a.b.apps.berlin.site.example", dns.TypeAAAA, dns.RcodeSuccess, []string{"2001:db8::6"}},
		{"apps.berlin.site.example", dns.TypeA, dns.RcodeSuccess, nil},
		{"node-1.berlin.site.example", dns.TypeA, dns.RcodeSuccess, []string{"192.0.2.11"}},
		{"x.node-1.berlin.site.example", dns.TypeA, dns.RcodeNameError, nil},
		{"validateNoWildcardDNS.berlin.site.example", dns.TypeA, dns.RcodeNameError, nil},
		{"berlin.site.example", dns.TypeA, dns.RcodeSuccess, nil},
		{"berlin.site.example", dns.TypeNS, dns.RcodeSuccess, []string{"ns.berlin.site.example."}},
		{"ns.berlin.site.example", dns.TypeA, dns.RcodeSuccess, []string{"127.0.0.1"}},
		{"landfall.site.example", dns.TypeA, dns.RcodeSuccess, []string{"127.0.0.1"}},
		{"landfall.site.example", dns.TypeAAAA, dns.RcodeSuccess, nil},
		{"5.2.0.192.in-addr.arpa", dns.TypePTR, dns.RcodeSuccess, []string{"api.berlin.site.example."}},
		{"11.2.0.192.in-addr.arpa", dns.TypePTR, dns.RcodeSuccess, []string{"node-1.berlin.site.example."}},
	} {
		t.Run(c.name+" "+dns.TypeToString[c.kind], func(t *testing.T) {
			answer, ok := table.Answer(question(c.name, c.kind), loopback().Addresses())
			require.True(t, ok)
			require.True(t, answer.Authoritative)
			require.Equal(t, c.rcode, answer.Rcode)
			require.Equal(t, c.values, values(answer))
			if len(answer.Answer) == 0 {
				require.Len(t, answer.Ns, 1, "the SOA record limits the validity of the negative answer")
			}
		})
	}
}

func TestTable_otherNamesAreNotAnswered(t *testing.T) {
	table := NewTable([]Zone{berlin()}, nil, 1)
	for _, name := range []string{"site.example", "example.com", "paris.site.example", "xberlin.site.example",
		"9.2.0.192.in-addr.arpa", "."} {
		_, ok := table.Answer(question(name, dns.TypeA), nil)
		require.False(t, ok, name)
	}
}

func TestZone_recordsAreLinesOfZoneFile(t *testing.T) {
	zones := []Zone{berlin()}
	SortZones(zones)
	var lines []string
	for _, record := range zones[0].Records {
		parsed, err := dns.NewRR(record.String())
		require.NoError(t, err)
		require.Equal(t, dns.Fqdn(record.Name), parsed.Header().Name)
		lines = append(lines, record.String())
	}
	require.Equal(t, "*.apps.berlin.site.example. 60 IN A 192.0.2.6", lines[0])
	require.Equal(t, "5.2.0.192.in-addr.arpa. 60 IN PTR api.berlin.site.example.", lines[len(lines)-1])
}

// TestTable_namesWithoutAddress holds that the site's DNS is asked for the names of a cluster whose
// addresses only the site knows, such as those of its load balancers.
func TestTable_namesWithoutAddress(t *testing.T) {
	zone := Zone{Name: "berlin.site.example", Cluster: "berlin", ClusterID: "1",
		Missing: []string{"api.berlin.site.example", "api-int.berlin.site.example", "*.apps.berlin.site.example"}}
	zone.Add("node-1.berlin.site.example", true, address("192.0.2.11"))
	table := NewTable([]Zone{zone}, nil, 1)
	for name, claimed := range map[string]bool{
		"api.berlin.site.example":                   false,
		"API-INT.berlin.site.example":               false,
		"apps.berlin.site.example":                  false,
		"console.apps.berlin.site.example":          false,
		"a.b.apps.berlin.site.example":              false,
		"validateNoWildcardDNS.berlin.site.example": true,
		"node-1.berlin.site.example":                true,
		"berlin.site.example":                       true,
	} {
		_, ok := table.Answer(question(name, dns.TypeA), nil)
		require.Equal(t, claimed, ok, name)
	}
}

// Case 48: two clusters with one DNS name: none of them is served.
func TestFault48_oneNameInTwoClusters(t *testing.T) {
	first, second := berlin(), berlin()
	second.ClusterID = "2"
	require.Equal(t, map[string][]string{"berlin.site.example": {"1", "2"}}, Duplicates([]Zone{first, second}))
	_, ok := NewTable([]Zone{first, second}, nil, 1).Answer(question("api.berlin.site.example", dns.TypeA), nil)
	require.False(t, ok)
}

// newServer returns a server of the zone berlin that forwards to servers.
func newServer(forward ...netip.AddrPort) *Server {
	table := NewTable([]Zone{berlin()}, nil, 1)
	return &Server{Table: func() *Table { return table }, Limit: func(l net.Listener) net.Listener { return l },
		Forward: NewForwarder(forward, clockwork.NewFakeClock())}
}

// startDNS serves the records of a zone by UDP, as the site's own DNS. It does not answer for names
// that begin with "slow.", answers SERVFAIL for names that begin with "failing.", and for all if
// the zone does so, and truncates answers in a zone whose name begins with "long.".
func startDNS(t *testing.T, zone Zone) netip.AddrPort {
	t.Helper()
	table := NewTable([]Zone{zone}, nil, 1)
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	started, stopped := make(chan struct{}), make(chan error, 1)
	server := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(started) },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, request *dns.Msg) {
			if strings.HasPrefix(request.Question[0].Name, "slow.") {
				return
			}
			if strings.HasPrefix(request.Question[0].Name, "broken.") {
				if _, err := w.Write([]byte("short")); err != nil {
					t.Error(err)
				}
				return
			}
			answer, ok := table.Answer(request, nil)
			if !ok {
				answer = new(dns.Msg).SetRcode(request, dns.RcodeNameError)
			}
			if strings.HasPrefix(request.Question[0].Name, "failing.") || strings.HasPrefix(zone.Name, "failing.") {
				answer = new(dns.Msg).SetRcode(request, dns.RcodeServerFailure)
			}
			if strings.HasPrefix(zone.Name, "long.") && len(answer.Answer) > 1 {
				answer.Truncated, answer.Answer = true, answer.Answer[:1]
			}
			if err := w.WriteMsg(answer); err != nil {
				t.Error(err)
			}
		})}
	go func() { stopped <- server.ActivateAndServe() }()
	<-started
	t.Cleanup(func() {
		require.NoError(t, server.Shutdown())
		require.NoError(t, <-stopped)
	})
	return netip.MustParseAddrPort(conn.LocalAddr().String())
}

func TestServer_otherNamesAreForwarded(t *testing.T) {
	other := Zone{Name: "example.com", ClusterID: "9"}
	other.Add("www.example.com", false, address("198.51.100.1"))
	s := newServer(startDNS(t, other))
	answer := s.Answer(t.Context(), link.Link{Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}},
		address("192.0.2.77"), question("www.example.com", dns.TypeA))
	require.Equal(t, []string{"198.51.100.1"}, values(answer))
	require.True(t, answer.RecursionAvailable)
	require.Equal(t, Counts{Forwarded: 1}, s.Counts())
}

// TestServer_nameWithoutAnswer holds that a name for which the site's DNS server finds no answer
// hides no other name, however often a client asks for it.
func TestServer_nameWithoutAnswer(t *testing.T) {
	other := Zone{Name: "example.com", ClusterID: "9"}
	other.Add("www.example.com", false, address("198.51.100.1"))
	clock := clockwork.NewFakeClock()
	s := newServer()
	s.Forward = NewForwarder([]netip.AddrPort{startDNS(t, other)}, clock)
	ask := func(name string) *dns.Msg {
		return s.Answer(t.Context(), link.Link{Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}},
			address("192.0.2.77"), question(name, dns.TypeA))
	}
	s.Forward.timeout = 50 * time.Millisecond
	require.Equal(t, dns.RcodeServerFailure, ask("slow.example.com").Rcode)
	clock.Advance(silence)
	require.Equal(t, dns.RcodeServerFailure, ask("slow.example.com").Rcode)
	s.Forward.timeout = time.Minute
	require.Equal(t, []string{"198.51.100.1"}, values(ask("www.example.com")))
}

// TestForwarder_serverFailure holds that the next server is asked if one answers with an error.
func TestForwarder_serverFailure(t *testing.T) {
	failing, sound := Zone{Name: "failing.example.com"}, Zone{Name: "other.example"}
	f := NewForwarder([]netip.AddrPort{startDNS(t, failing), startDNS(t, sound)}, clockwork.NewFakeClock())
	require.Equal(t, dns.RcodeServerFailure,
		f.Answer(t.Context(), question("failing.example.com", dns.TypeA), nil).Rcode)
	require.Equal(t, dns.RcodeNameError, f.Answer(t.Context(), question("example.org", dns.TypeA), nil).Rcode)
}

// TestForwarder_silentServers holds which servers are asked after questions without an answer.
func TestForwarder_silentServers(t *testing.T) {
	clock := clockwork.NewFakeClock()
	first, second := netip.MustParseAddrPort("192.0.2.53:53"), netip.MustParseAddrPort("192.0.2.54:53")
	f := NewForwarder([]netip.AddrPort{first, second}, clock)
	both := []netip.AddrPort{first, second}
	timeout := func(server netip.AddrPort) { f.note(server, clock.Now(), os.ErrDeadlineExceeded) }
	timeout(first)
	require.Equal(t, both, f.choose(nil), "one name may have no answer")
	clock.Advance(silence)
	timeout(first)
	require.Equal(t, []netip.AddrPort{second}, f.choose(nil), "nothing was answered for some seconds")
	clock.Advance(time.Second)
	f.note(second, clock.Now(), syscall.ECONNREFUSED)
	require.Equal(t, []netip.AddrPort{first}, f.choose(nil), "all are silent: the one that failed first")
	f.note(first, clock.Now(), nil)
	clock.Advance(silentFor)
	require.Equal(t, both, f.choose(nil))
	clock.Advance(forgetAfter)
	timeout(second)
	require.Equal(t, both, f.choose(nil), "the last failure is long ago")
	require.Equal(t, []netip.AddrPort{second}, f.choose([]netip.Addr{first.Addr()}), "an address of the appliance")
}

func TestServer_refusesAtOnce(t *testing.T) {
	site := link.Link{Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}
	forwarding := newServer(netip.MustParseAddrPort("192.0.2.53:53"))
	for name, c := range map[string]struct {
		server *Server
		client string
	}{
		"without a server to ask":        {newServer(), "192.0.2.77"},
		"for a client elsewhere":         {forwarding, "198.51.100.7"},
		"if the only server is this one": {newServer(netip.MustParseAddrPort("192.0.2.1:53")), "192.0.2.77"},
		"if the only server asks":        {forwarding, "192.0.2.53"},
		"if one of two servers asks": {newServer(startDNS(t, Zone{Name: "example.com"}),
			netip.MustParseAddrPort("192.0.2.53:53")), "192.0.2.53"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := c.server.Answer(t.Context(), site, address(c.client), question("example.com", dns.TypeA))
			require.Equal(t, dns.RcodeRefused, answer.Rcode)
		})
	}
}

// Case 48: a site whose DNS server is off: the appliance's own zones answer at once, and questions
// for other names fail at once.
func TestFault48_upstreamUnreachable(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, silent.Close()) // the kernel refuses packets to the port
	s := newServer(netip.MustParseAddrPort(silent.LocalAddr().String()))
	site := link.Link{Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}
	for range 2 {
		answer := s.Answer(t.Context(), site, address("192.0.2.77"), question("example.com", dns.TypeA))
		require.Equal(t, dns.RcodeServerFailure, answer.Rcode)
	}
	answer := s.Answer(t.Context(), site, address("192.0.2.77"), question("api.berlin.site.example", dns.TypeA))
	require.Equal(t, []string{"192.0.2.5"}, values(answer))
}

func TestServer_unusualMessages(t *testing.T) {
	s := newServer()
	response := question("api.berlin.site.example", dns.TypeA)
	response.Response = true
	require.Nil(t, s.Answer(t.Context(), loopback(), address("127.0.0.1"), response), "no loops of answers")
	update := new(dns.Msg).SetUpdate("berlin.site.example.")
	require.Equal(t, dns.RcodeNotImplemented,
		s.Answer(t.Context(), loopback(), address("127.0.0.1"), update).Rcode)
	require.Equal(t, dns.RcodeFormatError,
		s.Answer(t.Context(), loopback(), address("127.0.0.1"), new(dns.Msg)).Rcode)
	chaos := question("version.bind", dns.TypeTXT)
	chaos.Question[0].Qclass = dns.ClassCHAOS
	require.Equal(t, dns.RcodeRefused, s.Answer(t.Context(), loopback(), address("127.0.0.1"), chaos).Rcode)
}

// Case 49: a site whose DNS has other records of a cluster.
func TestFault49_otherRecords(t *testing.T) {
	theirs := Zone{Name: "berlin.site.example", ClusterID: "1"}
	theirs.Add("api.berlin.site.example", false, address("192.0.2.99"))
	theirs.Add("*.apps.berlin.site.example", false, address("192.0.2.6"), address("2001:db8::6"))
	server := startDNS(t, theirs)
	compared := Compare(t.Context(), []netip.AddrPort{server}, []Zone{berlin()}, nil)["berlin.site.example"]
	require.False(t, compared.Served)
	require.Equal(t, []Difference{{Name: "api.berlin.site.example", Type: TypeA, Server: server.String(),
		Ours: []string{"192.0.2.5"}, Site: []string{"192.0.2.99"}}}, compared.Differences)
}

func TestCompare_sameRecords(t *testing.T) {
	unknown := Zone{Name: "unknown.site.example"}
	unknown.Add("api.unknown.site.example", false, address("192.0.2.7"))
	require.Equal(t, map[string]Comparison{"berlin.site.example": {Served: true}, "unknown.site.example": {}},
		Compare(t.Context(), []netip.AddrPort{startDNS(t, berlin())}, []Zone{berlin(), unknown}, nil))
}

// TestCompare_truncatedAnswer holds that an answer that is too long for UDP, from a server that
// does not answer by TCP, is no other record: the appliance goes on serving the zone.
func TestCompare_truncatedAnswer(t *testing.T) {
	long := Zone{Name: "long.site.example"}
	long.Add("api.long.site.example", false, address("192.0.2.8"), address("192.0.2.9"))
	server := startDNS(t, long)
	require.Equal(t, map[string]Comparison{long.Name: {}},
		Compare(t.Context(), []netip.AddrPort{server}, []Zone{long}, nil))
	answer := newServer(server).Answer(t.Context(), link.Link{Prefixes: []netip.Prefix{
		netip.MustParsePrefix("192.0.2.1/24")}}, address("192.0.2.77"), question("api.long.site.example", dns.TypeA))
	require.Len(t, answer.Answer, 1)
	require.True(t, answer.Truncated)
}

func TestCompare_namesAfterTruncatedAnswer(t *testing.T) {
	theirs := Zone{Name: "long.site.example"}
	theirs.Add("api.long.site.example", false, address("192.0.2.8"), address("192.0.2.9"))
	theirs.Add("api-int.long.site.example", false, address("192.0.2.99"))
	theirs.Add("z.long.site.example", false, address("192.0.2.99"))
	ours := Zone{Name: theirs.Name}
	ours.Add("api.long.site.example", false, address("192.0.2.8"), address("192.0.2.9"))
	ours.Add("z.long.site.example", false, address("192.0.2.8"))
	next := Zone{Name: "next.site.example"}
	next.Add("api-int.long.site.example", false, address("192.0.2.8"))
	server := startDNS(t, theirs)
	compared := Compare(t.Context(), []netip.AddrPort{server}, []Zone{ours, next}, nil)
	for name, zone := range map[string]string{"z.long.site.example": ours.Name,
		"api-int.long.site.example": next.Name} {
		require.Equal(t, Comparison{Differences: []Difference{{Name: name, Type: TypeA, Server: server.String(),
			Ours: []string{"192.0.2.8"}, Site: []string{"192.0.2.99"}}}}, compared[zone])
	}
}

// TestCompare_silentServer holds that a silent DNS server is asked twice, not for each cluster:
// its time-outs would delay the names of new clusters.
func TestCompare_silentServer(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	asked := make(chan int, 1)
	go func() {
		packets := 0
		for packet := make([]byte, 512); ; packets++ {
			if _, _, err := silent.ReadFrom(packet); err != nil {
				asked <- packets
				return
			}
		}
	}()
	zones := []Zone{berlin(), {Name: "paris.site.example"}}
	zones[1].Add("api.paris.site.example", false, address("192.0.2.8"))
	servers := []netip.AddrPort{netip.MustParseAddrPort(silent.LocalAddr().String()), startDNS(t, berlin())}
	compared := Compare(t.Context(), servers, zones, nil)
	require.True(t, compared["berlin.site.example"].Served)
	require.NoError(t, silent.Close())
	require.Equal(t, 2, <-asked)
}

// TestCompare_lostPackets holds that a lost packet, and then a DNS server that has stopped, are no
// reason to serve a zone of which the site has other records.
func TestCompare_lostPackets(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	server := netip.MustParseAddrPort(conn.LocalAddr().String())
	var received atomic.Int32
	stopped := make(chan error, 1)
	theirs := Zone{Name: "berlin.site.example"}
	theirs.Add("api.berlin.site.example", false, address("192.0.2.99"))
	table := NewTable([]Zone{theirs}, nil, 1)
	site := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, request *dns.Msg) {
		if received.Add(1) == 1 {
			return // the packet is lost
		}
		answer, _ := table.Answer(request, nil)
		if err := w.WriteMsg(answer); err != nil {
			t.Error(err)
		}
	})}
	go func() { stopped <- site.ActivateAndServe() }()
	other := Zone{Name: "a.site.example"}
	other.Add("api.a.site.example", false, address("192.0.2.7"))
	compare := func(zones []Zone, former map[string]Comparison) map[string]Comparison {
		return Compare(t.Context(), []netip.AddrPort{server}, zones, former)
	}
	found := compare([]Zone{berlin()}, nil)
	require.Len(t, found["berlin.site.example"].Differences, 1, "the question is repeated")
	require.NoError(t, conn.Close())
	<-stopped
	require.Equal(t, found["berlin.site.example"], compare([]Zone{other, berlin()}, found)["berlin.site.example"])
	require.Empty(t, Compare(t.Context(), nil, []Zone{berlin()}, found)["berlin.site.example"].Differences,
		"the server is no longer one of the site")
}

// TestCompare_serverFailure holds that SERVFAIL does not mean that the site's DNS lacks the name: a
// former difference stays, and the failure is named.
func TestCompare_serverFailure(t *testing.T) {
	theirs := Zone{Name: "site.example"}
	theirs.Add("z.site.example", false, address("192.0.2.7"))
	server := startDNS(t, theirs)
	ours := Zone{Name: theirs.Name}
	ours.Add("failing.site.example", false, address("192.0.2.6"))
	ours.Add("z.site.example", false, address("192.0.2.7"))
	former := Difference{Name: "failing.site.example", Type: TypeA, Server: server.String(),
		Ours: []string{"192.0.2.6"}, Site: []string{"192.0.2.99"}}
	require.Equal(t, Comparison{Differences: []Difference{former},
		Failures: []Failure{{Name: former.Name, Type: TypeA, Server: server.String(), Code: "SERVFAIL"}}},
		Compare(t.Context(), []netip.AddrPort{server}, []Zone{ours},
			map[string]Comparison{ours.Name: {Differences: []Difference{former}}})[ours.Name])
}

// TestCompare_namesAnsweredBeforeSilence holds that a former difference counts only for names that
// were not answered in this comparison, and against the present records of the appliance.
func TestCompare_namesAnsweredBeforeSilence(t *testing.T) {
	theirs := Zone{Name: "site.example"}
	theirs.Add("a.site.example", false, address("192.0.2.5"))
	server := startDNS(t, theirs)
	ours := Zone{Name: theirs.Name}
	ours.Add("a.site.example", false, address("192.0.2.5"))
	ours.Add("broken.site.example", false, address("192.0.2.6"))
	ours.Add("z.site.example", false, address("192.0.2.7"))
	gone := Zone{Name: "gone.site.example"}
	gone.Add("gone.site.example", false, address("192.0.2.8"))
	differing := func(name, ours string) Difference {
		return Difference{Name: name, Type: TypeA, Server: server.String(), Ours: []string{ours},
			Site: []string{"192.0.2.99"}}
	}
	equalNow := differing("gone.site.example", "192.0.2.1")
	equalNow.Site = []string{"192.0.2.8"}
	former := map[string]Comparison{
		ours.Name: {Differences: []Difference{differing("a.site.example", "192.0.2.5"),
			differing("removed.site.example", "192.0.2.4"), differing("z.site.example", "192.0.2.1")}},
		gone.Name: {Differences: []Difference{equalNow}},
	}
	require.Equal(t, map[string]Comparison{
		ours.Name: {Differences: []Difference{differing("z.site.example", "192.0.2.7")}}, gone.Name: {},
	}, Compare(t.Context(), []netip.AddrPort{server}, []Zone{ours, gone}, former))
}

// TestServer_answersByUDPAndTCP also holds that the connections by TCP count in the limit.
func TestServer_answersByUDPAndTCP(t *testing.T) {
	s := newServer()
	var accepted atomic.Int32
	s.Limit = func(listener net.Listener) net.Listener { return counting{listener, &accepted} }
	many := Zone{Name: "many.site.example", ClusterID: "3"}
	for i := range 120 {
		many.Add("api.many.site.example", false, netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}))
	}
	table := NewTable([]Zone{berlin(), many}, nil, 1)
	s.Table = func() *Table { return table }
	s.Port = freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Serve(ctx, loopback(), func() { close(ready) }) }()
	<-ready
	server := netip.AddrPortFrom(address("127.0.0.1"), s.Port).String()
	client := &dns.Client{Timeout: time.Minute}
	answer, _, err := client.Exchange(question("api.berlin.site.example", dns.TypeA), server)
	require.NoError(t, err)
	require.Equal(t, []string{"192.0.2.5"}, values(answer))
	answer, _, err = client.Exchange(question("api.many.site.example", dns.TypeA), server)
	require.NoError(t, err)
	require.True(t, answer.Truncated)
	client.Net = "tcp"
	answer, _, err = client.Exchange(question("api.many.site.example", dns.TypeA), server)
	require.NoError(t, err)
	require.Len(t, answer.Answer, 120)
	require.EqualValues(t, 1, accepted.Load())
	cancel()
	require.NoError(t, <-ended)
}

// counting counts the connections that a listener accepts.
type counting struct {
	net.Listener
	accepted *atomic.Int32
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return conn, err
}

// freePort returns a port that is free for UDP and TCP.
func freePort(t testing.TB) uint16 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	return netip.MustParseAddrPort(listener.Addr().String()).Port()
}

func FuzzAnswer(f *testing.F) {
	for _, message := range []*dns.Msg{question("api.berlin.site.example", dns.TypeA),
		question("a.apps.berlin.site.example", dns.TypeANY), new(dns.Msg).SetUpdate("berlin.site.example.")} {
		packed, err := message.Pack()
		require.NoError(f, err)
		f.Add(packed)
	}
	s := newServer()
	f.Fuzz(func(t *testing.T, packet []byte) {
		request := new(dns.Msg)
		if request.Unpack(packet) != nil {
			return
		}
		answer := s.Answer(t.Context(), loopback(), address("127.0.0.1"), request)
		if answer == nil {
			require.True(t, request.Response)
			return
		}
		require.True(t, answer.Response)
		require.Equal(t, request.Id, answer.Id)
		answer.Truncate(dns.MinMsgSize)
		packed, err := answer.Pack()
		require.NoError(t, err)
		require.LessOrEqual(t, len(packed), dns.MaxMsgSize)
	})
}
