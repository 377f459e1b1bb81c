package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// After a joining host has restarted, only its cluster can report the host's state. If the cluster
// is followed ([Options].Follows), the host's installation ends when its node is ready. Otherwise,
// it ends with the restart.

// JoiningUpdate is the result of checking a joining host in its cluster.
type JoiningUpdate struct {
	// Approved lists approved certificate requests. Requests that are already recorded may be
	// omitted.
	Approved []record.CertificateRequest
	Problem  record.JoiningProblem
	// Stage is the new stage of the host: Joined when its node exists, Done when the node is ready
	// or no longer checked. "" keeps the stage.
	Stage models.HostStage
}

// AwaitedHost is a host that has restarted and must appear in the cluster that it joins.
type AwaitedHost struct {
	Key     string // <infra-env id>/<host id>
	Cluster string
	Name    string // name of the host's node
	Role    models.HostRole
	Stage   models.HostStage
	Joining record.Joining
	Labels  map[string]string // requested labels of the host's node
}

// Awaited returns the awaited hosts, ordered by key. It leaves out hosts whose rows are damaged or
// missing, so that the others are followed.
func (e *Engine) Awaited() ([]AwaitedHost, error) {
	var awaited []AwaitedHost
	err := e.options.DB.View(func(tx *store.Tx) error {
		c := newReading(context.Background(), e, tx)
		return record.JoiningHosts.Keys(tx, "", func(key string) error {
			h, err := c.host(key)
			if store.IsDamaged(err) || fault.KindOf(err) == fault.NotFound {
				e.options.Logger.Debug("A joining host is not followed.", "host", key, "error", err)
				return nil
			}
			if err != nil || !h.IsAwaited() {
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

// AwaitedChanged returns a channel that receives a value when the result of [Engine.Awaited] may
// have changed.
func (e *Engine) AwaitedChanged() <-chan struct{} { return e.awaitedChange }

// UpdateJoining records the result of checking a joining host in its cluster. Results that are
// recorded already change nothing. A host that is no longer awaited is not an error.
func (e *Engine) UpdateJoining(ctx context.Context, key string, seen JoiningUpdate) error {
	return e.update(ctx, func(c *change) error {
		h, err := c.host(key)
		if fault.KindOf(err) == fault.NotFound || err == nil && !h.IsAwaited() {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.noteApprovals(h, seen.Approved); err != nil {
			return err
		}
		// The node of a host that booted the discovery image seems ready for a while.
		if h.API.Progress.CurrentStage == models.HostStageDone && (c.connected(h) || seen.Problem.Message != "") {
			return nil
		}
		if err := c.noteProblem(h, seen.Problem); err != nil || seen.Stage == "" {
			return err
		}
		return c.progress(h, &models.HostProgress{CurrentStage: seen.Stage})
	})
}

func (c *change) noteApprovals(h *record.Host, approved []record.CertificateRequest) error {
	for _, request := range approved {
		if slices.ContainsFunc(h.Joining.Approved,
			func(held record.CertificateRequest) bool { return held.Name == request.Name }) {
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

func (c *change) noteProblem(h *record.Host, problem record.JoiningProblem) error {
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

// isFollowed reports whether the hosts that join a cluster are followed; see [Options].Follows.
func (c *change) isFollowed(clusterID string) (bool, error) {
	if c.e.options.Follows == nil {
		return false, nil
	}
	return c.e.options.Follows(c.tx, c.e.Rows(c.tx), clusterID)
}

// indexJoining updates the index of awaited hosts when a host is written.
func (c *change) indexJoining(key string, h *record.Host) error {
	if h.Joining == nil {
		return nil
	}
	c.joiningChanged = true
	if h.IsAwaited() {
		return record.JoiningHosts.Add(c.tx, key)
	}
	return record.JoiningHosts.Remove(c.tx, key)
}

// clearJoining clears the joining status of a host that no longer joins its cluster.
func (c *change) clearJoining(h *record.Host) error {
	if h.Joining == nil {
		return nil
	}
	h.Joining, c.joiningChanged = nil, true
	return record.JoiningHosts.Remove(c.tx, record.HostKey(h))
}
