package validation

import (
	"fmt"
	"slices"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
)

// operator is an optional operator that the API has checks for.
type operator struct {
	name string
	// aliases are other names under which the operator is chosen.
	aliases []string
	// extra is what a host needs for it on top of OpenShift's own minimums; nil for nothing.
	extra func(*inventory.Host, *models.Cluster) models.ClusterHostRequirementsDetails
	// host and cluster are its own checks; nil when it has none.
	host    func(*inventory.Host, *models.Cluster) (Status, string)
	cluster func(ClusterInput) (Status, string)
}

// openShiftAI has a check of its own for accelerators.
const openShiftAI = "openshift-ai"

// OperatorID is the id of an operator's check.
func OperatorID(name string) ID { return ID(name + "-requirements-satisfied") }

// operatorTable is in the order in which the checks are shown.
var operatorTable = [...]operator{
	{name: "lso"},
	{name: "ocs", extra: odfNeeds, host: odfHost, cluster: odfCluster},
	{name: "odf", extra: odfNeeds, host: odfHost, cluster: odfCluster},
	{name: "lvm", extra: lvmNeeds, host: lvmHost, cluster: lvmCluster},
	{name: "mce", extra: mceNeeds},
	{name: "mtv", extra: smallNeeds},
	{name: "osc", extra: smallNeeds},
	{name: "cnv", extra: cnvNeeds, host: cnvHost},
	{name: "node-feature-discovery"},
	{name: "nvidia-gpu", host: secureBootOff, cluster: nvidiaGPUs},
	{name: "pipelines"},
	{name: "servicemesh"},
	{name: "serverless"},
	{name: openShiftAI, extra: aiNeeds, cluster: aiWorkers},
	{name: "authorino"},
	{name: "nmstate"},
	{name: "amd-gpu", host: secureBootOff, cluster: amdGPUs},
	{name: "kmm"},
	{name: "node-healthcheck"},
	{name: "self-node-remediation"},
	{name: "fence-agents-remediation"},
	{name: "node-maintenance"},
	{name: "kube-descheduler"},
	{name: "cluster-observability"},
	{name: "numa-resources", aliases: []string{"numaresources"}},
	{name: "oadp"},
	{name: "metallb"},
	{name: "loki"},
	{name: "openshift-logging"},
}

func (o operator) enabled(c *models.Cluster) bool {
	if c == nil {
		return false
	}
	for _, m := range c.MonitoredOperators {
		if m != nil && (m.Name == o.name || slices.Contains(o.aliases, m.Name)) {
			return true
		}
	}
	return false
}

func enabledOperators(c *models.Cluster) []operator {
	var list []operator
	if c == nil || len(c.MonitoredOperators) == 0 {
		return nil
	}
	for _, op := range operatorTable {
		if op.enabled(c) {
			list = append(list, op)
		}
	}
	return list
}

// onHost is the check of an operator on one host.
func (o operator) onHost(h *inventory.Host, c *models.Cluster) (Status, string) {
	switch {
	case !o.enabled(c):
		return Success, o.name + " is not enabled."
	case h.Inventory == nil:
		return Pending, waitInventory
	case o.host != nil:
		return o.host(h, c)
	case o.extra != nil:
		return Success, o.name + " is enabled; its CPU and memory are part of the host's requirements."
	default:
		return Success, o.name + " is enabled and asks nothing more of a host."
	}
}

func (o operator) onCluster(in ClusterInput) (Status, string) {
	switch {
	case !o.enabled(in.Cluster):
		return Success, o.name + " is not enabled."
	case o.cluster != nil:
		return o.cluster(in)
	default:
		return Success, o.name + " is enabled and asks nothing more of the cluster."
	}
}

// runsWorkloads tells whether workloads are put on a host: always on workers, on the control plane when it is schedulable.
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

