package objects

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"landfall/appliance/sitekey"
	"landfall/store"
)

// SecretsPurpose is the purpose with which the site's key encrypts Secrets.
const SecretsPurpose sitekey.Purpose = "landfall kubernetes secrets"

// ErrExists is returned by Create for an object that already exists.
var ErrExists = errors.New("the object exists already")

// Objects reads and writes objects within transactions of the store. It has no state.
type Objects struct {
	box           *sitekey.Box
	random        io.Reader
	fieldManagers fieldManagers
}

// New returns access to objects whose Secrets are sealed with box; with a nil box, Secrets are not
// sealed. random is the source of uids; nil is the system's source.
func New(box *sitekey.Box, random io.Reader) *Objects {
	if random == nil {
		random = rand.Reader
	}
	return &Objects{box, random, newManagers()}
}

// Get reads an object into a pointer to its Go type or into *unstructured.Unstructured, with its
// resourceVersion. It returns store.ErrNotFound if the object does not exist, and
// sitekey.ErrSealed for a Secret of another site.
func (o *Objects) Get(tx *store.Tx, kind Kind, namespace, name string, into any) error {
	value, revision, err := read(tx, kind.Key(namespace, name))
	if err != nil {
		return err
	}
	key := kind.Key(namespace, name)
	if _, untyped := into.(*unstructured.Unstructured); untyped || value.sealed() || kind == Secrets {
		u, err := o.decode(key, value, revision)
		if err != nil {
			return err
		}
		return Into(u, into)
	}
	typed, _, err := value.typed(key, revision, reflect.TypeOf(into))
	if err != nil {
		return err
	}
	own := copyTyped(typed)
	if own == nil {
		u, err := value.unstructured(key, revision)
		if err != nil {
			return err
		}
		return Into(u, into)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(own).Elem())
	return nil
}

// Metadata reads only the metadata of an object, because many objects are large. It returns
// store.ErrNotFound if the object does not exist.
func (o *Objects) Metadata(tx *store.Tx, kind Kind, namespace, name string) (*unstructured.Unstructured, error) {
	key := kind.Key(namespace, name)
	value, revision, err := read(tx, key)
	if err != nil {
		return nil, err
	}
	text, err := o.open(key, value)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": kind.APIVersion(), "kind": kind.Kind}}
	metadata := map[string]any{}
	if err := utiljson.Unmarshal(field(text, "metadata"), &metadata); err != nil {
		return nil, fmt.Errorf("read the metadata of %s: %w", key, err)
	}
	u.Object["metadata"] = metadata
	u.SetResourceVersion(strconv.FormatUint(revision, 10))
	return u, nil
}

