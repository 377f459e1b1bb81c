package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/store"
)

// stateRows stores the program version and the URL of the last projection under stateKey.
var stateRows = store.NewBucket[state]("shown", 1).Derived()

const stateKey = "objects"

type state struct {
	Program string `json:"program"`
	URL     string `json:"url"`
}

// Options configures [NewCatchUp].
type Options struct {
	DB       *store.DB
	Engine   *engine.Engine
	Rows     engine.Projector // projects hosts, then clusters
	Events   engine.Projector // projects events, after the rows
	Deferred *Deferred        // the engine's projector
	Program  string           // the appliance's version: another version may write more fields
	URL      string           // the appliance's URL, which is part of the objects
	Clock    clockwork.Clock
	Logger   *slog.Logger
}

// CatchUp projects recorded changes: those that [Recorder] recorded while the Kubernetes API was
// disabled, and those that [Deferred] recorded. It projects them before each request of the
// Kubernetes API, so that no client reads an outdated object. While no client reads, it projects
// them in the background.
type CatchUp struct {
	Options
	turn chan struct{} // holds a value while a goroutine projects

	// The next fields belong to the holder of the turn.
	plan    plan
	took    time.Duration        // of the last batch, without the wait for the commit of its changes
	retryAt map[string]time.Time // when to project the rows that failed, by kind and id
}

// NewCatchUp returns a CatchUp. The first changes are projected by [CatchUp.Start].
func NewCatchUp(options Options) *CatchUp {
	return &CatchUp{Options: options, turn: make(chan struct{}, 1), retryAt: map[string]time.Time{}}
}

// Sizes of transactions.
const (
	// BatchRows is the number of rows or events that one transaction projects.
	BatchRows = 16
	// backgroundRows is the number while no client waits. It is small, because other changes wait
	// for the transaction.
	backgroundRows = 4
)

const (
	// The share of the time that projecting takes while changes keep coming: one part of 8, and one
	// part of 4 while clients watch. Requests for objects do not wait for their share.
	backgroundShare, watchedShare = 8, 4
	// quiet is the time without changes after which projecting takes all the time.
	quiet = 20 * time.Millisecond
	// retryFailed is the delay before a row that could not be projected is projected again.
	retryFailed = time.Minute
)

// plan lists the rows to project, in order, and the events up to a revision.
type plan struct {
	steps  []step
	events uint64 // events before this revision are projected after the steps; 0: no events are left
}

type step struct {
	kind string
	rows []engine.TouchedRow
}

// Start projects the rows that were changed, created or deleted while the API was disabled. It
// projects all rows if the appliance has never projected them, or if its version or URL has changed
// since then. It can be interrupted and repeated.
func (c *CatchUp) Start(ctx context.Context) error {
	return c.inTurn(ctx, func() error {
		now := state{c.Program, c.URL}
		if err := c.DB.View(func(tx *store.Tx) error {
			before, err := stateRows.Get(tx, stateKey)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			return c.makePlan(tx, before == nil || *before != now)
		}); err != nil {
			return err
		}
		for more := true; more; {
			var err error
			if more, err = c.batch(ctx, BatchRows); err != nil {
				return err
			}
		}
		return c.DB.Update(ctx, func(tx *store.Tx) error {
			if same, err := stateRows.Holds(tx, stateKey, &now); same || err != nil {
				return err
			}
			return stateRows.Put(tx, stateKey, &now)
		})
	})
}

// Current returns when all changes that were committed before the call are projected. If they can't
// be written, for example because the disk is full, it logs the error: clients can still read the
// present objects.
func (c *CatchUp) Current(ctx context.Context) error {
	if !c.Deferred.pending.Load() {
		return nil
	}
	return c.inTurn(ctx, func() error {
		err := c.finish(ctx)
		if err == nil {
			err = c.finish(ctx) // the first plan may be older than the call
		}
		if err != nil && ctx.Err() == nil {
			c.Logger.WarnContext(ctx, "Kubernetes objects could not be updated. Clients read the older objects.",
				"error", err)
			return nil
		}
		return err
	})
}

// finish projects the rest of the plan, or a new plan if nothing is left.
func (c *CatchUp) finish(ctx context.Context) error {
	for {
		if more, err := c.next(ctx, BatchRows); !more || err != nil || c.plan.done() {
			return err
		}
	}
}

