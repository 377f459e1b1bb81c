// Package doctor looks at what a site gives an installation, before a server boots: names, clocks,
// registries and the images in them, addresses, the way to machines, DHCP and proxies. What it
// finds is a list of findings, each with what was asked, what answered and what to do.
//
// It looks from the machine that it runs on. What can't be told from there is said to be unknown,
// not good.
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

// Verdict is how good a finding is.
type Verdict string

// The verdicts, the best first. Unknown is for what can't be told from this machine.
const (
	Green   Verdict = "green"
	Unknown Verdict = "unknown"
	Amber   Verdict = "amber" // it may go wrong, or people will be in the way of it later
	Red     Verdict = "red"   // an installation does not get through
)

// worse tells whether v is worse than other.
func (v Verdict) worse(other Verdict) bool { return v.rank() > other.rank() }

func (v Verdict) rank() int {
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

// The areas of findings, in the order of a report.
const (
	Names      = "names"
	Clocks     = "clocks"
	Registries = "registries"
	Images     = "images"
	Addresses  = "addresses"
	Paths      = "paths"
	Offers     = "offers"
	Proxies    = "proxies"
	Hosts      = "hosts"
)

// Finding is one thing that was looked at.
type Finding struct {
	Area     string  `json:"area"`
	Subject  string  `json:"subject"` // what was looked at: a name, a server, an address
	Verdict  Verdict `json:"verdict"`
	Asked    string  `json:"asked"`
	Answered string  `json:"answered"`
	Do       string  `json:"do,omitempty"` // what a person does about it; "" when nothing
}

// Report is what an examination found.
type Report struct {
	At       time.Time `json:"at"` // UTC, of this machine's clock
	Cluster  string    `json:"cluster,omitempty"`
	Verdict  Verdict   `json:"verdict"` // the worst of the findings
	Findings []Finding `json:"findings"`
}

// Site is what an examination looks at. What is left out is not looked at.
type Site struct {
	// Cluster and BaseDomain make the cluster's names; without them no names are looked at.
	Cluster, BaseDomain string
	// NamesNeeded says that hosts can't do without the site's DNS records: clusters without virtual
	// addresses of their own.
	NamesNeeded bool
	// APIAddresses and IngressAddresses are what the cluster's names must lead to; none means that
	// they are not known yet.
	APIAddresses, IngressAddresses []netip.Addr
	// Free are addresses that nobody may have yet.
	Free []netip.Addr
	// MachineNetworks are those of the hosts.
	MachineNetworks []netip.Prefix
	// Resolvers are the site's DNS servers, each "address:port", and Search the domains that
	// unfinished names are tried in.
	Resolvers, Search []string
	// NTPSources are names or addresses of time servers, with a port or without.
	NTPSources []string
	// Registries are those that images are pulled from.
	Registries []Registry
	// Authorities are trusted for registries beside those of this machine; nil for none.
	Authorities *x509.CertPool
	// Proxy is what hosts reach the outside by.
	Proxy Proxy
	// Direct are URLs that hosts must reach without the proxy beside the registries': the
	// appliance's own.
	Direct []string
	// Contents are the releases that the registries must hold, and Holes what is doubtful about the
	// rules that lead there.
	Contents []Contents
	Holes    []mirror.Hole
	// Machines are those that full packets must reach, beside the registries.
	Machines []Machine
	// AskDHCP has DHCP servers be asked, which sends packets to all machines of this machine's
	// networks.
	AskDHCP bool
	// Lags are by how much clocks of hosts are behind this machine's, by the hosts' names;
	// negative: ahead.
	Lags map[string]time.Duration
	// Configured is what is to be said of what the appliance itself was given.
	Configured []Finding
	// Measured is what hosts found themselves.
	Measured []Finding
}

// Registry is a registry that images are pulled from.
type Registry struct {
	Host     string // with a port or without
	Insecure bool   // nobody looks at its certificate, and it may speak http
}

// Doctor examines sites.
type Doctor struct {
	// Clock is this machine's; nil is the real one.
	Clock clockwork.Clock
	// Patience is how long an answer is waited for; 0 means 3 s.
	Patience time.Duration
	// Neighbour says which hardware address answers for an IP address of a network that this
	// machine is in, "" when none does. ErrCannotTell is for those of other networks. nil asks the
	// system.
	Neighbour func(ctx context.Context, address netip.Addr) (string, error)
	// Path opens the way to an address; nil is by datagrams from this machine.
	Path func(address netip.Addr) (Path, error)
	// Interfaces are this machine's network cards, and Wire what is sent and received on one of
	// them by DHCP; nil are those of the system.
	Interfaces func() ([]net.Interface, error)
	Wire       func(iface net.Interface) (net.PacketConn, error)
}

const (
	defaultPatience = 3 * time.Second
	// atOnce bounds how many things are looked at at the same time.
	atOnce = 16
)

// examination is one examination under way.
type examination struct {
	Doctor
	site *Site

	mu     sync.Mutex
	lags   map[string]time.Duration // by which clocks are behind this machine's, by what has them
	realms []*url.URL               // where registries send for tokens
}

// check looks at one thing.
type check func(context.Context) []Finding

// Diagnose looks at a site and returns what it found, always: what could not be asked is a finding
// too. It takes a few times the patience at the most.
func (d Doctor) Diagnose(ctx context.Context, site *Site) *Report {
	if d.Clock == nil {
		d.Clock = clockwork.NewRealClock()
	}
	if d.Patience == 0 {
		d.Patience = defaultPatience
	}
	if d.Neighbour == nil {
		d.Neighbour = neighbour
	}
	if d.Path == nil {
		d.Path = openPath
	}
	if d.Interfaces == nil {
		d.Interfaces = net.Interfaces
	}
	if d.Wire == nil {
		d.Wire = openWire
	}
	e := &examination{Doctor: d, site: site, lags: maps.Clone(site.Lags)}
	checks := e.nameChecks()
	checks = append(checks, e.clockChecks()...)
	checks = append(checks, e.registryChecks()...)
	checks = append(checks, e.addressChecks()...)
	checks = append(checks, e.pathChecks()...)
	checks = append(checks, e.offerChecks()...)
	found := make([][]Finding, len(checks))
	var group sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for i, look := range checks {
		turns <- struct{}{}
		group.Go(func() {
			found[i] = look(ctx)
			<-turns
		})
	}
	group.Wait()
	report := &Report{At: d.Clock.Now().UTC(), Cluster: site.Cluster, Findings: []Finding{}}
	found = append(found, e.newCertificates(), e.proxies())
	found = append(found, site.Configured, e.contents(ctx, slices.Concat(found...)), site.Measured)
	for _, findings := range found {
		report.Findings = append(report.Findings, findings...)
	}
	order := []string{Names, Clocks, Registries, Images, Addresses, Paths, Offers, Proxies, Hosts}
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		return slices.Index(order,
			a.Area) - slices.Index(order, b.Area)
	})
	report.Verdict = Worst(report.Findings)
	return report
}

// Worst is the worst verdict of some findings; Green of none.
func Worst(findings []Finding) Verdict {
	worst := Green
	for _, finding := range findings {
		if finding.Verdict.worse(worst) {
			worst = finding.Verdict
		}
	}
	return worst
}
