package member

import (
	"context"
	"time"

	"landfall/appliance/fleet"
)

// isolationInterval is the time between two looks at whether requests reach the leader.
const isolationInterval = time.Second

// isolation is what the leader knows of the time for which nobody reaches it.
type isolation struct {
	requests func() uint64 // number of requests that have come
	linked   func() bool   // whether the interface for the virtual IP has a link

	count                 uint64 // of requests at the last look
	lastRequest, lastLink time.Time
}

// look returns for how long no request has come, and for how long there has been no link.
func (i *isolation) look(now time.Time) (quiet, unlinked time.Duration) {
	if count := i.requests(); count != i.count || i.lastRequest.IsZero() {
		i.count, i.lastRequest = count, now
	}
	if i.linked() || i.lastLink.IsZero() {
		i.lastLink = now
	}
	return now.Sub(i.lastRequest), now.Sub(i.lastLink)
}

// resignIfIsolated resigns when the network of this leader seems to be cut off, although etcd
// reaches it, for the time of a takeover: the interface for the virtual IP has no link, or no
// request has come and another member could not forward its requests here.
func (m *member) resignIfIsolated(ctx context.Context, leadership fleet.Leadership, by *isolation) {
	ticker := m.clock.NewTicker(isolationInterval)
	defer ticker.Stop()
	by.look(m.clock.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.Chan():
		}
		quiet, unlinked := by.look(m.clock.Now())
		reason, other, err := "", "", error(nil)
		switch limit := m.Config.Fleet.Takeover; {
		case unlinked >= limit:
			reason = "the interface for the virtual IP has no link"
			other, err = m.membership.UpToDate(ctx)
		case quiet >= limit:
			reason = "no request comes, and the other member can't forward its requests here"
			other, err = m.membership.CannotReach(ctx, limit)
		}
		if err != nil || other == "" {
			continue // without etcd, the lease ends
		}
		m.Logger.ErrorContext(ctx, "This leader is cut off from the network. Another member takes over.", "reason",
			reason, "other", other)
		if err := leadership.Resign(ctx); err != nil {
			m.Logger.WarnContext(ctx, "The leader could not resign.", "error", err)
		}
		return
	}
}
