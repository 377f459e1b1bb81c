package validation

import (
	"fmt"
	"slices"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
)

// HostInput is the input of the validations of a host.
type HostInput struct {
	Host *inventory.Host
	// Cluster is nil for an unbound host.
	Cluster  *models.Cluster
	InfraEnv *models.InfraEnv
	// Peers holds the hosts of the cluster. The host itself may be among them.
	Peers []*inventory.Host
	// Groups holds the cluster's groups of connected hosts; nil if they are not formed yet.
	Groups *network.Groups
	// Collisions maps each IP address of the cluster that several machines use to their MAC
	// addresses.
	Collisions   map[string][]string
	Requirements Requirements
	Now          time.Time
	// Polled is the time at which the agent sent Host.Record.Timestamp. If it is zero, Now is used.
	Polled time.Time
	// Connected reports whether the agent polled recently enough.
	Connected bool
	// Restarts reports whether the machine is restarting to boot a newer image.
	Restarts bool
	// AgentImage is the required image of the agent. If it is empty, every agent is accepted.
	AgentImage string
	// Disabled holds the validations that the site disabled; see [CheckDisabled].
	Disabled []ID
}

// Host runs all validations of a host. The report has every validation of the API. A validation
// that does not apply succeeds with a message about it.
func Host(in HostInput) *Report {
	report := &Report{
		results:    make([]Result, 0, len(hostChecks)+len(operatorTable())),
		categories: make([]string, 0, len(hostChecks)+len(operatorTable())),
	}
	c := &hostContext{HostInput: in}
	c.needs = in.Requirements.ForHost(in.Host, in.Cluster)
	for _, check := range hostChecks {
		if slices.Contains(in.Disabled, check.id) {
			report.add(check.category, check.id, Disabled, disabledMessage)
			continue
		}
		status, message := check.run(c)
		report.add(check.category, check.id, status, message)
	}
	for _, op := range operatorTable() {
		if slices.Contains(in.Disabled, op.id) {
			report.add(Operators, op.id, Disabled, disabledMessage)
			continue
		}
		status, message := op.onHost(in.Requirements, in.Host, in.Cluster)
		report.add(Operators, op.id, status, message)
	}
	if in.Cluster == nil {
		report.levels = unboundLevels[:]
		return report
	}
	report.levels = boundLevels[:]
	report.ignored = ignoredIDs(in.Cluster.IgnoredHostValidations, report.results, NeverIgnoredForHosts())
	return report
}

// CheckDisabled returns an error for the first validation in the list that is unknown, or that
// cannot be disabled because every installation needs it.
func CheckDisabled(ids []ID) error {
	for _, id := range ids {
		switch {
		case slices.Contains(NeverIgnoredForHosts(), id):
			return fmt.Errorf("the host validation %q cannot be disabled: every installation needs it", id)
		case !IsOfHosts(id):
			return fmt.Errorf("unknown host validation %q", id)
		}
	}
	return nil
}

// IsOfHosts reports whether hosts have a validation with this id.
func IsOfHosts(id ID) bool {
	return isOfOperators(id) || slices.ContainsFunc(hostChecks[:], func(check hostCheck) bool { return check.id == id })
}

// hostContext holds the input of the validations, and values that several of them use.
type hostContext struct {
	HostInput
	needs models.ClusterHostRequirementsDetails
}

type hostCheck struct {
	id       ID
	category string
	run      func(*hostContext) (Status, string)
}

