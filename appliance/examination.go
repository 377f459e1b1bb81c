package appliance

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/doctor"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/validation"
	"landfall/appliance/mirror"
	"landfall/web/api"
	"landfall/web/console"
)

// Examine looks at the site: at what all clusters need and, if one is named, at what that cluster
// needs.
func (v view) Examine(ctx context.Context, wanted console.Examination) (*doctor.Report, error) {
	if wanted.Names != nil {
		return namesOf(ctx, wanted.Names)
	}
	a, clusterID := v.appliance, wanted.ClusterID
	rules := a.rules.At(mirror.Level{Cluster: clusterID})
	site := &doctor.Site{NTPSources: a.config.NTPSources, Registries: a.registries(clusterID), Direct: a.urls,
		Holes: rules.Holes(), AskDHCP: wanted.DHCP}
	if bundle := rules.CABundle(); len(bundle) > 0 {
		site.Authorities = x509.NewCertPool()
		site.Authorities.AppendCertsFromPEM(bundle)
	}
	var err error
	if site.Resolvers, site.Search, err = doctor.SystemResolvers(); err != nil {
		a.log.WarnContext(ctx, "The site is looked at without its DNS.", "error", err)
	}
	if clusterID == "" {
		site.Configured = a.configured()
	} else if err := a.describeSite(site, clusterID); err != nil {
		return nil, api.Problem(err)
	}
	if len(rules.List()) > 0 {
		if site.Contents, err = a.proofs.Contents(clusterID); err != nil {
			return nil, api.Problem(err)
		}
	}
	return doctor.Doctor{}.Examine(ctx, site), nil
}

// configured says whether the appliance was given what every installation begins with: a release,
// and a live ISO for it.
func (a *Appliance) configured() []doctor.Finding {
	const asked = "whether there is a release, and a live ISO that its hosts can boot"
	if len(a.config.ReleaseImages) == 0 {
		return []doctor.Finding{{
			Area: doctor.Images, Subject: "releases", Verdict: doctor.Red, Asked: asked,
			Answered: "none, so no cluster can be made",
			Do:       "Name a release under release_images in the configuration, and start the appliance again.",
		}}
	}
	var findings []doctor.Finding
	for _, release := range a.config.ReleaseImages {
		finding := doctor.Finding{
			Area: doctor.Images, Subject: "live ISO for " + release.OpenshiftVersion + " on " + release.CPUArchitecture,
			Verdict: doctor.Green, Asked: asked, Answered: "it is there",
		}
		if status := a.releaseStatus(release); status.Message != "" {
			finding.Verdict, finding.Answered = doctor.Red, status.Message
		}
		findings = append(findings, finding)
	}
	return findings
}

// namesOf looks at nothing but the names of a cluster.
func namesOf(ctx context.Context, wanted *console.ClusterNames) (*doctor.Report, error) {
	site := &doctor.Site{Cluster: wanted.Name, BaseDomain: wanted.BaseDomain, NamesNeeded: wanted.Needed}
	for _, vip := range wanted.APIVIPs {
		site.APIAddresses = appendAddress(site.APIAddresses, vip)
	}
	for _, vip := range wanted.IngressVIPs {
		site.IngressAddresses = appendAddress(site.IngressAddresses, vip)
	}
	var err error
	if site.Resolvers, site.Search, err = doctor.SystemResolvers(); err != nil {
		return nil, api.Problem(err)
	}
	report := doctor.Doctor{}.Examine(ctx, site)
	report.Findings = slices.DeleteFunc(report.Findings, func(f doctor.Finding) bool { return f.Area != doctor.Names })
	report.Verdict = doctor.Worst(report.Findings)
	return report, nil
}

// registries are those that the mirror rules of a cluster, or of the appliance, lead to or, without
// rules, those that the releases name.
func (a *Appliance) registries(clusterID string) []doctor.Registry {
	var registries []doctor.Registry
	add := func(location string, insecure bool) {
		host, _, _ := strings.Cut(location, "/")
		if registry, err := name.NewRegistry(host); err == nil && registry.Scheme() == "http" {
			insecure = true // one of this machine, as in a rehearsal
		}
		if !slices.ContainsFunc(registries, func(known doctor.Registry) bool { return known.Host == host }) {
			registries = append(registries, doctor.Registry{Host: host, Insecure: insecure})
		}
	}
	for _, rule := range a.rules.At(mirror.Level{Cluster: clusterID}).List() {
		for _, place := range rule.Mirrors {
			add(place.Location, place.Insecure)
		}
	}
	if len(registries) > 0 {
		return registries
	}
	for _, release := range a.config.ReleaseImages {
		if ref, err := name.ParseReference(release.URL); err == nil {
			add(ref.Context().RegistryStr(), false)
		}
	}
	return registries
}

