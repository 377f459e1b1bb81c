package storage

import (
	"context"
	"log/slog"
	"time"

	"landfall/store"
)

const (
	// tidyInterval is the interval between two compactions of the change log. The log thus covers
	// at least this time for clients of the feed.
	tidyInterval = 15 * time.Minute
	// collectInterval is the interval between two removals of unreferenced files, in units of
	// tidyInterval.
	collectInterval = 24
)

// Tidy removes old events, the change log before the last interval, and unreferenced files, until
// the context ends.
func Tidy(ctx context.Context, db *store.DB, trimEvents func(context.Context) error, logger *slog.Logger) error {
	ticker := time.NewTicker(tidyInterval)
	defer ticker.Stop()
	last := db.Revision()
	for round := 0; ; round++ {
		if round%collectInterval == 0 {
			if err := db.CollectBlobs(ctx); err != nil && ctx.Err() == nil {
				logger.Warn("Unreferenced files could not be removed.", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := db.Revision()
		if now == last {
			continue
		}
		if err := trimEvents(ctx); err != nil && ctx.Err() == nil {
			logger.Warn("Old events could not be removed.", "error", err)
		}
		if err := db.Compact(ctx, last); err != nil && ctx.Err() == nil {
			logger.Warn("The change log could not be compacted.", "error", err)
		}
		last = now
	}
}
