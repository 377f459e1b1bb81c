package validation

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/inventory"
)

const everyClusterID = `machine-cidr-defined cluster-cidr-defined service-cidr-defined no-cidrs-overlapping networks-same-address-families
network-prefix-valid machine-cidr-equals-to-calculated-cidr api-vips-defined api-vips-valid ingress-vips-defined ingress-vips-valid
all-hosts-are-ready-to-install sufficient-masters-count dns-domain-defined pull-secret-set ntp-server-configured
lso-requirements-satisfied ocs-requirements-satisfied odf-requirements-satisfied cnv-requirements-satisfied lvm-requirements-satisfied
mce-requirements-satisfied mtv-requirements-satisfied osc-requirements-satisfied network-type-valid
custom-manifests-requirements-satisfied platform-requirements-satisfied node-feature-discovery-requirements-satisfied
nvidia-gpu-requirements-satisfied pipelines-requirements-satisfied servicemesh-requirements-satisfied serverless-requirements-satisfied
openshift-ai-requirements-satisfied openshift-ai-gpu-requirements-satisfied authorino-requirements-satisfied
nmstate-requirements-satisfied amd-gpu-requirements-satisfied kmm-requirements-satisfied node-healthcheck-requirements-satisfied
self-node-remediation-requirements-satisfied fence-agents-remediation-requirements-satisfied node-maintenance-requirements-satisfied
kube-descheduler-requirements-satisfied cluster-observability-requirements-satisfied numa-resources-requirements-satisfied
oadp-requirements-satisfied metallb-requirements-satisfied loki-requirements-satisfied openshift-logging-requirements-satisfied`

func TestCluster_validClusterIsReady(t *testing.T) {
	for name, prepare := range map[string]func(*threeNodes){
		"three nodes":                        func(*threeNodes) {},
		"three nodes behind a load balancer": (*threeNodes).userManaged,
		"single node":                        (*threeNodes).singleNode,
		"roles not decided": func(n *threeNodes) {
			for _, h := range n.hosts {
				h.Record.Role = models.HostRoleAutoAssign
			}
		},
		"a worker as well": func(n *threeNodes) {
			n.hosts = append(n.hosts, goodHost(4))
			n.hosts[3].Record.Role = models.HostRoleWorker
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newThreeNodes()
			prepare(n)
			report := Cluster(n.clusterInput())
			require.Empty(t, report.Failing())
			require.Equal(t, Ready, report.Readiness())
			requireEveryID(t, everyClusterID, report)
			for _, r := range report.Results() {
				requireSentence(t, r)
			}
			require.Equal(t, report.JSON(), Cluster(n.clusterInput()).JSON())
			requireAllByCategory(t, report, 4)
		})
	}
}

// requireAllByCategory requires the report to have each result once, in the given number of
// categories.
func requireAllByCategory(t *testing.T, report *Report, categories int) {
	t.Helper()
	var groups map[string][]Result
	require.NoError(t, json.Unmarshal(report.JSON(), &groups))
	require.Len(t, groups, categories)
	require.ElementsMatch(t, report.Results(), slices.Concat(slices.Collect(maps.Values(groups))...))
}

