package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/store"
)

// After its restart, only the cluster knows the state of a host that joins it. If the cluster is
// followed ([Options.Follows]), the host's installation ends when its node is ready; otherwise it
// ends with the restart.

// joiningHosts is the index of the hosts that have restarted and are awaited in their clusters.
var joiningHosts = store.NewIndex("hosts-joining") // <infra-env id>/<host id>

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

// JoiningUpdate is the result of a check of a host's cluster.
type JoiningUpdate struct {
	// all known requests; those that the host has recorded already may be omitted
	Approved []CertificateRequest
	Problem  JoiningProblem
	// Stage is the new stage of the host: Joined when it is a node, and Done when the node is ready
	// or no longer checked. Empty keeps the stage.
	Stage models.HostStage
}

// AwaitedHost is a host that has restarted and is awaited in the cluster that it joins.
type AwaitedHost struct {
	Key     string // <infra-env id>/<host id>
	Cluster string
	Name    string // of its node
	Role    models.HostRole
	Stage   models.HostStage
	Joining Joining
	Labels  map[string]string // requested labels of its node
}

// Awaited lists the awaited hosts in the order of their keys.
func (e *Engine) Awaited() ([]AwaitedHost, error) {
	var awaited []AwaitedHost
	err := e.options.DB.View(func(tx *store.Tx) error {
		c := newReading(context.Background(), e, tx)
		return joiningHosts.Keys(tx, "", func(key string) error {
			h, err := c.host(key)
			if err != nil || !h.isAwaited() {
				return err
			}
			var labels map[string]string
			if h.API.NodeLabels != "" {
				if err := json.Unmarshal([]byte(h.API.NodeLabels), &labels); err != nil {
					return fmt.Errorf("read the node labels of host %s: %w", key, err)
				}
			}
			awaited = append(awaited, AwaitedHost{
				Key: key, Cluster: h.API.ClusterID.String(), Name: c.hostName(h), Role: h.API.Role,
				Stage:   h.API.Progress.CurrentStage,
				Joining: *h.Joining, Labels: labels,
			})
			return nil
		})
	})
	return awaited, err
}

// AwaitedChanged receives a value when the result of [Engine.Awaited] may have changed.
func (e *Engine) AwaitedChanged() <-chan struct{} { return e.awaitedChange }

// UpdateJoining records the result of a check of a host's cluster. Known results change nothing. A
// host that is no longer awaited is no error.
func (e *Engine) UpdateJoining(ctx context.Context, key string, seen JoiningUpdate) error {
	return e.update(ctx, func(c *change) error {
		h, err := c.host(key)
		if KindOf(err) == NotFound || err == nil && !h.isAwaited() {
			return nil
		}
		if err != nil {
			return err
		}
		if err := errors.Join(c.noteApprovals(h, seen.Approved), c.noteProblem(h, seen.Problem)); err != nil ||
			seen.Stage == "" {
			return err
		}
		return c.progress(h, &models.HostProgress{CurrentStage: seen.Stage})
	})
}

func (c *change) noteApprovals(h *hostRecord, approved []CertificateRequest) error {
	for _, request := range approved {
		if slices.ContainsFunc(h.Joining.Approved,
			func(held CertificateRequest) bool { return held.Name == request.Name }) {
			continue
		}
		h.Joining.Approved, h.Joining.Attempted = append(h.Joining.Approved, request), c.now
		c.saveHost(h)
		what := "client"
		if request.Serving {
			what = "serving"
		}
		if err := c.hostEvent(h, event.HostCertificate, models.EventSeverityInfo,
			"Host %s: its %s certificate request %s was approved in its cluster.", c.hostName(h), what,
			request.Name); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) noteProblem(h *hostRecord, problem JoiningProblem) error {
	if h.Joining.Problem == problem {
		return nil
	}
	h.Joining.Problem = problem
	c.saveHost(h)
	if problem.Message == "" {
		return nil
	}
	return c.hostEvent(h, event.HostJoiningProblem, models.EventSeverityWarning, "Host %s: %s", c.hostName(h),
		problem.Message)
}

// isAwaited reports whether the host has restarted and is awaited in the cluster that it joins.
func (h *hostRecord) isAwaited() bool {
	return h.Joining != nil && h.day2() && h.API.ClusterID != nil &&
		slices.Contains([]string{lifecycle.HostInstallingInProgress,
			lifecycle.HostPendingUserAction}, *h.API.Status) &&
		lifecycle.AfterReboot(h.API.Progress.CurrentStage) && h.API.Progress.CurrentStage != models.HostStageDone
}

// isFollowed reports whether joining hosts are followed in a cluster.
func (c *change) isFollowed(clusterID string) (bool, error) {
	if c.e.options.Follows == nil {
		return false, nil
	}
	return c.e.options.Follows(c.tx, Rows{c.e, c.tx}, clusterID)
}

// indexJoining updates the index of awaited hosts when a host is written.
func (c *change) indexJoining(key string, h *hostRecord) error {
	if h.Joining == nil {
		return nil
	}
	c.joiningChanged = true
	if h.isAwaited() {
		return joiningHosts.Add(c.tx, key)
	}
	return joiningHosts.Remove(c.tx, key)
}

// forgetJoining clears the state of a host in a cluster that it no longer joins.
func (c *change) forgetJoining(h *hostRecord) error {
	if h.Joining == nil {
		return nil
	}
	h.Joining, c.joiningChanged = nil, true
	return joiningHosts.Remove(c.tx, hostKey(h))
}

// facts returns the facts about a joining host that its state machine reads.
func (j *Joining) facts() lifecycle.JoiningFacts {
	facts := lifecycle.JoiningFacts{Followed: true, Problem: j.Problem.Message}
	for _, request := range j.Approved {
		facts.ServingApproved = facts.ServingApproved || request.Serving
		facts.ClientApproved = facts.ClientApproved || !request.Serving
	}
	return facts
}
