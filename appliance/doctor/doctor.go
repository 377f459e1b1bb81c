// Package doctor checks a site before an installation: DNS names, clocks, registries and their
// images, addresses, network paths, DHCP and proxies. The result is a list of findings, each with
// the question, the answer and advice.
//
// The checks run on this machine. A finding that this machine cannot determine is unknown, not
// good.
package doctor

import (
	"context"
	"crypto/x509"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/mirror"
)

// Verdict is the result of a check.
type Status string

// Results, the best first. Unknown is for everything that this machine cannot determine.
const (
	Green   Status = "green"
	Unknown Status = "unknown"
	Amber   Status = "amber" // the installation may fail, or people will have problems later
	Red     Status = "red"   // the installation fails
)

// worse reports whether v is worse than other.
func (v Status) worse(other Status) bool { return v.rank() > other.rank() }

func (v Status) rank() int {
	switch v {
	case Red:
		return 3
	case Amber:
		return 2
	case Unknown:
		return 1
	}
	return 0
}

// Areas of findings, in the order of a report.
const (
	Names      = "names"
	Clocks     = "clocks"
	Registries = "registries"
	Images     = "images"
	Addresses  = "addresses"
	Paths      = "paths"
	DHCP     = "offers"
	Proxies    = "proxies"
	Hosts      = "hosts"
)

// Finding is the result of one check.
type Finding struct {
	Area     string  `json:"area"`
	Subject  string  `json:"subject"` // a name, a server or an address
	Status  Status `json:"verdict"`
	Check    string  `json:"asked"`
	Result string  `json:"answered"`
	Advice       string  `json:"do,omitempty"` // advice; "" if nothing is to be done
}

// Report is the result of a diagnosis.
type Report struct {
	At       time.Time `json:"at"` // UTC, of this machine's clock
	Cluster  string    `json:"cluster,omitempty"`
	Status  Status   `json:"verdict"` // the worst of the findings
	Findings []Finding `json:"findings"`
}

// Site describes the site to check. The doctor skips the checks of empty fields.
type Site struct {
	// Cluster and BaseDomain form the cluster's names.
	Cluster, BaseDomain string
	// NamesNeeded reports whether the hosts depend on the site's DNS records: the cluster has no
	// virtual addresses of its own.
	NamesNeeded bool
	// APIAddresses and IngressAddresses are the addresses to which the cluster's names must
	// resolve; empty if they are not known yet.
	APIAddresses, IngressAddresses []netip.Addr
	// Free lists addresses that no machine may use yet.
	UnusedAddresses []netip.Addr
	// MachineNetworks are the networks of the hosts.
	MachineNetworks []netip.Prefix
	// Resolvers are the site's DNS servers, each "address:port". Search lists the search domains.
	Resolvers, Search []string
	// NTPSources are names or addresses of time servers, with or without a port.
	NTPSources []string
	// Registries are the registries from which images are pulled.
	Registries []Registry
	// Authorities are the CAs of registries, on top of this machine's; nil for none.
	Authorities *x509.CertPool
	// Proxy is the hosts' proxy.
	Proxy Proxy
	// Direct lists the appliance's URLs. Hosts must access them and the registries without the
	// proxy.
	DirectURLs []string
	// Contents lists the releases that the registries must contain. Holes lists problems of the
	// mirror rules.
	MirroredReleases []MirroredRelease
	Holes    []mirror.Hole
	// Machines are the machines that full packets must reach, besides the registries.
	Machines []Machine
	// AskDHCP enables the check of DHCP servers. It sends broadcasts in this machine's networks.
	CheckDHCP bool
	// Lags holds by how much the hosts' clocks are behind this machine's, by the hosts' names. A
	// negative lag is a clock that is ahead.
	ClockLags map[string]time.Duration
	// Configured holds findings about the appliance's configuration.
	ConfigurationFindings []Finding
	// Measured holds the findings of hosts.
	HostFindings []Finding
}