// spareDisks counts the disks of a host that storage can be put on: HDD or SSD, not the installation disk.
func spareDisks(h *inventory.Host, minGB int64) int {
	if h.Inventory == nil {
		return 0
	}
	n := 0
	for _, d := range h.Inventory.Disks {
		usable := d.DriveType == models.DriveTypeHDD || d.DriveType == models.DriveTypeSSD
		if usable && inventory.DiskID(d) != h.InstallationDiskPath() && d.SizeBytes >= minGB*1e9 && !d.Removable {
			n++
		}
	}
	return n
}

const odfMinDiskGB = 25

// odfNeeds: 6 cores and 19 GiB on a control plane that runs storage, 8 cores and 19 GiB on a worker, and 2 cores and 5 GiB
// for each disk.
func odfNeeds(h *inventory.Host, c *models.Cluster) models.ClusterHostRequirementsDetails {
	if !runsWorkloads(h, c) {
		return models.ClusterHostRequirementsDetails{}
	}
	disks, cores := int64(spareDisks(h, odfMinDiskGB)), int64(8)
	if h.Role() == models.HostRoleMaster {
		cores, disks = 6, max(1, disks)
	}
	return models.ClusterHostRequirementsDetails{CPUCores: cores + 2*disks, RAMMib: (19 + 5*disks) * 1024}
}

func odfHost(h *inventory.Host, c *models.Cluster) (Status, string) {
	if runsWorkloads(h, c) && spareDisks(h, odfMinDiskGB) == 0 {
		return Failure, fmt.Sprintf("OpenShift Data Foundation needs an HDD or SSD of at least %d GB besides the installation disk and found none; add a disk to the host.", odfMinDiskGB)
	}
	return Success, "The host has what OpenShift Data Foundation needs."
}

func odfCluster(in ClusterInput) (Status, string) {
	hosts := 0
	for _, h := range in.Hosts {
		if runsWorkloads(h, in.Cluster) && spareDisks(h, odfMinDiskGB) > 0 {
			hosts++
		}
	}
	if hosts < 3 {
		return Failure, fmt.Sprintf("OpenShift Data Foundation needs three hosts with a disk for storage and found %d; add disks or hosts.", hosts)
	}
	return Success, "Three or more hosts have disks for OpenShift Data Foundation."
}

func lvmNeeds(h *inventory.Host, c *models.Cluster) models.ClusterHostRequirementsDetails {
	if !runsWorkloads(h, c) {
		return models.ClusterHostRequirementsDetails{}
	}
	mib := int64(1200)
	switch {
	case inventory.AtLeast(c.OpenshiftVersion, 4, 16):
		mib = 100
	case inventory.AtLeast(c.OpenshiftVersion, 4, 13):
		mib = 400
	}
	return models.ClusterHostRequirementsDetails{CPUCores: 1, RAMMib: mib}
}

func lvmHost(h *inventory.Host, c *models.Cluster) (Status, string) {
	if runsWorkloads(h, c) && spareDisks(h, 0) == 0 {
		return Failure, "Logical Volume Manager Storage needs an HDD or SSD besides the installation disk and found none; add a disk to the host."
	}
	return Success, "The host has what Logical Volume Manager Storage needs."
}

func lvmCluster(in ClusterInput) (Status, string) {
	v := in.Cluster.OpenshiftVersion
	switch {
	case !inventory.AtLeast(v, 4, 12):
		return Failure, fmt.Sprintf("Logical Volume Manager Storage needs OpenShift 4.12 or later and the cluster gets %s.", v)
	case !SingleNode(in.Cluster) && !inventory.AtLeast(v, 4, 15):
		return Failure, fmt.Sprintf("Logical Volume Manager Storage on several nodes needs OpenShift 4.15 or later and the cluster gets %s.", v)
	}
	return Success, "Logical Volume Manager Storage can be used with this version."
}

func mceNeeds(h *inventory.Host, c *models.Cluster) models.ClusterHostRequirementsDetails {
	if !SingleNode(c) && !runsWorkloads(h, c) {
		return models.ClusterHostRequirementsDetails{}
	}
	return models.ClusterHostRequirementsDetails{CPUCores: 4, RAMMib: 16 * 1024}
}