var hostChecks = [...]hostCheck{
	{HasInventory, Hardware, hasInventory},
	{InventoryNotPartiallyTruncated, Hardware, inventoryNotPartiallyTruncated},
	{InventoryNotFullyTruncated, Hardware, inventoryNotFullyTruncated},
	{HasMinCPUCores, Hardware, hasMinCPUCores},
	{HasMinMemory, Hardware, hasMinMemory},
	{HasMinValidDisks, Hardware, hasMinValidDisks},
	{HasCPUCoresForRole, Hardware, hasCPUCoresForRole},
	{HasMemoryForRole, Hardware, hasMemoryForRole},
	{HostnameUnique, Hardware, hostnameUnique},
	{HostnameValid, Hardware, hostnameValid},
	{SufficientInstallationDiskSpeed, Hardware, sufficientDiskSpeed},
	{CompatibleWithClusterPlatform, Hardware, compatibleWithPlatform},
	{VSphereDiskUUIDEnabled, Hardware, vsphereDiskUUID},
	{DiskEncryptionRequirementsSatisfied, Hardware, diskEncryption},
	{CompatibleAgent, Hardware, compatibleAgent},
	{NoSkipInstallationDisk, Hardware, noSkipInstallationDisk},
	{NoSkipMissingDisk, Hardware, noSkipMissingDisk},

	{Connected, Network, connected},
	{MediaConnected, Network, mediaConnected},
	{MachineCIDRDefined, Network, hostMachineCIDRDefined},
	{BelongsToMachineCIDR, Network, belongsToMachineCIDR},
	{IgnitionDownloadable, Network, ignitionDownloadable},
	{BelongsToMajorityGroup, Network, belongsToMajorityGroup},
	{MTUValid, Network, mtuValid},
	{ValidPlatformNetworkSettings, Network, validPlatformNetworkSettings},
	{NTPSynced, Network, ntpSynced},
	{TimeSyncedBetweenHostAndService, Network, timeSynced},
	{ContainerImagesAvailable, Network, containerImagesAvailable},
	{SufficientNetworkLatencyRequirementForRole, Network, sufficientLatency},
	{SufficientPacketLossRequirementForRole, Network, sufficientPacketLoss},
	{HasDefaultRoute, Network, hasDefaultRoute},
	{APIDomainNameResolvedCorrectly, Network, apiResolved},
	{APIIntDomainNameResolvedCorrectly, Network, apiIntResolved},
	{AppsDomainNameResolvedCorrectly, Network, appsResolved},
	{ReleaseDomainNameResolvedCorrectly, Network, releaseResolved},
	{DNSWildcardNotConfigured, Network, dnsWildcardNotConfigured},
	{NonOverlappingSubnets, Network, nonOverlappingSubnets},
	{NoIPCollisionsInNetwork, Network, noIPCollisions},
	{NoISCSINICBelongsToMachineCIDR, Network, noISCSINICInMachineCIDR},
}

var (
	disconnectedLevel = level{Disconnected, []ID{Connected, MediaConnected}}
	discoveringLevel  = level{Discovering, []ID{HasInventory, InventoryNotFullyTruncated}}
	unboundLevels     = [...]level{disconnectedLevel, discoveringLevel,
		{Insufficient, []ID{HasMinValidDisks, HasMinCPUCores, HasMinMemory, HostnameValid}},
	}
	boundLevels = [...]level{disconnectedLevel, discoveringLevel,
		{Insufficient, []ID{HasMinValidDisks, HasMinCPUCores, HasMinMemory, CompatibleWithClusterPlatform,
			DiskEncryptionRequirementsSatisfied, VSphereDiskUUIDEnabled}},
		{PendingForInput, []ID{MachineCIDRDefined}},
		{Insufficient, hostSufficient()},
	}
)

// advisory holds the validations of a host that only warn.
var advisory = [...]ID{NTPSynced, MTUValid, InventoryNotPartiallyTruncated, ReleaseDomainNameResolvedCorrectly,
	ContainerImagesAvailable}

func hostSufficient() []ID {
	var ids []ID
	for _, check := range hostChecks {
		if !slices.Contains(advisory[:], check.id) {
			ids = append(ids, check.id)
		}
	}
	for _, op := range operatorTable() {
		ids = append(ids, op.id)
	}
	return ids
}

// Messages of several validations.
const (
	waitInventory   = "Waiting for the host's inventory."
	disabledMessage = "This validation is disabled in the appliance's configuration."
	unbound         = "Not needed while the host is not bound to a cluster."
	day2            = "Not needed for a host that joins an installed cluster."
)

// rebooted reports whether a host in this stage runs from its disk, without an agent.
func rebooted(stage models.HostStage) bool {
	switch stage {
	case models.HostStageRebooting, models.HostStageWaitingForIgnition, models.HostStageConfiguring,
		models.HostStageJoined, models.HostStageDone:
		return true
	}
	return false
}

