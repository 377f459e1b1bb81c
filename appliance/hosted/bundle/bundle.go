// Package bundle holds the rows of hosted control planes that management clusters receive: bundles
// of manifests, their statuses, tombstones, and consumers.
//
// A bundle is desired state: the manifests that one consumer must apply. Package
// appliance/hosted/provider writes bundles in the transaction that changes the hosted cluster. The
// broker delivers them and stores the statuses that come back. Nothing here sends anything: a
// delivery is found by comparing versions, so it may take place minutes or weeks later.
//
//	/hosted-bundles/<id>            Bundle: manifests and version
//	/hosted-bundle-statuses/<id>    Status: the last accepted report of the consumer
//	/hosted-tombstones/<id>         Tombstone: kept for ever after a deletion
//	/hosted-consumers/<name>        Consumer
//	index hosted-bundles-by-consumer  <consumer>/<id>
//	index hosted-bundles-by-cluster   <value of LabelCluster>/<id>
//
// All functions take the caller's transaction, so that a change and what follows from it are
// committed together. Followers use the store's change log: DB.Watch with Prefix, StatusPrefix and
// ConsumerPrefix.
//
// Design: docs/design.md#hosted-control-planes.
package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"landfall/appliance/fault"
	"landfall/store"
)

// LabelCluster is the label with the ID of the hosted cluster to which a bundle belongs.
const LabelCluster = "api.openshift.com/id"

// MaxBytes is the largest size of a bundle's manifests and configs as JSON. The MQTT brokers of
// clouds have this limit for a whole event.
const MaxBytes = 448 << 10

