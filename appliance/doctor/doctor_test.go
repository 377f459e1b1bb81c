package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/beevik/ntp"
)

// noNeighbour is a FindNeighbour function for a network in which no machine uses an address.
func noNeighbour(context.Context, netip.Addr) (string, error) { return "", nil }

// find returns the finding about a subject.
func find(t *testing.T, report *Report, subject string) Finding {
	t.Helper()
	for _, finding := range report.Findings {
		if finding.Subject == subject {
			return finding
		}
	}
	require.Failf(t, "no such finding", "%s in %+v", subject, report.Findings)
	return Finding{}
}

func addresses(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func TestNames_eachResolver(t *testing.T) {
	good := []string{
		"api.lab.site.test. 60 IN A 10.0.0.4", "api-int.lab.site.test. 60 IN A 10.0.0.4",
		"*.apps.lab.site.test. 60 IN A 10.0.0.5",
		"4.0.0.10.in-addr.arpa. 60 IN PTR api.lab.site.test.",
	}
	const api, wild = "api.lab.site.test", "*.lab.site.test"
	apps := appsName + ".lab.site.test"
	for name, c := range map[string]struct {
		records []string
		search  []string
		needed  bool
		subject string
		status  Status
		result  string
		advice  string
	}{
		"correct":                      {good, nil, true, api, Green, "10.0.0.4", ""},
		"wildcard of the applications": {good, nil, true, apps, Green, "10.0.0.5", ""},
		"correct reverse record":       {good, nil, true, "10.0.0.4", Green, "api.lab.site.test", ""},
		"missing name": {good[:2], nil, true, apps, Red, "the name does not exist",
			"Add a DNS record for *.apps.lab.site.test with the address 10.0.0.5."},
		"missing name that hosts do not need": {good[:2], nil, false, apps, Amber, "the name does not exist",
			"Add a DNS record for *.apps.lab.site.test with the address 10.0.0.5. The hosts resolve it themselves; " +
				"users and machines outside of the cluster need the record."},
		"wrong address": {append([]string{"api.lab.site.test. 60 IN A 10.0.0.9"}, good[1:]...), nil,
			true, api, Red, "10.0.0.9",
			"Change the address in the DNS record of api.lab.site.test to 10.0.0.4."},
		"additional wrong address": {append([]string{"api.lab.site.test. 60 IN AAAA fd00::9"}, good...), nil,
			true, api, Red, "10.0.0.4, fd00::9",
			"Change the address in the DNS record of api.lab.site.test to 10.0.0.4."},
		"a wildcard above the cluster": {append([]string{"*.site.test. 60 IN A 10.0.0.80"}, good...), nil, true,
			wild, Red,
			"validateNoWildcardDNS.lab.site.test resolves to 10.0.0.80",
			"Remove the wildcard record above lab.site.test"},
		"a wildcard in a search domain": {append([]string{"*.corp.test. 60 IN A 10.0.0.80"}, good...),
			[]string{"corp.test"}, true, wild, Red,
			"validateNoWildcardDNS.lab.site.test.corp.test resolves to 10.0.0.80",
			"Remove corp.test from the search domains"},
		"no wildcard": {good, []string{"corp.test"}, true, wild, Green, "the name does not exist", ""},
		"reverse record of another machine": {append([]string{"5.0.0.10.in-addr.arpa. 60 IN PTR printer.site.test."},
			good...), nil, true, "10.0.0.5", Amber,
			"printer.site.test", "Make sure that 10.0.0.5 is reserved for this cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			resolver := startDNS(t, c.records...)
			report := Doctor{}.Diagnose(t.Context(), &Site{
				Cluster: "lab", BaseDomain: "site.test", NamesNeeded: c.needed, Resolvers: []string{resolver},
				Search:       c.search,
				APIAddresses: addresses("10.0.0.4"), IngressAddresses: addresses("10.0.0.5"), NTPSources: nil,
			})
			finding := find(t, report, c.subject)
			require.Equal(t, c.status, finding.Status, finding)
			require.Equal(t, c.result, finding.Result)
			require.True(t, strings.HasPrefix(finding.Advice, c.advice) && (c.advice == "") == (finding.Advice == ""),
				finding.Advice)
			require.Contains(t, finding.Check, resolver)
		})
	}
}

// Without virtual addresses, nobody knows the address yet.
func TestNames_missingNameWithoutAddress(t *testing.T) {
	report := Doctor{}.Diagnose(t.Context(), &Site{Cluster: "lab", BaseDomain: "site.test", NamesNeeded: true,
		Resolvers: []string{startDNS(t)}})
	require.Equal(t, "Add a DNS record for api.lab.site.test with its address.",
		find(t, report, "api.lab.site.test").Advice)
}