func connected(c *hostContext) (Status, string) {
	switch {
	case rebooted(c.Host.Stage()):
		return Success, "The host has booted from its disk, so it has no agent any more."
	case c.Connected:
		return Success, "The host's agent is connected."
	case c.Restarts:
		return Failure, "The host is restarting to boot a newer image of its infra-env; its agent registers again by " +
			"itself."
	}
	return Failure, "The host's agent does not contact the appliance; check that the host is on, booted from the " +
		"discovery " +
		"image and can reach the appliance."
}

func mediaConnected(c *hostContext) (Status, string) {
	if text(c.Host.Record.MediaStatus) != models.HostMediaStatusDisconnected || rebooted(c.Host.Stage()) {
		return Success, "The discovery image can be read."
	}
	return Failure, "The host cannot read the discovery image any more; connect the virtual media or disk again and " +
		"restart the host."
}

func hasInventory(c *hostContext) (Status, string) {
	if c.Host.Inventory == nil {
		return Failure, "The host has not sent its inventory yet; its agent sends it within a minute after its start."
	}
	return Success, "The host has sent its inventory."
}

func inventoryNotPartiallyTruncated(c *hostContext) (Status, string) {
	return truncation(c, inventory.TruncatedPartly, "The inventory is truncated: %s.")
}

func inventoryNotFullyTruncated(c *hostContext) (Status, string) {
	return truncation(c, inventory.TruncatedFully,
		"The inventory was not sent because it is too large: %s. Raise the agent's limit for it.")
}

func truncation(c *hostContext, kind, format string) (Status, string) {
	switch t := c.Host.Truncation; {
	case c.Host.Inventory == nil:
		return Pending, waitInventory
	case t == nil:
		return Success, "The inventory is complete."
	case t.Type != inventory.TruncatedPartly && t.Type != inventory.TruncatedFully:
		return Error,
			fmt.Sprintf("The inventory is truncated in an unknown way (%q); the agent and the appliance are not "+
				"compatible, so restart the host from this appliance's discovery image.", t.Type)
	case t.Type != kind:
		return Success, "This is not the way in which the inventory is truncated; see the other validation of " +
			"truncated inventories."
	case len(t.Reasons) == 0:
		return Failure, fmt.Sprintf(format, "the agent gave no reason")
	default:
		return Failure, fmt.Sprintf(format, sentenceList(t.Reasons))
	}
}

// memoryTolerance is the amount in bytes by which a host's memory may be below the minimum.
// Hypervisors and firmware use some memory.
const memoryTolerance = 100 << 20

// sufficient reports whether a host has an amount of memory in bytes, with the tolerance. A host
// without SMBIOS reports only the memory that the kernel can use; the firmware may use 2 % more.
func sufficient(memory *models.Memory, need int64) bool {
	tolerance := int64(memoryTolerance)
	if memory.PhysicalBytesMethod == models.MemoryMethodMeminfo {
		tolerance += need / 50
	}
	return memory.PhysicalBytes >= need-tolerance
}

func cores(n int64) string {
	if n == 1 {
		return "1 CPU core"
	}
	return fmt.Sprintf("%d CPU cores", n)
}

func hasMinCPUCores(c *hostContext) (Status, string) {
	if c.Host.Inventory == nil {
		return Pending, waitInventory
	}
	need, _ := c.Requirements.minimum(c.Cluster)
	if have := c.Host.Inventory.CPU.Count; have < need {
		return Failure, fmt.Sprintf("The host has %s and every role needs at least %d; add cores or use another host.",
			cores(have), need)
	}
	return Success, fmt.Sprintf("The host has the %d CPU cores that every role needs.", need)
}

func hasMinMemory(c *hostContext) (Status, string) {
	if c.Host.Inventory == nil {
		return Pending, waitInventory
	}
	_, mib := c.Requirements.minimum(c.Cluster)
	need := mib << 20
	if memory := c.Host.Inventory.Memory; !sufficient(memory, need) {
		return Failure,
			fmt.Sprintf("The host has %s of memory and every role needs at least %s; add memory or use another host.",
				inventory.Memory(memory.PhysicalBytes), inventory.Memory(need))
	}
	return Success, fmt.Sprintf("The host has the %s of memory that every role needs.", inventory.Memory(need))
}

