package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/journal"
	"landfall/store"
)

const (
	// dueBatch is the maximum number of deadlines in one transaction.
	dueBatch = 256
	// postponeWindow is the remaining time up to which a deadline is postponed together with the
	// due deadlines.
	postponeWindow = 30 * time.Second
	// maxWait is the longest wait for the next deadline.
	maxWait = time.Hour
)

func splitDeadline(key string) (kind, of string) {
	kind, of, _ = strings.Cut(key, "/")
	return kind, of
}

// since returns the start of a time limit: the recorded time, or the time since which hosts can
// contact this process, if that is later. So the downtime of the appliance and the sleep of its
// machine do not count.
func (e *Engine) since(recorded strfmt.DateTime) time.Time {
	started, at := e.presence.Started(), time.Time(recorded)
	// A recorded time in the future means that the clock was set back.
	if started.After(at) || at.After(e.options.Clock.Now().Add(e.tolerance)) {
		return started
	}
	return at
}

// expires returns the end of a time limit, or the zero time if there is no limit.
func (e *Engine) expires(limit lifecycle.Limit) time.Time {
	if limit.For == 0 {
		return time.Time{}
	}
	return e.since(limit.Began).Add(limit.For)
}

// hostLimit returns the end and the length of the time limit of a host's state or stage. The end is
// the zero time if there is no limit.
func (c *change) hostLimit(h *record.Host) (time.Time, time.Duration) {
	limit := c.e.options.Timeouts.Host(&h.API, h.Restarting, c.singleNode(h))
	return c.e.expires(limit), limit.For
}

// singleNode reports whether a host is rebooting for the installation of a single-node cluster.
func (c *change) singleNode(h *record.Host) bool {
	if h.API.ClusterID == nil || *h.API.Status != lifecycle.HostInstallingInProgress ||
		h.API.Progress.CurrentStage != models.HostStageRebooting {
		return false
	}
	row, err := c.cluster(h.API.ClusterID.String())
	return err == nil && row.API.ControlPlaneCount == 1
}

// setHostDeadline stores the time of the next check of a host that does not change until then. An
// earlier deadline in the future stays, so that polls do not write. It is replaced when it passes.
func (c *change) setHostDeadline(key string, h *record.Host) error {
	next := c.nextForHost(key, h)
	if held, ok := record.StateDeadlines.At(c.tx, record.HostDeadline(key)); ok && held.After(c.now) &&
		held.Before(next) {
		return nil
	}
	return c.setDeadline(record.HostDeadline(key), next)
}

// nextForHost returns the time of the next check of a host that does not change until then, or the
// zero time if no check is needed.
func (c *change) nextForHost(key string, h *record.Host) time.Time {
	var next time.Time
	if lifecycle.ExpectsPolls(&h.API) {
		next = c.e.presence.LastContact(key, time.Time(h.API.CheckedInAt),
			c.now).Add(c.e.options.Timeouts.HostDisconnected)
	}
	limit, _ := c.hostLimit(h)
	if *h.API.Status == lifecycle.HostPendingUserAction && !c.now.Before(limit) {
		// The installation still needs this host. Changes of the other hosts trigger its next
		// check.
		limit = time.Time{}
	}
	return earlier(next, limit)
}

// clusterLimit returns the end of the time limit of a cluster's state, and whether the state has a
// limit. If the limits of a cluster only warn, the state finalizing has no limit.
func (e *Engine) clusterLimit(row *record.Cluster) (time.Time, bool) {
	limit := e.options.Timeouts.Cluster(&row.API)
	return e.expires(limit), limit.For != 0 &&
		(*row.API.Status != lifecycle.ClusterFinalizing || !e.WarnsOnly(&row.API))
}

// finalizingLimit returns the end and the length of the time limit of a cluster's finalizing stage.
// The end is the zero time if there is no limit.
func (e *Engine) finalizingLimit(row *record.Cluster) (time.Time, time.Duration) {
	limit := e.options.Timeouts.CurrentFinalizingStage(&row.API)
	return e.expires(limit), limit.For
}

// installationLimit returns the end of the time limit of a cluster's whole installation.
func (e *Engine) installationLimit(row *record.Cluster) time.Time {
	began := row.API.InstallStartedAt
	return e.options.Timeouts.WholeInstallation(time.Time(began), e.since(began))
}

func (c *change) setClusterDeadline(id string, row *record.Cluster) error {
	return c.setDeadline(record.ClusterDeadline(id), c.e.nextForCluster(row))
}

