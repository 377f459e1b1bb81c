package validation

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/inventory"
)

const everyHostID = `connected media-connected has-inventory inventory-not-partially-truncated inventory-not-fully-truncated has-min-cpu-cores
has-min-valid-disks has-min-memory machine-cidr-defined has-cpu-cores-for-role has-memory-for-role hostname-unique hostname-valid
belongs-to-machine-cidr ignition-downloadable belongs-to-majority-group valid-platform-network-settings ntp-synced
time-synced-between-host-and-service container-images-available lso-requirements-satisfied ocs-requirements-satisfied
odf-requirements-satisfied lvm-requirements-satisfied mce-requirements-satisfied mtv-requirements-satisfied osc-requirements-satisfied
sufficient-installation-disk-speed cnv-requirements-satisfied sufficient-network-latency-requirement-for-role
sufficient-packet-loss-requirement-for-role has-default-route api-domain-name-resolved-correctly
api-int-domain-name-resolved-correctly apps-domain-name-resolved-correctly release-domain-name-resolved-correctly
compatible-with-cluster-platform dns-wildcard-not-configured disk-encryption-requirements-satisfied non-overlapping-subnets
vsphere-disk-uuid-enabled compatible-agent no-skip-installation-disk no-skip-missing-disk no-ip-collisions-in-network
no-iscsi-nic-belongs-to-machine-cidr node-feature-discovery-requirements-satisfied nvidia-gpu-requirements-satisfied
pipelines-requirements-satisfied servicemesh-requirements-satisfied serverless-requirements-satisfied openshift-ai-requirements-satisfied
authorino-requirements-satisfied mtu-valid nmstate-requirements-satisfied amd-gpu-requirements-satisfied kmm-requirements-satisfied
node-healthcheck-requirements-satisfied self-node-remediation-requirements-satisfied fence-agents-remediation-requirements-satisfied
node-maintenance-requirements-satisfied kube-descheduler-requirements-satisfied cluster-observability-requirements-satisfied
numa-resources-requirements-satisfied oadp-requirements-satisfied metallb-requirements-satisfied loki-requirements-satisfied
openshift-logging-requirements-satisfied`

func requireEveryID(t *testing.T, want string, report *Report) {
	t.Helper()
	var ids []ID
	for _, r := range report.Results() {
		ids = append(ids, r.ID)
	}
	var expected []ID
	for _, id := range strings.Fields(want) {
		expected = append(expected, ID(id))
	}
	require.ElementsMatch(t, expected, ids, "everyHostID or everyClusterID has other validations than the code")
}

func TestIsOf_everyValidation(t *testing.T) {
	for _, id := range strings.Fields(everyHostID) {
		require.True(t, IsOfHosts(ID(id)), id)
	}
	for _, id := range strings.Fields(everyClusterID) {
		require.True(t, IsOfClusters(ID(id)), id)
	}
	require.False(t, IsOfHosts(APIVIPsDefined))
	require.False(t, IsOfHosts(openShiftAIGPUs))
	require.False(t, IsOfClusters(NTPSynced))
}

// requireSentence requires the message of a result to be a complete sentence.
func requireSentence(t *testing.T, r Result) {
	t.Helper()
	require.NotEmpty(t, r.Message, r.ID)
	require.NotContains(t, r.Message, "%!", r.ID)
	require.True(t, strings.HasSuffix(r.Message, "."), "%s: %s", r.ID, r.Message)
	require.NotContains(t, r.Message, "..", r.ID)
}

