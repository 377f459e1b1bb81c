package controller

import (
	"slices"
	"sync"
)

// References is an in-memory index of the objects that refer to other objects, by the name of the
// referenced object. The reconcile of an object sets its references. The index is complete once the
// loop has started and reconciled all objects.
type References struct {
	mu        sync.Mutex
	refs      map[string][]string // references by the object's <namespace>/<name>
	referrers map[string][]Key    // objects by the reference
}

// NewReferences returns an empty index for the objects of one kind.
func NewReferences() *References {
	return &References{refs: map[string][]string{}, referrers: map[string][]Key{}}
}

// Set replaces the references of an object and reports whether they changed. After a change the
// caller must read the referenced objects again, because the loop has not queued the object for
// their earlier changes.
func (r *References) Set(object Key, refs []string) (changed bool) {
	name := object.Namespace + "/" + object.Name
	r.mu.Lock()
	defer r.mu.Unlock()
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
func (r *References) To(ref string) []Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.referrers[ref])
}

// Len returns the number of objects that have references.
func (r *References) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.refs)
}