// Watching is called when a client watches objects. Until release is called, changes are projected
// with less delay.
func (c *CatchUp) Watching() (release func()) {
	c.Deferred.watches.Add(1)
	return func() { c.Deferred.watches.Add(-1) }
}

// Follow projects changes in the background until the context ends.
func (c *CatchUp) Follow(ctx context.Context) error {
	load := load{deferred: c.Deferred}
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.Deferred.changed:
		case <-retry:
		}
		for more := true; more && ctx.Err() == nil; {
			rows, share := backgroundRows, time.Duration(backgroundShare)
			if c.Deferred.watches.Load() > 0 {
				share = watchedShare
			}
			if load.quiet(c.Clock.Now()) {
				rows = BatchRows
			}
			var took time.Duration
			err := c.inTurn(ctx, func() (err error) {
				more, err = c.next(ctx, rows)
				took, retry = c.took, nil
				if len(c.retryAt) > 0 {
					retry = c.Clock.After(retryFailed)
				}
				return err
			})
			if err != nil && ctx.Err() == nil {
				c.Logger.WarnContext(ctx, "Kubernetes objects could not be updated.", "error", err,
					"retry_in", retryFailed)
				c.sleep(ctx, retryFailed)
			}
			end := c.Clock.Now().Add((share - 1) * took)
			for ctx.Err() == nil {
				now := c.Clock.Now()
				if !now.Before(end) || load.quiet(now) {
					break
				}
				c.sleep(ctx, min(end.Sub(now), quiet))
			}
		}
	}
}

// load measures how often changes come.
type load struct {
	deferred *Deferred
	changes  int64     // at the last measurement
	since    time.Time // no changes came since then
}

// quiet reports whether no changes have come for some time.
func (l *load) quiet(now time.Time) bool {
	if changes := l.deferred.changes.Load(); changes != l.changes {
		l.changes, l.since = changes, now
	}
	return now.Sub(l.since) >= quiet
}

func (c *CatchUp) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-c.Clock.After(d):
	}
}

// inTurn runs fn while no other goroutine projects.
func (c *CatchUp) inTurn(ctx context.Context, fn func() error) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case c.turn <- struct{}{}:
	}
	defer func() { <-c.turn }()
	return fn()
}

// next projects the next rows of the plan. If nothing is left of the plan, it makes a new one. more
// is false when all changes are projected.
func (c *CatchUp) next(ctx context.Context, limit int) (more bool, err error) {
	if c.took = 0; c.plan.done() {
		if err := c.DB.View(func(tx *store.Tx) error { return c.makePlan(tx, false) }); err != nil {
			return false, err
		}
		if c.plan.done() {
			return c.recheck(ctx)
		}
	}
	start := c.Clock.Now()
	_, err = c.batch(ctx, limit)
	c.took = c.Clock.Since(start)
	return true, err
}

// recheck makes the plan again in a transaction that no change can overtake. If nothing is to be
// projected, Current returns immediately until the next change.
func (c *CatchUp) recheck(ctx context.Context) (more bool, err error) {
	err = c.DB.Update(ctx, func(tx *store.Tx) error {
		if err := c.makePlan(tx, false); err != nil {
			return err
		}
		if more = !c.plan.done(); !more {
			c.Deferred.pending.Store(false)
		}
		return nil
	})
	return more, err
}

func (p *plan) done() bool { return len(p.steps) == 0 && p.events == 0 }

// makePlan lists the changes to project. all lists all rows, also those that did not change.
func (c *CatchUp) makePlan(tx *store.Tx, all bool) error {
	written, deleted, err := readChanges(tx)
	if err != nil {
		return err
	}
	if all {
		if written, err = c.allRows(tx); err != nil {
			return err
		}
	}
	maps.DeleteFunc(c.retryAt, func(key string, _ time.Time) bool { return !changeRows.Exists(tx, key) })
	c.plan = plan{}
	// Clusters come last, because they also show the Agents of their hosts. Changed hosts come
	// before deleted hosts, so that a host that moved to another infra-env keeps its Agent.
	for _, s := range []step{
		{infraEnvChanges, written[infraEnvChanges]}, {hostChanges, written[hostChanges]},
		{hostChanges, deleted[hostChanges]}, {infraEnvChanges, deleted[infraEnvChanges]},
		{clusterChanges, deleted[clusterChanges]}, {clusterChanges, written[clusterChanges]},
	} {
		s.rows = slices.DeleteFunc(s.rows, func(row engine.TouchedRow) bool { return c.failed(s.kind, row) })
		if len(s.rows) > 0 {
			c.plan.steps = append(c.plan.steps, s)
		}
	}
	if changeRows.Exists(tx, eventChanges) {
		c.plan.events = tx.Revision()
	}
	return nil
}

