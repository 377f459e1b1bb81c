package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/store"
)

// A cluster, an infra-env or a host may be described by an object of another API, the Kubernetes
// door's. The engine knows no more of it than its key and what of it was acted on: both lie on the
// row that it describes, are written in the transaction that acts on them, and the row is found by
// the key. So whoever makes rows of objects can be killed at any moment and makes none twice.
//
// The other way, a [Projector] is called at the end of each change, in its transaction, and writes
// what follows for the objects.

// Projector follows the engine's changes with objects of its own.
type Projector interface {
	// Project is called in the transaction of each change that has written something, when all rows
	// are as they will be committed. An error takes the whole change back. It may be run more than
	// once for a change, and it writes what differs only.
	Project(tx *store.Tx, touched Touched) error
}

// Touched is what a change has written or deleted, in the order of the ids.
type Touched struct {
	Rows      view.Rows // reads the rows as the change leaves them
	Now       time.Time // UTC, of the change
	Clusters  []TouchedRow
	InfraEnvs []TouchedRow
	Hosts     []TouchedRow
	Events    []*models.Event // that the change has written, in their order
}

// TouchedRow is a row that a change has written, or settled with its hosts, or deleted.
type TouchedRow struct {
	ID      string        // of a host <infra-env id>/<host id>
	Object  record.Object // what the row holds, or held when it was deleted
	Deleted bool
}

func (c *change) noteClusterObject(row *record.Cluster, of []record.Object) error {
	return record.NoteAll(&row.Object, c.tx, record.ClusterObjects, row.API.ID.String(), of)
}

func (c *change) noteInfraEnvObject(row *record.InfraEnv, of []record.Object) error {
	return record.NoteAll(&row.Object, c.tx, record.InfraEnvObjects, row.API.ID.String(), of)
}

func (c *change) noteHostObject(row *record.Host, of []record.Object) error {
	return record.NoteAll(&row.Object, c.tx, record.HostObjects, record.HostKey(row), of)
}

// noteHostObjectAt is noteHostObject for a host that the change has loaded and may or may not have
// altered.
func (c *change) noteHostObjectAt(infraEnvID, hostID string, of []record.Object) error {
	if len(of) == 0 {
		return nil
	}
	h, err := c.hostIn(infraEnvID, hostID)
	if err != nil {
		return err
	}
	c.saveHost(h)
	return c.noteHostObject(h, of)
}

// project tells the projector what the change has written.
func (c *change) project() error {
	if c.e.options.Projector == nil {
		return nil
	}
	touched := Touched{Rows: c.e.Rows(c.tx), Now: c.now}
	clusters := maps.Clone(c.dirtyClusters)
	for _, id := range c.refresh {
		clusters[id] = true
	}
	touched.Clusters = touchedRows(clusters, c.deletedClusterObjects, func(id string) (record.Object, bool) {
		row, ok := c.clusters[id]
		return objectOf(row, func(r *record.Cluster) record.Object { return r.Object }), ok
	})
	touched.InfraEnvs = touchedRows(c.dirtyInfraEnvs, c.deletedInfraEnvObjects, func(id string) (record.Object, bool) {
		row, ok := c.infraEnvs[id]
		return objectOf(row, func(r *record.InfraEnv) record.Object { return r.Object }), ok
	})
	touched.Hosts = touchedRows(c.dirtyHosts, c.deletedHostObjects, func(key string) (record.Object, bool) {
		row, ok := c.hosts[key]
		return objectOf(row, func(r *record.Host) record.Object { return r.Object }), ok
	})
	touched.Events = c.written
	if len(touched.Clusters)+len(touched.InfraEnvs)+len(touched.Hosts)+len(touched.Events) == 0 {
		return nil
	}
	return c.e.options.Projector.Project(c.tx, touched)
}

func objectOf[T any](row *T, of func(*T) record.Object) record.Object {
	if row == nil {
		return record.Object{}
	}
	return of(row)
}

// touchedRows lists the rows that were written and still are, and those that were deleted.
func touchedRows(written map[string]bool, deleted map[string]record.Object, row func(id string) (record.Object,
	bool)) []TouchedRow {
	ids := make(map[string]bool, len(written)+len(deleted))
	maps.Copy(ids, written)
	for id := range deleted {
		ids[id] = true
	}
	var touched []TouchedRow
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if object, there := row(id); there {
			touched = append(touched, TouchedRow{ID: id, Object: object})
		} else if object, gone := deleted[id]; gone {
			touched = append(touched, TouchedRow{ID: id, Object: object, Deleted: true})
		}
	}
	return touched
}
