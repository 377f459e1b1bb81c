package doctor

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/agents"
	"landfall/appliance/egress"
	"landfall/appliance/engine"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/validation"
	"landfall/appliance/mirror"
	"landfall/appliance/sentence"
)

// Request selects the checks.
type Request struct {
	ClusterID string        // "" for the checks that concern all clusters
	CheckDHCP bool          // check the DHCP servers
	Names     *ClusterNames // if not nil, only these names are checked
}

// ClusterNames are the names of a cluster that may not exist yet.
type ClusterNames struct {
	Name, BaseDomain     string
	APIVIPs, IngressVIPs []string
	Needed               bool // the hosts need the site's DNS records
}

// Options configures a [Service].
type Options struct {
	Engine *engine.Engine
	Rules  func(mirror.Level) *mirror.Rules // returns the rules that apply to a level
	// returns the releases that the mirror must hold
	MirroredReleases func(clusterID string) ([]MirroredRelease, error)
	NoteSite         func(context.Context, *Report) error              // receives the reports about the site; or nil
	CheckImage       func(openshiftVersion, architecture string) error // returns an error if no live ISO matches
	URLs             []string                                          // URLs of the appliance
	Egress           *egress.Rules                                     // nil allows all addresses
	Agents           Agents                                            // nil: hosts are not checked for tokens
	Protections      *Protections                                      // nil: not checked
	SiteServices     SiteServices                                      // the appliance's own; nil without any
	Fleet            func(context.Context) []Finding                   // of the fleet; nil: not checked
	Logger           *slog.Logger
}

// Agents knows which hosts have no token. Package agents implements it.
type Agents interface {
	// Enabled reports whether the appliance authenticates machines.
	Enabled() bool
	// Tokenless describes the infra-envs with hosts that have no token.
	Tokenless() ([]agents.Tokens, error)
}

// SiteServices are the network services that the appliance itself runs for the site. Package
// siteservice implements it.
type SiteServices interface {
	// NameServers returns the DNS servers of the appliance, each "address:port".
	NameServers() []string
	// OwnTimeServers returns the addresses at which the appliance serves the time.
	OwnTimeServers() []string
	// DHCPServers returns the addresses of the appliance by the interfaces on which it gives
	// addresses to machines.
	DHCPServers() map[string][]string
}

// Service checks the site of an appliance.
type Service struct{ Options }

// NewService returns a Service.
func NewService(options Options) *Service { return &Service{options} }

