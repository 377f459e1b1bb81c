package objects

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
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