// clusterFaults lists changes of a valid input. Most of them make a validation fail.
func clusterFaults() []fault[ClusterInput] {
	return []fault[ClusterInput]{
		{"no pull secret", PullSecretSet, Failure, PendingForInput, "pull secret",
			func(_ *threeNodes, in *ClusterInput) { in.PullSecretSet = false }},
		{"no base domain", DNSDomainDefined, Failure, PendingForInput, "base domain",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.BaseDNSDomain = "" }},
		{"no machine network", MachineCIDRDefined, Failure, PendingForInput, "API and ingress",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.MachineNetworks = nil }},
		{"no host and no machine network", MachineCIDRDefined, Pending, PendingForInput, "first host",
			func(n *threeNodes, in *ClusterInput) {
				n.cluster.MachineNetworks, in.Hosts = nil, nil
			}},
		{"no cluster network", ClusterCIDRDefined, Failure, PendingForInput, "pods",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.ClusterNetworks = nil }},
		{"no service network", ServiceCIDRDefined, Failure, PendingForInput, "services",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.ServiceNetworks = nil }},
		{"no API address", APIVIPsDefined, Failure, PendingForInput, "API", func(n *threeNodes,
			_ *ClusterInput) {
			n.cluster.APIVips = nil
		}},
		{"no ingress address", IngressVIPsDefined, Failure, PendingForInput, "ingress",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.IngressVips = nil }},
		{"DHCP has not assigned an address yet", APIVIPsDefined, Failure, Insufficient,
			"IP allocation from the DHCP server timed out.",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.VipDhcpAllocation, n.cluster.APIVips, n.cluster.NetworkType = ptr(true), nil, nil
			}},
		{"DHCP needs the machine network", APIVIPsDefined, Pending, PendingForInput, "Waiting",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.VipDhcpAllocation, n.cluster.APIVips, n.cluster.MachineNetworks = ptr(true), nil, nil
			}},
		{"the API address is outside the machine network", APIVIPsValid, Failure, Insufficient,
			"not in machine network",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.APIVips[0].IP = "10.0.0.1" }},
		{"the API address is invalid", APIVIPsValid, Failure, Insufficient, "not an IP address",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.APIVips[0].IP = "here" }},
		{"the API address is the broadcast address", APIVIPsValid, Failure, Insufficient, "broadcast",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.APIVips[0].IP = "192.168.10.255" }},
		{"the API address is the network's", APIVIPsValid, Failure, Insufficient, "is the network address",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.APIVips[0].IP = "192.168.10.0" }},
		{"the API address is in use", APIVIPsValid, Failure, Insufficient, "in use",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.APIVips[0].Verification = ptr(models.VipVerificationFailed)
			}},
		{"the ingress address has not been verified yet", IngressVIPsValid, Failure, Insufficient, "have not verified",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.IngressVips[0].Verification = nil }},
		{"a host finds the ingress address in use", IngressVIPsValid, Failure, Insufficient, "in use",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.IngressVips[0].Verification = nil
				n.hosts[1].FreeAddresses = models.FreeNetworksAddresses{{Network: "192.168.10.0/24",
					FreeAddresses: []strfmt.IPv4{"192.168.10.9"}}}
			}},
		{"a host finds the ingress address free", IngressVIPsValid, Success, Ready, "",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.IngressVips[0].Verification = nil
				n.hosts[1].FreeAddresses = models.FreeNetworksAddresses{{Network: "192.168.10.0/24",
					FreeAddresses: []strfmt.IPv4{"192.168.10.3"}}}
			}},
		{"one address for both", IngressVIPsValid, Failure, Insufficient, "two different",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.IngressVips[0].IP = "192.168.10.2" }},
		{"an external load balancer has one address for both", IngressVIPsValid, Success, Ready, "",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.IngressVips[0].IP = "192.168.10.2"
				n.cluster.LoadBalancer = &models.LoadBalancer{Type: models.LoadBalancerTypeUserManaged}
			}},
		{"an address before any host", APIVIPsValid, Pending, Insufficient, "first host",
			func(_ *threeNodes, in *ClusterInput) { in.Hosts = nil }},
		{"the machine network is another one", MachineCIDREqualsToCalculatedCIDR, Failure, Insufficient,
			"192.168.10.0/24", func(n *threeNodes,
				_ *ClusterInput) {
				n.cluster.MachineNetworks[0].Cidr = "192.168.0.0/16"
			}},
		{"no host is in the network of the address", MachineCIDREqualsToCalculatedCIDR, Failure, Insufficient,
			"No host",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.APIVips[0].IP = "10.0.0.1" }},
		{"an unknown network plug-in", NetworkTypeValid, Failure, Insufficient, `"Flannel"`,
			func(n *threeNodes, _ *ClusterInput) { n.cluster.NetworkType = ptr("Flannel") }},
		{"OVN with DHCP", NetworkTypeValid, Failure, Insufficient, "DHCP", func(n *threeNodes,
			_ *ClusterInput) {
			n.cluster.VipDhcpAllocation = ptr(true)
		}},
		{"SDN on IPv6", NetworkTypeValid, Failure, Insufficient, "use OVNKubernetes instead", func(n *threeNodes,
			_ *ClusterInput) {
			n.cluster.NetworkType = ptr(models.ClusterNetworkTypeOpenShiftSDN)
			n.cluster.ServiceNetworks = append(n.cluster.ServiceNetworks, &models.ServiceNetwork{Cidr: "fd02::/112"})
		}},
		{"SDN on a single node", NetworkTypeValid, Failure, Insufficient, "single node",
			func(n *threeNodes, in *ClusterInput) {
				n.singleNode()
				in.Hosts = n.hosts
				n.cluster.NetworkType = ptr(models.ClusterNetworkTypeOpenShiftSDN)
			}},
		{"a plug-in without its manifests", CustomManifestsRequirementsSatisfied, Failure, Insufficient, "Cilium",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.NetworkType = ptr("Cilium") }},
		{"a plug-in with its manifests", CustomManifestsRequirementsSatisfied, Success, Ready, "",
			func(n *threeNodes, in *ClusterInput) {
				n.cluster.NetworkType, in.CustomManifests = ptr("Cilium"), true
			}},
		{"Oracle Cloud without its manifests", PlatformRequirementsSatisfied, Failure, Insufficient, "Oracle",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.Platform = &models.Platform{Type: ptr(models.PlatformTypeExternal),
					External: &models.PlatformExternal{PlatformName: ptr("oci")}}
			}},
		{"the cluster network overlaps the machine network", NoCIDRsOverlapping, Failure, Insufficient,
			"machine network 192.168.10.0/24 and cluster network 192.168.0.0/16",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.ClusterNetworks[0].Cidr = "192.168.0.0/16" }},
		{"the service network overlaps the cluster network", NoCIDRsOverlapping, Failure, Insufficient,
			"service network",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.ServiceNetworks[0].Cidr = "10.130.0.0/16" }},
		{"an invalid range", NoCIDRsOverlapping, Error, Insufficient, `"10.1/8"`,
			func(n *threeNodes, _ *ClusterInput) { n.cluster.ServiceNetworks[0].Cidr = "10.1/8" }},
		{"a missing range", NoCIDRsOverlapping, Pending, PendingForInput, "Waiting",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.ServiceNetworks = nil }},
		{"families differ", NetworksSameAddressFamilies, Failure, Insufficient, "IPv6",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.ServiceNetworks[0].Cidr = "fd02::/112" }},
		{"a network without a range", NetworksSameAddressFamilies, Pending, PendingForInput, "Waiting",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.ClusterNetworks = nil }},
		{"a cluster network that is too small", NetworkPrefixValid, Failure, Insufficient, "2 parts",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.ClusterNetworks[0].Cidr = "10.128.0.0/22" }},
		{"an invalid host prefix", NetworkPrefixValid, Failure, Insufficient, "positive",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.ClusterNetworks[0].HostPrefix = 0 }},
		{"no host prefix with another network plug-in", NetworkPrefixValid, Success, Ready, "",
			func(n *threeNodes, in *ClusterInput) {
				n.cluster.NetworkType, in.CustomManifests, n.cluster.ClusterNetworks[0].HostPrefix = ptr("Calico"),
					true, 0
			}},
		{"no cluster network to validate", NetworkPrefixValid, Pending, PendingForInput, "Waiting",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.ClusterNetworks = nil }},
		{"a clock that was recorded hours before the others", NTPServerConfigured, Success, Ready, "",
			func(n *threeNodes, _ *ClusterInput) {
				n.hosts[2].Record.Timestamp -= 7200
				n.hosts[2].Record.CheckedInAt = strfmt.DateTime(time.Time(n.hosts[2].Record.CheckedInAt).
					Add(-2 * time.Hour))
			}},
		{"clocks differ", NTPServerConfigured, Failure, Insufficient, "5m0s apart",
			func(n *threeNodes, _ *ClusterInput) { n.hosts[2].Record.Timestamp += 300 }},
		{"the clock of a disconnected host does not count", NTPServerConfigured, Success, Insufficient,
			"", func(n *threeNodes, _ *ClusterInput) {
				n.hosts[2].Record.Timestamp += 300
				n.hosts[2].Record.Status = ptr(models.HostStatusDisconnected)
			}},
		{"a host is not ready", AllHostsAreReadyToInstall, Failure, Insufficient, "node-2 (insufficient)",
			func(n *threeNodes, _ *ClusterInput) { n.hosts[1].Record.Status = ptr(models.HostStatusInsufficient) }},
		{"two hosts of three", SufficientMastersCount, Failure, Insufficient, "has 2",
			func(n *threeNodes, in *ClusterInput) { in.Hosts = n.hosts[:2] }},
		{"four control plane hosts", SufficientMastersCount, Failure, Insufficient, "has 4",
			func(n *threeNodes, in *ClusterInput) { in.Hosts = append(n.hosts, goodHost(4)) }},
		{"two single nodes", SufficientMastersCount, Failure, Insufficient, "single-node",
			func(n *threeNodes, _ *ClusterInput) { n.cluster.ControlPlaneCount = 1 }},
		{"a worker as single node", SufficientMastersCount, Failure, Insufficient, "node-1 has the role worker",
			func(n *threeNodes, in *ClusterInput) {
				n.singleNode()
				n.hosts[0].Record.Role = models.HostRoleWorker
				in.Hosts = n.hosts
			}},
		{"two nodes without an arbiter", SufficientMastersCount, Failure, Insufficient, "arbiter",
			func(n *threeNodes, in *ClusterInput) {
				n.cluster.ControlPlaneCount, in.Hosts = 2, n.hosts[:2]
			}},
		{"two nodes with fencing", SufficientMastersCount, Success, Ready, "", func(n *threeNodes, in *ClusterInput) {
			n.cluster.ControlPlaneCount, in.Hosts = 2, n.hosts[:2]
			n.hosts[0].Record.FencingCredentials, n.hosts[1].Record.FencingCredentials = "{}", "{}"
		}},
		{"storage on too few hosts", OperatorID("odf"), Failure, Insufficient, "3 hosts",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "odf"}}
			}},
		{"older storage on too few hosts", OperatorID("ocs"), Failure, Insufficient, "3 hosts",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "ocs"}}
			}},
		{"NVIDIA without its GPU", OperatorID("nvidia-gpu"), Failure, Insufficient, "NVIDIA",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "nvidia-gpu"}}
				n.hosts[0].Inventory.Gpus = []*models.Gpu{{VendorID: "1002"}}
			}},
		{"AMD without its GPU", OperatorID("amd-gpu"), Failure, Insufficient, "AMD",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "amd-gpu"}}
			}},
		{"a GPU where no workloads run", OperatorID("nvidia-gpu"), Failure, Insufficient, "runs workloads",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "nvidia-gpu"}}
				n.cluster.SchedulableMasters, n.cluster.SchedulableMastersForcedTrue = nil, nil
				n.hosts[0].Record.Role, n.hosts[0].Inventory.Gpus = models.HostRoleMaster,
					[]*models.Gpu{{VendorID: "10de"}}
			}},
		{"AI without GPU", OperatorID("openshift-ai-gpu"), Success, Insufficient, "without",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "openshift-ai"}}
			}},
		{"storage on one worker", OperatorID("odf"), Failure, Insufficient, "3 workers or none",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "odf"}}
				n.hosts[0].Record.Role = models.HostRoleWorker
			}},
		{"an operator without a catalog", OperatorID("metallb"), Failure, Insufficient, "no rule leads there",
			func(n *threeNodes, in *ClusterInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "metallb"}}
				in.MissingCatalogs = map[string]string{"redhat-operators": "no rule leads there."}
			}},
		{"an operator that the version lacks", OperatorID("loki"), Failure, Insufficient, "4.17",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.MonitoredOperators, n.cluster.OpenshiftVersion = []*models.MonitoredOperator{{Name: "loki"}},
					"4.16.2"
			}},
		{"AI without workers", OperatorID("openshift-ai"), Failure, Insufficient, "2 workers",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "openshift-ai"}}
			}},
		{"local volumes on an old version", OperatorID("lvm"), Failure, Insufficient, "4.15",
			func(n *threeNodes, _ *ClusterInput) {
				n.cluster.MonitoredOperators, n.cluster.OpenshiftVersion = []*models.MonitoredOperator{{Name: "lvm"}},
					"4.14.1"
			}},
	}
}

