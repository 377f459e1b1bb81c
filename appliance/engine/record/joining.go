package record

import (
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/lifecycle"
	"landfall/store"
)

// JoiningHosts is the index of joining hosts that have restarted and are not nodes of their
// clusters yet.
var JoiningHosts = store.NewIndex("hosts-joining") // <infra-env id>/<host id>

// Joining is the progress of a host in the cluster that it joins.
type Joining struct {
	Started time.Time `json:"started"` // start of the installation, UTC
	// restart from disk, as reported by the installer
	Restarted time.Time            `json:"restarted,omitzero"`
	Approved  []CertificateRequest `json:"approved,omitempty"` // approved requests of this host, oldest first
	// time of the last check of the requests that changed this record
	Attempted time.Time      `json:"attempted,omitzero"`
	Problem   JoiningProblem `json:"problem,omitzero"`
}

// CertificateRequest is an approved certificate request of a kubelet.
type CertificateRequest struct {
	Name string `json:"name"`
	// true for a serving certificate, false for a client certificate of the cluster's API
	Serving    bool      `json:"serving,omitempty"`
	ApprovedAt time.Time `json:"approved_at"`
}

// JoiningProblem is the reason why the appliance cannot watch a host in its cluster. The zero value
// means no problem.
type JoiningProblem struct {
	Reason  string `json:"reason,omitempty"`  // one word, in CamelCase
	Message string `json:"message,omitempty"` // one sentence with the problem and the remedy
}

// IsAwaited reports whether the host has restarted and is not a node of its cluster yet. A host
// that has joined is awaited again after it has booted the discovery image.
func (h *Host) IsAwaited() bool {
	return h.Joining != nil && h.IsDay2() && h.API.ClusterID != nil &&
		lifecycle.AfterReboot(h.API.Progress.CurrentStage) &&
		(*h.API.Status == lifecycle.HostPendingUserAction ||
			*h.API.Status == lifecycle.HostInstallingInProgress && h.API.Progress.CurrentStage != models.HostStageDone)
}

// Facts returns the facts about a joining host that the state machine reads.
func (j *Joining) Facts() lifecycle.JoiningFacts {
	facts := lifecycle.JoiningFacts{Followed: true, Problem: j.Problem.Message}
	for _, request := range j.Approved {
		facts.ServingApproved = facts.ServingApproved || request.Serving
		facts.ClientApproved = facts.ClientApproved || !request.Serving
	}
	return facts
}
