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

// What becomes of a host that joins an installed cluster, from its restart on, only that cluster
// can tell. Where somebody looks there ([Options.Follows]), the host's installation ends when its
// node is ready; else with its restart.

// joiningHosts are the keys of the hosts that have restarted and are waited for in their clusters.
var joiningHosts = store.NewIndex("hosts-joining") // <infra-env id>/<host id>

// Joining is what is known of a host in the cluster that it joins.
type Joining struct {
	Started   time.Time            `json:"started"`            // its installation, UTC
	Restarted time.Time            `json:"restarted,omitzero"` // from its disk, as its installer has announced it
	Approved  []CertificateRequest `json:"approved,omitempty"` // for it, oldest first
	// when requests were looked for last and something had changed
	Attempted time.Time      `json:"attempted,omitzero"`
	Problem   JoiningProblem `json:"problem,omitzero"`
}

// CertificateRequest is one of the kubelet's that was approved.
type CertificateRequest struct {
	Name string `json:"name"`
	// for the kubelet's own server; else for its calls of the cluster's API
	Serving    bool      `json:"serving,omitempty"`
	ApprovedAt time.Time `json:"approved_at"`
}

// JoiningProblem is why a host's way into its cluster can't be followed; zero if it can.
type JoiningProblem struct {
	Reason  string `json:"reason,omitempty"`  // one word, in CamelCase
	Message string `json:"message,omitempty"` // one sentence: what was tried, and what a person can do
}

// Seen is what a look into a host's cluster has found.
type Seen struct {
	Approved []CertificateRequest // all that are known by now; those that the host has noted already may be left out
	Problem  JoiningProblem
	// Stage is how far the host has come: Joined when it is a node, Done when that is ready, or
	// when nobody will look any more; empty leaves it.
	Stage models.HostStage
}

// AwaitedHost is a host that has restarted and is waited for in the cluster that it joins.
type AwaitedHost struct {
	Key     string // <infra-env id>/<host id>
	Cluster string
	Name    string // of its node
	Role    models.HostRole
	Stage   models.HostStage
	Joining Joining
	Labels  map[string]string // that its node is to have
}

// Awaited lists the hosts that are waited for in the clusters that they join, in the order of their
// keys.
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

// AwaitedChanged is told when [Engine.Awaited] may list others than before.
func (e *Engine) AwaitedChanged() <-chan struct{} { return e.awaitedChange }

// HostSeen notes what was found of a host in the cluster that it joins. What is known already is no
// change. It is no error if the host is not waited for any more.
func (e *Engine) HostSeen(ctx context.Context, key string, seen Seen) error {
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

// isAwaited tells whether the host has restarted and is waited for in the cluster that it joins.
func (h *hostRecord) isAwaited() bool {
	return h.Joining != nil && h.day2() && h.API.ClusterID != nil &&
		slices.Contains([]string{lifecycle.HostInstallingInProgress,
			lifecycle.HostPendingUserAction}, *h.API.Status) &&
		lifecycle.AfterReboot(h.API.Progress.CurrentStage) && h.API.Progress.CurrentStage != models.HostStageDone
}

// followed tells whether somebody looks after a host that joins a cluster, in that cluster.
func (c *change) followed(clusterID string) (bool, error) {
	if c.e.options.Follows == nil {
		return false, nil
	}
	return c.e.options.Follows(c.tx, Rows{c.e, c.tx}, clusterID)
}

// indexJoining keeps the index of hosts that are waited for, when a host is written.
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

// forgetJoining clears what is known of a host in a cluster that it does not join any more.
func (c *change) forgetJoining(h *hostRecord) error {
	if h.Joining == nil {
		return nil
	}
	h.Joining, c.joiningChanged = nil, true
	return joiningHosts.Remove(c.tx, hostKey(h))
}

// facts returns what the table of hosts reads of a host that joins a cluster.
func (j *Joining) facts() lifecycle.JoiningFacts {
	facts := lifecycle.JoiningFacts{Followed: true, Problem: j.Problem.Message}
	for _, request := range j.Approved {
		facts.ServingApproved = facts.ServingApproved || request.Serving
		facts.ClientApproved = facts.ClientApproved || !request.Serving
	}
	return facts
}