// Bundle is a set of manifests for one consumer.
type Bundle struct {
	ID       string `json:"id"`       // UUID in lower case; also the name of the agent's ManifestWork
	Name     string `json:"name"`     // for people: "<cluster>-00-namespaces", "<cluster>", "<cluster>-<pool>"
	Consumer string `json:"consumer"` // name of the consumer
	// Version is 1 for a new bundle, and one more after each change of the content. A status counts
	// only if it is about the current version.
	Version     int64             `json:"version"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Manifests are Kubernetes objects in the order in which they are applied.
	Manifests []json.RawMessage `json:"manifests"`
	// Configs are entries of manifestConfigs: update strategies and feedback rules.
	Configs []json.RawMessage `json:"manifest_configs,omitempty"`
	// DeleteOption is the ManifestWork's deleteOption; nil: delete in the foreground.
	DeleteOption json.RawMessage `json:"delete_option,omitempty"`
	Created      time.Time       `json:"created_at"` // UTC
	Updated      time.Time       `json:"updated_at"` // UTC; the last change of the content
	// Deleted is the time of the deletion in UTC, or zero. The row stays until the consumer reports
	// that nothing is left.
	Deleted time.Time `json:"deleted_at,omitzero"`
}

// Deleting reports whether somebody deleted the bundle.
func (b *Bundle) Deleting() bool { return !b.Deleted.IsZero() }

// LabelName is the label with the name of the hosted cluster, and LabelType that with what a bundle
// contains. TypeCredential is its value for kubeconfigs.
const (
	LabelName      = "api.openshift.com/name"
	LabelType      = "api.openshift.com/type"
	TypeCredential = "credential"
)

// IsCredential reports whether the status of the bundle has a certificate of an administrator.
func (b *Bundle) IsCredential() bool { return b.Labels[LabelType] == TypeCredential }

// Status is the last accepted report about a bundle.
type Status struct {
	// ResourceVersion is the version of the bundle that the report is about.
	ResourceVersion int64  `json:"resource_version"`
	SequenceID      string `json:"sequence_id"` // snowflake of the agent, in decimal
	// Hash is the lower-case hex SHA-256 of Data as the agent encodes it.
	Hash     string    `json:"status_hash"`
	Received time.Time `json:"received_at"` // UTC, by the clock of this appliance
	// Data is the payload: {"conditions": [...], "resourceStatus": [...]}.
	Data json.RawMessage `json:"data"`
	// Metadata is the agent's metadata of the ManifestWork, with the annotations that it received.
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Tombstone records that somebody deleted a bundle. Only a bundle with a tombstone may be deleted
// on a management cluster.
type Tombstone struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Consumer string    `json:"consumer"`
	At       time.Time `json:"at"` // UTC
	By       string    `json:"by"` // the person or program that asked for the deletion
}

var (
	rows       = store.NewBucket[Bundle]("hosted-bundles", 1).Cached()
	statuses   = store.NewBucket[Status]("hosted-bundle-statuses", 1)
	tombstones = store.NewBucket[Tombstone]("hosted-tombstones", 1)
	byConsumer = store.NewIndex("hosted-bundles-by-consumer")
	byCluster  = store.NewIndex("hosted-bundles-by-cluster")
)

// Prefix returns the prefix of the keys of bundles in the store. The rest of a key is the ID.
func Prefix() string { return rows.Prefix() }

// StatusPrefix returns the prefix of the keys of statuses. The rest of a key is the bundle's ID.
func StatusPrefix() string { return statuses.Prefix() }

// ErrNotFound is returned for a bundle or consumer that does not exist.
var ErrNotFound = fault.Sentinel(fault.NotFound, "there is no such bundle or consumer")

// Get returns a bundle, also one that is being deleted.
func Get(tx *store.Tx, id string) (*Bundle, error) {
	b, err := rows.Get(tx, id)
	return b, found(err, "bundle", id)
}

// Revision returns the store's revision at which a bundle last changed.
func Revision(tx *store.Tx, id string) (uint64, error) {
	revision, err := rows.Modified(tx, id)
	return revision, found(err, "bundle", id)
}

// found replaces the store's error for a missing row.
func found(err error, kind, name string) error {
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%s %s: %w", kind, name, ErrNotFound)
	}
	return err
}

// Create writes a new bundle with version 1. It sets the ID if it is empty. The consumer must
// exist, and each manifest must have an apiVersion, a kind and a name.
func Create(tx *store.Tx, b *Bundle, now time.Time) error {
	if b.ID == "" {
		b.ID = uuid.NewString()
	}
	if rows.Exists(tx, b.ID) || tombstones.Exists(tx, b.ID) {
		return fault.New(fault.Conflict, "The bundle %s exists already or was deleted.", b.ID)
	}
	if !consumers.Exists(tx, b.Consumer) {
		return fmt.Errorf("consumer %s: %w", b.Consumer, ErrNotFound)
	}
	if err := b.check(); err != nil {
		return err
	}
	b.Version, b.Created, b.Updated, b.Deleted = 1, now.UTC(), now.UTC(), time.Time{}
	if err := byConsumer.Add(tx, b.Consumer+"/"+b.ID); err != nil {
		return err
	}
	if cluster := b.Labels[LabelCluster]; cluster != "" {
		if err := byCluster.Add(tx, cluster+"/"+b.ID); err != nil {
			return err
		}
	}
	return rows.Put(tx, b.ID, b)
}

// Update lets change edit the content of a bundle: labels, annotations, manifests, configs and the
// delete option. version must be the stored version; 0 means any. An equal content keeps the
// version. Update returns a conflict for another version and for a bundle that is being deleted.
func Update(tx *store.Tx, id string, version int64, now time.Time, change func(*Bundle) error) (*Bundle, error) {
	before, err := Get(tx, id)
	if err != nil {
		return nil, err
	}
	switch {
	case before.Deleting():
		return nil, fault.New(fault.Conflict, "The bundle %s is being deleted.", before.Name)
	case version != 0 && version != before.Version:
		return nil, fault.New(fault.Conflict, "The bundle %s has version %d, not %d; read it again.", before.Name,
			before.Version, version)
	}
	after := *before
	if err := change(&after); err != nil {
		return nil, err
	}
	after.ID, after.Consumer, after.Version, after.Created, after.Deleted = before.ID, before.Consumer, before.Version,
		before.Created, before.Deleted
	if after.sameContent(before) {
		return before, nil
	}
	if err := after.check(); err != nil {
		return nil, err
	}
	if after.Labels[LabelCluster] != before.Labels[LabelCluster] {
		return nil, fault.New(fault.Invalid, "The label %s of the bundle %s can't change.", LabelCluster, before.Name)
	}
	after.Version, after.Updated = before.Version+1, now.UTC()
	return &after, rows.Put(tx, id, &after)
}

// RaiseVersion sets the version above one that an agent holds, so that the agent accepts the
// bundle. A lower version than the stored one changes nothing.
func RaiseVersion(tx *store.Tx, id string, held int64) error {
	b, err := Get(tx, id)
	if err != nil || held < b.Version {
		return err
	}
	b.Version = held + 1
	return rows.Put(tx, id, b)
}

// Delete marks a bundle as deleted and writes its tombstone. A second call changes nothing.
func Delete(tx *store.Tx, id, by string, now time.Time) error {
	b, err := Get(tx, id)
	if err != nil || b.Deleting() {
		return err
	}
	b.Deleted = now.UTC()
	return errors.Join(rows.Put(tx, id, b), PutTombstone(tx, &Tombstone{ID: id, Name: b.Name, Consumer: b.Consumer,
		At: now.UTC(), By: by}))
}

// Remove removes the row and the status of a bundle, when its consumer reports that nothing of it
// is left. The bundle must be marked as deleted. The tombstone stays.
func Remove(tx *store.Tx, id string) error {
	b, err := Get(tx, id)
	if err != nil {
		return err
	}
	if !b.Deleting() {
		return fault.New(fault.Conflict, "The bundle %s is not being deleted.", b.Name)
	}
	return errors.Join(rows.Delete(tx, id), statuses.Delete(tx, id), byConsumer.Remove(tx, b.Consumer+"/"+id),
		byCluster.Remove(tx, b.Labels[LabelCluster]+"/"+id))
}

// GetTombstone returns the tombstone of a deleted bundle. ok is false if nobody deleted the bundle.
func GetTombstone(tx *store.Tx, id string) (tombstone *Tombstone, ok bool, err error) {
	tombstone, err = tombstones.Get(tx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, false, nil
	}
	return tombstone, err == nil, err
}

// PutTombstone records a deletion of a bundle without a row, which a person asked for.
func PutTombstone(tx *store.Tx, tombstone *Tombstone) error {
	return tombstones.Put(tx, tombstone.ID, tombstone)
}

// Each calls fn with all bundles in the order of their IDs, but not with damaged ones.
// store.ErrStop from fn ends it.
func Each(tx *store.Tx, fn func(*Bundle) error) error {
	return rows.Each(tx, "", func(_ string, b *Bundle) error { return fn(b) })
}

// EachID calls fn with the IDs of all bundles, also of damaged ones.
func EachID(tx *store.Tx, fn func(id string) error) error { return rows.Keys(tx, "", fn) }

// EachOfConsumer calls fn with the bundles of a consumer in the order of their IDs, but not with
// damaged ones.
func EachOfConsumer(tx *store.Tx, consumer string, fn func(*Bundle) error) error {
	return each(tx, byConsumer, consumer, fn)
}

// EachOfCluster calls fn with the bundles that have the label LabelCluster with a value, but not
// with damaged ones.
func EachOfCluster(tx *store.Tx, cluster string, fn func(*Bundle) error) error {
	return each(tx, byCluster, cluster, fn)
}

func each(tx *store.Tx, index store.Index, owner string, fn func(*Bundle) error) error {
	return index.Keys(tx, owner+"/", func(key string) error {
		b, err := rows.Get(tx, strings.TrimPrefix(key, owner+"/"))
		if err != nil {
			return store.SkipDamaged(err)
		}
		return fn(b)
	})
}

// GetStatus returns the last accepted status of a bundle, or nil if there is none or if it is
// damaged: the agent then reports it again when it connects.
func GetStatus(tx *store.Tx, id string) (*Status, error) {
	status, err := statuses.Get(tx, id)
	if errors.Is(err, store.ErrNotFound) || store.IsDamaged(err) {
		return nil, nil
	}
	return status, err
}

// StatusRevision returns the store's revision at which the status of a bundle last changed.
func StatusRevision(tx *store.Tx, id string) (uint64, error) {
	revision, err := statuses.Modified(tx, id)
	return revision, found(err, "status of the bundle", id)
}

// EachStatus calls fn with the ID of each bundle that has a status.
func EachStatus(tx *store.Tx, fn func(id string) error) error { return statuses.Keys(tx, "", fn) }

// PutStatus writes the status of a bundle. The caller has checked the rules of its acceptance.
func PutStatus(tx *store.Tx, id string, status *Status) error { return statuses.Put(tx, id, status) }

// sameContent reports whether two bundles have the same content.
func (b *Bundle) sameContent(other *Bundle) bool {
	return maps.Equal(b.Labels, other.Labels) && maps.Equal(b.Annotations, other.Annotations) &&
		slices.EqualFunc(b.Manifests, other.Manifests, bytesEqual) &&
		slices.EqualFunc(b.Configs, other.Configs, bytesEqual) && bytes.Equal(b.DeleteOption, other.DeleteOption)
}

func bytesEqual(a, b json.RawMessage) bool { return bytes.Equal(a, b) }

// check checks the content of a bundle.
func (b *Bundle) check() error {
	size := 0
	seen := map[string]bool{}
	for i, manifest := range b.Manifests {
		size += len(manifest)
		var object struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Metadata   struct {
				Name      string `json:"name"`
				Namespace string `json:"namespace"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(manifest, &object); err != nil {
			return fault.New(fault.Invalid, "Manifest %d of the bundle %s is not a JSON object: %s.", i+1, b.Name, err)
		}
		if object.APIVersion == "" || object.Kind == "" || object.Metadata.Name == "" {
			return fault.New(fault.Invalid, "Manifest %d of the bundle %s lacks apiVersion, kind or metadata.name.",
				i+1, b.Name)
		}
		group, _, _ := strings.Cut(object.APIVersion, "/")
		key := strings.Join([]string{group, object.Kind, object.Metadata.Namespace, object.Metadata.Name}, " ")
		if seen[key] {
			return fault.New(fault.Invalid, "The bundle %s has the object %s twice.", b.Name, key)
		}
		seen[key] = true
	}
	for _, config := range b.Configs {
		size += len(config)
	}
	if len(b.Manifests) == 0 {
		return fault.New(fault.Invalid, "The bundle %s has no manifests.", b.Name)
	}
	if size > MaxBytes {
		return fault.New(fault.TooLarge, "The bundle %s has %d bytes, more than the %d that one message can carry.",
			b.Name, size, MaxBytes)
	}
	return nil
}
