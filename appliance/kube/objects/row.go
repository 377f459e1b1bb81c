package objects

import (
	"fmt"
	"reflect"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
	"landfall/store/fastjson"
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
	typed        any  // pointer to the Go type
	exact        bool // the text is the encoding of typed
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

// typed returns the form of the type of a pointer. The caller must not change it. exact reports
// whether the row's text is known to be the encoding of that form.
func (r *row) typed(key string, revision uint64, pointer reflect.Type) (form any, exact bool, err error) {
	r.held.mu.Lock()
	defer r.held.mu.Unlock()
	if r.held.typed == nil || reflect.TypeOf(r.held.typed) != pointer {
		form := reflect.New(pointer.Elem()).Interface()
		if fastjson.UnmarshalOwn(r.text, form) != nil {
			u, err := r.unstructuredLocked(key, revision)
			if err != nil {
				return nil, false, err
			}
			reflect.ValueOf(form).Elem().SetZero()
			if err := Into(u, form); err != nil {
				return nil, false, err
			}
		}
		r.held.typed, r.held.exact = form, false
	}
	if object, ok := r.held.typed.(metav1.Object); ok && object.GetResourceVersion() == "" {
		object.SetResourceVersion(strconv.FormatUint(revision, 10))
	}
	return r.held.typed, r.held.exact, nil
}

// copyTyped copies a Go type of an object. It returns nil for a type that it can't copy.
func copyTyped(form any) any {
	switch form := form.(type) {
	case runtime.Object:
		return form.DeepCopyObject()
	case *agentinstall.Agent:
		return copyAgent(form)
	case *agentinstall.InfraEnv:
		return copyInfraEnv(form)
	}
	return nil
}

var (
	copyAgent    = store.Copier[agentinstall.Agent]()
	copyInfraEnv = store.Copier[agentinstall.InfraEnv]()
)

func decodeText(key string, text []byte, revision uint64) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	u.SetResourceVersion(strconv.FormatUint(revision, 10))
	return u, nil
}