func TestHost_validHostIsReady(t *testing.T) {
	for name, prepare := range map[string]func(*threeNodes){
		"three nodes":                        func(*threeNodes) {},
		"three nodes behind a load balancer": (*threeNodes).userManaged,
		"single node":                        (*threeNodes).singleNode,
		"three nodes without a decided role": func(
			n *threeNodes) {
			n.hosts[0].Record.Role = models.HostRoleAutoAssign
		},
		"three nodes with several interfaces": func(n *threeNodes) {
			n.hosts[0].Inventory.Interfaces = append(n.hosts[0].Inventory.Interfaces,
				&models.Interface{Name: "eno2", IPV4Addresses: []string{"10.1.0.5/24"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newThreeNodes()
			prepare(n)
			report := Host(n.input())
			require.Empty(t, report.Failing())
			require.Equal(t, Ready, report.Readiness())
			require.True(t, report.Ready())
			requireEveryID(t, everyHostID, report)
			for _, r := range report.Results() {
				requireSentence(t, r)
			}
			requireAllByCategory(t, report, 3)
		})
	}
}

// hostFaults lists changes of a valid input. Most of them make a validation fail.
func hostFaults() []fault[HostInput] {
	inv := func(n *threeNodes) *models.Inventory { return n.hosts[0].Inventory }
	return []fault[HostInput]{
		{"the agent has stopped polling", Connected, Failure, Disconnected, "does not contact the appliance",
			func(_ *threeNodes, in *HostInput) { in.Connected = false }},
		{"a host after its reboot", Connected, Success, Ready, "it has no agent any more",
			func(n *threeNodes, in *HostInput) {
				in.Connected = false
				n.hosts[0].Record.Progress = &models.HostProgressInfo{CurrentStage: models.HostStageRebooting}
			}},
		{"the machine is restarting", Connected, Failure, Disconnected, "boot a newer image",
			func(_ *threeNodes, in *HostInput) { in.Connected, in.Restarts = false, true }},
		{"the media is detached", MediaConnected, Failure, Disconnected, "virtual media",
			func(n *threeNodes, _ *HostInput) {
				n.hosts[0].Record.MediaStatus = ptr(models.HostMediaStatusDisconnected)
			}},
		{"no inventory yet", HasInventory, Failure, Discovering, "not sent its inventory",
			func(n *threeNodes, _ *HostInput) { n.hosts[0].Inventory = nil }},
		{"a partially truncated inventory only warns", InventoryNotPartiallyTruncated, Failure, Ready, "too many disks",
			func(n *threeNodes, _ *HostInput) {
				n.hosts[0].Truncation = &inventory.Truncation{Type: "partial", Reasons: []string{"too many disks"}}
			}},
		{"a fully truncated inventory", InventoryNotFullyTruncated, Failure, Discovering, "gave no reason",
			func(n *threeNodes, _ *HostInput) {
				n.hosts[0].Truncation = &inventory.Truncation{Type: "full"}
			}},
		{"an inventory truncated in an unknown way", InventoryNotFullyTruncated, Error, Discovering, `"half"`,
			func(n *threeNodes, _ *HostInput) {
				n.hosts[0].Truncation = &inventory.Truncation{Type: "half"}
			}},
		{"too few cores for any role", HasMinCPUCores, Failure, Insufficient, "1 CPU core and",
			func(n *threeNodes, _ *HostInput) { inv(n).CPU.Count = 1 }},
		{"too few cores for the role", HasCPUCoresForRole, Failure, Insufficient, "role master needs 4",
			func(n *threeNodes, _ *HostInput) { inv(n).CPU.Count = 3 }},
		{"too little memory for any role", HasMinMemory, Failure, Insufficient, "8 GiB",
			func(n *threeNodes, _ *HostInput) { inv(n).Memory.PhysicalBytes = 7 << 30 }},
		{"slightly too little memory is tolerated", HasMinMemory, Success, Insufficient, "",
			func(n *threeNodes, _ *HostInput) { inv(n).Memory.PhysicalBytes = 8<<30 - 99<<20 }},
		{"usable memory is slightly less than physical memory", HasMinMemory, Success, Insufficient,
			"", func(n *threeNodes, _ *HostInput) {
				inv(n).Memory.PhysicalBytes, inv(n).Memory.PhysicalBytesMethod = 8<<30-250<<20,
					models.MemoryMethodMeminfo
			}},
		{"too little memory for the role", HasMemoryForRole, Failure, Insufficient, "16 GiB",
			func(n *threeNodes, _ *HostInput) { inv(n).Memory.PhysicalBytes = 12 << 30 }},
		{"usable memory is slightly less than the role needs", HasMemoryForRole, Success, Ready, "",
			func(n *threeNodes, _ *HostInput) {
				inv(n).Memory.PhysicalBytes, inv(n).Memory.PhysicalBytesMethod = 16<<30-400<<20,
					models.MemoryMethodMeminfo
			}},
		{"physical memory is less than the role needs", HasMemoryForRole, Failure, Insufficient, "16 GiB",
			func(n *threeNodes, _ *HostInput) {
				inv(n).Memory.PhysicalBytes, inv(n).Memory.PhysicalBytesMethod = 16<<30-400<<20,
					models.MemoryMethodDmidecode
			}},
		{"no disk", HasMinValidDisks, Failure, Insufficient, "no disks", func(n *threeNodes,
			_ *HostInput) {
			inv(n).Disks = nil
		}},
		{"no usable disk", HasMinValidDisks, Failure, Insufficient, "sda: it is tiny",
			func(n *threeNodes, _ *HostInput) {
				inv(n).Disks[0].InstallationEligibility = models.DiskInstallationEligibility{
					NotEligibleReasons: []string{"it is tiny"}}
			}},
		{"two hosts have the same name", HostnameUnique, Failure, Insufficient, `"node-2"`, func(n *threeNodes,
			_ *HostInput) {
			n.hosts[0].Record.RequestedHostname = "node-2"
		}},
		{"an unusable host name", HostnameValid, Failure, Insufficient, `"localhost"`,
			func(n *threeNodes, _ *HostInput) { inv(n).Hostname = "localhost" }},
		{"a host name in upper case", HostnameValid, Failure, Insufficient, "lower-case",
			func(n *threeNodes, _ *HostInput) { inv(n).Hostname = "Node-1" }},
		{"the disk check failed", SufficientInstallationDiskSpeed, Failure, Insufficient, "exit code 2",
			func(n *threeNodes, _ *HostInput) {
				n.hosts[0].Disks = map[string]models.DiskInfo{"/dev/disk/by-id/a": {
					DiskSpeed: &models.DiskSpeed{Tested: true, ExitCode: 2}}}
			}},
		{"the disk check passed", SufficientInstallationDiskSpeed, Success, Ready, "4 ms",
			func(n *threeNodes, _ *HostInput) {
				n.hosts[0].Disks = map[string]models.DiskInfo{"/dev/disk/by-id/a": {
					DiskSpeed: &models.DiskSpeed{Tested: true, SpeedMs: 4}}}
			}},
		{"another platform", CompatibleWithClusterPlatform, Failure, Insufficient, "VMware",
			func(n *threeNodes, _ *HostInput) { n.cluster.Platform.Type = ptr(models.PlatformTypeVsphere) }},
		{"no platform yet", CompatibleWithClusterPlatform, Pending, Insufficient, "platform",
			func(n *threeNodes, _ *HostInput) { n.cluster.Platform = nil }},
		{"vSphere disks without UUID", VSphereDiskUUIDEnabled, Failure, Insufficient, "disk.EnableUUID",
			func(n *threeNodes, _ *HostInput) {
				inv(n).SystemVendor.Manufacturer = vmware
				inv(n).Disks[0].HasUUID = false
			}},
		{"no TPM", DiskEncryptionRequirementsSatisfied, Failure, Insufficient, "the host lacks",
			func(n *threeNodes, _ *HostInput) {
				n.cluster.DiskEncryption = &models.DiskEncryption{EnableOn: ptr("masters"),
					Mode: ptr(models.DiskEncryptionModeTpmv2)}
				inv(n).TpmVersion = models.InventoryTpmVersionNone
			}},
		{"an old TPM", DiskEncryptionRequirementsSatisfied, Failure, Insufficient, "1.2",
			func(n *threeNodes, _ *HostInput) {
				n.cluster.DiskEncryption = &models.DiskEncryption{EnableOn: ptr("all"),
					Mode: ptr(models.DiskEncryptionModeTpmv2)}
				inv(n).TpmVersion = models.InventoryTpmVersionNr12
			}},
		{"Tang has not been checked yet", DiskEncryptionRequirementsSatisfied, Pending, Insufficient, "Waiting",
			func(n *threeNodes, _ *HostInput) {
				n.cluster.DiskEncryption = &models.DiskEncryption{EnableOn: ptr("all"),
					Mode: ptr(models.DiskEncryptionModeTang)}
			}},
		{"Tang is unreachable", DiskEncryptionRequirementsSatisfied, Failure, Insufficient, "cannot reach",
			func(n *threeNodes, _ *HostInput) {
				n.cluster.DiskEncryption = &models.DiskEncryption{EnableOn: ptr("all"),
					Mode: ptr(models.DiskEncryptionModeTang)}
				n.hosts[0].Tang = &models.TangConnectivityResponse{}
			}},
		{"Tang could not be checked", DiskEncryptionRequirementsSatisfied, Failure, Insufficient, "no route",
			func(n *threeNodes, _ *HostInput) {
				n.cluster.DiskEncryption = &models.DiskEncryption{EnableOn: ptr("all"),
					Mode: ptr(models.DiskEncryptionModeTang)}
				n.hosts[0].TangError = "no\nroute."
			}},
		{"a host joins a cluster whose disks are encrypted by TPM", DiskEncryptionRequirementsSatisfied, Failure,
			Insufficient, "the host lacks", func(n *threeNodes, _ *HostInput) {
				n.joins(`{"storage":{"luks":[{"name":"root","clevis":{"tpm2":true}}]}}`)
				inv(n).TpmVersion = models.InventoryTpmVersionNone
			}},
		{"a host joins a cluster whose disks are unlocked by Tang", DiskEncryptionRequirementsSatisfied, Pending,
			Insufficient, "Waiting", func(n *threeNodes, _ *HostInput) {
				n.joins(
					`{"storage":{"luks":[{"name":"data"},{"name":"root","clevis":{"tang":[{"url":"http://tang","thumbprint":"x"}]}}]}}`)
			}},
		{"a host joins a cluster and can reach its Tang servers", DiskEncryptionRequirementsSatisfied, Success,
			Ready, "can reach the Tang servers", func(n *threeNodes, _ *HostInput) {
				n.joins(
					`{"storage":{"luks":[{"name":"root","clevis":{"tang":[{"url":"http://tang","thumbprint":"x"}]}}]}}`)
				n.hosts[0].Tang = &models.TangConnectivityResponse{IsSuccess: true}
			}},
		{"a host joins a cluster with unknown encryption", DiskEncryptionRequirementsSatisfied, Failure,
			Insufficient, "neither", func(n *threeNodes, _ *HostInput) {
				n.joins(`{"storage":{"luks":[{"name":"root","clevis":{}}]}}`)
			}},
		{"a host joins a cluster with an invalid config", DiskEncryptionRequirementsSatisfied, Success,
			Ready, "is not available yet", func(n *threeNodes, _ *HostInput) {
				n.joins(`{"luks"`)
			}},
		{"encryption for workers only", DiskEncryptionRequirementsSatisfied, Success, Ready,
			"", func(n *threeNodes, _ *HostInput) {
				n.cluster.DiskEncryption = &models.DiskEncryption{EnableOn: ptr("workers"),
					Mode: ptr(models.DiskEncryptionModeTpmv2)}
				inv(n).TpmVersion = models.InventoryTpmVersionNone
			}},
		{"another agent", CompatibleAgent, Failure, Insufficient, "the appliance replaces it",
			func(n *threeNodes, _ *HostInput) { n.hosts[0].Record.DiscoveryAgentVersion = "old" }},
		{"the installation disk must be kept", NoSkipInstallationDisk, Failure, Insufficient, "by-id/a",
			func(n *threeNodes, _ *HostInput) { n.hosts[0].Record.SkipFormattingDisks = "/dev/disk/by-id/a" }},
		{"a disk to keep is missing", NoSkipMissingDisk, Failure, Insufficient, "by-id/z",
			func(n *threeNodes, _ *HostInput) { n.hosts[0].Record.SkipFormattingDisks = "/dev/disk/by-id/z" }},
		{"no machine network", MachineCIDRDefined, Failure, PendingForInput, "not defined",
			func(n *threeNodes, _ *HostInput) { n.cluster.MachineNetworks = nil }},
		{"outside the machine network", BelongsToMachineCIDR, Failure, Insufficient, "10.9.0.0/24",
			func(n *threeNodes, _ *HostInput) {
				inv(n).Interfaces[0].IPV4Addresses = []string{"10.9.0.4/24"}
			}},
		{"no machine network", BelongsToMachineCIDR, Pending, PendingForInput, "Waiting",
			func(n *threeNodes, _ *HostInput) { n.cluster.MachineNetworks = nil }},
		{"one of two machine networks is enough behind a load balancer", BelongsToMachineCIDR, Success, Insufficient,
			"", func(n *threeNodes, _ *HostInput) {
				n.cluster.LoadBalancer = &models.LoadBalancer{Type: models.LoadBalancerTypeUserManaged}
				n.cluster.MachineNetworks = append(n.cluster.MachineNetworks,
					&models.MachineNetwork{Cidr: "10.77.0.0/24"})
				n.cluster.IgnoredHostValidations = `["belongs-to-majority-group"]`
				inv(n).CPU.Count = 1
			}},
		{"no connection to the other hosts", BelongsToMajorityGroup, Failure, Insufficient, "192.168.10.0/24",
			func(n *threeNodes, in *HostInput) {
				in.Groups.MajorityGroups["192.168.10.0/24"] = nil
			}},
		{"no host reported its connectivity", BelongsToMajorityGroup, Pending, Insufficient, "Waiting",
			func(_ *threeNodes, in *HostInput) { in.Groups = nil }},
		{"the host restarted and has not reported its connectivity", BelongsToMajorityGroup, Pending, Insufficient,
			"Waiting for the hosts to report", func(n *threeNodes, in *HostInput) {
				n.hosts[0].Connectivity, in.Groups.MajorityGroups["192.168.10.0/24"] = nil, nil
			}},
		{"another host restarted and has not reported its connectivity", BelongsToMajorityGroup, Pending, Insufficient,
			"Waiting for the hosts to report", func(n *threeNodes, in *HostInput) {
				n.hosts[1].Connectivity, in.Groups.MajorityGroups["192.168.10.0/24"] = nil, nil
			}},
		{"too few hosts for a majority", BelongsToMajorityGroup, Pending, Insufficient, "at least 3 hosts",
			func(n *threeNodes, in *HostInput) {
				in.Peers = n.hosts[:2]
				in.Groups.MajorityGroups["192.168.10.0/24"] = nil
			}},
		{"large packets are lost", MTUValid, Failure, Ready, "192.168.10.12", func(n *threeNodes, _ *HostInput) {
			n.hosts[0].Connectivity.RemoteHosts[0].MtuReport[0].MtuSuccessful = false
		}},
		{"large packets are lost elsewhere", MTUValid, Success, Ready, "", func(n *threeNodes, _ *HostInput) {
			n.hosts[0].Connectivity.RemoteHosts[0].MtuReport[0] = &models.MtuReport{OutgoingNic: "eno1",
				RemoteIPAddress: "10.0.0.9"}
		}},
		{"nothing reported on MTU", MTUValid, Pending, Insufficient, "Waiting",
			func(n *threeNodes, _ *HostInput) { n.hosts[0].Connectivity = nil }},
		{"OpenStack without user-managed networking", ValidPlatformNetworkSettings, Failure, Insufficient, "OpenStack",
			func(n *threeNodes, _ *HostInput) { inv(n).SystemVendor.ProductName = openStack }},
		{"an unknown machine", ValidPlatformNetworkSettings, Error, Insufficient, "restart",
			func(n *threeNodes, _ *HostInput) { inv(n).SystemVendor = nil }},
		{"no time source responds", NTPSynced, Failure, Ready, "ntp.site.example", func(n *threeNodes, _ *HostInput) {
			n.hosts[0].NTPSources[0].SourceState = models.SourceStateUnreachable
		}},
		{"no time source", NTPSynced, Failure, Ready, "no time source", func(n *threeNodes,
			_ *HostInput) {
			n.hosts[0].NTPSources = nil
		}},
		{"a clock behind", TimeSyncedBetweenHostAndService, Failure, Insufficient, "21m0s behind",
			func(n *threeNodes, _ *HostInput) { n.hosts[0].Record.Timestamp -= 21 * 60 }},
		{"a clock ahead", TimeSyncedBetweenHostAndService, Failure, Insufficient, "ahead",
			func(n *threeNodes, _ *HostInput) { n.hosts[0].Record.Timestamp += 61 * 60 }},
		{"an hour without polls does not count as clock skew", TimeSyncedBetweenHostAndService, Success, Ready, "",
			func(_ *threeNodes, in *HostInput) {
				in.Polled, in.Now = noon, noon.Add(time.Hour)
			}},
		{"no time reported", TimeSyncedBetweenHostAndService, Pending, Insufficient, "Waiting",
			func(n *threeNodes, _ *HostInput) { n.hosts[0].Record.Timestamp = 0 }},
		{"an image is not in the mirror", ContainerImagesAvailable, Failure, Ready, "mirror/mco",
			func(n *threeNodes, _ *HostInput) {
				n.hosts[0].Images = map[string]*models.ContainerImageAvailability{"mirror/mco": {Name: "mirror/mco",
					Result: models.ContainerImageAvailabilityResultFailure}}
			}},
		{"an image is pulled too slowly", ContainerImagesAvailable, Failure, Ready, "mirror/mco",
			func(n *threeNodes, _ *HostInput) {
				n.hosts[0].Images = map[string]*models.ContainerImageAvailability{"mirror/mco": {Name: "mirror/mco",
					SizeBytes: 9, DownloadRate: 0.0001, Result: models.ContainerImageAvailabilityResultSuccess}}
			}},
		{"high latency", SufficientNetworkLatencyRequirementForRole, Failure, Insufficient,
			"node-2 at 192.168.10.12 (250 ms)", func(n *threeNodes, _ *HostInput) {
				n.hosts[0].Connectivity.RemoteHosts[0].L3Connectivity[0].AverageRTTMs = 250
			}},
		{"high latency to another role", SufficientNetworkLatencyRequirementForRole, Success, Ready,
			"", func(n *threeNodes, _ *HostInput) {
				n.hosts[0].Connectivity.RemoteHosts[0].L3Connectivity[0].AverageRTTMs = 250
				n.hosts[1].Record.Role = models.HostRoleWorker
			}},
		{"packet loss", SufficientPacketLossRequirementForRole, Failure, Insufficient, "10 %",
			func(n *threeNodes, _ *HostInput) {
				n.hosts[0].Connectivity.RemoteHosts[0].L3Connectivity[0].PacketLossPercentage = 10
			}},
		{"packet loss has not been measured yet", SufficientPacketLossRequirementForRole, Pending, Insufficient,
			"Waiting",
			func(n *threeNodes, _ *HostInput) { n.hosts[0].Connectivity = nil }},
		{"no default route", HasDefaultRoute, Failure, Insufficient, "gateway",
			func(n *threeNodes, _ *HostInput) { inv(n).Routes = nil }},
		{"interfaces in one network", NonOverlappingSubnets, Failure, Insufficient, "eno1",
			func(n *threeNodes, _ *HostInput) {
				inv(n).Interfaces = append(inv(n).Interfaces, &models.Interface{Name: "eno2",
					IPV4Addresses: []string{"192.168.10.99/25"}})
			}},
		{"a duplicate address", NoIPCollisionsInNetwork, Failure, Insufficient, "02:00:00:00:00:01",
			func(_ *threeNodes, in *HostInput) {
				in.Collisions = map[string][]string{"192.168.10.11": {"02:00:00:00:00:01", "52:54:00:00:00:01"}}
			}},
		{"a duplicate address of another host", NoIPCollisionsInNetwork, Success, Ready, "",
			func(_ *threeNodes, in *HostInput) {
				in.Collisions = map[string][]string{"192.168.10.77": {"a", "b"}}
			}},
		{"iSCSI over the machine network", NoISCSINICBelongsToMachineCIDR, Failure, Insufficient, "eno1",
			func(n *threeNodes, _ *HostInput) {
				inv(n).Disks[0].DriveType, inv(n).Disks[0].Iscsi = models.DriveTypeISCSI,
					&models.Iscsi{HostIPAddress: "192.168.10.11"}
			}},
		{"iSCSI without an interface", NoISCSINICBelongsToMachineCIDR, Error, Insufficient, "10.0.0.1",
			func(n *threeNodes, _ *HostInput) {
				inv(n).Disks[0].DriveType, inv(n).Disks[0].Iscsi = models.DriveTypeISCSI,
					&models.Iscsi{HostIPAddress: "10.0.0.1"}
			}},
		{"the API's name is not in DNS", APIDomainNameResolvedCorrectly, Failure, Insufficient,
			"api.harbour.site.example", func(n *threeNodes, _ *HostInput) {
				n.userManaged()
				n.hosts[0].Domains.Resolutions = n.hosts[0].Domains.Resolutions[:2]
			}},
		{"the API's internal name resolves to the host", APIIntDomainNameResolvedCorrectly, Failure, Insufficient,
			"this host", func(n *threeNodes, _ *HostInput) {
				n.userManaged()
				n.hosts[0].Domains.Resolutions = n.hosts[0].Domains.Resolutions[:2]
				resolve(n.hosts[0], domain(n.cluster, apiIntName), "192.168.10.11")
			}},
		{"the applications' names are not in DNS", AppsDomainNameResolvedCorrectly, Failure, Insufficient, "*.apps",
			func(n *threeNodes, _ *HostInput) {
				n.userManaged()
				n.hosts[0].Domains.Resolutions = n.hosts[0].Domains.Resolutions[:4]
			}},
		{"older storage without a disk", OperatorID("ocs"), Failure, Insufficient, "HDD or SSD",
			func(n *threeNodes, _ *HostInput) {
				n.cluster.MonitoredOperators, n.cluster.SchedulableMastersForcedTrue = []*models.MonitoredOperator{
					{Name: "ocs"}}, ptr(true)
				inv(n).CPU.Count, inv(n).Memory.PhysicalBytes = 64, 256<<30
			}},
		{"an AMD accelerator with secure boot", OperatorID("amd-gpu"), Failure, Insufficient, "secure boot",
			func(n *threeNodes, _ *HostInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "amd-gpu"}}
				inv(n).Gpus, inv(n).Boot = []*models.Gpu{{VendorID: "1002"}},
					&models.Boot{SecureBootState: models.SecureBootStateEnabled}
			}},
		{"the applications' names are not resolved yet", AppsDomainNameResolvedCorrectly, Pending, Insufficient,
			"Waiting", func(n *threeNodes, _ *HostInput) {
				n.userManaged()
				n.hosts[0].Domains = nil
			}},
		{"names without a base domain", AppsDomainNameResolvedCorrectly, Error, Insufficient, "base domain",
			func(n *threeNodes, _ *HostInput) {
				n.userManaged()
				n.cluster.BaseDNSDomain = ""
			}},
		{"a wildcard record", DNSWildcardNotConfigured, Failure, Insufficient, "10.5.5.5",
			func(n *threeNodes, _ *HostInput) {
				resolve(n.hosts[0], domain(n.cluster, strayName)+".", "10.5.5.5")
			}},
		{"a search domain", DNSWildcardNotConfigured, Failure, Insufficient, "search domain",
			func(n *threeNodes, _ *HostInput) {
				resolve(n.hosts[0], domain(n.cluster, strayName), "10.5.5.5")
			}},
		{"reports for the cluster's former name", DNSWildcardNotConfigured, Pending, Insufficient, "Waiting",
			func(n *threeNodes, _ *HostInput) { n.cluster.Name = "renamed" }},
		{"a joining host has no ignition yet", IgnitionDownloadable, Pending, Insufficient, "Waiting",
			func(n *threeNodes, _ *HostInput) {
				n.hosts[0].Record.Kind = ptr(models.HostKindAddToExistingClusterHost)
			}},
		{"a joining host cannot download its ignition", IgnitionDownloadable, Failure, Insufficient, "refused",
			func(n *threeNodes, _ *HostInput) {
				n.hosts[0].Record.Kind = ptr(models.HostKindAddToExistingClusterHost)
				n.hosts[0].APIConnectivity = &models.APIVipConnectivityResponse{URL: "http://api:22624",
					DownloadError: "refused"}
			}},
		{"a joining host downloads its ignition", IgnitionDownloadable, Success, Ready, "",
			func(n *threeNodes, _ *HostInput) {
				n.hosts[0].Record.Kind = ptr(models.HostKindAddToExistingClusterHost)
				n.hosts[0].APIConnectivity = &models.APIVipConnectivityResponse{IsSuccess: true}
			}},
		{"storage without a disk", OperatorID("odf"), Failure, Insufficient, "in addition to the installation disk",
			func(n *threeNodes, _ *HostInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "odf"}}
				n.hosts[0].Record.Role = models.HostRoleWorker
			}},
		{"virtual machines without virtualization", OperatorID("cnv"), Failure, Insufficient, "VT-x",
			func(n *threeNodes, _ *HostInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "cnv"}}
				inv(n).CPU.Flags = nil
			}},
		{"an operator that needs more cores", HasCPUCoresForRole, Failure, Insufficient, "needs 16",
			func(n *threeNodes, _ *HostInput) {
				n.singleNode()
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "mce"}}
			}},
		{"kernel modules with secure boot", OperatorID("kmm"), Failure, Insufficient, "secure boot",
			func(n *threeNodes, _ *HostInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "kmm"}}
				inv(n).Boot = &models.Boot{SecureBootState: models.SecureBootStateEnabled}
			}},
		{"an operator that is larger than the host", OperatorID("mce"), Failure, Insufficient, "MiB",
			func(n *threeNodes, _ *HostInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "mce"}}
				inv(n).Memory.UsableBytes = 8 << 30
			}},
		{"storage whose disk is too small for the engine's volumes", OperatorID("lvm"), Failure, Insufficient,
			"at least 50 GB", func(n *threeNodes, _ *HostInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "lvm"}, {Name: "mce"}}
				n.hosts[0].Record.Role = models.HostRoleWorker
				inv(n).Disks = append(inv(n).Disks, &models.Disk{ID: "small", DriveType: models.DriveTypeSSD,
					SizeBytes: 40e9})
			}},
		{"an operator and a joining host", OperatorID("cnv"), Success, Insufficient, "joins",
			func(n *threeNodes, _ *HostInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "cnv"}}
				n.hosts[0].Record.Kind, inv(n).CPU.Flags = ptr(models.HostKindAddToExistingClusterHost), nil
			}},
		{"a GPU with secure boot", OperatorID("nvidia-gpu"), Failure, Insufficient, "secure boot",
			func(n *threeNodes, _ *HostInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "nvidia-gpu"}}
				inv(n).Gpus = []*models.Gpu{{VendorID: "10de"}}
				inv(n).Boot = &models.Boot{SecureBootState: models.SecureBootStateEnabled}
			}},
		{"local volumes without a second disk", OperatorID("lvm"), Failure, Insufficient, "add a disk",
			func(n *threeNodes, _ *HostInput) {
				n.cluster.MonitoredOperators = []*models.MonitoredOperator{{Name: "lvm"}}
				n.hosts[0].Record.Role = models.HostRoleWorker
			}},
	}
}

