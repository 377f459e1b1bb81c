// Package arrival explains why machines have not registered as hosts. It keeps the registrations
// that the appliance refused, and turns the evidence of a site into findings with advice.
package arrival

import (
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// maxRefusals limits the number of recorded refusals; each takes about 500 bytes.
const maxRefusals = 256

// Refusal describes the refused registrations of a machine that have the same reason.
type Refusal struct {
	Address    string    `json:"address"`      // of the machine
	InfraEnvID string    `json:"infra_env_id"` // as the machine sent it
	HostID     string    `json:"host_id,omitempty"`
	Status     int       `json:"status"` // of the HTTP response
	Reason     string    `json:"reason"`
	First      time.Time `json:"first"`
	Last       time.Time `json:"last"`
	Count      int       `json:"count"`
}

// Refusals records refused registrations in memory. It is safe for concurrent use.
type Refusals struct {
	clock clockwork.Clock

	mu   sync.Mutex
	list []Refusal // the one with the latest registration last
}

// NewRefusals returns a record without refusals.
func NewRefusals(clock clockwork.Clock) *Refusals { return &Refusals{clock: clock} }

// Refused records a refused registration. The fields of refusal about times and counts are not
// read. If there are too many refusals, the oldest one is dropped.
func (r *Refusals) Refused(refusal Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now().UTC()
	refusal.First, refusal.Last, refusal.Count = now, now, 1
	for i, known := range r.list {
		if known.Address == refusal.Address && known.InfraEnvID == refusal.InfraEnvID &&
			known.HostID == refusal.HostID && known.Status == refusal.Status {
			refusal.First, refusal.Count = known.First, known.Count+1
			r.list = slices.Delete(r.list, i, i+1)
			break
		}
	}
	if len(r.list) >= maxRefusals {
		r.list = slices.Delete(r.list, 0, 1)
	}
	r.list = append(r.list, refusal)
}

// Registered drops the refusals of a host that has registered.
func (r *Refusals) Registered(hostID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(known Refusal) bool { return known.HostID == hostID })
}

// List returns the refusals, the latest first.
func (r *Refusals) List() []Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Clone(r.list)
	slices.Reverse(list)
	return list
}
