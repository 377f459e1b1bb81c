package validation

import "strings"

// ID is the id of a validation in the API. Hosts and clusters share some ids. [OperatorID] returns
// the ids for operators.
type ID string

// Validations of a host.
const (
	Connected                                  ID = "connected"
	MediaConnected                             ID = "media-connected"
	HasInventory                               ID = "has-inventory"
	InventoryNotPartiallyTruncated             ID = "inventory-not-partially-truncated"
	InventoryNotFullyTruncated                 ID = "inventory-not-fully-truncated"
	HasMinCPUCores                             ID = "has-min-cpu-cores"
	HasMinValidDisks                           ID = "has-min-valid-disks"
	HasMinMemory                               ID = "has-min-memory"
	MachineCIDRDefined                         ID = "machine-cidr-defined"
	HasCPUCoresForRole                         ID = "has-cpu-cores-for-role"
	HasMemoryForRole                           ID = "has-memory-for-role"
	HostnameUnique                             ID = "hostname-unique"
	HostnameValid                              ID = "hostname-valid"
	BelongsToMachineCIDR                       ID = "belongs-to-machine-cidr"
	IgnitionDownloadable                       ID = "ignition-downloadable"
	BelongsToMajorityGroup                     ID = "belongs-to-majority-group"
	ValidPlatformNetworkSettings               ID = "valid-platform-network-settings"
	NTPSynced                                  ID = "ntp-synced"
	TimeSyncedBetweenHostAndService            ID = "time-synced-between-host-and-service"
	ContainerImagesAvailable                   ID = "container-images-available"
	SufficientInstallationDiskSpeed            ID = "sufficient-installation-disk-speed"
	SufficientNetworkLatencyRequirementForRole ID = "sufficient-network-latency-requirement-for-role"
	SufficientPacketLossRequirementForRole     ID = "sufficient-packet-loss-requirement-for-role"
	HasDefaultRoute                            ID = "has-default-route"
	APIDomainNameResolvedCorrectly             ID = "api-domain-name-resolved-correctly"
	APIIntDomainNameResolvedCorrectly          ID = "api-int-domain-name-resolved-correctly"
	AppsDomainNameResolvedCorrectly            ID = "apps-domain-name-resolved-correctly"
	ReleaseDomainNameResolvedCorrectly         ID = "release-domain-name-resolved-correctly"
	CompatibleWithClusterPlatform              ID = "compatible-with-cluster-platform"
	DNSWildcardNotConfigured                   ID = "dns-wildcard-not-configured"
	DiskEncryptionRequirementsSatisfied        ID = "disk-encryption-requirements-satisfied"
	NonOverlappingSubnets                      ID = "non-overlapping-subnets"
	VSphereDiskUUIDEnabled                     ID = "vsphere-disk-uuid-enabled"
	CompatibleAgent                            ID = "compatible-agent"
	NoSkipInstallationDisk                     ID = "no-skip-installation-disk"
	NoSkipMissingDisk                          ID = "no-skip-missing-disk"
	NoIPCollisionsInNetwork                    ID = "no-ip-collisions-in-network"
	NoISCSINICBelongsToMachineCIDR             ID = "no-iscsi-nic-belongs-to-machine-cidr"
	MTUValid                                   ID = "mtu-valid"
)

// Validations of a cluster. Clusters also have MachineCIDRDefined.
const (
	ClusterCIDRDefined                   ID = "cluster-cidr-defined"
	ServiceCIDRDefined                   ID = "service-cidr-defined"
	NoCIDRsOverlapping                   ID = "no-cidrs-overlapping"
	NetworksSameAddressFamilies          ID = "networks-same-address-families"
	NetworkPrefixValid                   ID = "network-prefix-valid"
	MachineCIDREqualsToCalculatedCIDR    ID = "machine-cidr-equals-to-calculated-cidr"
	APIVIPsDefined                       ID = "api-vips-defined"
	APIVIPsValid                         ID = "api-vips-valid"
	IngressVIPsDefined                   ID = "ingress-vips-defined"
	IngressVIPsValid                     ID = "ingress-vips-valid"
	AllHostsAreReadyToInstall            ID = "all-hosts-are-ready-to-install"
	SufficientMastersCount               ID = "sufficient-masters-count"
	DNSDomainDefined                     ID = "dns-domain-defined"
	PullSecretSet                        ID = "pull-secret-set"
	NTPServerConfigured                  ID = "ntp-server-configured"
	NetworkTypeValid                     ID = "network-type-valid"
	CustomManifestsRequirementsSatisfied ID = "custom-manifests-requirements-satisfied"
	PlatformRequirementsSatisfied        ID = "platform-requirements-satisfied"
)

// All selects every validation in a list of ignored validations.
const All ID = "all"

// IsAll reports whether an entry of such a list is [All], in any case.
func (id ID) IsAll() bool { return strings.EqualFold(string(id), string(All)) }
