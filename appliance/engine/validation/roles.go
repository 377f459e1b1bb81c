package validation

import (
	"cmp"
	"slices"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
)

// SuggestRoles suggests the roles of hosts. Selected roles are kept. The control plane gets as many
// of the other hosts as the cluster needs. A cluster of two control-plane hosts then gets an
// arbiter, and the remaining hosts become workers. A host must have the CPU and memory for its
// role.
//
// Hosts without an accelerator come first, then hosts with the least CPU, memory and disk, so that
// strong hosts are left for workloads. The last criterion is the id. A host without inventory keeps
// auto-assign, and a host that joins an installed cluster becomes a worker.
func SuggestRoles(c *models.Cluster, hosts []*inventory.Host,
	requirements Requirements) map[strfmt.UUID]models.HostRole {
	roles := make(map[strfmt.UUID]models.HostRole, len(hosts))
	count := make(map[models.HostRole]int)
	var open []*inventory.Host
	for _, h := range hosts {
		role := h.Record.Role
		switch {
		case role != "" && role != models.HostRoleAutoAssign:
			roles[h.ID()] = role
			if role == models.HostRoleBootstrap {
				role = models.HostRoleMaster
			}
			count[role]++
		case h.Day2() || AddingHosts(c):
			roles[h.ID()] = models.HostRoleWorker
		case h.Inventory == nil:
			roles[h.ID()] = models.HostRoleAutoAssign
		default:
			open = append(open, h)
		}
	}
	slices.SortFunc(open, func(a, b *inventory.Host) int {
		return cmp.Or(
			cmp.Compare(min(1, len(a.Inventory.Gpus)), min(1, len(b.Inventory.Gpus))),
			cmp.Compare(weight(a.Inventory), weight(b.Inventory)),
			cmp.Compare(a.ID(), b.ID()),
		)
	})
	for _, h := range open {
		role := models.HostRoleWorker
		switch {
		case count[models.HostRoleMaster] < int(c.ControlPlaneCount) && fits(h, c, requirements, models.HostRoleMaster):
			role = models.HostRoleMaster
		case c.ControlPlaneCount == 2 && count[models.HostRoleArbiter] == 0 && fits(h, c, requirements,
			models.HostRoleArbiter):
			role = models.HostRoleArbiter
		}
		roles[h.ID()] = role
		count[role]++
	}
	return roles
}

// weight rates the resources of a host. A core counts as much as 10 GiB of memory or 250 GiB of
// disk.
func weight(inv *models.Inventory) float64 {
	var disks int64
	for _, d := range inv.Disks {
		if d.InstallationEligibility.Eligible {
			disks += d.SizeBytes >> 30
		}
	}
	return float64(inv.CPU.Count) + 0.1*float64(inv.Memory.UsableBytes>>30) + 0.004*float64(disks)
}

// fits reports whether a host has the CPU and memory for a role, including the requirements of the
// cluster's operators.
func fits(h *inventory.Host, c *models.Cluster, requirements Requirements, role models.HostRole) bool {
	record := *h.Record
	record.Role = role
	as := &inventory.Host{Record: &record, Facts: h.Facts}
	need := requirements.ForHost(as, c)
	return h.Inventory.CPU.Count >= need.CPUCores && sufficient(h.Inventory.Memory, need.RAMMib<<20)
}
