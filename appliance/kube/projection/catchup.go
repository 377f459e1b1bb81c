package projection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/engine"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// While the Kubernetes API is disabled, clusters, infra-envs and hosts may be changed over REST and
// in the browser. Recorder records the row of each changed object once. CatchUp projects these rows
// when the API is enabled again. The other direction needs no catch-up, because Kubernetes objects
// can't be changed while the API is disabled.

// changeRows holds the rows that changed while the Kubernetes API was disabled, by their kind and
// id, such as "hosts/<infra-env id>/<host id>".
var changeRows = store.NewBucket[changeRow]("missed", 1)

type changeRow struct {
	// key of the row's Kubernetes object, even if the row was deleted
	Object  string `json:"object,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
}

// The kinds of rows.
const (
	clusterChanges  = "clusters"
	infraEnvChanges = "infra-envs"
	hostChanges     = "hosts"
)

// Recorder is the engine's projector while the Kubernetes API is disabled. It records which rows
// have changed.
type Recorder struct{}

// Project implements engine.Projector.
func (Recorder) Project(tx *store.Tx, touched engine.Touched) error {
	for _, of := range []struct {
		kind string
		rows []engine.TouchedRow
	}{{clusterChanges, touched.Clusters}, {infraEnvChanges, touched.InfraEnvs}, {hostChanges, touched.Hosts}} {
		for _, row := range of.rows {
			key, note := of.kind+"/"+row.ID, changeRow{row.Object.Key, row.Deleted}
			if note == (changeRow{Deleted: true}) { // the row never had an object
				if err := changeRows.Delete(tx, key); err != nil {
					return err
				}
				continue
			}
			if err := changeRows.Put(tx, key, &note); err != nil {
				return fmt.Errorf("record the change of %s: %w", key, err)
			}
		}
	}
	return nil
}

// stateRows stores the program version and the URL of the last projection under stateKey.
var stateRows = store.NewBucket[state]("shown", 1)

const stateKey = "objects"

type state struct {
	Program string `json:"program"`
	URL     string `json:"url"`
}

// CatchUp projects the recorded changes when the Kubernetes API is enabled.
type CatchUp struct {
	DB        *store.DB
	Engine    *engine.Engine
	Projector engine.Projector // projects hosts, then clusters
	Program   string           // the appliance's version: another version may write more fields
	URL       string           // the appliance's URL, which is part of the objects
	Clock     clockwork.Clock
}

// BatchRows is the number of rows that one transaction projects.
const BatchRows = 16

// Run projects the rows that were changed, created or deleted while the API was disabled. It
// projects all rows if the appliance has never projected them, or if its version or URL has changed
// since then. It can be interrupted and repeated.
func (c CatchUp) Run(ctx context.Context) error {
	now, all := state{c.Program, c.URL}, false
	written, deleted := map[string][]engine.TouchedRow{}, map[string][]engine.TouchedRow{}
	if err := c.DB.View(func(tx *store.Tx) error {
		before, err := stateRows.Get(tx, stateKey)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if all = before == nil || *before != now; all {
			if err := c.listRows(tx, written); err != nil {
				return err
			}
		}
		return changeRows.Each(tx, "", func(key string, note *changeRow) error {
			kind, id, _ := strings.Cut(key, "/")
			row := engine.TouchedRow{ID: id, Object: record.Object{Key: note.Object}, Deleted: note.Deleted}
			switch {
			case note.Deleted:
				deleted[kind] = append(deleted[kind], row)
			case !all:
				written[kind] = append(written[kind], row)
			}
			return nil
		})
	}); err != nil {
		return err
	}
	// Referenced objects come before the objects that refer to them. Clusters are projected again
	// at the end, because they also show the Agents of their hosts. Changed hosts come before
	// deleted hosts, so that a host that moved to another infra-env keeps its Agent.
	for _, step := range []struct {
		kind string
		rows []engine.TouchedRow
	}{
		{clusterChanges, written[clusterChanges]}, {infraEnvChanges, written[infraEnvChanges]},
		{hostChanges, written[hostChanges]},
		{hostChanges, deleted[hostChanges]}, {infraEnvChanges, deleted[infraEnvChanges]},
		{clusterChanges, deleted[clusterChanges]},
		{clusterChanges, written[clusterChanges]},
	} {
		for batch := range slices.Chunk(step.rows, BatchRows) {
			if err := c.DB.Update(ctx, func(tx *store.Tx) error {
				return c.project(tx, step.kind,
					batch)
			}); err != nil {
				return fmt.Errorf("project the changes made while the Kubernetes API was disabled: %w", err)
			}
		}
	}
	return c.deleteChanges(ctx, now)
}

func (c CatchUp) listRows(tx *store.Tx, rows map[string][]engine.TouchedRow) error {
	r := c.Engine.Rows(tx)
	for kind, list := range map[string]func() ([]string, error){clusterChanges: r.ClusterIDs,
		infraEnvChanges: r.InfraEnvIDs, hostChanges: r.HostKeys} {
		ids, err := list()
		if err != nil {
			return err
		}
		for _, id := range ids {
			rows[kind] = append(rows[kind], engine.TouchedRow{ID: id})
		}
	}
	return nil
}

// project projects the current state of rows of the same kind, as the engine does after a change.
func (c CatchUp) project(tx *store.Tx, kind string, batch []engine.TouchedRow) error {
	rows := c.Engine.Rows(tx)
	touched := engine.Touched{Rows: rows, Now: c.Clock.Now().UTC()}
	for _, row := range batch {
		var err error
		if !row.Deleted {
			row.Object, err = objectOf(rows, kind, row.ID)
			if fault.KindOf(err) == fault.NotFound {
				continue // the row was deleted after the API was enabled
			}
		}
		if err != nil {
			return err
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
	return c.Projector.Project(tx, touched)
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

// deleteChanges deletes the recorded changes. After that, the engine projects each change itself.
func (c CatchUp) deleteChanges(ctx context.Context, now state) error {
	for {
		left := 0
		if err := c.DB.Update(ctx, func(tx *store.Tx) error {
			left = 0
			if err := changeRows.Keys(tx, "", func(key string) error {
				if left++; left > 16*BatchRows {
					return store.ErrStop
				}
				return changeRows.Delete(tx, key)
			}); err != nil || left > 16*BatchRows {
				return err
			}
			return stateRows.Put(tx, stateKey, &now)
		}); err != nil {
			return err
		}
		if left <= 16*BatchRows {
			return nil
		}
	}
}

// EverEnabled reports whether the Kubernetes API has ever been enabled.
func EverEnabled(tx *store.Tx) (any bool, err error) {
	for _, kind := range []objects.Kind{objects.ClusterDeployments, objects.InfraEnvs, objects.Agents} {
		if err := objects.Names(tx, kind, "", func(_, _ string) error {
			any = true
			return store.ErrStop
		}); err != nil || any {
			return any, err
		}
	}
	return stateRows.Exists(tx, stateKey), nil
}

// PendingChanges returns the number of recorded changes that are not projected yet.
func PendingChanges(tx *store.Tx) (count int, err error) {
	err = changeRows.Keys(tx, "", func(string) error { count++; return nil })
	return count, err
}
