package validation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
)

// ClusterInput is the input of the validations of a cluster.
type ClusterInput struct {
	Cluster *models.Cluster
	// Hosts holds the hosts that are bound to the cluster.
	Hosts        []*inventory.Host
	Requirements Requirements
	// PullSecretSet reports whether the cluster has a pull secret.
	PullSecretSet bool
	// CustomManifests reports whether manifests were added to the cluster.
	CustomManifests bool
	// MissingCatalogs holds the operator catalogs that the site's mirror does not provide. Each
	// value is a sentence about the cause.
	MissingCatalogs map[string]string
}

// Cluster runs all validations of a cluster. The report has every validation of the API. A
// validation that does not apply succeeds with a message about it.
func Cluster(in ClusterInput) *Report {
	report := &Report{
		results:    make([]Result, 0, len(clusterChecks)+len(operatorTable())+1),
		categories: make([]string, 0, len(clusterChecks)+len(operatorTable())+1),
	}
	for _, check := range clusterChecks {
		status, message := check.run(in)
		report.add(check.category, check.id, status, message)
	}
	for _, op := range operatorTable() {
		status, message := op.onCluster(in)
		report.add(Operators, op.id, status, message)
		if op.Name == openShiftAI {
			status, message = aiGPUs(in)
			report.add(Operators, openShiftAIGPUs, status, message)
		}
	}
	input := []ID{MachineCIDRDefined, ClusterCIDRDefined, ServiceCIDRDefined, DNSDomainDefined, PullSecretSet}
	if !yes(in.Cluster.VipDhcpAllocation) {
		input = append(input, APIVIPsDefined, IngressVIPsDefined)
	}
	report.levels = []level{{PendingForInput, input}, {Insufficient, nil}}
	report.ignored = ignoredIDs(in.Cluster.IgnoredClusterValidations, report.results, NeverIgnoredForClusters())
	return report
}

// IsOfClusters reports whether clusters have a validation with this id.
func IsOfClusters(id ID) bool {
	return isOfOperators(id) || id == openShiftAIGPUs ||
		slices.ContainsFunc(clusterChecks[:], func(check clusterCheck) bool { return check.id == id })
}

type clusterCheck struct {
	id       ID
	category string
	run      func(ClusterInput) (Status, string)
}

var clusterChecks = [...]clusterCheck{
	{PullSecretSet, Configuration, pullSecretSet},
	{PlatformRequirementsSatisfied, Configuration, platformRequirements},

	{AllHostsAreReadyToInstall, HostsData, allHostsReady},
	{SufficientMastersCount, HostsData, sufficientMasters},

	{MachineCIDRDefined, Network, clusterMachineCIDRDefined},
	{MachineCIDREqualsToCalculatedCIDR, Network, machineCIDREqualsCalculated},
	{APIVIPsDefined, Network, apiVIPsDefined},
	{APIVIPsValid, Network, apiVIPsValid},
	{IngressVIPsDefined, Network, ingressVIPsDefined},
	{IngressVIPsValid, Network, ingressVIPsValid},
	{NetworkTypeValid, Network, networkTypeValid},
	{CustomManifestsRequirementsSatisfied, Network, customManifests},
	{DNSDomainDefined, Network, dnsDomainDefined},
	{ClusterCIDRDefined, Network, clusterCIDRDefined},
	{ServiceCIDRDefined, Network, serviceCIDRDefined},
	{NoCIDRsOverlapping, Network, noCIDRsOverlapping},
	{NetworkPrefixValid, Network, networkPrefixValid},
	{NTPServerConfigured, Network, ntpServerConfigured},
	{NetworksSameAddressFamilies, Network, sameAddressFamilies},
}

// maxClockGap is the maximum difference between the clocks of two hosts.
const maxClockGap = 4 * time.Minute

func pullSecretSet(in ClusterInput) (Status, string) {
	if in.PullSecretSet {
		return Success, "The pull secret is set."
	}
	return Failure, "The cluster has no pull secret; give the pull secret for the site's mirror registry."
}

