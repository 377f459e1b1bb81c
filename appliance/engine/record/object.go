package record

import (
	"fmt"
	"strings"

	"landfall/store"
)

// Object refers to the object of another API that describes a row. It also records the state of the
// object that was applied to the row.
type Object struct {
	Key        string `json:"key,omitempty"`        // <namespace>/<name>
	Generation int64  `json:"generation,omitempty"` // generation of the object's spec that was applied last
	Digest     string `json:"digest,omitempty"`     // digest of other applied inputs; only the writer reads it
}

// Indexes from objects to rows. The keys are <namespace>/<name>/<id>.
var (
	ClusterObjects  = store.NewIndex("clusters-by-object")
	InfraEnvObjects = store.NewIndex("infra-envs-by-object")
	HostObjects     = store.NewIndex("hosts-by-object") // the id is <infra-env id>/<host id>
)

// Note records an object in a row. Empty fields of the note keep their values.
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

// NoteClusterObject records the object that describes a cluster, or its applied state. Empty fields
// keep their values. A missing cluster is rejected with kind NotFound.
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
