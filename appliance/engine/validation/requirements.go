package validation

import (
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/architecture"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/operator"
)

// Requirements holds the minimum requirements of hosts by role: CPU cores, memory in MiB and disk
// size in GB (10^9 bytes). It also has the limits for the 99th percentile of disk syncs in ms, for
// the round trip to hosts of the same role in ms, and for lost packets in percent. A nil network
// limit is not validated.
type Requirements struct {
	Master, Arbiter, Worker, SNO, EdgeWorker models.ClusterHostRequirementsDetails
	// Operators holds a site's requirements of operators. Nil selects the defaults.
	Operators *operator.Overrides
}

// DefaultRequirements returns the minimum requirements of an OpenShift version ("4.17.3"), as Red
// Hat documents them for bare metal. From 4.22 on, a single node needs 4 cores instead of 8.
func DefaultRequirements(version string) Requirements {
	limit := func(v float64) *float64 { return &v }
	r := Requirements{
		Master: models.ClusterHostRequirementsDetails{CPUCores: 4, RAMMib: 16384, DiskSizeGb: 100,
			InstallationDiskSpeedThresholdMs: 10, NetworkLatencyThresholdMs: limit(100),
			PacketLossPercentage: limit(0)},
		Arbiter: models.ClusterHostRequirementsDetails{CPUCores: 2, RAMMib: 8192, DiskSizeGb: 50,
			InstallationDiskSpeedThresholdMs: 10, NetworkLatencyThresholdMs: limit(1000),
			PacketLossPercentage: limit(0)},
		Worker: models.ClusterHostRequirementsDetails{CPUCores: 2, RAMMib: 8192, DiskSizeGb: 100,
			InstallationDiskSpeedThresholdMs: 10, NetworkLatencyThresholdMs: limit(1000),
			PacketLossPercentage: limit(10)},
		SNO: models.ClusterHostRequirementsDetails{CPUCores: 8, RAMMib: 16384, DiskSizeGb: 100,
			InstallationDiskSpeedThresholdMs: 10},
		EdgeWorker: models.ClusterHostRequirementsDetails{CPUCores: 2, RAMMib: 8192, DiskSizeGb: 15,
			InstallationDiskSpeedThresholdMs: 10},
	}
	if inventory.AtLeast(version, 4, 22) {
		r.SNO.CPUCores = 4
	}
	return r
}

// ForHost returns the minimum requirements of a host in its role, including those of the cluster's
// operators. A host with an undecided role is validated as a worker. A host without a cluster needs
// the minimum of the least demanding role.
func (r Requirements) ForHost(h *inventory.Host, c *models.Cluster) models.ClusterHostRequirementsDetails {
	if c == nil {
		return r.least()
	}
	total := r.forRole(h, c, h.Role())
	if h.Day2() || AddingHosts(c) {
		return total // the operators are already installed
	}
	for _, op := range enabledOperators(c) {
		extra := op.amounts(r.Operators.For(op.Operator), h, c)
		total.CPUCores += extra.CPUCores
		total.RAMMib += extra.RAMMiB
	}
	return total
}

// forRole returns OpenShift's own minimum requirements of a role, without operators.
func (r Requirements) forRole(h *inventory.Host, c *models.Cluster,
	role models.HostRole) models.ClusterHostRequirementsDetails {
	switch {
	case role == models.HostRoleMaster && SingleNode(c):
		return r.SNO
	case role == models.HostRoleMaster:
		return r.Master
	case role == models.HostRoleArbiter:
		return r.Arbiter
	case edgeWorker(h):
		return r.EdgeWorker
	default:
		return r.Worker
	}
}

func (r Requirements) least() models.ClusterHostRequirementsDetails {
	least := r.Worker
	least.DiskSizeGb = min(r.Master.DiskSizeGb, r.Worker.DiskSizeGb, r.Arbiter.DiskSizeGb)
	return least
}

// minimum returns the smallest CPU and memory requirements of the roles of the cluster.
func (r Requirements) minimum(c *models.Cluster) (cores, mib int64) {
	master := r.Master
	if SingleNode(c) {
		master = r.SNO
	}
	return min(master.CPUCores, r.Worker.CPUCores), min(master.RAMMib, r.Worker.RAMMib)
}

