package validation

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/operator"
)

// operatorCheck is an optional operator with its validation.
type operatorCheck struct {
	*operator.Operator
	id ID
	// names holds the names under which clusters list the operator.
	names  []string
	absent string // message for clusters without the operator
	// host and cluster validate conditions beyond the operator's requirements. They may be nil.
	host    func(operator.Requirements, *inventory.Host, *models.Cluster) (Status, string)
	cluster func(operator.Requirements, ClusterInput) (Status, string)
}

// openShiftAI is the operator with an additional validation of accelerators, openShiftAIGPUs.
const (
	openShiftAI        = "openshift-ai"
	openShiftAIGPUs ID = "openshift-ai-gpu-requirements-satisfied"
)

// OperatorID returns the id of the validation for an operator.
func OperatorID(name string) ID { return ID(name + "-requirements-satisfied") }

// isOfOperators reports whether the validation of an operator has this id.
func isOfOperators(id ID) bool {
	return slices.ContainsFunc(operatorTable(), func(op operatorCheck) bool { return op.id == id })
}

// operatorTable returns all operators in the order of their validations. Old clusters may use the
// former name ocs of ODF, for which the API has separate validations.
var operatorTable = sync.OnceValue(func() []operatorCheck {
	var table []operatorCheck
	for i := range operator.All() {
		o := &operator.All()[i]
		check := operatorCheck{Operator: o, id: OperatorID(o.Validation), names: []string{o.Name, o.Validation}}
		switch o.Name {
		case "odf":
			check.host, check.cluster = odfHost, odfCluster
			former := check
			former.id, former.names, former.absent = OperatorID("ocs"), []string{"ocs"}, notChosen(o.Title)
			table = append(table, former)
		case "lvm":
			check.host = lvmHost
		case "cnv":
			check.host = cnvHost
		case "kmm":
			check.host = modulesHost
		case "nvidia-gpu", "amd-gpu":
			check.host, check.cluster = gpuHost, gpuCluster
		case openShiftAI:
			check.cluster = aiCluster
		}
		check.absent = notChosen(o.Title)
		table = append(table, check)
	}
	return table
})

func (o operatorCheck) enabled(c *models.Cluster) bool {
	if c == nil {
		return false
	}
	for _, m := range c.MonitoredOperators {
		if m != nil && slices.Contains(o.names, m.Name) {
			return true
		}
	}
	return false
}

func enabledOperators(c *models.Cluster) []operatorCheck {
	if c == nil || !slices.ContainsFunc(c.MonitoredOperators, func(m *models.MonitoredOperator) bool {
		return m != nil && m.OperatorType != models.OperatorTypeBuiltin
	}) {
		return nil
	}
	var list []operatorCheck
	for _, op := range operatorTable() {
		if op.enabled(c) {
			list = append(list, op)
		}
	}
	return list
}

// notChosen returns the message for clusters without the operator.
func notChosen(title string) string { return title + " is not among the cluster's operators." }

const joinsInstalled = "Not needed for a host that joins an installed cluster."

// onHost validates an operator on one host.
func (o operatorCheck) onHost(r Requirements, h *inventory.Host, c *models.Cluster) (Status, string) {
	switch {
	case !o.enabled(c):
		return Success, o.absent
	case h.Day2() || AddingHosts(c):
		return Success, joinsInstalled
	case h.Inventory == nil:
		return Pending, waitInventory
	}
	needs := r.Operators.For(o.Operator)
	if o.host != nil {
		if status, message := o.host(needs, h, c); status != Success {
			return status, message
		}
	}
	own := o.amounts(needs, h, c)
	switch {
	case h.Inventory.CPU != nil && h.Inventory.CPU.Count < own.CPUCores:
		return Failure,
			fmt.Sprintf("%s needs %s for itself and the host has %d in total; use a larger host or do not choose the "+
				"operator.", o.Title, cores(own.CPUCores), h.Inventory.CPU.Count)
	case h.Inventory.Memory != nil && h.Inventory.Memory.UsableBytes < own.RAMMiB<<20:
		return Failure,
			fmt.Sprintf("%s needs %d MiB of memory for itself and the host has %d MiB of usable memory; use a larger "+
				"host or do not choose the operator.", o.Title, own.RAMMiB, h.Inventory.Memory.UsableBytes>>20)
	case own == operator.Amounts{}:
		return Success, o.Title + " needs no additional CPU and memory."
	}
	return Success, fmt.Sprintf("The host has what %s needs; its %s and %d MiB are part of the host's requirements.",
		o.Title, cores(own.CPUCores), own.RAMMiB)
}

