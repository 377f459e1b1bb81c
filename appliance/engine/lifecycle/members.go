package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/validation"
)

// CountHosts adds the states of the cluster's hosts to the situation.
func (s *ClusterSituation) CountHosts(hosts []*inventory.Host) {
	s.AllPrepared, s.AllDone = len(hosts) > 0, len(hosts) > 0
	s.EnoughInstalled = SufficientHosts(hosts, HostInstalled)
	s.EnoughLeft = SufficientHosts(hosts, HostPrepared, HostInstalling, HostInstallingInProgress,
		HostPendingUserAction, HostInstalled)
	for _, h := range hosts {
		status, info := *h.Record.Status, *h.Record.StatusInfo
		s.AllPrepared = s.AllPrepared && status == HostPrepared
		s.AllDone = s.AllDone && (status == HostInstalled || status == HostFailed)
		switch status {
		case HostFailed, HostCancelled:
			if s.HostFailed == "" {
				s.HostFailed = "host " + h.Name() + ": " + info
			}
		case HostPendingUserAction:
			s.PendingUserAction = true
		case HostPreparingFailed:
			if s.HostNotPreparable == "" {
				s.HostNotPreparable = "host " + h.Name() + ": " + info
			}
		case HostKnown, HostPreparing, HostPrepared:
		default:
			if s.HostNotPrepared == "" {
				s.HostNotPrepared = "host " + h.Name() + " is " + status + ": " + info
			}
		}
	}
	if len(s.Damaged) > 0 {
		s.addDamage()
	}
}

// addDamage adds the damaged hosts, of which nobody knows whether they are prepared or have failed.
// An installation goes on without them, but none begins.
func (s *ClusterSituation) addDamage() {
	ids := make([]string, len(s.Damaged))
	for i, key := range s.Damaged {
		_, ids[i], _ = strings.Cut(key, "/")
	}
	s.Failing = fmt.Sprintf("The stored data of these hosts is damaged: %s; landfall check describes the ways out.",
		strings.Join(ids, ", "))
	s.Readiness, s.HostNotPrepared = validation.Insufficient, cmp.Or(s.HostNotPrepared, s.Failing)
	s.AllPrepared, s.EnoughLeft = false, s.EnoughLeft || s.HostFailed == ""
}

// SufficientHosts reports whether enough hosts of a cluster are in one of the states. It requires
// the whole control plane. It also requires an arbiter if the cluster has one, and two workers if
// the cluster has two or more.
func SufficientHosts(hosts []*inventory.Host, states ...string) bool {
	have, all := make(map[models.HostRole]int), make(map[models.HostRole]int)
	for _, h := range hosts {
		role := h.Record.Role
		if role == models.HostRoleBootstrap {
			role = models.HostRoleMaster
		}
		all[role]++
		if slices.Contains(states, *h.Record.Status) {
			have[role]++
		}
	}
	if all[models.HostRoleMaster] == 0 || have[models.HostRoleMaster] < all[models.HostRoleMaster] {
		return false
	}
	if all[models.HostRoleArbiter] > 0 && have[models.HostRoleArbiter] == 0 {
		return false
	}
	return all[models.HostRoleWorker] < 2 || have[models.HostRoleWorker] >= 2
}
