package objects

import (
	"fmt"
	"reflect"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// decodedWeight is the approximate memory of an object's decoded forms, compared with that of other
// decoded values with the same JSON.
const decodedWeight = 4

// row is the stored JSON of an object with its decoded forms. The store caches rows. The copies of
// a row share the decoded forms, so that an object is decoded once per change.
type row struct {
	text []byte
	held *decodedForms
}

// decodedForms holds the decoded forms of a row, as far as they were needed. They are never
// changed.
type decodedForms struct {
	mu           sync.Mutex
	unstructured *unstructured.Unstructured
	typed        runtime.Object
}

// JSON implements store.Raw.
func (r *row) JSON() []byte { return r.text }

// SetJSON implements store.Raw.
func (r *row) SetJSON(text []byte) { r.text, r.held = text, new(decodedForms) }

// newRow returns the row of an object that is written. u is its unstructured form, or nil if the
// caller may still change it.
func newRow(text []byte, u *unstructured.Unstructured) *row {
	return &row{text, &decodedForms{unstructured: u}}
}

// sealed reports whether the row is that of a sealed Secret. Its decoded forms are not kept in
// memory.
func (r *row) sealed() bool { return len(r.text) > 0 && r.text[0] == '"' }

// unstructured returns the unstructured form. The caller must not change it.
func (r *row) unstructured(key string, revision uint64) (*unstructured.Unstructured, error) {
	r.held.mu.Lock()
	defer r.held.mu.Unlock()
	return r.unstructuredLocked(key, revision)
}

func (r *row) unstructuredLocked(key string, revision uint64) (u *unstructured.Unstructured, err error) {
	switch {
	case r.held.unstructured == nil:
		r.held.unstructured, err = decodeText(key, r.text, revision)
	case r.held.unstructured.GetResourceVersion() == "": // written, and read for the first time
		r.held.unstructured.SetResourceVersion(strconv.FormatUint(revision, 10))
	}
	return r.held.unstructured, err
}

// typed copies the form of the type of into.
func (r *row) typed(key string, revision uint64, into runtime.Object) error {
	r.held.mu.Lock()
	defer r.held.mu.Unlock()
	target := reflect.ValueOf(into)
	if r.held.typed == nil || reflect.TypeOf(r.held.typed) != target.Type() {
		u, err := r.unstructuredLocked(key, revision)
		if err != nil {
			return err
		}
		typed := reflect.New(target.Type().Elem()).Interface().(runtime.Object)
		if err := Into(u, typed); err != nil {
			return err
		}
		r.held.typed = typed
	}
	target.Elem().Set(reflect.ValueOf(r.held.typed.DeepCopyObject()).Elem())
	return nil
}

func decodeText(key string, text []byte, revision uint64) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	u.SetResourceVersion(strconv.FormatUint(revision, 10))
	return u, nil
}