func (o operatorCheck) onCluster(in ClusterInput) (Status, string) {
	if !o.enabled(in.Cluster) {
		return Success, o.absent
	}
	if AddingHosts(in.Cluster) {
		return Success, "The cluster is already installed."
	}
	if why := o.Unavailable(in.Cluster.OpenshiftVersion, SingleNode(in.Cluster)); why != "" {
		return Failure, why
	}
	if o.cluster != nil {
		if status, message := o.cluster(in.Requirements.Operators.For(o.Operator), in); status != Success {
			return status, message
		}
	}
	if why := in.MissingCatalogs[o.SubscriptionFor(in.Cluster.OpenshiftVersion).Catalog]; why != "" {
		return Failure, fmt.Sprintf("%s can't be installed: %s", o.Title, why)
	}
	return Success, "The cluster meets the requirements of " + o.Title + "."
}

// amounts returns the CPU and memory that an operator needs on a host.
func (o operatorCheck) amounts(r operator.Requirements, h *inventory.Host, c *models.Cluster) operator.Amounts {
	if !runs(r.On, h, c) {
		return operator.Amounts{}
	}
	disks, devices := 0, 0
	if r.PerDisk != (operator.Amounts{}) {
		disks = spareDisks(h, r.DiskGB)
		if h.Role() == models.HostRoleMaster {
			disks = max(1, disks)
		}
	}
	if r.PerDevice != (operator.Amounts{}) && (SingleNode(c) || h.Role() != models.HostRoleMaster) {
		devices = countDevices(h, r)
	}
	return r.Of(h.Role(), c.OpenshiftVersion, SingleNode(c), disks, devices)
}

// runs reports whether an operator runs on a host.
func runs(on string, h *inventory.Host, c *models.Cluster) bool {
	switch on {
	case operator.OnWorkloads:
		return runsWorkloads(h, c)
	case operator.OnStorage:
		return runsStorage(h, c)
	case operator.OnWorkers:
		return h.Role() == models.HostRoleWorker
	}
	return h.Role() != models.HostRoleArbiter
}

// runsWorkloads reports whether a host runs workloads. Workers always do. Control-plane hosts do if
// they are schedulable.
func runsWorkloads(h *inventory.Host, c *models.Cluster) bool {
	switch h.Role() {
	case models.HostRoleWorker, models.HostRoleAutoAssign:
		return true
	case models.HostRoleMaster:
		return SingleNode(c) || yes(c.SchedulableMasters) || yes(c.SchedulableMastersForcedTrue)
	default:
		return false
	}
}

// MastersSchedulable reports whether the control plane must run workloads because the cluster has
// fewer than two workers.
func MastersSchedulable(c *models.Cluster, hosts []*inventory.Host) bool {
	workers := 0
	for _, h := range hosts {
		if h.Role() == models.HostRoleWorker {
			workers++
		}
	}
	return SingleNode(c) || workers < 2
}

// runsStorage reports whether a host stores volumes of ODF. Workers and hosts with an undecided
// role do. The other hosts do on a single node, or if the cluster has fewer than two workers.
func runsStorage(h *inventory.Host, c *models.Cluster) bool {
	if h.Role() == models.HostRoleWorker {
		return true
	}
	return SingleNode(c) || yes(c.SchedulableMastersForcedTrue) || h.Role() == models.HostRoleAutoAssign
}

// spareDisks counts the disks of a host that are available for storage: HDDs and SSDs except the
// installation disk.
func spareDisks(h *inventory.Host, minGB int64) int {
	if h.Inventory == nil {
		return 0
	}
	n := 0
	for _, d := range h.Inventory.Disks {
		usable := d.DriveType == models.DriveTypeHDD || d.DriveType == models.DriveTypeSSD
		if usable && inventory.DiskID(d) != h.InstallationDiskPath() && d.SizeBytes > 0 && d.SizeBytes >= minGB*1e9 &&
			!d.Removable {
			n++
		}
	}
	return n
}