func hasMinValidDisks(c *hostContext) (Status, string) {
	switch {
	case c.Host.Inventory == nil:
		return Pending, waitInventory
	case len(c.Host.Inventory.Disks) == 0:
		return Failure, fmt.Sprintf("The host has no disks; add one of at least %d GB.", c.needs.DiskSizeGb)
	}
	for _, d := range c.Host.Inventory.Disks {
		if d.InstallationEligibility.Eligible {
			return Success, "The host has a disk that it can be installed to."
		}
	}
	d := c.Host.Inventory.Disks[0]
	reason := ""
	if reasons := d.InstallationEligibility.NotEligibleReasons; len(reasons) > 0 {
		reason = fmt.Sprintf(" (%s: %s)", d.Name, reasons[0])
	}
	return Failure,
		fmt.Sprintf("None of the host's disks (%d) can be installed to%s; see the disks for the reasons or add one "+
			"of at least %d GB.",
			len(c.Host.Inventory.Disks), reason, c.needs.DiskSizeGb)
}

func hasCPUCoresForRole(c *hostContext) (Status, string) {
	if c.Host.Inventory == nil {
		return Pending, waitInventory
	}
	if have, need := c.Host.Inventory.CPU.Count, c.needs.CPUCores; have < need {
		return Failure, fmt.Sprintf("The host has %s and role %s needs %d; add cores or choose another role.",
			cores(have), c.Host.Role(), need)
	}
	return Success, fmt.Sprintf("The host has the %d CPU cores that role %s needs.", c.needs.CPUCores, c.Host.Role())
}

func hasMemoryForRole(c *hostContext) (Status, string) {
	if c.Host.Inventory == nil {
		return Pending, waitInventory
	}
	need := c.needs.RAMMib << 20
	if memory := c.Host.Inventory.Memory; !sufficient(memory, need) {
		return Failure,
			fmt.Sprintf("The host has %s of memory and role %s needs %s; add memory or choose another role.",
				inventory.Memory(memory.PhysicalBytes), c.Host.Role(), inventory.Memory(need))
	}
	return Success, fmt.Sprintf("The host has the %s of memory that role %s needs.", inventory.Memory(need),
		c.Host.Role())
}

func hostnameUnique(c *hostContext) (Status, string) {
	switch {
	case c.Cluster == nil:
		return Success, unbound
	case c.Host.Inventory == nil:
		return Pending, waitInventory
	}
	name := c.Host.Hostname()
	for _, peer := range c.Peers {
		if peer.ID() != c.Host.ID() && peer.Inventory != nil && peer.Hostname() == name {
			return Failure, fmt.Sprintf("Another host of the cluster is named %q too; give one of them another name.",
				name)
		}
	}
	return Success, fmt.Sprintf("No other host of the cluster is named %q.", name)
}

func hostnameValid(c *hostContext) (Status, string) {
	if c.Host.Inventory == nil {
		return Pending, waitInventory
	}
	if fault := network.CheckHostname(c.Host.Hostname()); fault != "" {
		return Failure, fault
	}
	return Success, fmt.Sprintf("The host name %q can be used.", c.Host.Hostname())
}

func sufficientDiskSpeed(c *hostContext) (Status, string) {
	info, ok := c.Host.Disks[c.Host.InstallationDiskPath()]
	switch {
	case !ok || info.DiskSpeed == nil || !info.DiskSpeed.Tested:
		return Success, "The speed of the installation disk has not been measured yet; that is part of the " +
			"preparation of the installation."
	case info.DiskSpeed.ExitCode == 0:
		return Success, fmt.Sprintf("The installation disk syncs in %d ms.", info.DiskSpeed.SpeedMs)
	}
	return Failure,
		fmt.Sprintf("Measuring the speed of the installation disk failed (exit code %d); choose another disk, or "+
			"reset this validation to measure again.", info.DiskSpeed.ExitCode)
}