func TestHost_faults(t *testing.T) {
	tests := hostFaults()
	failing := make(map[ID]bool)
	for _, tt := range tests {
		failing[tt.id] = failing[tt.id] || tt.want == Failure
	}
	for _, check := range hostChecks {
		if check.id != ReleaseDomainNameResolvedCorrectly { // it never fails; see releaseResolved
			require.True(t, failing[check.id], "no case makes %s fail", check.id)
		}
	}
	for _, op := range operatorTable() {
		require.True(t, op.host == nil || failing[op.id], "no case makes %s fail", op.id)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newThreeNodes()
			in := n.input()
			tt.change(n, &in)
			report := Host(in)
			result, found := report.Result(tt.id)
			require.True(t, found)
			require.Equal(t, tt.want, result.Status, result.Message)
			require.Contains(t, result.Message, tt.message)
			requireSentence(t, result)
			require.Equal(t, tt.readiness, report.Readiness(), report.Blocking())
		})
	}
}

// TestHost_pendingValidations lists the validations that can be pending, and the input that each of
// them waits for.
func TestHost_pendingValidations(t *testing.T) {
	encrypted := &models.DiskEncryption{EnableOn: ptr("all"), Mode: ptr(models.DiskEncryptionModeTpmv2)}
	var operators []*models.MonitoredOperator
	var waitInventory []string
	for _, op := range operatorTable() {
		operators = append(operators, &models.MonitoredOperator{Name: op.names[0]})
		waitInventory = append(waitInventory, string(op.id))
	}
	waitInventory = append(waitInventory, strings.Fields(`inventory-not-partially-truncated inventory-not-fully-truncated has-min-cpu-cores has-min-memory
		has-min-valid-disks has-cpu-cores-for-role has-memory-for-role hostname-unique hostname-valid compatible-with-cluster-platform
		disk-encryption-requirements-satisfied no-skip-missing-disk belongs-to-machine-cidr belongs-to-majority-group mtu-valid
		valid-platform-network-settings time-synced-between-host-and-service sufficient-network-latency-requirement-for-role
		sufficient-packet-loss-requirement-for-role has-default-route dns-wildcard-not-configured non-overlapping-subnets`)...)
	for name, tt := range map[string]struct {
		change  func(*threeNodes, *HostInput)
		waiting []string
	}{
		"nothing is reported": {func(n *threeNodes, in *HostInput) {
			n.hosts[0].Facts, n.hosts[0].Record.Timestamp, in.Groups = &inventory.Facts{}, 0, nil
			n.cluster.DiskEncryption, n.cluster.MonitoredOperators = encrypted, operators
		}, waitInventory},
		"the inventory is all there is": {func(n *threeNodes, in *HostInput) {
			n.hosts[0].Facts, in.Groups = &inventory.Facts{Inventory: n.hosts[0].Inventory}, nil
		}, []string{"belongs-to-majority-group", "mtu-valid", "sufficient-network-latency-requirement-for-role",
			"sufficient-packet-loss-requirement-for-role", "dns-wildcard-not-configured"}},
		"no platform and no machine network": {func(n *threeNodes, _ *HostInput) {
			n.cluster.Platform, n.cluster.MachineNetworks = nil, nil
			n.hosts[0].Inventory.Disks[0].DriveType = models.DriveTypeISCSI
		}, []string{"compatible-with-cluster-platform", "belongs-to-machine-cidr", "belongs-to-majority-group",
			"no-iscsi-nic-belongs-to-machine-cidr"}},
		"no names behind a load balancer": {func(n *threeNodes, _ *HostInput) {
			n.userManaged()
			n.hosts[0].Domains = nil
		}, []string{"api-domain-name-resolved-correctly", "api-int-domain-name-resolved-correctly",
			"apps-domain-name-resolved-correctly", "dns-wildcard-not-configured"}},
		"vSphere before the inventory": {func(n *threeNodes, _ *HostInput) {
			n.cluster.Platform.Type = ptr(models.PlatformTypeVsphere)
			n.hosts[0].Inventory = nil
		}, []string{"vsphere-disk-uuid-enabled"}},
		"a host that joins": {func(n *threeNodes, _ *HostInput) {
			n.hosts[0].Record.Kind = ptr(models.HostKindAddToExistingClusterHost)
		}, []string{"ignition-downloadable"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newThreeNodes()
			in := n.input()
			tt.change(n, &in)
			var waiting []string
			for _, r := range Host(in).Results() {
				if r.Status == Pending {
					requireSentence(t, r)
					waiting = append(waiting, string(r.ID))
				}
			}
			if name == "vSphere before the inventory" {
				require.Subset(t, waiting, tt.waiting)
				return
			}
			require.ElementsMatch(t, tt.waiting, waiting)
		})
	}
}