func countDevices(h *inventory.Host, r operator.Requirements) int {
	if h.Inventory == nil {
		return 0
	}
	n := 0
	for _, g := range h.Inventory.Gpus {
		if slices.Contains(r.GPUs, strings.ToLower(g.VendorID+":"+g.DeviceID)) {
			n++
		}
	}
	for _, nic := range h.Inventory.Interfaces {
		id := func(text string) string { return strings.TrimPrefix(strings.ToLower(text), "0x") }
		if slices.Contains(r.NICs, id(nic.Vendor)+":"+id(nic.Product)) {
			n++
		}
	}
	return n
}

// Storage reports whether ODF would store a cluster's volumes on the control plane (compact) or on
// workers, and on how many disks.
func Storage(c *models.Cluster, hosts []*inventory.Host, r Requirements) (compact bool, disks int) {
	odf, _ := operator.ByName("odf")
	minGB := r.Operators.For(odf).DiskGB
	compact = !slices.ContainsFunc(hosts, func(h *inventory.Host) bool { return h.Role() == models.HostRoleWorker })
	for _, h := range hosts {
		if compact || h.Role() == models.HostRoleWorker {
			disks += spareDisks(h, minGB)
		}
	}
	return compact, disks
}

// volumesGB is the minimum size of a disk for the volumes of the multicluster engine. The engine
// has volumes of 10, 10 and 50 GB, which share one disk on a single node.
func volumesGB(c *models.Cluster) int64 {
	switch {
	case !slices.ContainsFunc(c.MonitoredOperators, func(m *models.MonitoredOperator) bool {
		return m != nil &&
			m.Name == "mce"
	}):
		return 0
	case SingleNode(c):
		return 70
	default:
		return 50
	}
}

func odfHost(r operator.Requirements, h *inventory.Host, c *models.Cluster) (Status, string) {
	least := r.DiskGB + volumesGB(c)
	if runsStorage(h, c) && spareDisks(h, least) == 0 {
		return Failure,
			fmt.Sprintf("OpenShift Data Foundation needs an HDD or SSD of at least %d GB in addition to the "+
				"installation "+
				"disk, which is missing; add a disk to the host.", least)
	}
	return Success, ""
}

func odfCluster(r operator.Requirements, in ClusterInput) (Status, string) {
	workers, with := 0, 0
	for _, h := range in.Hosts {
		if h.Role() == models.HostRoleWorker {
			workers++
		}
	}
	if workers > 0 && workers < r.Hosts {
		return Failure,
			fmt.Sprintf("OpenShift Data Foundation needs %d workers or none and the cluster has %d; add or remove "+
				"hosts, or change their roles.", r.Hosts, workers)
	}
	for _, h := range in.Hosts {
		if h.Inventory == nil {
			return Pending, "Waiting for the inventory of host " + h.Name() + "."
		}
		if (workers == 0 || h.Role() == models.HostRoleWorker) && spareDisks(h, r.DiskGB) > 0 {
			with++
		}
	}
	if with < r.Hosts {
		return Failure,
			fmt.Sprintf("OpenShift Data Foundation needs %d hosts with a disk for storage of at least %d GB and "+
				"found %d; add disks or hosts.", r.Hosts, r.DiskGB, with)
	}
	return Success, ""
}

func lvmHost(_ operator.Requirements, h *inventory.Host, c *models.Cluster) (Status, string) {
	least := volumesGB(c)
	if !runsWorkloads(h, c) || spareDisks(h, least) > 0 {
		return Success, ""
	}
	size := ""
	if least > 0 {
		size = fmt.Sprintf(" of at least %d GB", least)
	}
	return Failure,
		fmt.Sprintf("Logical Volume Manager Storage needs an HDD or SSD%s in addition to the installation disk, "+
			"which is "+
			"missing; add a disk to the host.", size)
}