// describeSite adds what a cluster needs, and what its hosts have measured.
func (a *Appliance) describeSite(site *doctor.Site, clusterID string) error {
	cluster, err := a.engine.Cluster(clusterID)
	if err != nil {
		return err
	}
	infraEnvs, err := a.engine.InfraEnvs(clusterID)
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
		site.Free = slices.Concat(site.APIAddresses, site.IngressAddresses)
	}
	for _, network := range cluster.MachineNetworks {
		if prefix, err := netip.ParsePrefix(string(network.Cidr)); err == nil {
			site.MachineNetworks = append(site.MachineNetworks, prefix)
		}
	}
	site.Proxy = doctor.Proxy{HTTP: cluster.HTTPProxy, HTTPS: cluster.HTTPSProxy, No: cluster.NoProxy}
	site.NTPSources = listOf(site.NTPSources, cluster.AdditionalNtpSource)
	for _, env := range infraEnvs {
		site.NTPSources = listOf(site.NTPSources, env.AdditionalNtpSources)
		if site.Proxy == (doctor.Proxy{}) && env.Proxy != nil {
			site.Proxy = doctor.Proxy{HTTP: conv.Value(env.Proxy.HTTPProxy), HTTPS: conv.Value(env.Proxy.HTTPSProxy),
				No: conv.Value(env.Proxy.NoProxy)}
		}
	}
	hosts, err := a.engine.ClusterHosts(clusterID, true)
	if err != nil {
		return err
	}
	site.Lags = make(map[string]time.Duration)
	for _, host := range hosts {
		if host.Timestamp != 0 {
			site.Lags["host "+hostName(host)] = time.Time(host.CheckedInAt).Truncate(time.Second).
				Sub(time.Unix(host.Timestamp, 0))
		}
		if address, ok := addressOf(host, site.MachineNetworks); ok && len(site.Machines) < machinesAsked {
			site.Machines = append(site.Machines, doctor.Machine{Name: "host " + hostName(host), Address: address})
		}
		findings, err := measured(host)
		if err != nil {
			return err
		}
		site.Measured = append(site.Measured, findings...)
	}
	return nil
}

// machinesAsked bounds the hosts to which the way is looked at.
const machinesAsked = 16

// addressOf is a host's address in one of the networks.
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

// listOf adds what a list with commas names and is not there yet.
func listOf(known []string, list string) []string {
	known = slices.Clip(known)
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" && !slices.Contains(known, part) {
			known = append(known, part)
		}
	}
	return known
}

// siteValidations are what hosts find out about the site rather than about themselves.
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

// measured is what a host found out about the site, as its validations say it.
func measured(host *models.Host) ([]doctor.Finding, error) {
	if host.ValidationsInfo == "" {
		return nil, nil
	}
	var verdicts map[string][]struct {
		ID              validation.ID
		Status, Message string
	}
	if err := json.Unmarshal([]byte(host.ValidationsInfo), &verdicts); err != nil {
		return nil, err
	}
	looked := make(map[validation.ID]doctor.Finding)
	for _, category := range verdicts {
		for _, v := range category {
			finding := doctor.Finding{Area: doctor.Hosts, Subject: hostName(host), Asked: string(v.ID),
				Answered: v.Message}
			switch v.Status {
			case string(validation.Success):
				finding.Verdict = doctor.Green
			case string(validation.Pending):
				finding.Verdict = doctor.Unknown
			case string(validation.Failure), string(validation.Error):
				finding.Verdict = doctor.Red
			default: // switched off
				continue
			}
			looked[v.ID] = finding
		}
	}
	var findings []doctor.Finding
	for _, id := range siteValidations() {
		if finding, ok := looked[id]; ok {
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