func TestHost_disabledValidations(t *testing.T) {
	n := newThreeNodes()
	in := n.input()
	n.hosts[0].Inventory.Routes = nil
	require.Equal(t, Failure, Host(in).Status(HasDefaultRoute))
	in.Disabled = []ID{HasDefaultRoute, OperatorID("lvm")}
	require.NoError(t, CheckDisabled(in.Disabled))
	report := Host(in)
	require.Equal(t, Disabled, report.Status(HasDefaultRoute))
	require.Equal(t, Disabled, report.Status(OperatorID("lvm")))
	require.True(t, report.Ready())
	requireEveryID(t, everyHostID, report)
	require.ErrorContains(t, CheckDisabled([]ID{"has-wings"}), `unknown host validation "has-wings"`)
	require.ErrorContains(t, CheckDisabled([]ID{MTUValid, Connected}), "cannot be disabled")
}

func TestHost_unboundHostNeedsHardwareOnly(t *testing.T) {
	n := newThreeNodes()
	in := HostInput{Host: n.hosts[0], InfraEnv: &models.InfraEnv{}, Requirements: DefaultRequirements(""), Now: noon,
		Connected: true}
	report := Host(in)
	requireEveryID(t, everyHostID, report)
	require.Equal(t, Ready, report.Readiness())

	n.hosts[0].Inventory.Hostname = "localhost"
	require.Equal(t, Insufficient, Host(in).Readiness())

	n.hosts[0].Inventory = nil
	require.Equal(t, Discovering, Host(in).Readiness())
}

