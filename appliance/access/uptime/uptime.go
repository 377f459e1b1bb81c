// Package uptime counts the time for which the appliance has run, over all its starts. The count
// does not depend on the wall clock: setting the clock while the appliance runs does not change it.
//
// Design: docs/security.md#clocks.
package uptime

import (
	"errors"
	"fmt"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/store"
)

type row struct {
	Elapsed time.Duration `json:"elapsed"`
	SavedAt time.Time     `json:"saved_at"` // by the wall clock
}

var rows = store.NewBucket[row]("uptime", 1).Derived()

// Counter is a count that the store keeps over restarts. Its methods are safe for concurrent use.
type Counter struct {
	name    string
	clock   clockwork.Clock
	base    time.Duration // the count at the start
	started time.Time     // with the monotonic reading
}

// Open reads the counter with a name from the store. A missing counter starts at zero. If stops is
// set, the counter also counts the time since it was last saved, by the wall clock. It counts a
// negative time as zero, so the count never decreases.
func Open(db *store.DB, clock clockwork.Clock, name string, stops bool) (*Counter, error) {
	c := &Counter{name: name, clock: clock, started: clock.Now()}
	err := db.View(func(tx *store.Tx) error {
		saved, err := rows.Get(tx, name)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil
		case err != nil:
			return err
		}
		c.base = saved.Elapsed
		if stops {
			c.base += max(0, c.started.Round(0).Sub(saved.SavedAt))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the uptime for %s: %w", name, err)
	}
	return c, nil
}

// Now returns the count.
func (c *Counter) Now() time.Duration { return c.base + c.clock.Since(c.started) }

// Save writes the count. After a kill, the time since the last Save is lost, or counted by the wall
// clock if the counter counts stops.
func (c *Counter) Save(tx *store.Tx) error {
	return rows.Put(tx, c.name, &row{Elapsed: c.Now(), SavedAt: c.clock.Now().UTC()})
}