func TestCluster_faults(t *testing.T) {
	tests := clusterFaults()
	failing := make(map[ID]bool)
	for _, tt := range tests {
		failing[tt.id] = failing[tt.id] || tt.want == Failure
	}
	for _, check := range clusterChecks {
		require.True(t, failing[check.id], "no case makes %s fail", check.id)
	}
	for _, op := range operatorTable() {
		require.True(t, op.cluster == nil || failing[op.id], "no case makes %s fail", op.id)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newThreeNodes()
			in := n.clusterInput()
			tt.change(n, &in)
			report := Cluster(in)
			result, found := report.Result(tt.id)
			require.True(t, found)
			require.Equal(t, tt.want, result.Status, result.Message)
			require.Contains(t, result.Message, tt.message)
			requireSentence(t, result)
			require.Equal(t, tt.readiness, report.Readiness(), report.Blocking())
		})
	}
}

// These plug-ins ignore the host prefix, so that a user can't correct it.
func TestNetworkPrefixValid_smallNetworkOfAnotherPlugin(t *testing.T) {
	for _, plugin := range []string{networkCalico, networkCilium, networkCiscoACI, networkNone} {
		for _, cidr := range []models.Subnet{"10.128.0.0/26", "fd01::/112"} {
			n := newThreeNodes()
			n.cluster.NetworkType, n.cluster.ClusterNetworks[0].Cidr = &plugin, cidr
			_, text := networkPrefixValid(n.clusterInput())
			require.Contains(t, text, "use a larger network")
			n.hosts = n.hosts[:1]
			status, text := networkPrefixValid(n.clusterInput())
			require.Equal(t, Success, status, text)
		}
	}
}