func platformRequirements(in ClusterInput) (Status, string) {
	p := in.Cluster.Platform
	oci := platformOf(in.Cluster) == models.PlatformTypeExternal && p.External != nil &&
		text(p.External.PlatformName) == "oci"
	if oci && !in.CustomManifests {
		return Failure, "Oracle Cloud needs the manifests of its integration, which are missing; add them as custom " +
			"manifests."
	}
	return Success, "The platform has no other requirements."
}

func dnsDomainDefined(in ClusterInput) (Status, string) {
	if in.Cluster.BaseDNSDomain == "" {
		return Failure, "The base domain is not defined; give the DNS domain of the cluster's names."
	}
	return Success, "The base domain is defined."
}

func allHostsReady(in ClusterInput) (Status, string) {
	var waiting []string
	for _, h := range in.Hosts {
		switch h.Status() {
		case models.HostStatusKnown, models.HostStatusPreparingForInstallation, models.HostStatusPreparingSuccessful:
		default:
			waiting = append(waiting, fmt.Sprintf("%s (%s)", h.Name(), h.Status()))
		}
	}
	if len(waiting) == 0 {
		return Success, "All hosts of the cluster are ready."
	}
	slices.Sort(waiting)
	if len(waiting) > 4 {
		waiting = append(waiting[:4], fmt.Sprintf("%d more", len(waiting)-4))
	}
	return Failure,
		fmt.Sprintf("Not all hosts of the cluster are ready: %s; see what each of them lacks, or remove it from the "+
			"cluster.", strings.Join(waiting, ", "))
}

// sufficientMasters counts the hosts by role. Hosts with an undecided role count in the role that
// SuggestRoles suggests.
func sufficientMasters(in ClusterInput) (Status, string) {
	roles := SuggestRoles(in.Cluster, in.Hosts, in.Requirements)
	count := make(map[models.HostRole]int)
	for _, h := range in.Hosts {
		role := h.Record.Role
		if role == "" || role == models.HostRoleAutoAssign {
			role = roles[h.ID()]
		}
		if role == models.HostRoleBootstrap {
			role = models.HostRoleMaster
		}
		count[role]++
	}
	want := int(in.Cluster.ControlPlaneCount)
	masters, others := count[models.HostRoleMaster], len(in.Hosts)-count[models.HostRoleMaster]
	switch {
	case want == 1 && len(in.Hosts) == 1 && (in.Hosts[0].Record.Role == models.HostRoleWorker ||
		in.Hosts[0].Record.Role == models.HostRoleArbiter):
		return Failure, fmt.Sprintf("The host of a single-node cluster runs the control plane, but %s has the role "+
			"%s; give it the role master.", in.Hosts[0].Name(), in.Hosts[0].Record.Role)
	case want == 1 && (masters != 1 || others != 0):
		return Failure,
			fmt.Sprintf("A single-node cluster needs exactly one host, with enough resources for the control plane, "+
				"and has %d "+
				"hosts, %d of them with enough; add or remove hosts.", len(in.Hosts), masters)
	case masters != want:
		return Failure,
			fmt.Sprintf("The cluster needs exactly %d control plane hosts and has %d; add hosts, remove some or "+
				"change their roles.", want, masters)
	case want == 2 && count[models.HostRoleArbiter] == 0 && !fenced(in.Cluster, in.Hosts):
		return Failure, "A cluster of two control plane hosts needs an arbiter host, or fencing credentials for " +
			"both; add a host of role arbiter."
	}
	return Success, fmt.Sprintf("The cluster has the %d control plane hosts it needs.", want)
}

// fenced reports whether a cluster has fencing: two control-plane hosts that can power each other
// off, without an arbiter.
func fenced(c *models.Cluster, hosts []*inventory.Host) bool {
	if c.ControlPlaneCount != 2 {
		return false
	}
	masters := 0
	for _, h := range hosts {
		switch h.Role() {
		case models.HostRoleArbiter:
			return false
		case models.HostRoleMaster:
			if h.Record.FencingCredentials == "" {
				return false
			}
			masters++
		}
	}
	return masters == 2
}

