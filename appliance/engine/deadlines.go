package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/store"
)

const (
	// dueAtOnce bounds how many deadlines one transaction handles.
	dueAtOnce = 256
	// sleepGap is how far the wall clock may run ahead of a wait before the machine is taken to have slept.
	sleepGap = 30 * time.Second
	// quiet is the longest wait when no deadline is set.
	quiet = time.Hour
)

func hostDeadline(key string) string   { return "host/" + key }
func clusterDeadline(id string) string { return "cluster/" + id }

// silenceMatters tells whether a host in this state is expected to poll.
func silenceMatters(h *hostRecord) bool {
	status := *h.API.Status
	if slices.Contains([]string{disconnected, disconnectedUnbound}, status) {
		return false
	}
	if validated(status) {
		return true
	}
	return slices.Contains([]string{installing, inProgress}, status) && !slices.Contains(stagesAfterReboot, h.API.Progress.CurrentStage)
}

// since is when a limit began to run: at the recorded time, but never before this process, or this machine after it slept,
// could hear of what ends it. Nobody is blamed for the time that the appliance was away.
func (e *Engine) since(recorded strfmt.DateTime) time.Time {
	if started := e.presence.startedAt(); started.After(time.Time(recorded)) {
		return started
	}
	return time.Time(recorded)
}

// stageLimit is when a host has been too long in its preparation or stage.
func (e *Engine) stageLimit(h *hostRecord) (time.Time, bool) {
	switch *h.API.Status {
	case preparing:
		return e.since(h.API.StatusUpdatedAt).Add(e.Timeouts.HostPreparing), true
	case installing:
		return e.since(h.API.StageUpdatedAt).Add(e.Timeouts.stage(string(models.HostStageStartingInstallation))), true
	case inProgress:
		return e.since(h.API.StageUpdatedAt).Add(e.Timeouts.stage(string(h.API.Progress.CurrentStage))), true
	}
	return time.Time{}, false
}

// setHostDeadline writes when the host is to be looked at next if nothing happens to it.
func (c *change) setHostDeadline(key string, h *hostRecord) error {
	var next time.Time
	if silenceMatters(h) {
		next = c.e.presence.lastSeen(key, time.Time(h.API.CheckedInAt)).Add(c.e.Timeouts.HostDisconnected)
	}
	if limit, ok := c.e.stageLimit(h); ok {
		next = earlier(next, limit)
	}
	if *h.API.Status == pendingUserAction {
		next = earlier(next, h.BootOrderBy)
	}
	return c.setDeadline(hostDeadline(key), next)
}

// clusterLimit is when a cluster has been too long in its state.
func (e *Engine) clusterLimit(row *clusterRecord) (time.Time, bool) {
	since := e.since(row.API.StatusUpdatedAt)
	switch *row.API.Status {
	case clusterPreparing:
		return since.Add(e.Timeouts.ClusterPreparing), true
	case clusterFinalizing:
		return since.Add(e.Timeouts.Finalizing), true
	}
	return time.Time{}, false
}

func (c *change) setClusterDeadline(id string, row *clusterRecord) error {
	next, _ := c.e.clusterLimit(row)
	if slices.Contains([]string{clusterInstalling, clusterUserAction, clusterFinalizing}, *row.API.Status) {
		next = earlier(next, time.Time(row.API.InstallStartedAt).Add(c.e.Timeouts.Installation))
	}
	return c.setDeadline(clusterDeadline(id), next)
}

func (c *change) setDeadline(key string, at time.Time) error {
	if at.IsZero() {
		return lifeDeadlines.Clear(c.tx, key)
	}
	c.deadlineSet = true
	return lifeDeadlines.Set(c.tx, key, at)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// watchDeadlines handles what is due until the context ends. It sleeps until the earliest deadline, so an idle appliance
// does nothing.
func (e *Engine) watchDeadlines(ctx context.Context) {
	for ctx.Err() == nil {
		wait, err := e.handleDue(ctx)
		if err != nil && ctx.Err() == nil {
			e.Logger.Error("Handling what is due failed; it is tried again.", "error", err)
			wait = time.Second
		}
		if wait <= 0 {
			continue
		}
		if !e.sleep(ctx, wait) {
			return
		}
	}
}

// sleep waits for the time to pass or an earlier deadline to be set. When the wall clock ran far ahead of the wait, the
// machine has slept: hosts could not reach it meanwhile, so their silence starts anew.
func (e *Engine) sleep(ctx context.Context, wait time.Duration) bool {
	began := e.Clock.Now().Round(0) // wall clock: the monotonic one stands still while the machine sleeps
	timer := e.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-e.alarm:
	case <-timer.Chan():
		if now := e.Clock.Now().Round(0); now.Sub(began) > wait+sleepGap {
			e.Logger.Warn("The clock jumped; this machine may have slept. Hosts get their time to report again.", "jump", now.Sub(began)-wait)
			e.presence.restart(now)
		}
	}
	return true
}

// handleDue handles the deadlines that have passed and returns how long to wait for the next.
func (e *Engine) handleDue(ctx context.Context) (time.Duration, error) {
	var due []store.Deadline
	wait := quiet
	err := e.DB.View(func(tx *store.Tx) error {
		var err error
		if due, err = lifeDeadlines.Due(tx, e.Clock.Now(), dueAtOnce); err != nil || len(due) > 0 {
			return err
		}
		if next, ok, err := lifeDeadlines.Next(tx); err != nil {
			return err
		} else if ok {
			wait = min(wait, max(next.Sub(e.Clock.Now()), time.Millisecond))
		}
		return nil
	})
	if err != nil || len(due) == 0 {
		return wait, err
	}
	return 0, e.update(ctx, func(c *change) error {
		for _, deadline := range due {
			if err := c.passDeadline(deadline); err != nil {
				return err
			}
		}
		return nil
	})
}

// passDeadline looks at an object whose deadline has passed. Most deadlines are those of hosts that have polled
// meanwhile: they only get a new one.
func (c *change) passDeadline(deadline store.Deadline) error {
	kind, key, _ := strings.Cut(deadline.Key, "/")
	if kind == "cluster" {
		row, err := c.cluster(key)
		if KindOf(err) == NotFound {
			return lifeDeadlines.Clear(c.tx, deadline.Key)
		}
		if err != nil {
			return err
		}
		c.settleCluster(key)
		return c.setClusterDeadlineAfter(key, row)
	}
	h, err := c.host(key)
	if KindOf(err) == NotFound {
		return lifeDeadlines.Clear(c.tx, deadline.Key)
	}
	if err != nil {
		return err
	}
	limit, limited := c.e.stageLimit(h)
	if c.connected(h) && !(limited && !c.now.Before(limit)) && *h.API.Status != pendingUserAction {
		return c.setHostDeadline(key, h)
	}
	// The change that follows sets the next deadline; should nothing follow, the host is looked at again later.
	c.settleLater(h)
	return c.setDeadline(deadline.Key, c.now.Add(time.Minute))
}

// setClusterDeadlineAfter keeps a cluster whose deadline passed without effect from being looked at again at once.
func (c *change) setClusterDeadlineAfter(id string, row *clusterRecord) error {
	if limit, ok := c.e.clusterLimit(row); ok && limit.After(c.now) {
		return c.setDeadline(clusterDeadline(id), limit)
	}
	return c.setDeadline(clusterDeadline(id), c.now.Add(time.Minute))
}

// seen notes that a host was heard.
func (e *Engine) seen(key string) { e.presence.of(key).seen.Store(e.Clock.Now().UnixNano()) }
