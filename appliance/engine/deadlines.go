package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/presence"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/journal"
	"landfall/store"
)

const (
	// dueBatch is the maximum of deadlines that one transaction handles.
	dueBatch = 256
	// postponeWindow is how far before they pass deadlines are set forward, when others have
	// passed.
	postponeWindow = 30 * time.Second
	// maxWait is the longest wait if no deadline is set.
	maxWait = time.Hour
)

func splitDeadline(key string) (kind, of string) {
	kind, of, _ = strings.Cut(key, "/")
	return kind, of
}

// since returns when a limit began to run: at the recorded time, but not before hosts could contact
// this process, or this machine after it slept. The time in which the appliance was away does not
// count.
func (e *Engine) since(recorded strfmt.DateTime) time.Time {
	started, at := e.presence.Started(), time.Time(recorded)
	// of a time that is yet to come: the clock was set back
	if started.After(at) || at.After(e.options.Clock.Now().Add(presence.ClockTolerance)) {
		return started
	}
	return at
}

// expires returns when a limit ends; the zero time without a limit.
func (e *Engine) expires(limit lifecycle.Limit) time.Time {
	if limit.For == 0 {
		return time.Time{}
	}
	return e.since(limit.Began).Add(limit.For)
}

// hostLimit returns when the limit of a host's state or stage ends, and the limit; the zero time
// without a limit.
func (c *change) hostLimit(h *record.Host) (time.Time, time.Duration) {
	limit := c.e.options.Timeouts.Host(&h.API, h.Restarting, c.singleNode(h))
	return c.e.expires(limit), limit.For
}

// singleNode reports whether a host that reboots for its installation is the only one of its
// cluster.
func (c *change) singleNode(h *record.Host) bool {
	if h.API.ClusterID == nil || *h.API.Status != lifecycle.HostInstallingInProgress ||
		h.API.Progress.CurrentStage != models.HostStageRebooting {
		return false
	}
	row, err := c.cluster(h.API.ClusterID.String())
	return err == nil && row.API.ControlPlaneCount == 1
}

// setHostDeadline writes when the host is to be looked at next if nothing happens to it. An earlier
// deadline that is yet to come stays, as it does when the host polls: it gets a later one when it
// passes.
func (c *change) setHostDeadline(key string, h *record.Host) error {
	next := c.nextForHost(key, h)
	if held, ok := record.StateDeadlines.At(c.tx, record.HostDeadline(key)); ok && held.After(c.now) &&
		held.Before(next) {
		return nil
	}
	return c.setDeadline(record.HostDeadline(key), next)
}

// nextForHost returns when a host must be checked next if nothing happens to it, zero for never.
func (c *change) nextForHost(key string, h *record.Host) time.Time {
	var next time.Time
	if lifecycle.ExpectsPolls(&h.API) {
		next = c.e.presence.LastContact(key, time.Time(h.API.CheckedInAt),
			c.now).Add(c.e.options.Timeouts.HostDisconnected)
	}
	limit, _ := c.hostLimit(h)
	if *h.API.Status == lifecycle.HostPendingUserAction && !c.now.Before(limit) {
		limit = time.Time{} // the cluster needs the host; what happens to the others decides
	}
	return earlier(next, limit)
}

// clusterLimit returns when the limit of a cluster's state ends, and whether it has one. A cluster
// whose limits only warn has none for finalizing.
func (e *Engine) clusterLimit(row *record.Cluster) (time.Time, bool) {
	limit := e.options.Timeouts.Cluster(&row.API)
	return e.expires(limit), limit.For != 0 &&
		(*row.API.Status != lifecycle.ClusterFinalizing || !e.WarnsOnly(&row.API))
}

// finalizingLimit returns when the limit of a cluster's finalizing stage ends, and the limit; the
// zero time without a limit.
func (e *Engine) finalizingLimit(row *record.Cluster) (time.Time, time.Duration) {
	limit := e.options.Timeouts.CurrentFinalizingStage(&row.API)
	return e.expires(limit), limit.For
}

func (c *change) setClusterDeadline(id string, row *record.Cluster) error {
	return c.setDeadline(record.ClusterDeadline(id), c.e.nextForCluster(row))
}

// nextForCluster is when a cluster is to be looked at next if nothing happens to it, zero for
// never.
func (e *Engine) nextForCluster(row *record.Cluster) time.Time {
	next, limited := e.clusterLimit(row)
	if !limited {
		next = time.Time{}
	}
	stage, _ := e.finalizingLimit(row)
	next = earlier(next, stage)
	if slices.Contains(lifecycle.ClusterInstallingStates, *row.API.Status) {
		next = earlier(next, time.Time(row.API.InstallStartedAt).Add(e.options.Timeouts.Installation))
	}
	return next
}

