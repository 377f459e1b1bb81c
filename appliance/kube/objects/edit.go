package objects

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"landfall/store"
)

// SplitKey splits "<namespace>/<name>".
func SplitKey(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(key, "/")
	return namespace, name
}

// IgnoreNotFound returns nil for [store.ErrNotFound], and any other error unchanged.
func IgnoreNotFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// Find returns an object as its Go type; nil if the object does not exist.
func Find[T any](o *Objects, tx *store.Tx, kind Kind, namespace, name string) (*T, error) {
	typed := new(T)
	err := o.Get(tx, kind, namespace, name, typed)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return typed, err
}

// EachAs calls fn with the objects of a kind in a namespace ("" for all) as their Go type.
func EachAs[T any](o *Objects, tx *store.Tx, kind Kind, namespace string, fn func(*T) error) error {
	return o.Each(tx, kind, namespace, func(u *unstructured.Unstructured) error {
		typed := new(T)
		if err := Into(u, typed); err != nil {
			return err
		}
		return fn(typed)
	})
}

// IntoBoth converts the new and the old object of an admission request. before is nil for a new
// object.
func IntoBoth[T any](now, before *unstructured.Unstructured) (is, was *T, err error) {
	is = new(T)
	if err := Into(now, is); err != nil || before == nil {
		return is, nil, err
	}
	was = new(T)
	return is, was, Into(before, was)
}

// UpdateAs is [Objects.Update] with the object's Go type. It writes only the fields that fn has
// changed, because the stored object may have fields that the Go type lacks.
func UpdateAs[T any](o *Objects, tx *store.Tx, kind Kind, namespace, name string, fn func(*T) error) error {
	e, err := Edit[T](o, tx, kind, namespace, name)
	if err != nil {
		return err
	}
	if err := fn(e.Object); err != nil {
		return err
	}
	_, err = e.Save(o, tx, time.Time{})
	return err
}

// Editing is an object that several steps change before it is written once.
type Editing[T any] struct {
	Object *T // the object's Go type; the steps change it

	kind            Kind
	namespace, name string
	before          *T // nil for a new object
}

// Draft returns a new object that is created by Save. It sets the uid, which other objects may
// need. The pointer to T is the object's Go type.
func Draft[T any, P interface {
	*T
	metav1.Object
}](o *Objects, kind Kind, object P) (*Editing[T], error) {
	id, err := o.newUID()
	if err != nil {
		return nil, err
	}
	object.SetUID(id)
	return &Editing[T]{Object: object, kind: kind, namespace: object.GetNamespace(), name: object.GetName()}, nil
}

// Edit reads an object to change it. It returns store.ErrNotFound if the object does not exist.
func Edit[T any](o *Objects, tx *store.Tx, kind Kind, namespace, name string) (*Editing[T], error) {
	e := &Editing[T]{Object: new(T), kind: kind, namespace: namespace, name: name, before: new(T)}
	if err := o.Get(tx, kind, namespace, name, e.Object); err != nil {
		return nil, err
	}
	return e, o.Get(tx, kind, namespace, name, e.before)
}

// Save writes the object once, and returns its generation. It writes only the fields that have
// changed since Edit, because the stored object may have fields that the Go type lacks. now is the
// creation time of a new object.
func (e *Editing[T]) Save(o *Objects, tx *store.Tx, now time.Time) (generation int64, err error) {
	if e.before == nil {
		u, err := From(e.kind, e.Object)
		if err != nil {
			return 0, err
		}
		return 1, o.create(tx, e.kind, u, now, true)
	}
	if object, ok := any(e.Object).(metav1.Object); ok && equality.Semantic.DeepEqual(e.before, e.Object) {
		return object.GetGeneration(), nil
	}
	return o.update(tx, e.kind, e.namespace, e.name, func(u *unstructured.Unstructured) error {
		was, err := From(e.kind, e.before)
		if err != nil {
			return err
		}
		is, err := From(e.kind, e.Object)
		if err != nil {
			return err
		}
		for _, part := range []string{"metadata", "spec", "status"} {
			if err := setChanged(u, part, was.Object[part], is.Object[part]); err != nil {
				return err
			}
		}
		return nil
	})
}

// setChanged writes the fields of a part of an object (such as its spec) that differ between was
// and is.
func setChanged(u *unstructured.Unstructured, part string, was, is any) error {
	before, _ := was.(map[string]any)
	after, ok := is.(map[string]any)
	if !ok {
		return nil
	}
	held, ok := u.Object[part].(map[string]any)
	if !ok {
		if u.Object[part] != nil {
			return fmt.Errorf("%s %s/%s: its %s is not a JSON object", u.GetKind(), u.GetNamespace(), u.GetName(), part)
		}
		held = map[string]any{}
	}
	changed := false
	for name, value := range after {
		if !equality.Semantic.DeepEqual(before[name], value) {
			held[name], changed = value, true
		}
	}
	for name := range before {
		if _, kept := after[name]; !kept {
			delete(held, name)
			changed = true
		}
	}
	if changed {
		u.Object[part] = held
	}
	return nil
}

// SetStatus replaces the status of an object. status is of the kind's Go type.
func SetStatus(u *unstructured.Unstructured, status any) error {
	content, err := Fields(status)
	if err != nil {
		return err
	}
	u.Object["status"] = content
	return nil
}

// Fields converts a part of an object, such as its spec, to a map without null values.
func Fields(part any) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(part)
	if err != nil {
		return nil, fmt.Errorf("write a part of an object: %w", err)
	}
	maps.DeleteFunc(content, func(_ string, value any) bool { return value == nil })
	return content, nil
}

// SetSpec writes the fields of a spec that differ from before. before contains the [Fields] of the
// earlier spec. Other fields are not changed.
func SetSpec(u *unstructured.Unstructured, before map[string]any, spec any) error {
	after, err := Fields(spec)
	if err != nil {
		return err
	}
	written, _, err := unstructured.NestedMap(u.Object, "spec")
	if err != nil {
		return fmt.Errorf("read the spec of %s: %w", u.GetName(), err)
	}
	if written == nil {
		written = map[string]any{}
	}
	for name, value := range after {
		if !equality.Semantic.DeepEqual(before[name], value) {
			written[name] = value
		}
	}
	for name := range before {
		if _, stays := after[name]; !stays {
			delete(written, name)
		}
	}
	u.Object["spec"] = written
	return nil
}
