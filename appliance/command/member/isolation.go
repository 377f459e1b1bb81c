package member

import (
	"context"
	"time"

	"landfall/appliance/fleet"
)

// isolationInterval is the time between two looks at whether requests reach the leader.
const isolationInterval = time.Second

// resignIfIsolated resigns when the network of this leader seems to be cut off, although etcd
// reaches it: no request has come for the time of a takeover, and another member could not forward
// its requests here all that time.
func (m *member) resignIfIsolated(ctx context.Context, leadership fleet.Leadership, requests func() uint64) {
	ticker := m.clock.NewTicker(isolationInterval)
	defer ticker.Stop()
	last, came := requests(), m.clock.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.Chan():
		}
		if now := requests(); now != last {
			last, came = now, m.clock.Now()
			continue
		}
		if m.clock.Since(came) < m.Config.Fleet.Takeover {
			continue
		}
		other, err := m.membership.CannotReach(ctx, m.Config.Fleet.Takeover)
		if err != nil || other == "" {
			continue // without etcd, the lease ends
		}
		m.Logger.ErrorContext(ctx, "No request reaches this leader, and another member can't forward its requests "+
			"here. Another member takes over.", "member", other, "since", came)
		if err := leadership.Resign(ctx); err != nil {
			m.Logger.WarnContext(ctx, "The leader could not resign.", "error", err)
		}
		return
	}
}
