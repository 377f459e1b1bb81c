package validation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
)

// Names that hosts resolve, relative to <cluster name>.<base domain>.
const (
	apiName    = "api"
	apiIntName = "api-int"
	// appsName represents all applications under *.apps.
	appsName = "console-openshift-console.apps"
	// strayName is a name that does not exist. Only a wildcard record resolves it.
	strayName = "validateNoWildcardDNS"
)

// DomainNames returns the names that a host of the cluster resolves for the DNS validations. It is
// empty if the cluster has no name or base domain.
func DomainNames(c *models.Cluster) []string {
	if c.Name == "" || c.BaseDNSDomain == "" {
		return nil
	}
	stray := domain(c, strayName)
	return []string{domain(c, apiName), domain(c, apiIntName), domain(c, appsName), stray + ".", stray}
}

func domain(c *models.Cluster, name string) string {
	return name + "." + c.Name + "." + c.BaseDNSDomain
}

func apiResolved(c *hostContext) (Status, string) {
	return c.resolved(apiName, "the load balancer of the API")
}

func apiIntResolved(c *hostContext) (Status, string) {
	return c.resolved(apiIntName, "the load balancer of the API for machines")
}

func appsResolved(c *hostContext) (Status, string) {
	return c.resolved(appsName, "the load balancer of the applications (a wildcard record for *.apps)")
}

// resolved validates that a name of the cluster points to its load balancer. This is required only
// with user-managed networking on several nodes. Other clusters resolve their names themselves.
func (c *hostContext) resolved(name, target string) (Status, string) {
	switch {
	case c.Cluster == nil:
		return Success, unbound
	case !yes(c.Cluster.UserManagedNetworking):
		return Success, "Not needed: the cluster resolves its names itself."
	case SingleNode(c.Cluster) && !AddingHosts(c.Cluster):
		return Success, "Not needed: a single node resolves its names itself."
	case c.Cluster.BaseDNSDomain == "":
		return Error, "The cluster has no base domain, so its names cannot be checked; give the base domain."
	case c.Host.Domains == nil:
		return Pending, "Waiting for the host to resolve the cluster's names."
	}
	full := domain(c.Cluster, name)
	answer := c.answer(full)
	if answer == nil || !hasAddress(answer) {
		return Failure, fmt.Sprintf("The host cannot resolve %s; create a DNS record for it that points to %s.",
			full, target)
	}
	if ip, own := c.ownAddress(answer); own {
		return Failure, fmt.Sprintf("%s resolves to %s, which is this host; change the DNS record to %s.", full,
			ip, target)
	}
	return Success, fmt.Sprintf("The host can resolve %s.", full)
}

// answer returns the first non-empty answer for a name. If all answers are empty, it returns the
// first one. Without any answer, it returns nil.
func (c *hostContext) answer(name string) *models.DomainResolutionResponseDomain {
	var found *models.DomainResolutionResponseDomain
	for _, d := range c.Host.Domains.Resolutions {
		if text(d.DomainName) != name {
			continue
		}
		if hasAddress(d) {
			return d
		}
		if found == nil {
			found = d
		}
	}
	return found
}

func hasAddress(d *models.DomainResolutionResponseDomain) bool {
	return len(d.IPV4Addresses) > 0 || len(d.IPV6Addresses) > 0 || len(d.Cnames) > 0
}

// ownAddress reports whether an answer contains an address of the host itself.
func (c *hostContext) ownAddress(d *models.DomainResolutionResponseDomain) (netip.Addr, bool) {
	if c.Host.Inventory == nil {
		return netip.Addr{}, false
	}
	var answers []string
	for _, a := range d.IPV4Addresses {
		answers = append(answers, string(a))
	}
	for _, a := range d.IPV6Addresses {
		answers = append(answers, string(a))
	}
	for _, nic := range c.Host.Inventory.Interfaces {
		for _, p := range inventory.Addresses(nic) {
			if slices.ContainsFunc(answers, func(s string) bool {
				ip, err := netip.ParseAddr(s)
				return err == nil &&
					ip == p.Addr()
			}) {
				return p.Addr(), true
			}
		}
	}
	return netip.Addr{}, false
}

// releaseResolved always succeeds. Hosts pull from the site's mirrors, and
// container-images-available validates the pull. The name of the release's original registry need
// not exist at the site.
func releaseResolved(*hostContext) (Status, string) {
	return Success, "Not needed: the release is pulled from the site's mirror, which container-images-available checks."
}

func dnsWildcardNotConfigured(c *hostContext) (Status, string) {
	switch {
	case c.Cluster == nil:
		return Success, unbound
	case c.Host.Day2():
		return Success, day2
	case c.Host.Domains == nil:
		return Pending, "Waiting for the host to resolve the cluster's names."
	}
	stray := domain(c.Cluster, strayName)
	absolute, relative := c.answer(stray+"."), c.answer(stray)
	below := c.Cluster.Name + "." + c.Cluster.BaseDNSDomain
	switch {
	case absolute == nil || relative == nil:
		return Pending, "Waiting for the host to resolve the cluster's names."
	case hasAddress(absolute):
		return Failure,
			fmt.Sprintf("A wildcard DNS record resolves every name below %s (to %s), which breaks the "+
				"installation; remove the record *.%s.", below, answers(absolute), below)
	case hasAddress(relative):
		return Failure,
			fmt.Sprintf("The host resolves names below %s that do not exist (to %s), because a search domain is added "+
				"to them; remove the search domain from DHCP or the host's settings.", below, answers(relative))
	}
	return Success, "No wildcard DNS record resolves the cluster's names."
}

func answers(d *models.DomainResolutionResponseDomain) string {
	var list []string
	for _, a := range d.IPV4Addresses {
		list = append(list, string(a))
	}
	for _, a := range d.IPV6Addresses {
		list = append(list, string(a))
	}
	return strings.Join(append(list, d.Cnames...), ", ")
}
