package record

import (
	"fmt"
	"strings"

	"landfall/store"
)

// Object is what describes a row of the engine in another API, and how much of it the row has
// followed.
type Object struct {
	Key        string `json:"key,omitempty"`        // <namespace>/<name>
	Generation int64  `json:"generation,omitempty"` // of the object's spec, that was acted on last
	Digest     string `json:"digest,omitempty"`     // of whatever else was acted on with it; only its maker reads it
}

// Indexes from objects to rows; keys are <namespace>/<name>/<id>.
var (
	ClusterObjects  = store.NewIndex("clusters-by-object")
	InfraEnvObjects = store.NewIndex("infra-envs-by-object")
	HostObjects     = store.NewIndex("hosts-by-object") // the id is <infra-env id>/<host id>
)

// Note puts an object on a row. What the note leaves out stays.
func (o *Object) Note(tx *store.Tx, index store.Index, id string, of Object) error {
	held := *o
	if of.Key != "" && of.Key != held.Key {
		if held.Key != "" {
			if err := index.Remove(tx, held.Key+"/"+id); err != nil {
				return err
			}
		}
		if strings.Count(of.Key, "/") != 1 {
			return fmt.Errorf("note the object %q of %s: its key is no <namespace>/<name>", of.Key, id)
		}
		if err := index.Add(tx, of.Key+"/"+id); err != nil {
			return err
		}
		*o = Object{Key: of.Key}
	}
	if of.Generation != 0 {
		o.Generation = of.Generation
	}
	if of.Digest != "" {
		o.Digest = of.Digest
	}
	return nil
}

// Unindex removes the object of a deleted row from the index.
func (o Object) Unindex(tx *store.Tx, index store.Index, id string) error {
	if o.Key == "" {
		return nil
	}
	return index.Remove(tx, o.Key+"/"+id)
}

func NoteAll(o *Object, tx *store.Tx, index store.Index, id string, of []Object) error {
	for _, object := range of {
		if err := o.Note(tx, index, id, object); err != nil {
			return err
		}
	}
	return nil
}

// NoteClusterObject notes the object that describes a cluster, or how much of it the cluster has
// followed. Fields that the note leaves empty stay. A missing cluster is rejected with kind
// NotFound.
func NoteClusterObject(tx *store.Tx, id string, of Object) error {
	row, err := Clusters.Get(tx, id)
	if err != nil {
		return missing(err, "cluster", id)
	}
	before := row.Object
	if err := row.Object.Note(tx, ClusterObjects, id, of); err != nil || row.Object == before {
		return err
	}
	return Clusters.Put(tx, id, row)
}

// NoteInfraEnvObject is [NoteClusterObject] for an infra-env.
func NoteInfraEnvObject(tx *store.Tx, id string, of Object) error {
	row, err := InfraEnvs.Get(tx, id)
	if err != nil {
		return missing(err, "infra-env", id)
	}
	before := row.Object
	if err := row.Object.Note(tx, InfraEnvObjects, id, of); err != nil || row.Object == before {
		return err
	}
	return InfraEnvs.Put(tx, id, row)
}

// NoteHostObject is [NoteClusterObject] for a host, by its key.
func NoteHostObject(tx *store.Tx, key string, of Object) error {
	row, err := Hosts.Get(tx, key)
	if err != nil {
		return missing(err, "host", key)
	}
	before := row.Object
	if err := row.Object.Note(tx, HostObjects, key, of); err != nil || row.Object == before {
		return err
	}
	return Hosts.Put(tx, key, row)
}