// Diagnose checks the site's common services. If the request names a cluster, it checks the
// cluster's names, addresses and hosts as well.
func (s *Service) Diagnose(ctx context.Context, wanted Request) (*Report, error) {
	if wanted.Names != nil {
		return diagnoseNames(ctx, wanted.Names)
	}
	clusterID := wanted.ClusterID
	rules := s.Rules(mirror.Level{Cluster: clusterID})
	site := &Site{NTPSources: s.Engine.NTPSources(), Registries: s.registries(clusterID), DirectURLs: s.URLs,
		Holes: rules.Holes(), CheckDHCP: wanted.CheckDHCP, Authorities: authorities(rules)}
	var err error
	if site.Resolvers, site.Search, err = SystemResolvers(); err != nil {
		s.Logger.WarnContext(ctx, "The DNS servers of this machine could not be read. The doctor skips the DNS checks.",
			"error", err)
	}
	if s.SiteServices != nil {
		site.Resolvers = appendNew(site.Resolvers, s.SiteServices.NameServers())
		site.OwnTimeServers = s.SiteServices.OwnTimeServers()
		site.NTPSources = appendNew(site.NTPSources, site.OwnTimeServers)
		site.OwnDHCP = s.SiteServices.DHCPServers()
	}
	if clusterID == "" {
		tokens, err := s.tokenFindings()
		if err != nil {
			return nil, err
		}
		site.ConfigurationFindings = append(s.configurationFindings(), tokens...)
		if s.Protections != nil {
			hasHosts := false
			if _, err := s.Engine.HostTable(func(_, _, _ string) bool { hasHosts = true; return false }); err != nil {
				return nil, err
			}
			site.ConfigurationFindings = append(site.ConfigurationFindings, s.Protections.reach(s.URLs[0], hasHosts))
			site.ConfigurationFindings = append(site.ConfigurationFindings, s.Protections.Diagnose(ctx)...)
		}
		if s.Fleet != nil {
			site.ConfigurationFindings = append(site.ConfigurationFindings, s.Fleet(ctx)...)
		}
	} else if err := s.addCluster(site, clusterID); err != nil {
		return nil, err
	}
	if len(rules.List()) > 0 {
		if site.MirroredReleases, err = s.MirroredReleases(clusterID); err != nil {
			return nil, err
		}
	}
	report := Doctor{Egress: s.Egress}.Diagnose(ctx, site)
	if clusterID == "" && s.NoteSite != nil && ctx.Err() == nil {
		if err := s.NoteSite(ctx, report); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// Mirrors checks the registries of the site's mirror rules. Without rules, it returns nothing.
func (s *Service) Mirrors(ctx context.Context) []Finding {
	rules := s.Rules(mirror.Level{})
	if len(rules.List()) == 0 {
		return nil
	}
	return Doctor{Egress: s.Egress}.CheckRegistries(ctx, &Site{Registries: s.registries(""),
		Authorities: authorities(rules)})
}

// authorities returns the CAs of registries, or nil if the rules have none.
func authorities(rules *mirror.Rules) *x509.CertPool {
	bundle := rules.CABundle()
	if len(bundle) == 0 {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	return pool
}

// LogClocks compares the clocks of the site, and logs those that differ.
func (s *Service) LogClocks(ctx context.Context) {
	report, err := s.Diagnose(ctx, Request{})
	if err != nil {
		s.Logger.ErrorContext(ctx, "The clocks could not be compared.", "error", err)
		return
	}
	for _, finding := range report.Findings {
		if finding.Area == Clocks && finding.Status == Red {
			s.Logger.WarnContext(ctx, "A clock differs.", "subject", finding.Subject, "result", finding.Result,
				"advice", finding.Advice)
		}
	}
}

// configurationFindings checks that the configuration names at least one release, and a live ISO
// for each release.
func (s *Service) configurationFindings() []Finding {
	const check = "whether the site has a release and a live ISO that its hosts can boot"
	releases := s.Engine.ReleaseList()
	if len(releases) == 0 {
		return []Finding{{
			Area: Images, Subject: "releases", Status: Red, Check: check,
			Result: "none, so neither a cluster nor an infra-env can be created",
			Advice: "Add a release in the settings, or with landfall settings release add PULLSPEC. A live ISO " +
				"alone is not enough: the release determines which live ISO hosts boot and what they install.",
		}}
	}
	var findings []Finding
	for _, release := range releases {
		finding := Finding{
			Area: Images, Subject: "live ISO for " + release.OpenshiftVersion + " on " + release.CPUArchitecture,
			Status: Green, Check: check, Result: "available",
		}
		if err := s.CheckImage(release.OpenshiftVersion, release.CPUArchitecture); err != nil {
			finding.Status, finding.Result = Red, err.Error()
		}
		findings = append(findings, finding)
	}
	return findings
}

// tokenFindings names the hosts that booted an image without a token: an appliance that
// authenticates machines refuses them.
func (s *Service) tokenFindings() ([]Finding, error) {
	if s.Agents == nil {
		return nil, nil
	}
	infraEnvs, err := s.Agents.Tokenless()
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, infraEnv := range infraEnvs {
		var names []string
		for _, host := range infraEnv.TokenlessHosts {
			names = append(names, cmp.Or(host.Name, host.ID))
		}
		finding := Finding{Area: Hosts, Subject: "hosts of " + infraEnv.Name, Status: Green,
			Check:  "whether hosts booted a discovery image without a token",
			Result: sentence.Shorten(fmt.Sprintf("%d: %s", len(names), strings.Join(names, ", ")), 400)}
		if len(names) == 0 {
			finding.Result = "none"
		}
		until := infraEnv.TokenlessUntil
		switch {
		case !s.Agents.Enabled() && until == nil:
			finding.Advice = "Nothing now. Before you set auth to local during an installation, accept these hosts " +
				"without a token for some hours: landfall agent-tokens accept-none. Boot other hosts from a new image."
		case !s.Agents.Enabled():
			finding.Result += "; machines without a token will be accepted until " + until.UTC().Format(time.RFC3339)
		case until != nil:
			finding.Status = Amber
			finding.Result += "; machines without a token are accepted until " + until.UTC().Format(time.RFC3339)
			finding.Advice = "Boot these hosts from the current image, and end the permission."
		default:
			finding.Status = Amber
			finding.Result += "; the appliance refuses them"
			finding.Advice = "Boot these hosts from the current image, or accept the infra-env's machines without a " +
				"token for some hours."
		}
		findings = append(findings, finding)
	}
	return findings, nil
}

// diagnoseNames checks only the names of a cluster.
func diagnoseNames(ctx context.Context, wanted *ClusterNames) (*Report, error) {
	site := &Site{Cluster: wanted.Name, BaseDomain: wanted.BaseDomain, NamesNeeded: wanted.Needed}
	for _, vip := range wanted.APIVIPs {
		site.APIAddresses = appendAddress(site.APIAddresses, vip)
	}
	for _, vip := range wanted.IngressVIPs {
		site.IngressAddresses = appendAddress(site.IngressAddresses, vip)
	}
	var err error
	if site.Resolvers, site.Search, err = SystemResolvers(); err != nil {
		return nil, err
	}
	report := Doctor{}.Diagnose(ctx, site)
	report.Findings = slices.DeleteFunc(report.Findings, func(f Finding) bool { return f.Area != Names })
	report.Status = Worst(report.Findings)
	return report, nil
}

// registries returns the registries in the mirror rules of a cluster, or of the appliance if
// clusterID is empty. Without rules, it returns the registries of the configured releases.
func (s *Service) registries(clusterID string) []Registry {
	var registries []Registry
	add := func(location string, insecure bool) {
		host, _, _ := strings.Cut(location, "/")
		if registry, err := name.NewRegistry(host); err == nil && registry.Scheme() == "http" {
			insecure = true // a registry on this machine, as in the demo
		}
		if !slices.ContainsFunc(registries, func(r Registry) bool { return r.Host == host }) {
			registries = append(registries, Registry{Host: host, Insecure: insecure})
		}
	}
	for _, rule := range s.Rules(mirror.Level{Cluster: clusterID}).List() {
		for _, place := range rule.Mirrors {
			add(place.Location, place.Insecure)
		}
	}
	if len(registries) > 0 {
		return registries
	}
	for _, release := range s.Engine.ReleaseList() {
		if ref, err := name.ParseReference(release.URL); err == nil {
			add(ref.Context().RegistryStr(), false)
		}
	}
	return registries
}

// addCluster adds a cluster's names, addresses and networks, and the measurements of its hosts.
func (s *Service) addCluster(site *Site, clusterID string) error {
	cluster, err := s.Engine.Cluster(clusterID)
	if err != nil {
		return err
	}
	infraEnvs, err := s.Engine.InfraEnvs(clusterID)
	if err != nil {
		return err
	}
	site.Cluster, site.BaseDomain = cluster.Name, cluster.BaseDNSDomain
	userManaged := conv.Value(cluster.UserManagedNetworking)
	ownBalancer := cluster.LoadBalancer != nil && cluster.LoadBalancer.Type == models.LoadBalancerTypeUserManaged
	site.NamesNeeded = ownBalancer || userManaged && !validation.SingleNode(cluster)
	for _, vip := range cluster.APIVips {
		site.APIAddresses = appendAddress(site.APIAddresses, string(vip.IP))
	}
	for _, vip := range cluster.IngressVips {
		site.IngressAddresses = appendAddress(site.IngressAddresses, string(vip.IP))
	}
	if !ownBalancer && beforeInstallation(cluster) {
		site.UnusedAddresses = slices.Concat(site.APIAddresses, site.IngressAddresses)
	}
	for _, network := range cluster.MachineNetworks {
		if prefix, err := netip.ParsePrefix(string(network.Cidr)); err == nil {
			site.MachineNetworks = append(site.MachineNetworks, prefix)
		}
	}
	site.Proxy = Proxy{HTTP: cluster.HTTPProxy, HTTPS: cluster.HTTPSProxy, No: cluster.NoProxy}
	site.NTPSources = appendList(site.NTPSources, cluster.AdditionalNtpSource)
	for _, env := range infraEnvs {
		site.NTPSources = appendList(site.NTPSources, env.AdditionalNtpSources)
		if site.Proxy == (Proxy{}) && env.Proxy != nil {
			site.Proxy = Proxy{HTTP: conv.Value(env.Proxy.HTTPProxy), HTTPS: conv.Value(env.Proxy.HTTPSProxy),
				No: conv.Value(env.Proxy.NoProxy)}
		}
	}
	hosts, err := s.Engine.ClusterHosts(clusterID, true)
	if err != nil {
		return err
	}
	site.ClockLags = make(map[string]time.Duration)
	for _, host := range hosts {
		if host.Timestamp != 0 {
			site.ClockLags["host "+hostName(host)] = time.Time(host.CheckedInAt).Truncate(time.Second).
				Sub(time.Unix(host.Timestamp, 0))
		}
		if address, ok := addressOf(host, site.MachineNetworks); ok && len(site.Machines) < maxPathHosts {
			site.Machines = append(site.Machines, Machine{Name: "host " + hostName(host), Address: address})
		}
		findings, err := hostFindings(host)
		if err != nil {
			return err
		}
		site.HostFindings = append(site.HostFindings, findings...)
	}
	return nil
}

// maxPathHosts is the maximum number of hosts to which the network path is checked.
const maxPathHosts = 16

// addressOf returns a host's address in one of the networks.
func addressOf(host *models.Host, networks []netip.Prefix) (netip.Addr, bool) {
	facts, _, err := inventory.ParseInventory(host.Inventory)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, prefix := range networks {
		if address, _, ok := network.AddressIn(prefix, facts); ok {
			return address, true
		}
	}
	return netip.Addr{}, false
}

func beforeInstallation(cluster *models.Cluster) bool {
	return slices.Contains([]string{models.ClusterStatusPendingForInput, models.ClusterStatusInsufficient,
		models.ClusterStatusReady}, conv.Value(cluster.Status))
}

func appendAddress(addresses []netip.Addr, text string) []netip.Addr {
	if address, err := netip.ParseAddr(text); err == nil {
		return append(addresses, address)
	}
	return addresses
}

// appendNew appends the entries of a list that entries does not contain yet.
func appendNew(entries, added []string) []string {
	entries = slices.Clip(entries)
	for _, entry := range added {
		if !slices.Contains(entries, entry) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// appendList appends the entries of a comma-separated list that entries does not contain yet.
func appendList(entries []string, list string) []string {
	entries = slices.Clip(entries)
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" && !slices.Contains(entries, part) {
			entries = append(entries, part)
		}
	}
	return entries
}

// siteValidations lists the host validations that check the site rather than the host itself.
func siteValidations() []validation.ID {
	return []validation.ID{
		validation.Connected, validation.HasDefaultRoute, validation.BelongsToMachineCIDR,
		validation.BelongsToMajorityGroup,
		validation.NTPSynced, validation.TimeSyncedBetweenHostAndService, validation.ContainerImagesAvailable,
		validation.SufficientNetworkLatencyRequirementForRole, validation.SufficientPacketLossRequirementForRole,
		validation.MTUValid,
		validation.APIDomainNameResolvedCorrectly, validation.APIIntDomainNameResolvedCorrectly,
		validation.AppsDomainNameResolvedCorrectly,
		validation.ReleaseDomainNameResolvedCorrectly, validation.DNSWildcardNotConfigured,
		validation.NoIPCollisionsInNetwork,
		validation.NonOverlappingSubnets, validation.IgnitionDownloadable,
	}
}

// hostFindings returns the results of a host's validations that check the site.
func hostFindings(host *models.Host) ([]Finding, error) {
	if host.ValidationsInfo == "" {
		return nil, nil
	}
	var results map[string][]struct {
		ID              validation.ID
		Status, Message string
	}
	if err := json.Unmarshal([]byte(host.ValidationsInfo), &results); err != nil {
		return nil, err
	}
	found := make(map[validation.ID]Finding)
	for _, category := range results {
		for _, v := range category {
			finding := Finding{Area: Hosts, Subject: hostName(host), Check: string(v.ID),
				Result: v.Message}
			switch v.Status {
			case string(validation.Success):
				finding.Status = Green
			case string(validation.Pending):
				finding.Status = Unknown
			case string(validation.Failure), string(validation.Error):
				finding.Status = Red
			default: // disabled
				continue
			}
			found[v.ID] = finding
		}
	}
	var findings []Finding
	for _, id := range siteValidations() {
		if finding, ok := found[id]; ok {
			findings = append(findings, finding)
		}
	}
	return findings, nil
}

func hostName(host *models.Host) string {
	if host.RequestedHostname != "" {
		return host.RequestedHostname
	}
	if facts, _, err := inventory.ParseInventory(host.Inventory); err == nil && facts.Hostname != "" {
		return facts.Hostname
	}
	return host.ID.String()
}