// SmallestGroup returns the minimum size of a group of connected hosts: 2 for a cluster with
// fencing, 3 for other clusters.
func SmallestGroup(c *models.Cluster, hosts []*inventory.Host) int {
	if fenced(c, hosts) {
		return 2
	}
	return 3
}

func networkTypeValid(in ClusterInput) (Status, string) {
	c := in.Cluster
	if c.NetworkType == nil {
		return Success, "The version of OpenShift determines the network type."
	}
	switch *c.NetworkType {
	case models.ClusterNetworkTypeOVNKubernetes:
		if yes(c.VipDhcpAllocation) {
			return Failure, "OVNKubernetes cannot be used if the cluster's addresses come from DHCP; give the API " +
				"and ingress IP addresses."
		}
	case models.ClusterNetworkTypeOpenShiftSDN:
		if _, v6 := network.Families(slices.Concat(network.MachineNetworks(c), network.ClusterNetworks(c),
			network.ServiceNetworks(c))); v6 {
			return Failure, "OpenShiftSDN does not work with IPv6 networks; use OVNKubernetes instead."
		}
		if SingleNode(c) {
			return Failure, "OpenShiftSDN does not work on a single node; choose OVNKubernetes."
		}
	default:
		if !slices.Contains(NetworkTypes(), *c.NetworkType) {
			return Failure, fmt.Sprintf("The network type %q is unknown; choose one of %s.", *c.NetworkType,
				strings.Join(NetworkTypes(), ", "))
		}
	}
	return Success, fmt.Sprintf("The network type %s can be used.", *c.NetworkType)
}

// Network plug-ins of other vendors. The models of the API lack them.
const (
	networkCalico   = "Calico"
	networkCilium   = "Cilium"
	networkCiscoACI = "CiscoACI"
	networkNone     = "None"
)

// NetworkTypes returns the network types of clusters.
func NetworkTypes() []string {
	return []string{models.ClusterNetworkTypeOVNKubernetes, models.ClusterNetworkTypeOpenShiftSDN,
		networkCalico, networkCilium, networkCiscoACI, networkNone}
}

// NeedsOwnManifests reports whether the user must add the manifests of the network plug-in.
func NeedsOwnManifests(networkType string) bool {
	return slices.Contains([]string{networkCalico, networkCilium, networkCiscoACI, networkNone}, networkType)
}

func customManifests(in ClusterInput) (Status, string) {
	if t := text(in.Cluster.NetworkType); NeedsOwnManifests(t) && !in.CustomManifests {
		return Failure,
			fmt.Sprintf("Network type %s needs the manifests of its plug-in, which are missing; add them as custom "+
				"manifests.", t)
	}
	return Success, "The cluster has all manifests that it needs."
}

// clockAhead returns by how many seconds a host's clock was ahead of the appliance's clock. Hosts
// are compared by this difference, because their times are recorded at different moments: at the
// first contact, or when the clock is set.
func clockAhead(h *inventory.Host) int64 {
	return h.Record.Timestamp - time.Time(h.Record.CheckedInAt).Unix()
}

func ntpServerConfigured(in ClusterInput) (Status, string) {
	var first, last *inventory.Host
	for _, h := range in.Hosts {
		switch h.Status() {
		case models.HostStatusDisconnected, models.HostStatusResettingPendingUserAction, models.HostStatusDiscovering:
			continue
		}
		if h.Record.Timestamp == 0 {
			continue
		}
		if first == nil || clockAhead(h) < clockAhead(first) {
			first = h
		}
		if last == nil || clockAhead(h) > clockAhead(last) {
			last = h
		}
	}
	if first == nil {
		return Success, "No host has reported its time yet."
	}
	gap := time.Duration(clockAhead(last)-clockAhead(first)) * time.Second
	if gap >= maxClockGap+time.Minute { // upstream compares whole minutes
		return Failure,
			fmt.Sprintf("The clocks of %s and %s are %s apart and at most %s are allowed; give an NTP server that "+
				"all hosts reach, or set the clocks.",
				first.Name(), last.Name(), gap, maxClockGap)
	}
	return Success, "The clocks of the hosts agree."
}
