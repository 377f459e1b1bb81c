package membership

import (
	"slices"
	"sync"
	"time"
)

// progress remembers when the database of this member had which records. It is the time by which
// the lag of another member is measured.
type progress struct {
	mu    sync.Mutex
	steps []step // the oldest first
}

// step is the time at which a number was seen first.
type step struct {
	at     time.Time
	number uint64
}

// maxSteps is the number of steps that are kept: an hour with a step each second.
const maxSteps = 3600

func (p *progress) note(at time.Time, number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.steps); n > 0 && p.steps[n-1].number == number {
		return
	}
	if len(p.steps) == maxSteps {
		p.steps = slices.Delete(p.steps, 0, maxSteps/2)
	}
	p.steps = append(p.steps, step{at, number})
}

// lag returns for how long the record has existed that follows a number; 0 if there is none. It is
// too short if that record is older than what is remembered.
func (p *progress) lag(now time.Time, has, head uint64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if has >= head {
		return 0
	}
	i := slices.IndexFunc(p.steps, func(s step) bool { return s.number > has })
	if i < 0 {
		return 0
	}
	return max(0, now.Sub(p.steps[i].at))
}

// writes are the durations of the last writes to etcd.
type writes struct {
	mu   sync.Mutex
	last []time.Duration // the oldest first
}

// maxWrites is the number of writes in a minute.
const maxWrites = int(time.Minute / presenceInterval)

func (w *writes) note(took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.last) == maxWrites {
		w.last = slices.Delete(w.last, 0, 1)
	}
	w.last = append(w.last, took)
}

// longest returns the longest of the last writes, or 0 if there was none.
func (w *writes) longest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := time.Duration(0)
	for _, took := range w.last {
		longest = max(longest, took)
	}
	return longest
}
