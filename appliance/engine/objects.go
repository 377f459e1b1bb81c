package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/store"
)

// An object of the Kubernetes API may describe a cluster, an infra-env or a host. The engine stores
// the key of the object in the row of the cluster, infra-env or host, with the generation that the
// row follows. Both are written in the transaction that applies the object, and an index finds the
// row by the key. So an interrupted controller creates no row twice.
//
// In the other direction, a [Projector] updates objects at the end of each change, in the same
// transaction.

// Projector updates objects of another API after changes of the engine.
type Projector interface {
	// Project is called in the transaction of each change that writes a row, when all rows have
	// their final values. An error rolls the change back. Project may run more than once for a
	// change. It only writes objects that differ.
	Project(tx *store.Tx, touched Touched) error
}

// Touched lists the rows that a change wrote or deleted, ordered by id.
type Touched struct {
	Rows view.Rows // reads the rows after the change
	Now  time.Time // time of the change in UTC
	// Reported is true if an agent or the clock caused the change. It changes no user's settings.
	Reported  bool
	Clusters  []TouchedRow
	InfraEnvs []TouchedRow
	Hosts     []TouchedRow
	Events    []*models.Event // written by the change, in order
	// FirstEvent is the ID of the first of the events.
	FirstEvent event.ID
}

// TouchedRow is a row that a change wrote, recomputed or deleted.
type TouchedRow struct {
	ID      string        // for a host: <infra-env id>/<host id>
	Object  record.Object // of the row, or of the row before its deletion
	Deleted bool
}

func (c *change) noteClusterObject(row *record.Cluster, describedBy []record.Object) error {
	return record.NoteAll(&row.Object, c.tx, record.ClusterObjects, row.API.ID.String(), describedBy)
}

func (c *change) noteInfraEnvObject(row *record.InfraEnv, describedBy []record.Object) error {
	return record.NoteAll(&row.Object, c.tx, record.InfraEnvObjects, row.API.ID.String(), describedBy)
}

func (c *change) noteHostObject(row *record.Host, describedBy []record.Object) error {
	return record.NoteAll(&row.Object, c.tx, record.HostObjects, record.HostKey(row), describedBy)
}

// noteHostObjectAt is like noteHostObject, for the host with the given ids.
func (c *change) noteHostObjectAt(infraEnvID, hostID string, describedBy []record.Object) error {
	if len(describedBy) == 0 {
		return nil
	}
	h, err := c.hostIn(infraEnvID, hostID)
	if err != nil {
		return err
	}
	c.saveHost(h)
	return c.noteHostObject(h, describedBy)
}

// project passes the changed rows to the projector.
func (c *change) project() error {
	if c.e.options.Projector == nil {
		return nil
	}
	touched := Touched{Rows: c.e.Rows(c.tx), Now: c.now, Reported: c.reported}
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
	touched.Events, touched.FirstEvent = c.written, c.firstEvent
	if len(touched.Clusters)+len(touched.InfraEnvs)+len(touched.Hosts)+len(touched.Events) == 0 {
		return nil
	}
	return c.e.options.Projector.Project(c.tx, touched)
}

func objectOf[T any](row *T, object func(*T) record.Object) record.Object {
	if row == nil {
		return record.Object{}
	}
	return object(row)
}

// touchedRows lists the rows that were written and still exist, and the rows that were deleted.
func touchedRows(written map[string]bool, deleted map[string]record.Object, row func(id string) (record.Object,
	bool)) []TouchedRow {
	ids := make(map[string]bool, len(written)+len(deleted))
	maps.Copy(ids, written)
	for id := range deleted {
		ids[id] = true
	}
	var touched []TouchedRow
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if object, exists := row(id); exists {
			touched = append(touched, TouchedRow{ID: id, Object: object})
		} else if object, ok := deleted[id]; ok {
			touched = append(touched, TouchedRow{ID: id, Object: object, Deleted: true})
		}
	}
	return touched
}
