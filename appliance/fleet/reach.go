package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

const (
	// reachInterval is the time between two looks at whether the leader answers.
	reachInterval = time.Second
	// reachTime limits the time in which the leader must answer such a question.
	reachTime = 2 * time.Second
)

// Reach finds out whether a follower reaches the leader. It asks the leader only
//
//   - while forwarded requests have no answer: each of them may take long, and a broken connection
//     may not be noticed,
//   - while this follower does not reach etcd: the leader then says whether it still leads.
type Reach struct {
	self      string // name of this member
	forwarder *Forwarder
	client    *Client
	clock     clockwork.Clock

	mu     sync.Mutex
	leader string    // that does not answer; "": it answers, or is not needed
	since  time.Time // it has not answered
}

// NewReach returns the reach of the forwarder of a member.
func NewReach(self string, forwarder *Forwarder, client *Client, clock clockwork.Clock) *Reach {
	return &Reach{self: self, forwarder: forwarder, client: client, clock: clock}
}

// Run looks until the context ends.
func (r *Reach) Run(ctx context.Context) {
	ticker := r.clock.NewTicker(reachInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.Chan():
			r.look(ctx)
		}
	}
}

func (r *Reach) look(ctx context.Context) {
	leader, ok := r.forwarder.Leader()
	waiting := r.forwarder.unanswered.Load() > 0
	_, inDoubt := r.forwarder.leaders.inDoubt()
	if !ok || leader.Name == r.self || !waiting && !inDoubt {
		r.note("")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	condition, err := r.client.Condition(ctx, leader)
	r.forwarder.leaders.say(leader, err == nil && condition.Leads)
	switch {
	case err == nil:
		r.forwarder.unanswered.Store(0)
		r.note("")
	case waiting:
		r.note(leader.Name)
	default:
		r.note("")
	}
}

func (r *Reach) note(leader string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leader != leader {
		r.leader, r.since = leader, r.clock.Now()
	}
}

// Unreached returns the name of the leader that does not answer, and for how long. The name is ""
// if the leader answers, or if there was nothing to forward.
func (r *Reach) Unreached() (leader string, lasted time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leader == "" {
		return "", 0
	}
	return r.leader, r.clock.Since(r.since)
}
