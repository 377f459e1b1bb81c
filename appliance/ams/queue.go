package ams

import (
	"cmp"
	"context"
	"slices"
	"time"

	"landfall/appliance/ams/outbox"
)

// job is a queued cluster.
type job struct {
	since     time.Time // time of the change
	next      time.Time
	attempts  int
	throttled int
	refresh   bool
	running   bool
	changed   bool // the desired state changed during the attempt
	leased    bool
	failure   string
}

func (r *Relay) enqueue(id string, since time.Time, refresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held, ok := r.jobs[id]
	if !ok {
		r.jobs[id] = &job{since: since, refresh: refresh}
		return
	}
	if refresh {
		return
	}
	held.refresh = false
	if held.running {
		held.changed = true
		return
	}
	if !held.leased {
		held.next, held.attempts, held.throttled = time.Time{}, 0, 0
	}
}

// limitWaits shortens waits that became too long because the clock was set back.
func (r *Relay) limitWaits(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, wall := r.lastStep, now.Round(0) // without the monotonic reading, which ignores clock changes
	r.lastStep = wall
	if !wall.Before(before) && !before.IsZero() {
		return
	}
	for _, wait := range []struct {
		at  *time.Time
		cap time.Duration
	}{{&r.probeAt, probeCap}, {&r.pauseUntil, longestWait}, {&r.cleanupAt, cleanupInterval}} {
		if latest := now.Add(wait.cap); wait.at.After(latest) {
			*wait.at = latest
		}
	}
	for _, j := range r.jobs {
		if latest := now.Add(backoffCap); j.next.After(latest) && !j.leased && j.throttled < quotaTries {
			j.next = latest
		}
	}
}

// due returns the clusters to process now: the longest waiting first, refreshes last.
func (r *Relay) due(now time.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := func(a, b string) int {
		x, y := r.jobs[a], r.jobs[b]
		if x.refresh != y.refresh {
			if x.refresh {
				return 1
			}
			return -1
		}
		return cmp.Or(x.since.Compare(y.since), cmp.Compare(a, b))
	}
	ids := make([]string, 0, batchSize+1) // the first clusters, in order: thousands may wait
	for id, j := range r.jobs {
		if j.running || now.Before(j.next) || len(ids) == batchSize && before(ids[batchSize-1], id) < 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(ids, id, before)
		ids = slices.Insert(ids, at, id)
		ids = ids[:min(len(ids), batchSize)]
	}
	return ids
}

func (r *Relay) begin(id string) (refresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[id]
	j.running, j.changed, j.leased = true, false, false
	return j.refresh
}

// finish stores the result of an attempt. From a failure it derives the state of the connection.
func (r *Relay) finish(ctx context.Context, id string, outcome result) {
	r.assessConnection(id, outcome)
	if outcome.failure != nil && outcome.failure.Class == Throttled && r.overQuota(id, outcome.failure) {
		stop := outbox.Stop{
			Kind: outbox.Blocked, HTTP: outcome.failure.HTTP, Code: outcome.failure.Code,
			OperationID: outcome.failure.OperationID,
			Reason: "AMS rejects the request because of a limit or quota; Landfall tries again in a day: " +
				outcome.failure.Text,
		}
		stop.RetryAt = r.options.Clock.Now().UTC().Add(quotaRetry)
		v := &attempt{reconciler: r.reconciler(), id: id}
		var err error
		if v.d, v.r, err = v.states.Load(ctx, id); err == nil {
			outcome = v.stop(ctx, stop, outcome.failure.Op)
		}
	}
	if outcome.err != nil && ctx.Err() == nil {
		r.options.Logger.Error("The result of a call to AMS could not be stored. The next attempt reads it from AMS.",
			"cluster",
			id, "error", outcome.err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[id]
	j.running, j.failure = false, ""
	now := r.options.Clock.Now()
	switch {
	case j.changed:
		j.next, j.attempts = time.Time{}, 0
	case outcome.err != nil:
		j.failure, j.next = outcome.err.Error(), now.Add(r.backoff(j.attempts, backoffCap))
		j.attempts++
	case outcome.state == synced && outcome.until.IsZero(), outcome.state == stopped && outcome.until.IsZero():
		delete(r.jobs, id)
	case outcome.state == leased:
		j.leased, j.next = true, outcome.until
	case !outcome.until.IsZero():
		j.next = outcome.until
	default:
		if outcome.failure != nil {
			j.failure = outcome.failure.Text
		}
		if r.state == Online {
			j.next = now.Add(r.backoff(j.attempts, backoffCap))
			j.attempts++
		}
	}
}

// overQuota reports whether AMS rejected so many POSTs that the reason must be a quota, not a rate
// limit.
func (r *Relay) overQuota(id string, failure *CallError) bool {
	if failure.Op != "create" || failure.RetryAfter > 0 && !failure.Quota {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[id]
	j.throttled++
	return j.throttled >= quotaTries
}

// next returns the time of the relay's next step.
func (r *Relay) next() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.state == Offline && len(r.jobs) > 0:
		return r.probeAt
	case r.state.paused():
		return r.options.Clock.Now().Add(credentialsInterval)
	case r.state != Online:
		return time.Time{}
	}
	next := r.cleanupAt
	for _, j := range r.jobs {
		if !j.running && j.next.Before(next) {
			next = j.next
		}
	}
	now := r.options.Clock.Now() // due clusters have the zero time, which means "never" to the caller
	for _, earliest := range []time.Time{r.pauseUntil, now} {
		if next.Before(earliest) {
			next = earliest
		}
	}
	return next
}
