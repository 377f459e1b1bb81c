package projection

import (
	"slices"
	"sync/atomic"

	"landfall/appliance/engine"
	"landfall/appliance/engine/event"
	"landfall/store"
)

// Deferred is the engine's projector while the Kubernetes API is enabled. It projects most changes
// in the transaction of the change. Two frequent kinds of changes are only recorded in the
// transaction, and [CatchUp] projects them later: new rows, which have no objects yet, and reports
// of agents, which change only statuses. So agents and clients of the REST API do not wait for
// objects that nobody reads.
//
// Deletions and changes of specs are never projected later, because a controller could apply the
// old spec to the engine in the meantime.
type Deferred struct {
	rows    engine.Projector
	pending atomic.Bool   // rows may have been recorded that are not projected yet
	changed chan struct{} // receives a value when rows were recorded
	changes atomic.Int64  // counts the recorded changes
	watches atomic.Int64  // of clients
}

// NewDeferred returns a projector. rows projects rows without events. Changes of an earlier process
// may be recorded, so readers wait for a first check.
func NewDeferred(rows engine.Projector) *Deferred {
	d := &Deferred{rows: rows, changed: make(chan struct{}, 1)}
	d.pending.Store(true)
	d.changed <- struct{}{}
	return d
}

// Project implements engine.Projector.
func (d *Deferred) Project(tx *store.Tx, touched engine.Touched) error {
	now, later := split(touched)
	if len(now.Clusters)+len(now.InfraEnvs)+len(now.Hosts) > 0 {
		if err := d.rows.Project(tx, now); err != nil {
			return err
		}
		// The objects may show others that do not exist yet. They are projected again after these.
		if d.pending.Load() || len(later.Clusters)+len(later.InfraEnvs)+len(later.Hosts) > 0 {
			later = touched
		}
	}
	if err := noteChanges(tx, withoutDeletedObjects(later)); err != nil {
		return err
	}
	events := slices.ContainsFunc(touched.Events, projected)
	if events {
		if err := noteEvents(tx, touched.FirstEvent); err != nil {
			return err
		}
	}
	if !events && len(later.Clusters)+len(later.InfraEnvs)+len(later.Hosts) == 0 {
		return nil
	}
	// A reader that starts after the commit must see the value, so it is set before the commit.
	d.pending.Store(true)
	d.changes.Add(1)
	select {
	case d.changed <- struct{}{}:
	default:
	}
	return nil
}

// split returns the rows that are projected in the transaction of the change and those that are
// projected later. A host that moves to another infra-env is a new row and a deleted row with one
// Agent, so a change with deletions is not divided.
func split(touched engine.Touched) (now, later engine.Touched) {
	if anyDeleted(touched.Clusters) || anyDeleted(touched.InfraEnvs) || anyDeleted(touched.Hosts) {
		return touched, engine.Touched{}
	}
	if touched.Reported {
		return engine.Touched{}, touched
	}
	now, later = touched, touched
	divide := func(rows []engine.TouchedRow) (now, later []engine.TouchedRow) {
		for _, row := range rows {
			if row.Object.Key == "" {
				later = append(later, row)
			} else {
				now = append(now, row)
			}
		}
		return now, later
	}
	now.Clusters, later.Clusters = divide(touched.Clusters)
	now.InfraEnvs, later.InfraEnvs = divide(touched.InfraEnvs)
	now.Hosts, later.Hosts = divide(touched.Hosts)
	return now, later
}

func anyDeleted(rows []engine.TouchedRow) bool {
	return slices.ContainsFunc(rows, func(row engine.TouchedRow) bool { return row.Deleted })
}

// withoutDeletedObjects returns a change whose deleted rows have no objects any more.
func withoutDeletedObjects(touched engine.Touched) engine.Touched {
	for _, rows := range []*[]engine.TouchedRow{&touched.Clusters, &touched.InfraEnvs, &touched.Hosts} {
		*rows = slices.Clone(*rows)
		for i := range *rows {
			if (*rows)[i].Deleted {
				(*rows)[i].Object.Key = ""
			}
		}
	}
	return touched
}

// noteEvents records that events have to be projected, from first on.
func noteEvents(tx *store.Tx, first event.ID) error {
	if changeRows.Exists(tx, eventChanges) {
		return nil
	}
	return changeRows.Put(tx, eventChanges, &changeRow{Object: first.String()})
}
