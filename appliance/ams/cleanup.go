package ams

import (
	"context"
	"errors"
	"time"

	"landfall/appliance/ams/outbox"
	"landfall/store"
)

// cleanUp runs once an hour. It schedules a refresh of subscriptions that were not read from AMS
// for a day, and deletes old journal entries and old closed subscriptions.
func (r *Relay) cleanUp(ctx context.Context, now time.Time) {
	r.mu.Lock()
	due := !now.Before(r.cleanupAt)
	if due {
		r.cleanupAt = now.Add(cleanupInterval)
	}
	r.mu.Unlock()
	if !due {
		return
	}
	var old []string
	var ended []string
	err := r.options.DB.View(func(tx *store.Tx) error {
		if err := outbox.RecordedRows.Each(tx, "", func(id string, recorded *outbox.Recorded) error {
			switch {
			case recorded.Closed != "" && now.Sub(recorded.ClosedAt) > retention:
				ended = append(ended, id)
			case recorded.Closed == "" && recorded.SubscriptionID != "" &&
				now.Sub(recorded.RemoteAt) > r.options.Refresh:
				r.enqueue(id, now, true)
			}
			return nil
		}); err != nil {
			return err
		}
		limit := journalKey(&JournalEntry{At: now.Add(-retention)})
		return journal.Keys(tx, "", func(key string) error {
			if key >= limit {
				return store.ErrStop
			}
			old = append(old, key)
			return nil
		})
	})
	if err == nil && len(old)+len(ended) > 0 {
		err = r.options.DB.Update(ctx, func(tx *store.Tx) error { return deleteRows(tx, old, ended) })
	}
	if err != nil && ctx.Err() == nil {
		r.options.Logger.Warn("Old journal entries of AMS could not be deleted.", "error", err)
	}
}

func deleteRows(tx *store.Tx, lines, clusters []string) error {
	var errs []error
	for _, key := range lines {
		errs = append(errs, journal.Delete(tx, key))
	}
	for _, id := range clusters {
		errs = append(errs, outbox.Remove(tx, id))
	}
	return errors.Join(errs...)
}