// nextForCluster returns the time of the next check of a cluster that does not change until then,
// or the zero time if no check is needed.
func (e *Engine) nextForCluster(row *record.Cluster) time.Time {
	next, limited := e.clusterLimit(row)
	if !limited {
		next = time.Time{}
	}
	stage, _ := e.finalizingLimit(row)
	next = earlier(next, stage)
	if slices.Contains(lifecycle.ClusterInstallingStates, *row.API.Status) {
		next = earlier(next, e.installationLimit(row))
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

// watchDeadlines handles deadlines until the context ends. Between deadlines it sleeps, so an idle
// appliance uses no CPU time.
func (e *Engine) watchDeadlines(ctx context.Context) {
	for ctx.Err() == nil {
		e.wakesAt.Store(0)
		wait, err := e.handleDue(ctx)
		if err != nil && ctx.Err() == nil {
			e.options.Logger.Error("Handling deadlines failed; the engine tries again in one second.", "error", err)
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

// sleep waits until the time has passed or an earlier deadline is set. It returns false when the
// context ends. If the wall clock advanced much more than the wait, the machine has slept. The
// times without contact then start again, because hosts could not contact a sleeping machine.
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
		// This also detects a sleep without a monotonic clock.
		if e.checkClock(); e.options.Clock.Now().Sub(began) > wait+e.tolerance {
			e.clockJumped(e.options.Clock.Now(), e.options.Clock.Now().Sub(began)-wait)
		}
	}
	return true
}

// handleDue handles the deadlines that have passed. It returns the wait until the next deadline.
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
	ctx = journal.WithOperation(ctx, journal.OperationTimer)
	err = e.handleDeadlines(ctx, due, ahead[len(due):])
	if err != nil && ctx.Err() == nil {
		err = e.handleEach(ctx, due)
	}
	return 0, err
}

// handleDeadlines handles due deadlines and postpones those that are due soon, in one transaction.
func (e *Engine) handleDeadlines(ctx context.Context, due, ahead []store.Deadline) error {
	return e.update(ctx, func(c *change) error {
		c.reported = true
		for _, deadline := range due {
			if err := c.handleDeadline(deadline); err != nil {
				return err
			}
		}
		for _, deadline := range ahead {
			if err := c.postpone(deadline); err != nil {
				return err
			}
		}
		return nil
	})
}

// handleEach handles each deadline in its own transaction, so that a damaged row affects only the
// deadlines of its cluster. Those that fail are due again in a minute.
func (e *Engine) handleEach(ctx context.Context, due []store.Deadline) error {
	var failed []string
	var last error
	for _, deadline := range due {
		err := e.handleDeadlines(ctx, []store.Deadline{deadline}, nil)
		if err == nil {
			continue
		}
		if failedAgain := e.update(ctx, func(c *change) error {
			return c.setDeadline(deadline.Key, c.now.Add(time.Minute))
		}); failedAgain != nil {
			return failedAgain // the cause is not the row
		}
		failed, last = append(failed, deadline.Key), err
	}
	if last != nil {
		e.options.Logger.Error("Some time limits could not be checked; the engine tries again in one minute.",
			"of", failed, "error", last)
	}
	return nil
}

// postpone moves the deadline of a host that has contacted the engine since the deadline was set.
// It runs shortly before the deadline passes, so that the many deadlines of a large site share a
// transaction.
func (c *change) postpone(deadline store.Deadline) error {
	kind, key := splitDeadline(deadline.Key)
	if kind == "cluster" {
		return nil
	}
	h, err := c.host(key)
	if fault.KindOf(err) == fault.NotFound || store.IsDamaged(err) {
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

// handleDeadline checks the host or cluster of a deadline that has passed. Most of these hosts have
// polled after the deadline was set, and only get a new deadline.
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
		h.Restarting = time.Time{} // a host whose agent still polls has not restarted
		c.saveHost(h)
	}
	// Settling sets the next deadline if the state changes. Otherwise, the deadline below triggers
	// the next check.
	c.settleLater(h)
	if *h.API.Status == lifecycle.HostPendingUserAction {
		return c.setHostDeadline(key, h)
	}
	return c.setDeadline(deadline.Key, c.now.Add(time.Minute))
}

// recordContact records that a host contacted the engine.
func (e *Engine) recordContact(key string) { e.presence.Of(key).Contacted(e.options.Clock.Now()) }