func (c *change) setDeadline(key string, at time.Time) error {
	if at.IsZero() {
		return record.StateDeadlines.Clear(c.tx, key)
	}
	c.deadline = earlier(c.deadline, at)
	return record.StateDeadlines.Set(c.tx, key, at)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// watchDeadlines handles deadlines until the context ends. It sleeps until the earliest one, so an
// idle appliance does nothing.
func (e *Engine) watchDeadlines(ctx context.Context) {
	for ctx.Err() == nil {
		e.wakesAt.Store(0)
		wait, err := e.handleDue(ctx)
		if err != nil && ctx.Err() == nil {
			e.options.Logger.Error("Handling deadlines failed and is retried.", "error", err)
			wait = time.Second
		}
		if wait <= 0 {
			continue
		}
		e.wakesAt.Store(e.options.Clock.Now().Add(wait).UnixNano())
		if !e.sleep(ctx, wait) {
			return
		}
	}
}

// sleep waits for the time to pass or an earlier deadline to be set. When the wall clock ran far
// ahead of the wait, the machine has slept: hosts could not reach it meanwhile, so their silence
// starts anew.
func (e *Engine) sleep(ctx context.Context, wait time.Duration) bool {
	began := e.options.Clock.Now()
	timer := e.options.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-e.earlierDeadline:
		e.checkClock()
	case <-timer.Chan():
		// also where there is no monotonic clock to tell
		if e.checkClock(); e.options.Clock.Now().Sub(began) > wait+presence.ClockTolerance {
			e.clockJumped(e.options.Clock.Now(), e.options.Clock.Now().Sub(began)-wait)
		}
	}
	return true
}

// handleDue handles the deadlines that have passed and returns the wait for the next one.
func (e *Engine) handleDue(ctx context.Context) (time.Duration, error) {
	if err := e.recomputeDeadlines(ctx); err != nil {
		return 0, err
	}
	var due, ahead []store.Deadline
	wait := maxWait
	err := e.options.DB.View(func(tx *store.Tx) error {
		var err error
		if due, err = record.StateDeadlines.Due(tx, e.options.Clock.Now(), dueBatch); err != nil {
			return err
		}
		if len(due) > 0 {
			ahead, err = record.StateDeadlines.Due(tx, e.options.Clock.Now().Add(postponeWindow), len(due)+dueBatch)
			return err
		}
		if next, ok, err := record.StateDeadlines.Next(tx); err != nil {
			return err
		} else if ok {
			wait = min(wait, max(next.Sub(e.options.Clock.Now()), time.Millisecond))
		}
		return nil
	})
	if err != nil || len(due) == 0 {
		return wait, err
	}
	return 0, e.update(journal.WithOperation(ctx, journal.OperationTimer), func(c *change) error {
		for _, deadline := range due {
			if err := c.handleDeadline(deadline); err != nil {
				return err
			}
		}
		for _, deadline := range ahead[len(due):] {
			if err := c.postpone(deadline); err != nil {
				return err
			}
		}
		return nil
	})
}

// postpone sets the deadline of a host forward that has been heard since it was set, before it
// passes: the hosts of a large site, each with a deadline of its own every few minutes, share a
// transaction so.
func (c *change) postpone(deadline store.Deadline) error {
	kind, key := splitDeadline(deadline.Key)
	if kind == "cluster" {
		return nil
	}
	h, err := c.host(key)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if next := c.nextForHost(key, h); next.After(deadline.At) {
		return c.setDeadline(deadline.Key, next)
	}
	return nil
}

// handleDeadline looks at an object whose deadline has passed. Most deadlines are those of hosts
// that have polled meanwhile: they only get a new one.
func (c *change) handleDeadline(deadline store.Deadline) error {
	kind, key := splitDeadline(deadline.Key)
	if kind == "cluster" {
		row, err := c.cluster(key)
		if fault.KindOf(err) == fault.NotFound {
			return record.StateDeadlines.Clear(c.tx, deadline.Key)
		}
		if err != nil {
			return err
		}
		c.settleCluster(key)
		if next := c.e.nextForCluster(row); next.After(c.now) {
			return c.setDeadline(deadline.Key, next)
		}
		return c.setDeadline(deadline.Key, c.now.Add(time.Minute))
	}
	h, err := c.host(key)
	if fault.KindOf(err) == fault.NotFound {
		return record.StateDeadlines.Clear(c.tx, deadline.Key)
	}
	if err != nil {
		return err
	}
	limit, _ := c.hostLimit(h)
	late := !limit.IsZero() && !c.now.Before(limit)
	if (c.connected(h) || !lifecycle.ExpectsPolls(&h.API)) && !late {
		return c.setHostDeadline(key, h)
	}
	if h.IsRestarting() {
		h.Restarting = time.Time{} // if its agent is heard still, it was not restarted
		c.saveHost(h)
	}
	// The change that follows sets the next deadline; should nothing follow, the host is looked at
	// again later.
	c.settleLater(h)
	if *h.API.Status == lifecycle.HostPendingUserAction {
		return c.setHostDeadline(key, h)
	}
	return c.setDeadline(deadline.Key, c.now.Add(time.Minute))
}

// recordContact records that a host contacted the engine.
func (e *Engine) recordContact(key string) { e.presence.Of(key).Contacted(e.options.Clock.Now()) }