func TestHost_withoutReports(t *testing.T) {
	n := newThreeNodes()
	for _, c := range []*models.Cluster{nil, {}, n.cluster} {
		report := Host(HostInput{Host: inventory.NewHost(&models.Host{ID: ptr(hostID(9))}, nil), Cluster: c,
			Requirements: DefaultRequirements(""), Now: noon, Connected: true})
		requireEveryID(t, everyHostID, report)
		require.Equal(t, Discovering, report.Readiness())
		for _, r := range report.Results() {
			requireSentence(t, r)
		}
	}
}

func TestHost_ignoredValidationsStayInTheReport(t *testing.T) {
	n := newThreeNodes()
	n.hosts[0].Inventory.CPU.Count = 3
	n.cluster.IgnoredHostValidations = `["has-cpu-cores-for-role"]`
	report := Host(n.input())
	require.Equal(t, Ready, report.Readiness())
	require.Equal(t, Failure, report.Status(HasCPUCoresForRole))

	n.hosts[0].Inventory.CPU.Count = 1
	for _, all := range []string{`["all"]`, `["ALL"]`} { // description.CheckIgnored accepts both
		n.cluster.IgnoredHostValidations = all
		require.Equal(t, Ready, Host(n.input()).Readiness(), all)
	}

	n.hosts[0].Inventory.Hostname = "localhost"
	require.Equal(t, Insufficient, Host(n.input()).Readiness(), "a host name cannot be ignored")

	n.cluster.IgnoredHostValidations = `{"not": "a list"}`
	require.Equal(t, Insufficient, Host(n.input()).Readiness())
}

func TestReport_JSONIsStable(t *testing.T) {
	n := newThreeNodes()
	n.hosts[0].Images = map[string]*models.ContainerImageAvailability{
		"b": {Result: models.ContainerImageAvailabilityResultFailure},
		"a": {Result: models.ContainerImageAvailabilityResultFailure},
	}
	text := Host(n.input()).JSON()
	for range 20 {
		require.Equal(t, text, Host(n.input()).JSON())
	}
	var groups map[string][]Result
	require.NoError(t, json.Unmarshal(text, &groups))
	require.Len(t, groups, 3)
	for _, category := range []string{Hardware, Network, Operators} {
		require.NotEmpty(t, groups[category])
	}
}

func BenchmarkHost(b *testing.B) {
	n := newThreeNodes()
	n.hosts = append(n.hosts, goodHost(4))
	in := n.input()
	for b.Loop() {
		if Host(in).Readiness() == Disconnected {
			b.Fatal("the host is disconnected")
		}
	}
}