// Registry is a registry from which images are pulled.
type Registry struct {
	Host     string // with or without a port
	Insecure bool   // its certificate is not verified, and it may use http
}

// Doctor checks sites.
type Doctor struct {
	// Clock is this machine's clock; nil for the real one.
	Clock clockwork.Clock
	// Patience is the time to wait for an answer; 0 means 3 s.
	Timeout time.Duration
	// Neighbour returns the hardware address that answers for an IP address in this machine's
	// networks; "" if there is none. For other networks it returns ErrCannotTell. nil uses the
	// system.
	FindNeighbour func(ctx context.Context, address netip.Addr) (string, error)
	// Path opens a path to an address; nil uses datagrams from this machine.
	OpenPath func(address netip.Addr) (Path, error)
	// Interfaces lists this machine's network interfaces. Wire opens a connection for DHCP on one
	// of them. nil uses the system.
	Interfaces func() ([]net.Interface, error)
	OpenDHCP       func(iface net.Interface) (net.PacketConn, error)
}

const (
	defaultTimeout = 3 * time.Second
	// atOnce is the maximum number of concurrent checks.
	maxConcurrentChecks = 16
)

// examination is a running diagnosis.
type diagnosis struct {
	Doctor
	site *Site

	mu     sync.Mutex
	lags   map[string]time.Duration // by how much clocks are behind this machine's, by the clocks' owners
	tokenServers []*url.URL               // token servers of registries
}

// check runs one check.
type check func(context.Context) []Finding

// Diagnose checks a site. It always returns a report: a check that fails to run is a finding too.
// It takes a few times the patience at most.
func (d Doctor) Diagnose(ctx context.Context, site *Site) *Report {
	if d.Clock == nil {
		d.Clock = clockwork.NewRealClock()
	}
	if d.Timeout == 0 {
		d.Timeout = defaultTimeout
	}
	if d.FindNeighbour == nil {
		d.FindNeighbour = findNeighbour
	}
	if d.OpenPath == nil {
		d.OpenPath = openPath
	}
	if d.Interfaces == nil {
		d.Interfaces = net.Interfaces
	}
	if d.OpenDHCP == nil {
		d.OpenDHCP = openDHCP
	}
	e := &diagnosis{Doctor: d, site: site, lags: maps.Clone(site.ClockLags)}
	checks := e.nameChecks()
	checks = append(checks, e.clockChecks()...)
	checks = append(checks, e.registryChecks()...)
	checks = append(checks, e.addressChecks()...)
	checks = append(checks, e.pathChecks()...)
	checks = append(checks, e.dhcpChecks()...)
	found := make([][]Finding, len(checks))
	var group sync.WaitGroup
	turns := make(chan struct{}, maxConcurrentChecks)
	for i, look := range checks {
		turns <- struct{}{}
		group.Go(func() {
			found[i] = look(ctx)
			<-turns
		})
	}
	group.Wait()
	report := &Report{At: d.Clock.Now().UTC(), Cluster: site.Cluster, Findings: []Finding{}}
	found = append(found, e.checkNewCertificates(), e.checkProxies())
	found = append(found, site.ConfigurationFindings, e.checkMirroredReleases(ctx, slices.Concat(found...)), site.HostFindings)
	for _, findings := range found {
		report.Findings = append(report.Findings, findings...)
	}
	order := []string{Names, Clocks, Registries, Images, Addresses, Paths, DHCP, Proxies, Hosts}
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		return slices.Index(order,
			a.Area) - slices.Index(order, b.Area)
	})
	report.Status = Worst(report.Findings)
	return report
}

// Worst returns the worst result of findings; Green if there are none.
func Worst(findings []Finding) Status {
	worst := Green
	for _, finding := range findings {
		if finding.Status.worse(worst) {
			worst = finding.Status
		}
	}
	return worst
}