// Preflight returns the requirements in the format of GET …/preflight-requirements.
func (r Requirements) Preflight(c *models.Cluster) *models.PreflightHardwareRequirements {
	master := r.Master
	if SingleNode(c) {
		master = r.SNO
	}
	worker := r.Worker
	if tpmEncryption(c) {
		master.TpmEnabledInBios = encryptedFor(c.DiskEncryption, models.HostRoleMaster)
		worker.TpmEnabledInBios = encryptedFor(c.DiskEncryption, models.HostRoleWorker)
	}
	return &models.PreflightHardwareRequirements{
		Ocp: &models.HostTypeHardwareRequirementsWrapper{
			Master: &models.HostTypeHardwareRequirements{Quantitative: &master},
			Worker: &models.HostTypeHardwareRequirements{Quantitative: &worker},
		},
		Operators: r.preflightOperators(c),
	}
}

// preflightOperators returns the requirements of all operators, selected or not. It is empty for an
// installed cluster, which gets no more operators.
func (r Requirements) preflightOperators(c *models.Cluster) []*models.OperatorHardwareRequirements {
	list := []*models.OperatorHardwareRequirements{}
	if AddingHosts(c) {
		return list
	}
	for i := range operator.All() {
		o := &operator.All()[i]
		list = append(list, o.Preflight(r.Operators.For(o), c.OpenshiftVersion, SingleNode(c)))
	}
	return list
}

// DiskRules returns the requirements of the disks of a host.
func (r Requirements) DiskRules(h *inventory.Host, c *models.Cluster, infraEnv *models.InfraEnv) inventory.DiskRules {
	rules := inventory.DiskRules{MinGB: r.ForHost(h, c).DiskSizeGb}
	if c != nil {
		rules.OpenshiftVersion = c.OpenshiftVersion
	}
	if rules.OpenshiftVersion == "" && infraEnv != nil {
		rules.OpenshiftVersion = infraEnv.OpenshiftVersion
	}
	return rules
}

// edgeWorker reports whether a host is a data processing unit (DPU), which has a small disk.
func edgeWorker(h *inventory.Host) bool {
	inv := h.Inventory
	if inv == nil || inv.CPU == nil || inv.SystemVendor == nil || inv.CPU.Architecture != architecture.ARM.RPM() {
		return false
	}
	return strings.EqualFold(strings.ReplaceAll(inv.SystemVendor.ProductName, " ", ""), "BlueFieldSoC")
}

// SingleNode reports whether a cluster has only one node.
func SingleNode(c *models.Cluster) bool { return c != nil && c.ControlPlaneCount == 1 }

// AddingHosts reports whether a cluster is already installed and gets more hosts.
func AddingHosts(c *models.Cluster) bool {
	return c != nil && (text(c.Kind) == models.ClusterKindAddHostsCluster ||
		text(c.Status) == models.ClusterStatusAddingHosts)
}

func yes(b *bool) bool { return b != nil && *b }

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// ExternalLoadBalancer reports whether the user runs the load balancer with the cluster's VIPs.
func ExternalLoadBalancer(c *models.Cluster) bool {
	return c.LoadBalancer != nil && c.LoadBalancer.Type == models.LoadBalancerTypeUserManaged
}

func encrypted(c *models.Cluster) bool {
	if c.DiskEncryption == nil {
		return false
	}
	on := text(c.DiskEncryption.EnableOn)
	return on != "" && on != models.DiskEncryptionEnableOnNone
}

// Encrypts reports whether the disks of the hosts of a role are encrypted.
func Encrypts(c *models.Cluster, role models.HostRole) bool {
	return encrypted(c) && encryptedFor(c.DiskEncryption, role)
}

func tpmEncryption(c *models.Cluster) bool {
	return encrypted(c) && text(c.DiskEncryption.Mode) == models.DiskEncryptionModeTpmv2
}

// TangEncryption reports whether Tang servers unlock the disks of a host of the cluster.
func TangEncryption(c *models.Cluster, role models.HostRole) bool {
	return encrypted(c) && text(c.DiskEncryption.Mode) == models.DiskEncryptionModeTang &&
		encryptedFor(c.DiskEncryption, role)
}

func encryptedFor(e *models.DiskEncryption, role models.HostRole) bool {
	if text(e.EnableOn) == models.DiskEncryptionEnableOnAll {
		return true
	}
	for group := range strings.SplitSeq(text(e.EnableOn), ",") {
		switch group {
		case models.DiskEncryptionEnableOnMasters:
			if role == models.HostRoleMaster || role == models.HostRoleBootstrap {
				return true
			}
		case models.DiskEncryptionEnableOnArbiters:
			if role == models.HostRoleArbiter {
				return true
			}
		case models.DiskEncryptionEnableOnWorkers:
			if role == models.HostRoleWorker {
				return true
			}
		}
	}
	return false
}
