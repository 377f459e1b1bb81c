package record

import (
	"slices"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/lifecycle"
	"landfall/store"
)

// JoiningHosts is the index of the hosts that have restarted and are awaited in their clusters.
var JoiningHosts = store.NewIndex("hosts-joining") // <infra-env id>/<host id>

// Joining is the state of a host in the cluster that it joins.
type Joining struct {
	Started time.Time `json:"started"` // start of its installation, UTC
	// its restart from disk, as reported by its installer
	Restarted time.Time            `json:"restarted,omitzero"`
	Approved  []CertificateRequest `json:"approved,omitempty"` // requests of this host, oldest first
	// last check of the requests that changed something
	Attempted time.Time      `json:"attempted,omitzero"`
	Problem   JoiningProblem `json:"problem,omitzero"`
}

// CertificateRequest is an approved certificate request of a kubelet.
type CertificateRequest struct {
	Name string `json:"name"`
	// a serving certificate; else a client certificate for the cluster's API
	Serving    bool      `json:"serving,omitempty"`
	ApprovedAt time.Time `json:"approved_at"`
}

// JoiningProblem is the reason why a host can't be followed into its cluster. The zero value means
// no problem.
type JoiningProblem struct {
	Reason  string `json:"reason,omitempty"`  // one word, in CamelCase
	Message string `json:"message,omitempty"` // one sentence: what was tried, and what a person can do
}

// IsAwaited reports whether the host has restarted and is awaited in the cluster that it joins.
func (h *Host) IsAwaited() bool {
	return h.Joining != nil && h.IsDay2() && h.API.ClusterID != nil &&
		slices.Contains([]string{lifecycle.HostInstallingInProgress,
			lifecycle.HostPendingUserAction}, *h.API.Status) &&
		lifecycle.AfterReboot(h.API.Progress.CurrentStage) && h.API.Progress.CurrentStage != models.HostStageDone
}

// Facts returns the facts about a joining host that its state machine reads.
func (j *Joining) Facts() lifecycle.JoiningFacts {
	facts := lifecycle.JoiningFacts{Followed: true, Problem: j.Problem.Message}
	for _, request := range j.Approved {
		facts.ServingApproved = facts.ServingApproved || request.Serving
		facts.ClientApproved = facts.ClientApproved || !request.Serving
	}
	return facts
}
