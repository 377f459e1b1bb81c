package integrity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"landfall/appliance/engine/record"
	"landfall/appliance/registry"
	"landfall/store"
)

// Derive derives indexes again that the store found damaged at its start. It must run before
// anything reads them. Indexes that can't be derived are named in the log and by the check.
func Derive(ctx context.Context, db *store.DB, now time.Time) error {
	stale := db.Stale()
	if len(stale) == 0 {
		return nil
	}
	return derive(ctx, db, now, stale)
}

func derive(ctx context.Context, db *store.DB, now time.Time, stale []string) error {
	var derived []string
	// Without its index, the next collection removes the content of a file.
	if err := db.Relink(ctx, record.InstallerFiles, record.Recipes, registry.IndexFiles); err != nil {
		return fmt.Errorf("derive the damaged index of the contents: %w", err)
	}
	if err := db.Update(ctx, func(tx *store.Tx) (err error) {
		derived, err = record.Derive(tx, now)
		return err
	}); err != nil {
		return fmt.Errorf("derive the damaged indexes: %w", err)
	}
	for _, name := range stale {
		if !slices.Contains(derived, name) && !strings.HasPrefix(name, "blobs/") {
			db.NoteDamage(name, "the index was damaged and can't be derived here")
		}
	}
	return nil
}