// failed reports whether a row could not be projected a short time ago.
func (c *CatchUp) failed(kind string, row engine.TouchedRow) bool {
	at, failed := c.retryAt[kind+"/"+row.ID]
	return failed && c.Clock.Now().Before(at)
}

func (c *CatchUp) allRows(tx *store.Tx) (rowsByKind, error) {
	r, rows := c.Engine.Rows(tx), rowsByKind{}
	for kind, list := range map[string]func() ([]string, error){clusterChanges: r.ClusterIDs,
		infraEnvChanges: r.InfraEnvIDs, hostChanges: r.HostKeys} {
		ids, err := list()
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			rows[kind] = append(rows[kind], engine.TouchedRow{ID: id})
		}
	}
	return rows, nil
}

// batch projects at most limit rows or events of the plan in one transaction. more is false if
// nothing is left of the plan.
func (c *CatchUp) batch(ctx context.Context, limit int) (more bool, err error) {
	if len(c.plan.steps) == 0 {
		if c.plan.events == 0 {
			return false, nil
		}
		more, err := c.projectEvents(ctx, limit)
		if !more && err == nil {
			c.plan.events = 0
		}
		return more, err
	}
	s := &c.plan.steps[0]
	rows := s.rows[:min(limit, len(s.rows))]
	failed, err := c.projectRows(ctx, s.kind, rows)
	if failed && len(rows) > 1 {
		for _, row := range rows {
			if failed, err = c.projectRows(ctx, s.kind, []engine.TouchedRow{row}); failed {
				c.postpone(ctx, s.kind, row, err)
				err = nil
			}
			if err != nil {
				return false, err
			}
		}
	} else if failed {
		c.postpone(ctx, s.kind, rows[0], err)
		err = nil
	}
	if err != nil {
		return false, err
	}
	if s.rows = s.rows[len(rows):]; len(s.rows) == 0 {
		c.plan.steps = c.plan.steps[1:]
	}
	return !c.plan.done(), nil
}

// postpone keeps a row that can't be projected from delaying the others.
func (c *CatchUp) postpone(ctx context.Context, kind string, row engine.TouchedRow, err error) {
	c.retryAt[kind+"/"+row.ID] = c.Clock.Now().Add(retryFailed)
	c.Logger.ErrorContext(ctx, "A change could not be shown in its Kubernetes objects.", "row", kind+"/"+row.ID,
		"error", err, "retry_in", retryFailed)
}