func TestNames_failedResolver(t *testing.T) {
	resolver := startDNS(t)
	finding := find(t, Doctor{}.Diagnose(t.Context(), &Site{Cluster: "lab", BaseDomain: "failing.test",
		NamesNeeded: true, Resolvers: []string{resolver}}), "DNS server "+resolver)
	require.Equal(t, Red, finding.Status)
	require.Contains(t, finding.Result, "answered SERVFAIL")
	require.Contains(t, finding.Advice, "the log of the DNS server")
}

func TestNames_silentResolverIsReportedOnce(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	answering := startDNS(t)
	report := Doctor{Timeout: 50 * time.Millisecond}.Diagnose(t.Context(), &Site{
		Cluster: "lab", BaseDomain: "site.test", NamesNeeded: true, Resolvers: []string{silent.LocalAddr().String(),
			answering},
	})
	finding := find(t, report, "DNS server "+silent.LocalAddr().String())
	require.Equal(t, Red, finding.Status)
	require.Equal(t, "no answer in time", finding.Result)
	count := 0
	for _, finding := range report.Findings {
		if finding.Area == Names {
			count++
		}
	}
	require.Equal(t, 1+4, count,
		"one finding of the silent server, and four of the other (three names and the wildcard)")
}

func TestTimeServers_sameCriteriaAsHosts(t *testing.T) {
	clock := clockwork.NewFakeClockAt(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct {
		server timeServer
		status Status
		result string
		advice string
	}{
		"synchronised": {timeServer{stratum: 3}, Green, "stratum 3, 0s ahead of this machine's clock", ""},
		"90 seconds ahead": {timeServer{stratum: 3, ahead: 90 * time.Second}, Amber,
			"stratum 3, 1m30s ahead of this machine's clock",
			"Synchronise this machine's clock with the site's time server."},
		"an hour behind": {timeServer{stratum: 3, ahead: -time.Hour}, Red,
			"stratum 3, 1h0m0s behind this machine's clock", "Set this machine's clock. Hosts"},
		"not synchronised": {timeServer{stratum: 16, leap: byte(ntp.LeapNotInSync)}, Red,
			"the server answers, but its own clock is not synchronised", "Give the time server a time source"},
		"large root distance": {timeServer{stratum: 4, rootDispersion: 5 * time.Second}, Red,
			"stratum 4, 0s ahead of this machine's clock, up to 5s off the reference clock",
			"Give the time server a better time source"},
		"refusing": {timeServer{kiss: "DENY"}, Red, "the server refuses requests (DENY)",
			"Allow this site's networks"},
	} {
		t.Run(name, func(t *testing.T) {
			source := c.server.start(t, clock.Now)
			report := Doctor{Clock: clock}.Diagnose(t.Context(), &Site{NTPSources: []string{source}})
			finding := find(t, report, "time server "+source)
			require.Equal(t, c.status, finding.Status, finding)
			require.Equal(t, c.result, finding.Result)
			require.True(t, strings.HasPrefix(finding.Advice, c.advice) && (c.advice == "") == (finding.Advice == ""),
				finding.Advice)
		})
	}
	t.Run("the appliance's own", func(t *testing.T) {
		source := timeServer{stratum: 16, leap: byte(ntp.LeapNotInSync)}.start(t, clock.Now)
		report := Doctor{Clock: clock}.Diagnose(t.Context(), &Site{NTPSources: []string{source},
			OwnTimeServers: []string{source}})
		finding := find(t, report, "time server "+source)
		require.Equal(t, Red, finding.Status)
		require.Contains(t, finding.Advice, "--local-clock")
	})
	t.Run("no answer", func(t *testing.T) {
		silent, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, silent.Close()) }()
		source := silent.LocalAddr().String()
		finding := find(t, Doctor{Timeout: 50 * time.Millisecond}.Diagnose(t.Context(),
			&Site{NTPSources: []string{source}}), "time server "+source)
		require.Equal(t, Red, finding.Status)
		require.Equal(t, "no answer in time", finding.Result)
	})
	t.Run("no time server", func(t *testing.T) {
		require.Equal(t, Amber, find(t, Doctor{}.Diagnose(t.Context(), &Site{}), "time servers").Status)
	})
}

