package controller

import (
	"slices"
	"sync"

	"landfall/store"
)

// References is an in-memory index of the objects that refer to other objects, by the name of the
// referenced object. The reconcile of an object sets its references. The references of objects that
// were not reconciled yet are read from the store when the index is needed.
type References struct {
	list func(tx *store.Tx, add func(object Key, refs []string)) error

	mu        sync.Mutex
	refs      map[string][]string // references by the object's <namespace>/<name>
	referrers map[string][]Key    // objects by the reference
	current   map[string]bool     // objects with references of a reconcile; nil after list was called
}

// NewReferences returns an empty index for the objects of one kind. list calls add with the
// references of each object.
func NewReferences(list func(tx *store.Tx, add func(object Key, refs []string)) error) *References {
	return &References{list: list, refs: map[string][]string{}, referrers: map[string][]Key{},
		current: map[string]bool{}}
}

// Set replaces the references of an object and reports whether they changed. After a change the
// caller must read the referenced objects again, because the loop has not queued the object for
// their earlier changes.
func (r *References) Set(object Key, refs []string) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil {
		r.current[object.Namespace+"/"+object.Name] = true
	}
	return r.set(object, refs)
}

func (r *References) set(object Key, refs []string) (changed bool) {
	name := object.Namespace + "/" + object.Name
	before := r.refs[name]
	if slices.Equal(before, refs) {
		return false
	}
	for _, ref := range before {
		left := slices.DeleteFunc(r.referrers[ref], func(k Key) bool { return k == object })
		if r.referrers[ref] = left; len(left) == 0 {
			delete(r.referrers, ref)
		}
	}
	for _, ref := range refs {
		r.referrers[ref] = append(r.referrers[ref], object)
	}
	if r.refs[name] = refs; len(refs) == 0 {
		delete(r.refs, name)
	}
	return true
}

// To lists the objects that have a reference.
func (r *References) To(tx *store.Tx, ref string) ([]Key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil {
		// An object that changes after tx began is queued, and its reconcile sets its references.
		if err := r.list(tx, func(object Key, refs []string) {
			if !r.current[object.Namespace+"/"+object.Name] {
				r.set(object, refs)
			}
		}); err != nil {
			return nil, err
		}
		r.current = nil
	}
	return slices.Clone(r.referrers[ref]), nil
}

// Len returns the number of objects that have references.
func (r *References) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.refs)
}