func cnvHost(_ operator.Requirements, h *inventory.Host, c *models.Cluster) (Status, string) {
	var flags []string
	if h.Inventory.CPU != nil {
		flags = h.Inventory.CPU.Flags
	}
	switch {
	case !slices.Contains(flags, "vmx") && !slices.Contains(flags, "svm"):
		return Failure, "OpenShift Virtualization needs a CPU with virtualization (VT-x or AMD-V), which is missing " +
			"or " +
			"disabled; enable it in the firmware."
	case (operator.Cluster{Version: c.OpenshiftVersion, SingleNode: SingleNode(c)}).HostPath() &&
		spareDisks(h, hostPathGB) == 0:
		return Failure,
			fmt.Sprintf("OpenShift Virtualization on a single node of OpenShift %s needs an HDD or SSD of at least "+
				"%d GB for its virtual machines, in addition to the installation disk; add a disk to the host.",
				c.OpenshiftVersion, hostPathGB)
	}
	return Success, ""
}

// hostPathGB is the size in GB of the directory for virtual machines on a single node: 50 GiB.
const hostPathGB = 54

func hasGPU(h *inventory.Host, vendors []string) bool {
	return h.Inventory != nil && slices.ContainsFunc(h.Inventory.Gpus, func(g *models.Gpu) bool {
		return slices.ContainsFunc(vendors, func(vendor string) bool { return strings.EqualFold(vendor, g.VendorID) })
	})
}

func secureBoot(h *inventory.Host) bool {
	return h.Inventory.Boot != nil && h.Inventory.Boot.SecureBootState == models.SecureBootStateEnabled
}

// gpuHost validates that the GPU drivers, which are not signed, can be loaded.
func gpuHost(r operator.Requirements, h *inventory.Host, _ *models.Cluster) (Status, string) {
	if hasGPU(h, r.Vendors) && secureBoot(h) {
		return Failure, "The driver of the host's GPU cannot be loaded with secure boot; disable secure boot in " +
			"the firmware."
	}
	return Success, ""
}

func modulesHost(_ operator.Requirements, h *inventory.Host, _ *models.Cluster) (Status, string) {
	if secureBoot(h) {
		return Failure, "Kernel modules that are built on site cannot be loaded with secure boot; disable secure " +
			"boot in the firmware."
	}
	return Success, ""
}

func gpuCluster(r operator.Requirements, in ClusterInput) (Status, string) {
	found := slices.ContainsFunc(in.Hosts, func(h *inventory.Host) bool {
		return runsWorkloads(h, in.Cluster) &&
			hasGPU(h, r.Vendors)
	})
	if !found {
		return Failure,
			fmt.Sprintf("No host that runs workloads has a GPU of %s; add such a "+
				"host or do not choose the operator.", vendorNames(r.Vendors))
	}
	return Success, ""
}

// vendorNames returns the names of GPU manufacturers for their PCI ids.
func vendorNames(ids []string) string {
	var names []string
	for _, id := range ids {
		name, known := map[string]string{"10de": "NVIDIA", "1002": "AMD"}[strings.ToLower(id)]
		if !known {
			name = "PCI vendor " + id
		}
		names = append(names, name)
	}
	return strings.Join(names, " or ")
}

func aiCluster(r operator.Requirements, in ClusterInput) (Status, string) {
	workers := 0
	for _, h := range in.Hosts {
		if h.Role() == models.HostRoleWorker {
			workers++
		}
	}
	if !SingleNode(in.Cluster) && workers < r.Hosts {
		return Failure, fmt.Sprintf("OpenShift AI needs %d workers and the cluster has %d; add hosts of role worker.",
			r.Hosts, workers)
	}
	return Success, ""
}

// aiGPUs reports whether OpenShift AI can use GPUs. GPUs are optional for it.
func aiGPUs(in ClusterInput) (Status, string) {
	has := func(names ...string) bool {
		return slices.ContainsFunc(in.Cluster.MonitoredOperators,
			func(m *models.MonitoredOperator) bool { return m != nil && slices.Contains(names, m.Name) })
	}
	switch {
	case !has(openShiftAI):
		return Success, notChosen("OpenShift AI")
	case has("nvidia-gpu", "amd-gpu"):
		return Success, "OpenShift AI can use the GPUs of the other operators."
	}
	return Success, "OpenShift AI is installed without GPUs, because the cluster has no operator for them."
}