func TestRegistries_endpointIsChecked(t *testing.T) {
	now := time.Now() // the clock of the TLS library and of the Date header
	trusted := newAuthority(t, now)
	ok := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "application/json") }
	status := func(code int, kind string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		edit    func(*x509.Certificate)
		trust   *testAuthority
		status  Status
		result  string
		advice  string
	}{
		"correct": {ok, nil, trusted, Green, "200 OK; its certificate is valid until " +
			now.AddDate(1, 0, 0).UTC().Format(time.DateOnly), ""},
		"login required": {status(401, "application/json"), nil, trusted, Green,
			"401 Unauthorized; its certificate is valid until " + now.AddDate(1, 0, 0).UTC().Format(time.DateOnly), ""},
		"another authority": {ok, nil, nil, Red,
			`its certificate is signed by "CN=Site Authority", which is not trusted`,
			`Add the certificate of the authority "CN=Site Authority" to mirror.ca_bundle`},
		"expired": {ok, func(c *x509.Certificate) { c.NotAfter = now.AddDate(0, 0, -2) }, trusted, Red,
			"its certificate expired on " + now.AddDate(0, 0, -2).UTC().Format(time.DateOnly),
			"Renew the registry's certificate."},
		"expires soon": {ok, func(c *x509.Certificate) { c.NotAfter = now.AddDate(0, 0, 9) }, trusted, Amber,
			"200 OK; its certificate expires soon, on " + now.AddDate(0, 0, 9).UTC().Format(time.DateOnly),
			"Renew the registry's certificate before"},
		"not valid yet": {ok, func(c *x509.Certificate) { c.NotBefore = now.Add(time.Hour) }, trusted, Red,
			"its certificate is valid from " + now.Add(time.Hour).UTC().Format(time.RFC3339),
			"Set this machine's clock if it is behind"},
		"another name": {ok, func(c *x509.Certificate) {
			c.IPAddresses, c.DNSNames = nil,
				[]string{"mirror.site.test"}
		}, trusted, Red,
			"its certificate is for mirror.site.test only",
			"Give the registry a certificate with 127.0.0.1 among its subject alternative names"},
		"only a common name": {ok, func(c *x509.Certificate) { c.IPAddresses = nil }, trusted, Red,
			"its certificate is for no name only", "Give the registry a certificate"},
		"web page": {status(200, "text/html"), nil, trusted, Red, "200 OK with a web page",
			"Find out which service answers at"},
		"not found": {status(404, "text/plain"), nil, trusted, Red, "404 Not Found",
			"Find out which service answers at"},
	} {
		t.Run(name, func(t *testing.T) {
			host := trusted.startRegistry(t, now, c.handler, c.edit)
			site := &Site{Registries: []Registry{{Host: host}}}
			if c.trust != nil {
				site.Authorities = c.trust.pool()
			}
			finding := find(t, Doctor{}.Diagnose(t.Context(), site), host)
			require.Equal(t, c.status, finding.Status, finding)
			require.True(t, strings.HasPrefix(finding.Result, c.result), finding.Result)
			require.True(t, strings.HasPrefix(finding.Advice, c.advice) && (c.advice == "") == (finding.Advice == ""),
				finding.Advice)
		})
	}
	t.Run("HTTP instead of HTTPS", func(t *testing.T) {
		plain := httptest.NewServer(http.HandlerFunc(ok))
		defer plain.Close()
		host := plain.Listener.Addr().String()
		finding := find(t, Doctor{}.Diagnose(t.Context(), &Site{Registries: []Registry{{Host: host}}}), host)
		require.Equal(t, Red, finding.Status)
		require.Equal(t, "no TLS", finding.Result)
		require.Contains(t, finding.Advice, "mark "+host+" as insecure in registries.conf")
		finding = find(t, Doctor{}.Diagnose(t.Context(), &Site{Registries: []Registry{{Host: host, Insecure: true}}}),
			host)
		require.Equal(t, Green, finding.Status, finding)
	})
	t.Run("connection refused", func(t *testing.T) {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		host := free.Addr().String()
		require.NoError(t, free.Close())
		finding := find(t, Doctor{}.Diagnose(t.Context(), &Site{Registries: []Registry{{Host: host}}}), host)
		require.Equal(t, Red, finding.Status)
		require.Equal(t, "connect: connection refused", finding.Result)
		require.Equal(t, []Finding{finding}, Doctor{}.CheckRegistries(t.Context(),
			&Site{Registries: []Registry{{Host: host}}, NTPSources: []string{"silent.test"}}))
	})
	t.Run("unreachable token server", func(t *testing.T) {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		realm := free.Addr().String()
		require.NoError(t, free.Close())
		host := trusted.startRegistry(t, now, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://`+realm+`/token",service="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, nil)
		finding := find(t, Doctor{}.Diagnose(t.Context(), &Site{Registries: []Registry{{Host: host}},
			Authorities: trusted.pool()}), realm)
		require.Equal(t, Red, finding.Status)
		require.Contains(t, finding.Check, "token server of "+host)
	})
	t.Run("wrong clock", func(t *testing.T) {
		host := trusted.startRegistry(t, now, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", now.Add(-3*time.Hour).UTC().Format(http.TimeFormat))
		}, nil)
		finding := find(t, Doctor{}.Diagnose(t.Context(), &Site{Registries: []Registry{{Host: host}},
			Authorities: trusted.pool()}), "clock of "+host)
		require.Equal(t, Red, finding.Status, finding)
		require.Contains(t, finding.Result, "behind this machine's clock")
	})
}