func smallNeeds(h *inventory.Host, c *models.Cluster) models.ClusterHostRequirementsDetails {
	if !runsWorkloads(h, c) {
		return models.ClusterHostRequirementsDetails{}
	}
	return models.ClusterHostRequirementsDetails{CPUCores: 1, RAMMib: 1024}
}

func cnvNeeds(h *inventory.Host, c *models.Cluster) models.ClusterHostRequirementsDetails {
	if SingleNode(c) {
		return models.ClusterHostRequirementsDetails{CPUCores: 6, RAMMib: 510}
	}
	switch h.Role() {
	case models.HostRoleMaster:
		return models.ClusterHostRequirementsDetails{CPUCores: 4, RAMMib: 150}
	case models.HostRoleWorker, models.HostRoleAutoAssign:
		return models.ClusterHostRequirementsDetails{CPUCores: 2, RAMMib: 360}
	default:
		return models.ClusterHostRequirementsDetails{}
	}
}

func cnvHost(h *inventory.Host, _ *models.Cluster) (Status, string) {
	flags := h.Inventory.CPU.Flags
	if !slices.Contains(flags, "vmx") && !slices.Contains(flags, "svm") {
		return Failure, "OpenShift Virtualization needs a CPU with virtualization (VT-x or AMD-V) and it is not there or turned off; turn it on in the firmware."
	}
	return Success, "The host has what OpenShift Virtualization needs."
}

// PCI vendor ids of accelerators.
const (
	pciNVIDIA = "10de"
	pciAMD    = "1002"
)

func hasGPU(h *inventory.Host, vendors ...string) bool {
	return h.Inventory != nil && slices.ContainsFunc(h.Inventory.Gpus, func(g *models.Gpu) bool { return slices.Contains(vendors, g.VendorID) })
}

func nvidiaGPUs(in ClusterInput) (Status, string) { return gpus(in, "NVIDIA", pciNVIDIA) }

func amdGPUs(in ClusterInput) (Status, string) { return gpus(in, "AMD", pciAMD) }

// aiNeeds: 8 cores and 32 GiB on a worker.
func aiNeeds(h *inventory.Host, _ *models.Cluster) models.ClusterHostRequirementsDetails {
	if h.Role() != models.HostRoleWorker {
		return models.ClusterHostRequirementsDetails{}
	}
	return models.ClusterHostRequirementsDetails{CPUCores: 8, RAMMib: 32 * 1024}
}

func aiWorkers(in ClusterInput) (Status, string) {
	workers := 0
	for _, h := range in.Hosts {
		if h.Role() == models.HostRoleWorker {
			workers++
		}
	}
	if !SingleNode(in.Cluster) && workers < 2 {
		return Failure, fmt.Sprintf("OpenShift AI needs two workers and the cluster has %d; add hosts of role worker.", workers)
	}
	return Success, "The cluster has the workers that OpenShift AI needs."
}

func aiGPUs(in ClusterInput) (Status, string) {
	if !(operator{name: openShiftAI, extra: aiNeeds, cluster: aiWorkers}).enabled(in.Cluster) {
		return Success, "openshift-ai is not enabled."
	}
	return gpus(in, "NVIDIA or AMD", pciNVIDIA, pciAMD)
}

func gpus(in ClusterInput, name string, vendors ...string) (Status, string) {
	if slices.ContainsFunc(in.Hosts, func(h *inventory.Host) bool { return hasGPU(h, vendors...) }) {
		return Success, fmt.Sprintf("The cluster has a host with a GPU of %s.", name)
	}
	return Failure, fmt.Sprintf("A GPU of %s is needed and no host has one; add such a host or do not choose the operator.", name)
}

// secureBootOff checks that the drivers of accelerators, which are not signed, can be loaded.
func secureBootOff(h *inventory.Host, _ *models.Cluster) (Status, string) {
	boot := h.Inventory.Boot
	if hasGPU(h, pciNVIDIA, pciAMD) && boot != nil && boot.SecureBootState == models.SecureBootStateEnabled {
		return Failure, "The driver of the host's GPU cannot be loaded with secure boot on; turn secure boot off in the firmware."
	}
	return Success, "The host has what the GPU operator needs."
}
