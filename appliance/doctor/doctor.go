// Package doctor checks a site before an installation: DNS names, clocks, registries and their
// images, addresses, network paths, DHCP and proxies. The result is a list of findings, each with
// the check, the result and advice.
//
// The checks run on this machine. The result of a check that this machine cannot carry out is
// unknown, and not passed.
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

	"landfall/appliance/egress"
	"landfall/appliance/mirror"
)

// Status rates the result of a check.
type Status string

// Statuses, the best first. Unknown means that this machine cannot carry out the check.
const (
	Green   Status = "green"
	Unknown Status = "unknown"
	Amber   Status = "amber" // the installation may fail, or problems may follow later
	Red     Status = "red"   // the installation fails
)

// Word returns the word for people. Programs read the status itself.
func (s Status) Word() string {
	switch s {
	case Green:
		return "passed"
	case Amber:
		return "warning"
	case Red:
		return "failed"
	}
	return string(s)
}

// worse reports whether s is worse than other.
func (s Status) worse(other Status) bool { return s.rank() > other.rank() }

func (s Status) rank() int {
	switch s {
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
	DHCP       = "offers"
	Proxies    = "proxies"
	Hosts      = "hosts"
	Fleet      = "fleet"      // the members and etcd
	Protection = "protection" // of the appliance itself
)

// Finding is the result of one check.
type Finding struct {
	Area    string `json:"area"`
	Subject string `json:"subject"` // a name, a server or an address
	Status  Status `json:"verdict"`
	Check   string `json:"asked"`
	Result  string `json:"answered"`
	Advice  string `json:"do,omitempty"` // what the user should do; "" for nothing
}

// Report is the result of a diagnosis.
type Report struct {
	At       time.Time `json:"at"` // in UTC, by this machine's clock
	Cluster  string    `json:"cluster,omitempty"`
	Status   Status    `json:"verdict"` // the worst status of the findings
	Findings []Finding `json:"findings"`
}

// Site describes the site to check. The doctor skips the checks of empty fields.
type Site struct {
	// Cluster and BaseDomain form the cluster's names.
	Cluster, BaseDomain string
	// NamesNeeded reports whether the hosts need the site's DNS records. They do if the appliance
	// does not manage the cluster's virtual IP addresses.
	NamesNeeded bool
	// APIAddresses and IngressAddresses are the addresses to which the cluster's names must
	// resolve. They are empty if no addresses are set yet.
	APIAddresses, IngressAddresses []netip.Addr
	// UnusedAddresses lists addresses that no machine may use yet.
	UnusedAddresses []netip.Addr
	// MachineNetworks are the networks of the hosts.
	MachineNetworks []netip.Prefix
	// Resolvers are the site's DNS servers, each "address:port". Search lists the search domains.
	Resolvers, Search []string
	// NTPSources are names or addresses of time servers, with or without a port.
	NTPSources []string
	// OwnTimeServers are the addresses at which the appliance itself serves the time.
	OwnTimeServers []string
	// Registries are the registries from which images are pulled.
	Registries []Registry
	// Authorities are the CAs of registries, on top of this machine's; nil for none.
	Authorities *x509.CertPool
	// Proxy is the hosts' proxy.
	Proxy Proxy
	// DirectURLs lists the appliance's URLs. Hosts must access these URLs and the registries
	// without the proxy.
	DirectURLs []string
	// MirroredReleases lists the releases that the registries must contain. Holes lists problems of
	// the mirror rules.
	MirroredReleases []MirroredRelease
	Holes            []mirror.Hole
	// Machines lists further machines to which the network path is checked. The paths to the
	// registries are always checked.
	Machines []Machine
	// CheckDHCP enables the check of DHCP servers. The check sends broadcasts in this machine's
	// networks.
	CheckDHCP bool
	// OwnDHCP holds the addresses of the appliance by the interfaces on which it is a DHCP server.
	OwnDHCP map[string][]string
	// ClockLags maps a host's name to the time by which its clock is behind this machine's clock.
	// The time is negative if the host's clock is ahead.
	ClockLags map[string]time.Duration
	// ConfigurationFindings holds findings about the appliance's configuration.
	ConfigurationFindings []Finding
	// HostFindings holds the results of the checks that hosts carried out.
	HostFindings []Finding
}

// Registry is a registry from which images are pulled.
type Registry struct {
	Host     string // with or without a port
	Insecure bool   // the certificate is not verified, and the registry may use HTTP
}

// Doctor checks sites.
type Doctor struct {
	// Clock is this machine's clock; nil for the real one.
	Clock clockwork.Clock
	// Timeout is the time limit for each response; 0 means 3 s.
	Timeout time.Duration
	// FindNeighbour returns the hardware address of an IP address in this machine's networks, or ""
	// if no machine answers. For an address outside of these networks, it returns ErrOtherNetwork.
	// nil means the operating system's neighbour table.
	FindNeighbour func(ctx context.Context, address netip.Addr) (string, error)
	// OpenPath opens a path to an address; nil means UDP datagrams from this machine.
	OpenPath func(address netip.Addr) (Path, error)
	// Interfaces lists this machine's network interfaces. OpenDHCP opens a connection for DHCP on
	// an interface. nil means the operating system's implementation.
	Interfaces func() ([]net.Interface, error)
	OpenDHCP   func(iface net.Interface) (net.PacketConn, error)
	// Egress decides which registries, token servers, time servers and machines may be reached; nil
	// allows all.
	Egress *egress.Rules
}

const (
	defaultTimeout = 3 * time.Second
	// maxConcurrentChecks is the maximum number of concurrent checks.
	maxConcurrentChecks = 16
)

// diagnosis is one run of the doctor's checks.
type diagnosis struct {
	Doctor
	site *Site

	mu           sync.Mutex
	lags         map[string]time.Duration // lag of each clock behind this machine's, by machine
	tokenServers []*url.URL               // of registries
}

// check runs one check.
type check func(context.Context) []Finding

// start returns a run of the checks of a site.
func (d Doctor) start(site *Site) *diagnosis {
	if d.Clock == nil {
		d.Clock = clockwork.NewRealClock()
	}
	if d.Timeout == 0 {
		d.Timeout = defaultTimeout
	}
	if d.FindNeighbour == nil {
		d.FindNeighbour = findHolder
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
	return &diagnosis{Doctor: d, site: site, lags: maps.Clone(site.ClockLags)}
}

// CheckRegistries checks only the registries of a site, without their images.
func (d Doctor) CheckRegistries(ctx context.Context, site *Site) []Finding {
	run := d.start(site)
	return slices.Concat(runAll(ctx, run.registryChecks())...)
}

// Diagnose checks a site. It always returns a report: a check that cannot run results in a finding
// with the status Unknown. Diagnose takes at most a few times the timeout, and some
// 25 s if a machine had a reserved address earlier (see [findHolder]).
func (d Doctor) Diagnose(ctx context.Context, site *Site) *Report {
	run := d.start(site)
	checks := run.nameChecks()
	checks = append(checks, run.clockChecks()...)
	checks = append(checks, run.registryChecks()...)
	checks = append(checks, run.addressChecks()...)
	checks = append(checks, run.pathChecks()...)
	checks = append(checks, run.dhcpChecks()...)
	found := runAll(ctx, checks)
	report := &Report{At: run.Clock.Now().UTC(), Cluster: site.Cluster, Findings: []Finding{}}
	found = append(found, run.checkNewCertificates(), run.checkProxies())
	found = append(found, site.ConfigurationFindings, run.checkMirroredReleases(ctx, slices.Concat(found...)),
		site.HostFindings)
	for _, findings := range found {
		report.Findings = append(report.Findings, findings...)
	}
	order := []string{Names, Clocks, Registries, Images, Addresses, Paths, DHCP, Proxies, Hosts,
		Fleet, Protection}
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		return slices.Index(order,
			a.Area) - slices.Index(order, b.Area)
	})
	report.Status = Worst(report.Findings)
	return report
}

// runAll runs checks at the same time, and returns the findings of each.
func runAll(ctx context.Context, checks []check) [][]Finding {
	found := make([][]Finding, len(checks))
	var group sync.WaitGroup
	semaphore := make(chan struct{}, maxConcurrentChecks)
	for i, runCheck := range checks {
		semaphore <- struct{}{}
		group.Go(func() {
			found[i] = runCheck(ctx)
			<-semaphore
		})
	}
	group.Wait()
	return found
}

// Worst returns the worst status of findings; Green if there are no findings.
func Worst(findings []Finding) Status {
	worst := Green
	for _, finding := range findings {
		if finding.Status.worse(worst) {
			worst = finding.Status
		}
	}
	return worst
}