func TestAddresses_vipsAreUnused(t *testing.T) {
	neighbours := func(_ context.Context, address netip.Addr) (string, error) {
		switch address.String() {
		case "10.0.0.4":
			return "52:54:00:00:00:01", nil
		case "10.9.0.4":
			return "", ErrOtherNetwork
		case "10.0.0.6":
			return "", errors.New("the kernel's table cannot be read")
		}
		return "", nil
	}
	report := Doctor{FindNeighbour: neighbours}.Diagnose(t.Context(), &Site{
		UnusedAddresses: addresses("10.0.0.4", "10.0.0.5", "10.0.0.6", "10.9.0.4", "192.168.7.7"),
		MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("10.9.0.0/24")},
	})
	taken := find(t, report, "10.0.0.4")
	require.Equal(t, Red, taken.Status)
	require.Contains(t, taken.Advice, "Find the machine with 52:54:00:00:00:01")
	require.Equal(t, Green, find(t, report, "10.0.0.5").Status)
	require.Equal(t, Unknown, find(t, report, "10.0.0.6").Status)
	require.Equal(t, Unknown, find(t, report, "10.9.0.4").Status)
	outside := find(t, report, "192.168.7.7")
	require.Equal(t, Red, outside.Status)
	require.Equal(t, "the machine networks are 10.0.0.0/24, 10.9.0.0/24", outside.Result)
	require.Equal(t, Red, report.Status)
}

func TestAddresses_kernelNeighbourTable(t *testing.T) {
	const table = `IP address       HW type     Flags       HW address            Mask     Device
10.0.0.4         0x1         0x2         52:54:00:00:00:01     *        eth0
10.0.0.5         0x1         0x0         00:00:00:00:00:00     *        eth0
`
	require.Equal(t, "52:54:00:00:00:01", arpEntry(table, netip.MustParseAddr("10.0.0.4")))
	require.Empty(t, arpEntry(table, netip.MustParseAddr("10.0.0.5")), "no machine answered")
	require.Empty(t, arpEntry(table, netip.MustParseAddr("10.0.0.6")))
	holder, err := FindNeighbour(t.Context(), netip.MustParseAddr("127.0.0.1"))
	require.NoError(t, err)
	require.Equal(t, "this machine itself", holder)
	_, err = FindNeighbour(t.Context(), netip.MustParseAddr("203.0.113.9"))
	require.ErrorIs(t, err, ErrOtherNetwork)
}

func TestProxy_bypassedForSite(t *testing.T) {
	site := &Site{
		Cluster: "lab", BaseDomain: "site.test", Resolvers: []string{startDNS(t)},
		Registries: []Registry{{Host: "127.0.0.1:1"}}, DirectURLs: []string{"http://landfall.site.test:8090"},
		MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")},
		Proxy: Proxy{HTTP: "http://user:secret@proxy.corp.test:3128",
			HTTPS: "http://user:secret@proxy.corp.test:3128", No: "10.0.0.0/24,.lab.site.test"},
	}
	report := Doctor{}.Diagnose(t.Context(), site)
	appliance := find(t, report, "the appliance")
	require.Equal(t, Red, appliance.Status)
	require.Equal(t, "yes, http://user:xxxxx@proxy.corp.test:3128", appliance.Result, "without the password")
	require.Equal(t, "Add landfall.site.test to no_proxy.", appliance.Advice)
	require.Equal(t, Green, find(t, report, "machine network 10.0.0.0/24").Status)
	require.Equal(t, Amber, find(t, report, "machine network fd00::/64").Status)
	require.Equal(t, Green, find(t, report, "the cluster's own names").Status)
}

func TestProxy_bypassedForRegistryTokens(t *testing.T) {
	now := time.Now()
	trusted := newAuthority(t, now)
	host := trusted.startRegistry(t, now, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="https://tokens.site.test/auth",service="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
	}, nil)
	site := &Site{Registries: []Registry{{Host: host}}, Authorities: trusted.pool(),
		Proxy: Proxy{HTTPS: "http://proxy.corp.test:3128", No: "127.0.0.1"}}
	finding := find(t, Doctor{Timeout: 300 * time.Millisecond}.Diagnose(t.Context(), site),
		"token server tokens.site.test")
	require.Equal(t, Red, finding.Status)
	require.Equal(t, "Add tokens.site.test to no_proxy.", finding.Advice)
}

func TestReport_includesHostMeasurements(t *testing.T) {
	report := Doctor{FindNeighbour: noNeighbour}.Diagnose(t.Context(),
		&Site{HostFindings: []Finding{{Area: Hosts, Subject: "node-1", Status: Red}}})
	require.Equal(t, Red, report.Status)
	require.Equal(t, Hosts, find(t, report, "node-1").Area)
}