// Into converts an object to its Go type.
func Into(u *unstructured.Unstructured, into any) error {
	if own, ok := into.(*unstructured.Unstructured); ok {
		own.Object = u.Object
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		return fmt.Errorf("read %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return nil
}

// From converts an object's Go type to its unstructured form. It adds the kind and removes nothing
// else.
func From(kind Kind, typed any) (*unstructured.Unstructured, error) {
	if u, ok := typed.(*unstructured.Unstructured); ok {
		return u, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("write a %s: %w", kind.Kind, err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion(kind.APIVersion())
	u.SetKind(kind.Kind)
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	return u, nil
}

func (o *Objects) get(tx *store.Tx, kind Kind, namespace, name string) (*unstructured.Unstructured, error) {
	key := kind.Key(namespace, name)
	value, revision, err := read(tx, key)
	if err != nil {
		return nil, err
	}
	return o.decode(key, value, revision)
}

func read(tx *store.Tx, key string) (value *row, revision uint64, err error) {
	if value, err = rows.Get(tx, key); err != nil {
		return nil, 0, err
	}
	revision, err = rows.Modified(tx, key)
	return value, revision, err
}

// decode returns the unstructured form of a stored object. The caller may change it.
func (o *Objects) decode(key string, value *row, revision uint64) (*unstructured.Unstructured, error) {
	if !value.sealed() {
		u, err := value.unstructured(key, revision)
		if err != nil {
			return nil, err
		}
		return u.DeepCopy(), nil
	}
	plain, err := o.open(key, value)
	if err != nil {
		return nil, err
	}
	return decodeText(key, plain, revision)
}

// open returns the JSON of a row, which may be sealed.
func (o *Objects) open(key string, value *row) ([]byte, error) {
	plain, err := Open(o.box, value.text)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", key, err)
	}
	return plain, nil
}

// Shared returns an object that is shared with other readers. The caller must not change it. It
// returns nil if the object does not exist.
func (o *Objects) Shared(tx *store.Tx, kind Kind, namespace, name string) (*unstructured.Unstructured, error) {
	key := kind.Key(namespace, name)
	value, revision, err := read(tx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if value.sealed() {
		return o.decode(key, value, revision)
	}
	return value.unstructured(key, revision)
}

// SharedAs returns an object's Go type that is shared with other readers. The caller must not
// change it. It returns nil if the object does not exist.
func SharedAs[T any](o *Objects, tx *store.Tx, kind Kind, namespace, name string) (*T, error) {
	key := kind.Key(namespace, name)
	value, revision, err := read(tx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if value.sealed() {
		return Find[T](o, tx, kind, namespace, name)
	}
	typed, _, err := value.typed(key, revision, reflect.TypeFor[*T]())
	if err != nil {
		return nil, err
	}
	return typed.(*T), nil
}

// Field returns the JSON of a field of an object, given by the names of the fields that lead to it.
// It returns nil if the object or the field does not exist.
func (o *Objects) Field(tx *store.Tx, kind Kind, namespace, name string, path ...string) ([]byte, error) {
	fields, err := o.Fields(tx, kind, namespace, name)
	return fields(path...), err
}

// Fields returns a function that returns fields of one object, like [Objects.Field].
func (o *Objects) Fields(tx *store.Tx, kind Kind, namespace, name string) (func(path ...string) []byte, error) {
	none := func(...string) []byte { return nil }
	key := kind.Key(namespace, name)
	value, _, err := read(tx, key)
	if errors.Is(err, store.ErrNotFound) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	text, err := o.open(key, value)
	if err != nil {
		return none, err
	}
	return func(path ...string) []byte { return field(text, path...) }, nil
}

// Deleting reports whether an object is being deleted. It does not decode the object.
func (o *Objects) Deleting(tx *store.Tx, kind Kind, namespace, name string) (bool, error) {
	key := kind.Key(namespace, name)
	value, _, err := read(tx, key)
	if err != nil {
		return false, IgnoreNotFound(err)
	}
	text, err := o.open(key, value)
	return bytes.Contains(text, deletionText) && field(text, "metadata", "deletionTimestamp") != nil, err
}

var deletionText = []byte(`"deletionTimestamp"`)

// Exists reports whether an object exists.
func (o *Objects) Exists(tx *store.Tx, kind Kind, namespace, name string) bool {
	return rows.Exists(tx, kind.Key(namespace, name))
}

// Each calls fn with the objects of a kind in a namespace ("" for all), in the order of their
// keys. store.ErrStop from fn stops the iteration. fn may write.
func (o *Objects) Each(tx *store.Tx, kind Kind, namespace string, fn func(*unstructured.Unstructured) error) error {
	return rows.Each(tx, kind.prefix(namespace), func(key string, value *row) error {
		revision, err := rows.Modified(tx, key)
		if err != nil {
			return err
		}
		u, err := o.decode(key, value, revision)
		if err != nil {
			return err
		}
		return fn(u)
	})
}

// Names calls fn with the objects of a kind in a namespace ("" for all) without reading them.
func Names(tx *store.Tx, kind Kind, namespace string, fn func(namespace, name string) error) error {
	return rows.Keys(tx, kind.prefix(namespace), func(key string) error {
		if _, ns, name, ok := ParseKey(rows.Prefix() + key); ok {
			return fn(ns, name)
		}
		return nil
	})
}

// Create writes a new object, given as its Go type or in the unstructured form. It sets the uid,
// the creation time and, for kinds with a CRD, generation 1. It returns ErrExists if the object
// already exists.
func (o *Objects) Create(tx *store.Tx, kind Kind, object any, now time.Time) error {
	id, err := o.newUID()
	if err != nil {
		return err
	}
	if typed, ok := copyTyped(object).(typedObject); ok && !isUnstructured(object) {
		typed.SetUID(id)
		return o.createTyped(tx, kind, typed, now)
	}
	u, err := From(kind, object)
	if err != nil {
		return err
	}
	u.SetUID(id)
	return o.create(tx, kind, u, now)
}

func isUnstructured(object any) bool {
	_, ok := object.(*unstructured.Unstructured)
	return ok
}

func (o *Objects) newUID() (types.UID, error) {
	id, err := uuid.NewRandomFromReader(o.random)
	if err != nil {
		return "", fmt.Errorf("make a uid: %w", err)
	}
	return types.UID(id.String()), nil
}

// create writes a new object that has its uid.
func (o *Objects) create(tx *store.Tx, kind Kind, u *unstructured.Unstructured, now time.Time) error {
	if err := o.initMetadata(tx, kind, u, now); err != nil {
		return err
	}
	none := &unstructured.Unstructured{Object: map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind()}}
	if err := o.fieldManagers.update(kind, none, u); err != nil {
		return err
	}
	return o.put(tx, kind, u, false)
}

// initMetadata sets the metadata of a new object that has its uid.
func (o *Objects) initMetadata(tx *store.Tx, kind Kind, object metav1.Object, now time.Time) error {
	if o.Exists(tx, kind, object.GetNamespace(), object.GetName()) {
		return fmt.Errorf("create %s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), ErrExists)
	}
	object.SetCreationTimestamp(metav1.NewTime(now.UTC().Truncate(time.Second)))
	if kind.Group != "" {
		object.SetGeneration(1)
	}
	return nil
}

// Update lets fn change an object, and writes the object if fn changed it. A change outside of
// metadata and status increases the generation. An object that is being deleted is removed together
// with its last finalizer. Update returns store.ErrNotFound if the object does not exist.
func (o *Objects) Update(tx *store.Tx, kind Kind, namespace, name string,
	fn func(*unstructured.Unstructured) error) error {
	before, err := o.Shared(tx, kind, namespace, name)
	if err != nil {
		return err
	}
	if before == nil {
		return fmt.Errorf("read %s: %w", kind.Key(namespace, name), store.ErrNotFound)
	}
	u := before.DeepCopy()
	if err := fn(u); err != nil {
		return err
	}
	if u.GetDeletionTimestamp() != nil && !hasFinalizers(kind, u) {
		return o.remove(tx, kind, namespace, name)
	}
	if equality.Semantic.DeepEqual(before.Object, u.Object) {
		return nil
	}
	if kind.Group != "" && !equalExcept(before, u, "metadata", "status") {
		u.SetGeneration(before.GetGeneration() + 1)
	}
	if !equalExcept(before, u, "status") {
		if err := o.fieldManagers.update(kind, before, u); err != nil {
			return err
		}
	}
	return o.put(tx, kind, u, true)
}

// equalExcept reports whether two objects are equal, apart from certain fields. The desired state
// of an object is everything except "metadata" and "status".
func equalExcept(a, b *unstructured.Unstructured, fields ...string) bool {
	rest := func(u *unstructured.Unstructured) map[string]any {
		left := maps.Clone(u.Object)
		for _, field := range fields {
			delete(left, field)
		}
		return left
	}
	return equality.Semantic.DeepEqual(rest(a), rest(b))
}

// Delete deletes an object like an API request for background deletion: immediately or, if the
// object has finalizers, when the finalizers are removed. A missing object is not an error.
func (o *Objects) Delete(tx *store.Tx, kind Kind, namespace, name string, now time.Time) error {
	u, err := o.get(tx, kind, namespace, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !hasFinalizers(kind, u) {
		return o.remove(tx, kind, namespace, name)
	}
	if u.GetDeletionTimestamp() != nil {
		return nil
	}
	deleted, grace := metav1.NewTime(now.UTC().Truncate(time.Second)), int64(0)
	u.SetDeletionTimestamp(&deleted)
	u.SetDeletionGracePeriodSeconds(&grace)
	if kind == Namespaces {
		if err := unstructured.SetNestedField(u.Object, string(corev1.NamespaceTerminating), "status",
			"phase"); err != nil {
			return err
		}
	}
	if kind.Group != "" {
		u.SetGeneration(u.GetGeneration() + 1)
	}
	return o.put(tx, kind, u, true)
}

// hasFinalizers reports whether finalizers block the deletion of an object. A namespace also has
// finalizers in its spec, so that it is removed only when it is empty.
func hasFinalizers(kind Kind, u *unstructured.Unstructured) bool {
	if len(u.GetFinalizers()) > 0 {
		return true
	}
	inSpec, _, err := unstructured.NestedSlice(u.Object, "spec", "finalizers")
	return kind.Resource == Namespaces.Resource && kind.Group == "" && err == nil && len(inSpec) > 0
}

func (o *Objects) remove(tx *store.Tx, kind Kind, namespace, name string) error {
	key := kind.Key(namespace, name)
	return errors.Join(rows.Delete(tx, key), Expiry().Clear(tx, key))
}

// put writes an object. If owned is set, nothing changes the object afterwards, so that the cache
// can keep it. A decoded Secret is never kept.
func (o *Objects) put(tx *store.Tx, kind Kind, u *unstructured.Unstructured, owned bool) error {
	written := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
	if metadata, ok := written.Object["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "resourceVersion")
		written.Object["metadata"] = metadata
	}
	text, err := written.MarshalJSON()
	if err != nil {
		return fmt.Errorf("write %s %s/%s: %w", kind, u.GetNamespace(), u.GetName(), err)
	}
	if kind == Secrets {
		if text, err = Seal(o.box, text); err != nil {
			return fmt.Errorf("seal %s %s/%s: %w", kind, u.GetNamespace(), u.GetName(), err)
		}
	}
	if !owned || kind == Secrets {
		written = nil
	}
	return rows.Put(tx, kind.Key(u.GetNamespace(), u.GetName()), newRow(text, written))
}

// Seal returns the stored form of a Secret's JSON, a JSON string that only the site's key opens.
// With a nil box, it returns the JSON unchanged.
func Seal(box *sitekey.Box, plain []byte) ([]byte, error) {
	if box == nil {
		return plain, nil
	}
	sealed, err := box.Seal(string(plain))
	if err != nil {
		return nil, err
	}
	return json.Marshal(sealed)
}

// Open returns the JSON of a stored object, sealed or not. The error is sitekey.ErrSealed if the
// JSON can't be opened.
func Open(box *sitekey.Box, stored []byte) ([]byte, error) {
	if len(stored) == 0 || stored[0] != '"' {
		return stored, nil
	}
	var sealed string
	if err := json.Unmarshal(stored, &sealed); err != nil {
		return nil, sitekey.ErrSealed
	}
	plain, err := box.Open(sealed)
	return []byte(plain), err
}

// AddFinalizer adds a finalizer to an object within Update.
func AddFinalizer(u *unstructured.Unstructured, finalizer string) {
	if !slices.Contains(u.GetFinalizers(), finalizer) {
		u.SetFinalizers(append(slices.Clone(u.GetFinalizers()), finalizer))
	}
}

// RemoveFinalizer removes a finalizer from an object within Update.
func RemoveFinalizer(u *unstructured.Unstructured, finalizer string) {
	left := slices.DeleteFunc(slices.Clone(u.GetFinalizers()), func(f string) bool { return f == finalizer })
	if len(left) == 0 {
		left = nil
	}
	u.SetFinalizers(left)
}
