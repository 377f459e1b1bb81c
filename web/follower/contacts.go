package follower

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/engine"
	"landfall/web/operation"
)

const (
	// contactsAge is the age at which the last contacts of hosts are asked for again.
	contactsAge = time.Second
	// contactsTime limits how long an answer waits for them.
	contactsTime = time.Second
)

// contacts has the times of the last contacts of hosts from the leader, whose memory alone has
// them. Without a leader, those that were known last are shown.
type contacts struct {
	mu    sync.Mutex
	of    *engine.Engine // that has noted them
	from  string         // the leader that gave them
	after time.Time      // the newest of them
	asked time.Time
}

// showsContacts reports whether the answers of an operation have times of last contacts.
func showsContacts(o operation.Operation) bool {
	return slices.Contains([]string{"v2ListClusters", "v2GetCluster", "ListClusterHosts", "v2ListHosts", "v2GetHost",
		"listAllHosts"}, o.ID)
}

// afterContacts returns the handler of an operation that first learns of the last contacts.
func (r *Reader) afterContacts(o operation.Operation, e *engine.Engine) echo.HandlerFunc {
	return func(c echo.Context) error {
		r.learnContacts(c.Request().Context(), e)
		return o.Handler(c)
	}
}

// learnContacts asks the leader for the contacts since it was asked last. A request does not wait
// for another one that asks.
func (r *Reader) learnContacts(ctx context.Context, e *engine.Engine) {
	c := &r.contacts
	if !r.Leader.Led() || !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	now := r.Clock.Now()
	if c.of == e && now.Sub(c.asked) < contactsAge {
		return
	}
	if c.of != e {
		c.of, c.after = e, time.Time{}
	}
	c.asked = now
	ctx, cancel := context.WithTimeout(ctx, contactsTime)
	defer cancel()
	from, learned, err := r.Contacts(ctx, c.after)
	if err != nil {
		r.Logger.DebugContext(ctx, "The last contacts of hosts are not known.", "error", err)
		return
	}
	e.NoteContacts(learned)
	if c.from != from {
		c.from, c.after = from, time.Time{} // by the clock of another machine
		return
	}
	for _, at := range learned {
		if at.After(c.after) {
			c.after = at
		}
	}
}