func TestCluster_emptyClusterIsPendingForInput(t *testing.T) {
	report := Cluster(ClusterInput{Cluster: &models.Cluster{}, Requirements: DefaultRequirements("")})
	requireEveryID(t, everyClusterID, report)
	require.Equal(t, PendingForInput, report.Readiness())
	require.False(t, report.Insufficient())
}

func TestCluster_ignoredValidations(t *testing.T) {
	n := newThreeNodes()
	n.hosts[2].Record.Timestamp += 3600
	n.cluster.IgnoredClusterValidations = `["all"]`
	require.True(t, Cluster(n.clusterInput()).Ready())
	in := n.clusterInput()
	in.PullSecretSet = false
	require.Equal(t, PendingForInput, Cluster(in).Readiness())
}

func TestSuggestRoles_byStrength(t *testing.T) {
	n := newThreeNodes()
	n.hosts = append(n.hosts, goodHost(4), goodHost(5), goodHost(6))
	for i, h := range n.hosts {
		h.Record.Role = models.HostRoleAutoAssign
		h.Inventory.CPU.Count = int64(20 - 2*i) // decreasing
	}
	n.hosts[5].Inventory.CPU.Count = 2             // too few for the control plane
	n.hosts[4].Inventory.Gpus = []*models.Gpu{{}}  // preferred for workloads
	n.hosts[0].Record.Role = models.HostRoleWorker // selected by a user
	n.hosts[1].Record.Role = models.HostRoleMaster // selected by a user
	n.hosts = append(n.hosts, goodHost(7))         // no inventory yet
	n.hosts[6].Record.Role, n.hosts[6].Facts = "", &inventory.Facts{}
	roles := SuggestRoles(n.cluster, n.hosts, DefaultRequirements("4.18.0"))
	require.Equal(t, map[strfmt.UUID]models.HostRole{
		hostID(1): models.HostRoleWorker, hostID(2): models.HostRoleMaster, hostID(3): models.HostRoleMaster,
		hostID(4): models.HostRoleMaster,
		hostID(5): models.HostRoleWorker, hostID(6): models.HostRoleWorker, hostID(7): models.HostRoleAutoAssign,
	}, roles)
}

