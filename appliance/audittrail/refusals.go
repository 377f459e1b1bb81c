package audittrail

import (
	"sync"
	"time"
)

const (
	// refusalWindow is the time in which equal refusals become one record.
	refusalWindow = time.Minute
	// maxRefusals is the largest number of different refusals within a window. Refusals above this
	// number are counted together. A flood of requests from many addresses thus adds at most some
	// 40 MB a day, and cannot push other records out of the trail quickly.
	maxRefusals = 60
)

// refusals combines refused requests: the first one of a window is recorded at once, and the number
// of further equal ones at the end of the window. Refusals are equal if they have the same actor,
// operation and status.
type refusals struct {
	mu   sync.Mutex
	open map[refusalKey]*refusal
}

type refusalKey struct {
	actor     Actor
	operation string
	status    int
}

type refusal struct {
	record Record
	until  time.Time
	more   int
}

// first reports whether the record is the first of its window. Otherwise it counts the record.
func (r *refusals) first(record *Record) bool {
	key := refusalKey{record.Actor, record.Operation, record.Status}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = make(map[refusalKey]*refusal)
	}
	if open := r.open[key]; open != nil {
		open.more++
		return false
	}
	if len(r.open) >= maxRefusals {
		key = refusalKey{}
		record.Actor, record.Entry = Actor{}, Entry{Text: "requests of other clients and operations were refused"}
		if open := r.open[key]; open != nil {
			open.more++
			return false
		}
	}
	r.open[key] = &refusal{record: *record, until: record.Time.Add(refusalWindow)}
	return true
}

// due ends the windows that have passed, or all of them, and returns the records of repeated
// refusals.
func (r *refusals) due(now time.Time, all bool) []*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	var records []*entry
	for key, open := range r.open {
		// a window also ends if the clock was set back
		if !all && now.Before(open.until) && !now.Before(open.until.Add(-2*refusalWindow)) {
			continue
		}
		delete(r.open, key)
		if open.more > 0 {
			open.record.Time, open.record.Repeated, open.record.Request = now, open.more, ""
			records = append(records, &entry{record: open.record})
		}
	}
	return records
}
