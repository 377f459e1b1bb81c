package member

import (
	"context"
	"errors"
	"time"

	"landfall/appliance/config"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/monitoring"
	"landfall/web/follower"
)

// snapshotPause is the time between two attempts to take a snapshot of another member.
const snapshotPause = time.Second

// restore replaces the data by a snapshot of another member. Until it has one, the member serves as
// a follower without a database: it forwards requests to the leader, except for those for its
// metrics. If the fleet has ended, restore returns a *fleet.UnusableError.
func (m *member) restore(ctx context.Context) error {
	m.membership.Restoring(true)
	defer m.membership.Restoring(false)
	shown, err := monitoring.NewMetrics(m.observed())
	if err != nil {
		return err
	}
	scrapes, err := follower.NewMetrics(follower.MetricsOptions{Of: shown,
		Names: append(m.names(), m.Config.AllowedHosts...), Leader: m.forwarder,
		Open: m.Config.Auth == config.AuthNone, Logger: m.Logger})
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	if _, err := m.serveRequests(serving, m.handler(nil, nil, nil), scrapes.Handler); err != nil {
		return err
	}
	for told := ""; ; {
		if err := m.membership.CheckFleet(ctx); err != nil {
			return err
		}
		err := m.takeAnySnapshot(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err.Error() != told {
			told = err.Error()
			m.Logger.ErrorContext(ctx, "The snapshot could not be taken; it is tried again. If no other member has "+
				"the data, landfall check --salvage reads what this one still has, and landfall restore restores a "+
				"backup.", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.clock.After(snapshotPause):
		}
	}
}

// takeAnySnapshot takes a snapshot of the first member that gives one.
func (m *member) takeAnySnapshot(ctx context.Context) error {
	others, err := m.membership.Others(ctx)
	if err != nil {
		return err
	}
	failures := []error{errors.New("no other member could give a snapshot")}
	for _, other := range others {
		if err := m.takeSnapshot(ctx, other); err != nil {
			failures = append(failures, err)
			continue
		}
		m.Logger.InfoContext(ctx, "A snapshot of another member replaced the database.", "member", other.Name)
		return nil
	}
	return errors.Join(failures...)
}

func (m *member) takeSnapshot(ctx context.Context, of fleet.Peer) (err error) {
	snapshot, err := m.peers.Snapshot(ctx, of)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	if err := membership.Replace(ctx, snapshot, m.Config.DataDir, m.damaged.Load()); err != nil {
		return err
	}
	m.replaced.Store(m.damaged.Swap(false) || m.replaced.Load())
	return nil
}