// projectRows projects the current state of rows of one kind, and deletes the records of their
// changes. failed reports whether the error is one of a row, not of the store.
func (c *CatchUp) projectRows(ctx context.Context, kind string, rows []engine.TouchedRow) (failed bool, err error) {
	err = c.DB.Update(ctx, func(tx *store.Tx) error {
		failed = true
		if err := c.project(tx, kind, rows); err != nil {
			return err
		}
		failed = false
		for _, row := range rows {
			if changeRows.Exists(tx, kind+"/"+row.ID) {
				if err := changeRows.Delete(tx, kind+"/"+row.ID); err != nil {
					return err
				}
			}
			delete(c.retryAt, kind+"/"+row.ID)
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("project recorded changes: %w", err)
	}
	return failed && err != nil && ctx.Err() == nil, err
}

// project projects the current state of rows of the same kind, as the engine does after a change.
func (c *CatchUp) project(tx *store.Tx, kind string, batch []engine.TouchedRow) error {
	rows := c.Engine.Rows(tx)
	touched := engine.Touched{Rows: rows, Now: c.Clock.Now().UTC()}
	for _, row := range batch {
		if !row.Deleted {
			var err error
			row.Object, err = objectOf(rows, kind, row.ID)
			if fault.KindOf(err) == fault.NotFound {
				continue // the row was deleted meanwhile
			}
			if err != nil {
				return err
			}
			if err := c.projectReferenced(tx, touched, kind, row.ID); err != nil {
				return err
			}
		}
		switch kind {
		case clusterChanges:
			touched.Clusters = append(touched.Clusters, row)
		case infraEnvChanges:
			touched.InfraEnvs = append(touched.InfraEnvs, row)
		default:
			touched.Hosts = append(touched.Hosts, row)
		}
	}
	return c.Rows.Project(tx, touched)
}

// projectReferenced creates the objects to which the object of a row refers.
func (c *CatchUp) projectReferenced(tx *store.Tx, touched engine.Touched, kind, id string) error {
	var cluster, infraEnv string
	switch kind {
	case infraEnvChanges:
		env, err := touched.Rows.InfraEnv(id)
		if err != nil {
			return err
		}
		cluster = env.ClusterID.String()
	case hostChanges:
		host, err := touched.Rows.Host(id)
		if err != nil {
			return err
		}
		infraEnv = host.InfraEnvID.String()
		if host.ClusterID != nil {
			cluster = host.ClusterID.String()
		}
	}
	referenced := engine.Touched{Rows: touched.Rows, Now: touched.Now}
	for _, of := range []struct {
		kind, id string
		rows     *[]engine.TouchedRow
	}{{clusterChanges, cluster, &referenced.Clusters}, {infraEnvChanges, infraEnv, &referenced.InfraEnvs}} {
		if of.id == "" {
			continue
		}
		object, err := objectOf(touched.Rows, of.kind, of.id)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
		if err != nil || object.Key != "" {
			continue
		}
		if of.kind == infraEnvChanges {
			if err := c.projectReferenced(tx, touched, infraEnvChanges, of.id); err != nil {
				return err
			}
		}
		*of.rows = []engine.TouchedRow{{ID: of.id}}
		if err := c.Rows.Project(tx, referenced); err != nil {
			return err
		}
		*of.rows = nil
	}
	return nil
}

func objectOf(rows view.Rows, kind, id string) (record.Object, error) {
	switch kind {
	case clusterChanges:
		view, err := rows.Cluster(id)
		if err != nil {
			return record.Object{}, err
		}
		return view.Object, nil
	case infraEnvChanges:
		view, err := rows.InfraEnv(id)
		if err != nil {
			return record.Object{}, err
		}
		return view.Object, nil
	}
	view, err := rows.Host(id)
	if err != nil {
		return record.Object{}, err
	}
	return view.Object, nil
}

// projectEvents projects the next recorded events, before the revision of the plan. Newer events
// may be about objects that do not exist yet.
func (c *CatchUp) projectEvents(ctx context.Context, limit int) (more bool, err error) {
	err = c.DB.Update(ctx, func(tx *store.Tx) error {
		more = false
		first, err := firstEvent(tx)
		if first == "" || err != nil {
			return err
		}
		// The ID of an event contains a revision before that of its row.
		end := event.ID{Revision: c.plan.events}.String()
		var keys []string
		rest := ""
		if err := event.Rows.KeysAfter(tx, first, func(key string) error {
			if len(keys) == limit || key >= end {
				rest = key
				return store.ErrStop
			}
			keys = append(keys, key)
			return nil
		}); err != nil {
			return err
		}
		for _, key := range keys {
			row, err := event.Rows.Get(tx, key)
			if store.IsDamaged(err) {
				continue
			}
			if err != nil {
				return err
			}
			if err := c.projectEvent(tx, row); err != nil {
				return err
			}
		}
		if rest == "" {
			return changeRows.Delete(tx, eventChanges)
		}
		more = rest < end
		id, _, err := event.ParseKey(rest)
		if err != nil {
			return err
		}
		return changeRows.Put(tx, eventChanges, &changeRow{Object: id.String()})
	})
	return more, err
}

func (c *CatchUp) projectEvent(tx *store.Tx, row *models.Event) error {
	at := c.Clock.Now()
	if row.EventTime != nil {
		at = time.Time(*row.EventTime)
	}
	return c.Events.Project(tx, engine.Touched{Rows: c.Engine.Rows(tx), Now: at.UTC(), Events: []*models.Event{row}})
}
