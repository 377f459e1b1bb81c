package maestro

import (
	"slices"
	"time"

	"landfall/appliance/hosted/cloudevent"
)

// lateInterval is the time between two requests for an ignored status, while the agent's clock may
// still be wrong.
const lateInterval = time.Minute

// ignored notes that a status was ignored, because a newer one by the agent's clock is stored. The
// agent reports a status only once, so it is asked for again. probed reports whether the last probe
// has asked for it.
func (d *delivery) ignored(id string, stored sequence) (probed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.late[id] = stored
	d.wakeUp()
	return d.probed == id
}

// accepted notes that a status was stored. Bundles whose ignored statuses would be accepted by the
// same clock are asked for. none reports whether nothing is missing any more.
func (d *delivery) accepted(id string, number sequence) (none bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.late, id)
	var again []string
	for other, stored := range d.late {
		if stored < number {
			again = append(again, other)
			delete(d.late, other)
		}
	}
	if len(again) > 0 {
		slices.Sort(again)
		d.ask(again...)
		d.wakeUp()
	}
	return len(d.late) == 0
}

// probe asks for the ignored status that is accepted first when the agent's clock goes on. If it is
// ignored again, it is noted again.
func (d *delivery) probe() {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := ""
	for id, stored := range d.late {
		if first == "" || stored < d.late[first] || stored == d.late[first] && id < first {
			first = id
		}
	}
	if first != "" {
		delete(d.late, first)
		d.ask(first)
		d.probed = first
	}
}

// ask requests the statuses of bundles, also unchanged ones. The caller holds the lock.
func (d *delivery) ask(ids ...string) {
	for batch := range slices.Chunk(ids, statusBatch) {
		request := cloudevent.KnownStatuses{}
		for _, id := range batch {
			request.Hashes = append(request.Hashes, cloudevent.KnownStatus{ID: id, Hash: cloudevent.NoStatusHash})
		}
		d.request = append(d.request, request)
	}
}

// misses reports whether a status was ignored.
func (d *delivery) misses() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.late) > 0
}