func TestSuggestRoles_arbiterOfTwoNodes(t *testing.T) {
	n := newThreeNodes()
	n.cluster.ControlPlaneCount = 2
	for _, h := range n.hosts {
		h.Record.Role = models.HostRoleAutoAssign
	}
	require.Equal(t, models.HostRoleArbiter, SuggestRoles(n.cluster, n.hosts, DefaultRequirements("4.20.0"))[hostID(3)])

	n.cluster.Kind = ptr(models.ClusterKindAddHostsCluster)
	require.Equal(t, models.HostRoleWorker, SuggestRoles(n.cluster, n.hosts, DefaultRequirements("4.20.0"))[hostID(1)])
}

func TestRequirements_byRoleAndVersion(t *testing.T) {
	n := newThreeNodes()
	h := n.hosts[0]
	require.Equal(t, int64(4), DefaultRequirements("4.18.0").ForHost(h, n.cluster).CPUCores)
	h.Record.Role = models.HostRoleWorker
	require.Equal(t, int64(8192), DefaultRequirements("4.18.0").ForHost(h, n.cluster).RAMMib)
	h.Record.Role = models.HostRoleArbiter
	require.Equal(t, int64(50), DefaultRequirements("4.20.0").ForHost(h, n.cluster).DiskSizeGb)
	h.Record.Role = models.HostRoleMaster
	n.cluster.ControlPlaneCount = 1
	require.Equal(t, int64(8), DefaultRequirements("4.21.9").ForHost(h, n.cluster).CPUCores)
	require.Equal(t, int64(4), DefaultRequirements("4.22.0-ec.1").ForHost(h, n.cluster).CPUCores)
	require.Equal(t, int64(50), DefaultRequirements("").ForHost(h, nil).DiskSizeGb,
		"without a cluster the least of all roles")
	h.Record.Role = models.HostRoleWorker
	h.Inventory.CPU.Architecture, h.Inventory.SystemVendor.ProductName = "aarch64", "BlueField SoC"
	require.Equal(t, int64(15), DefaultRequirements("4.18.0").ForHost(h, n.cluster).DiskSizeGb)

	n.cluster.DiskEncryption = &models.DiskEncryption{EnableOn: ptr("masters"),
		Mode: ptr(models.DiskEncryptionModeTpmv2)}
	preflight := DefaultRequirements("4.18.0").Preflight(n.cluster)
	require.True(t, preflight.Ocp.Master.Quantitative.TpmEnabledInBios)
	require.False(t, preflight.Ocp.Worker.Quantitative.TpmEnabledInBios)
}
