package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall/appliance/fleet"
	"landfall/appliance/integrity"
	"landfall/store"
)

// damageInterval is the time between two looks at whether the database was found damaged.
const damageInterval = 5 * time.Second

// noteDamage returns nil for the error of a damaged database: the member takes a snapshot of
// another one, which needs the keys.
func (m *member) noteDamage(ctx context.Context, err error) error {
	damaged, ok := errors.AsType[*store.DamagedCopyError](err)
	if !ok {
		return err
	}
	if state, readErr := fleet.ReadState(m.Config.DataDir); readErr != nil || state == nil {
		return errors.Join(err, readErr) // no other machine has the data
	}
	m.Logger.ErrorContext(ctx, "The database is damaged. It is replaced by a snapshot of another member, and kept "+
		"beside it.", "path", damaged.Path, "reason", damaged.Reason)
	m.damaged.Store(true)
	_, err = m.keys.Open(true)
	return err
}

// awaitDamage waits until the database of a running member was found damaged and another member has
// its data. It returns nil when the context ends. A database that was replaced once is not replaced
// again while the process runs: the others then have the same damage.
func (m *member) awaitDamage(ctx context.Context, db *store.DB) error {
	ticker := m.clock.NewTicker(damageInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.Chan():
		}
		damage := db.Damage()
		if len(damage) == 0 || m.replaced.Load() {
			continue
		}
		if other, err := m.membership.UpToDate(ctx); err != nil || other == "" {
			continue
		}
		m.damaged.Store(true)
		return fmt.Errorf("the stored data %s is damaged: %s", damage[0].Key, damage[0].Reason)
	}
}

// serveUndamaged serves as a follower until the context ends, or until its database is found
// damaged.
func (m *member) serveUndamaged(ctx context.Context, of fleet.Copy) error {
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error { return m.serve(working, of) })
	group.Go(func() error { return m.scrub(working, of.(*store.DB)) })
	return group.Wait()
}

// scrub reads the copy of a follower from time to time, and waits like awaitDamage. Its error is a
// *fleet.BehindError.
func (m *member) scrub(ctx context.Context, db *store.DB) error {
	scrubber := integrity.Scrubber{DB: db, Dir: m.Config.DataDir, Interval: m.Config.Scrub.Interval, Clock: m.clock,
		Logger: m.Logger}
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error { return scrubber.Run(working) })
	group.Go(func() error {
		if err := m.awaitDamage(working, db); err != nil {
			return &fleet.BehindError{Err: err}
		}
		return nil
	})
	return group.Wait()
}

// resignIfDamaged ends the leadership of a member whose database is damaged.
func (m *member) resignIfDamaged(ctx context.Context, leadership fleet.Leadership, db *store.DB) {
	err := m.awaitDamage(ctx, db)
	if err == nil {
		return
	}
	m.Logger.ErrorContext(ctx, "The database of this leader is damaged. Another member takes over, and this one takes "+
		"a snapshot.", "error", err)
	if err := leadership.Resign(ctx); err != nil {
		m.Logger.WarnContext(ctx, "The leader could not resign.", "error", err)
	}
}

var errDamaged = errors.New("the database is damaged")
