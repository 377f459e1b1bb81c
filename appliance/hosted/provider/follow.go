package provider

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

// watchInterval is the interval between two checks of unfinished clusters whose management cluster
// is connected.
const watchInterval = time.Minute

// settleBatch is the largest number of clusters that one transaction settles.
const settleBatch = 16

// Run settles clusters after reports of management clusters, until the context ends. It is idle
// while nothing changes and no unfinished cluster has a connected management cluster.
func (s *Service) Run(ctx context.Context) error {
	for {
		from, obstacles := s.DB.Revision(), s.obstacles()
		s.settleAll(ctx)
		err := s.follow(ctx, from, obstacles)
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return nil
		}
		if !errors.Is(err, store.ErrCompacted) && !errors.Is(err, store.ErrFutureRevision) {
			return err
		}
	}
}

// follow settles clusters whose rows change after a revision. The obstacles are those before the
// last settlement of all clusters.
func (s *Service) follow(ctx context.Context, from uint64, obstacles map[string]string) error {
	watcher := s.DB.Watch(ctx, from, bundle.Prefix(), bundle.StatusPrefix(), record.ManagementPrefix(),
		maestro.HoldPrefix())
	timer := s.Clock.NewTimer(watchInterval)
	defer timer.Stop()
	for {
		select {
		case changes, ok := <-watcher.C():
			if !ok {
				return watcher.Err()
			}
			all, ids := s.affected(changes)
			if all {
				s.settleAll(ctx)
			} else {
				s.settle(ctx, ids)
			}
		case <-timer.Chan():
			obstacles = s.check(ctx, obstacles)
			timer.Reset(watchInterval)
		}
	}
}

// affected returns the clusters that changes concern, or all.
func (s *Service) affected(changes []store.Change) (all bool, ids []string) {
	found := map[string]bool{}
	err := s.DB.View(func(tx *store.Tx) error {
		for _, change := range changes {
			if strings.HasPrefix(change.Key, record.ManagementPrefix()) ||
				strings.HasPrefix(change.Key, maestro.HoldPrefix()) {
				all = true
				continue
			}
			id, isStatus := strings.CutPrefix(change.Key, bundle.StatusPrefix())
			if !isStatus {
				id = strings.TrimPrefix(change.Key, bundle.Prefix())
				if there, err := isThere(tx, id); err != nil {
					return err
				} else if there {
					continue // the change was settled in its own transaction
				}
			}
			cid, err := s.clusterOf(tx, id)
			if err != nil {
				return err
			}
			if cid != "" {
				found[cid] = true
			}
		}
		return nil
	})
	if err != nil {
		s.Logger.Warn("The clusters of changed bundles could not be found. All clusters are checked.", "error", err)
		return true, nil
	}
	return all, slices.Sorted(maps.Keys(found))
}

// clusterOf returns the ID of the cluster of a bundle that may be gone, or "".
func (s *Service) clusterOf(tx *store.Tx, id string) (string, error) {
	b, err := bundle.Get(tx, id)
	if err == nil {
		return b.Labels[bundle.LabelCluster], nil
	}
	if !errors.Is(err, bundle.ErrNotFound) {
		return "", err
	}
	tombstone, ok, err := bundle.GetTombstone(tx, id)
	if err != nil || !ok {
		return "", err
	}
	cid, _, _ := strings.Cut(tombstone.Name, "-") // the name of a bundle begins with the cluster's ID
	return cid, nil
}

// check settles the clusters whose reasons name an obstacle that has changed, and those on which a
// management cluster works. It returns the present obstacles.
func (s *Service) check(ctx context.Context, before map[string]string) map[string]string {
	now := s.obstacles()
	if !maps.Equal(before, now) {
		s.settleOf(ctx, func(c *record.Cluster) bool { return before[c.Consumer] != now[c.Consumer] })
	}
	s.settleUnfinished(ctx, now)
	return now
}

// Settle does once what Run does after reports and while time passes. Simulations call it instead
// of Run.
func (s *Service) Settle(ctx context.Context) {
	s.settleAll(ctx)
	s.settleUnfinished(ctx, s.obstacles())
}

// obstacles returns the obstacles by management cluster.
func (s *Service) obstacles() map[string]string {
	all := map[string]string{}
	if err := s.DB.View(func(tx *store.Tx) error {
		managements, err := record.Managements(tx)
		for _, m := range managements {
			if all[m.Consumer], err = s.obstacle(tx, m.Consumer); err != nil {
				return err
			}
		}
		return err
	}); err != nil {
		s.Logger.Error("The holds of management clusters could not be read.", "error", err)
	}
	return all
}

// settleAll settles all clusters.
func (s *Service) settleAll(ctx context.Context) {
	var ids []string
	if err := s.DB.View(func(tx *store.Tx) error {
		return record.EachClusterID(tx, func(cid string) error {
			ids = append(ids, cid)
			return nil
		})
	}); err != nil {
		s.Logger.Error("The hosted clusters could not be read.", "error", err)
	}
	s.settle(ctx, ids)
}

// settleUnfinished settles the clusters whose management cluster works on them, so that the time of
// their creation passes. The obstacles have all management clusters.
func (s *Service) settleUnfinished(ctx context.Context, obstacles map[string]string) {
	connected := map[string]bool{}
	for consumer := range obstacles {
		if s.Connected(consumer) {
			connected[consumer] = true
		}
	}
	if len(connected) > 0 {
		s.settleOf(ctx, func(c *record.Cluster) bool { return !record.IsTerminal(c.State) && connected[c.Consumer] })
	}
}

// settleOf settles the clusters that a function chooses.
func (s *Service) settleOf(ctx context.Context, chosen func(*record.Cluster) bool) {
	var ids []string
	if err := s.DB.View(func(tx *store.Tx) error {
		return record.EachCluster(tx, "", "", func(c *record.Cluster) error {
			if chosen(c) {
				ids = append(ids, c.CID)
			}
			return nil
		})
	}); err != nil {
		s.Logger.Error("The hosted clusters could not be read.", "error", err)
	}
	s.settle(ctx, ids)
}

// settle settles clusters in small transactions. A cluster that can't be settled does not delay the
// others.
func (s *Service) settle(ctx context.Context, ids []string) {
	for batch := range slices.Chunk(ids, settleBatch) {
		if err := s.settleTogether(ctx, batch); err == nil {
			continue
		}
		for _, cid := range batch {
			if err := s.settleTogether(ctx, []string{cid}); err != nil && ctx.Err() == nil {
				s.Logger.Error("A hosted cluster could not be updated by the reports about it.", "cluster", cid,
					"error", err)
			}
		}
	}
}

func (s *Service) settleTogether(ctx context.Context, ids []string) error {
	return s.DB.Update(ctx, func(tx *store.Tx) error {
		for _, cid := range ids {
			if err := s.settleOne(tx, cid); err != nil {
				return err
			}
		}
		return nil
	})
}
