package projection

import (
	"errors"
	"fmt"
	"strings"

	"landfall/appliance/engine"
	"landfall/appliance/engine/record"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// changeRows holds the rows of the engine that are not projected yet, by their kind and id, such as
// "hosts/<infra-env id>/<host id>". It also holds the first event that is not projected yet, under
// eventChanges.
var changeRows = store.NewBucket[changeRow]("missed", 1)

type changeRow struct {
	// key of the row's Kubernetes object, even if the row was deleted; of eventChanges: the ID of
	// the event
	Object  string `json:"object,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
}

// The kinds of rows.
const (
	clusterChanges  = "clusters"
	infraEnvChanges = "infra-envs"
	hostChanges     = "hosts"
	eventChanges    = "events/first"
)

// noteChanges records that rows have to be projected.
func noteChanges(tx *store.Tx, touched engine.Touched) error {
	for _, of := range []struct {
		kind string
		rows []engine.TouchedRow
	}{{clusterChanges, touched.Clusters}, {infraEnvChanges, touched.InfraEnvs}, {hostChanges, touched.Hosts}} {
		for _, row := range of.rows {
			if err := noteChange(tx, of.kind+"/"+row.ID, changeRow{row.Object.Key, row.Deleted}); err != nil {
				return err
			}
		}
	}
	return nil
}

func noteChange(tx *store.Tx, key string, change changeRow) error {
	if change == (changeRow{Deleted: true}) { // the row never had an object
		return changeRows.Delete(tx, key)
	}
	if same, err := changeRows.Holds(tx, key, &change); same || err != nil {
		return err
	}
	if err := changeRows.Put(tx, key, &change); err != nil {
		return fmt.Errorf("record the change of %s: %w", key, err)
	}
	return nil
}

// readChanges lists the rows that are not projected yet.
func readChanges(tx *store.Tx) (written, deleted rowsByKind, err error) {
	written, deleted = rowsByKind{}, rowsByKind{}
	err = changeRows.Each(tx, "", func(key string, change *changeRow) error {
		if key == eventChanges {
			return nil
		}
		kind, id, _ := strings.Cut(key, "/")
		row := engine.TouchedRow{ID: id, Object: record.Object{Key: change.Object}, Deleted: change.Deleted}
		if change.Deleted {
			deleted[kind] = append(deleted[kind], row)
		} else {
			written[kind] = append(written[kind], row)
		}
		return nil
	})
	return written, deleted, err
}

type rowsByKind map[string][]engine.TouchedRow

// Recorder is the engine's projector while the Kubernetes API is disabled. It records which rows
// have changed.
type Recorder struct{}

// Project implements engine.Projector.
func (Recorder) Project(tx *store.Tx, touched engine.Touched) error { return noteChanges(tx, touched) }

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

// PendingChanges returns the number of rows that are not projected yet.
func PendingChanges(tx *store.Tx) (count int, err error) {
	err = changeRows.Keys(tx, "", func(key string) error {
		if key != eventChanges {
			count++
		}
		return nil
	})
	return count, err
}

// firstEvent returns the ID of the first event that is not projected yet; "" if there is none.
func firstEvent(tx *store.Tx) (string, error) {
	change, err := changeRows.Get(tx, eventChanges)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return change.Object, nil
}
