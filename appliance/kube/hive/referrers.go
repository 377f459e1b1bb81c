package hive

import (
	"slices"
	"sync"
)

// referrers are the objects that refer to others, found by what they refer to. It lies in memory:
// whoever reconciles an object notes what it refers to, and all objects are reconciled when the
// appliance starts.
type referrers struct {
	mu   sync.Mutex
	refs map[string][]string // what an object refers to, by the object's namespace/name
	from map[string][]key    // the other way round
}

func newReferrers() *referrers {
	return &referrers{refs: map[string][]string{}, from: map[string][]key{}}
}

// note takes down what an object refers to now. It tells whether that is another than before: then
// a change of it may have led to nobody meanwhile, and is to be looked at.
func (r *referrers) note(own key, refs []string) (changed bool) {
	name := own.Namespace + "/" + own.Name
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.refs[name]
	if slices.Equal(before, refs) {
		return false
	}
	for _, ref := range before {
		left := slices.DeleteFunc(r.from[ref], func(k key) bool { return k == own })
		if r.from[ref] = left; len(left) == 0 {
			delete(r.from, ref)
		}
	}
	for _, ref := range refs {
		r.from[ref] = append(r.from[ref], own)
	}
	if r.refs[name] = refs; len(refs) == 0 {
		delete(r.refs, name)
	}
	return true
}

// to lists those that refer to something.
func (r *referrers) to(ref string) []key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.from[ref])
}
