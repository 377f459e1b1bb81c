package ams

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/fault"
	"landfall/store"
)

// ErrNothing is the error of an order about a cluster of which AMS is to hear nothing.
var ErrNothing = fault.Sentinel(fault.NotFound, "there is nothing that AMS must be told of this cluster")

// ErrPaused is the error of an order that does not fit how the relay stands.
var ErrPaused = fault.Sentinel(fault.Conflict, "the relay does not wait for that")

// Connect ends all waits and lets the relay speak for a while even where it connects by hand only.
func (r *Relay) Connect(span time.Duration) {
	r.mu.Lock()
	now := r.options.Clock.Now()
	r.connectUntil, r.probeAt, r.probes, r.silentUntil, r.lastSecret = now.Add(span), time.Time{}, 0, time.Time{}, Secret{}
	if r.state != Online {
		r.state, r.problem, r.since = Offline, "", now
	}
	for _, j := range r.jobs {
		j.next, j.attempts = time.Time{}, 0
	}
	r.mu.Unlock()
	r.wakeUp()
}

// Retry has a cluster told again whatever stopped it.
func (r *Relay) Retry(ctx context.Context, clusterID, by string) error {
	return r.order(ctx, clusterID, by, "is to be told to AMS again.", "retry",
		func(_ *outbox.Desired, recorded *outbox.Recorded) error {
			again(recorded)
			return nil
		})
}

// again forgets what stopped a cluster, and lets its subscription be asked for once more.
func again(recorded *outbox.Recorded) {
	recorded.Stop, recorded.Generation, recorded.Reverify = nil, 0, false
	if mark := recorded.Mark; mark != nil {
		mark.Tries = min(mark.Tries, maxCreates-1)
	}
}

// CreateAgain has a subscription made anew for a cluster whose own is gone from AMS.
func (r *Relay) CreateAgain(ctx context.Context, clusterID, by string) error {
	return r.order(ctx, clusterID, by, "is to have a new subscription in AMS.", "create again",
		func(_ *outbox.Desired, recorded *outbox.Recorded) error {
			former := recorded.Former
			if recorded.SubscriptionID != "" {
				former = append(former, recorded.SubscriptionID)
			}
			*recorded = outbox.Recorded{Former: former, Lease: recorded.Lease, Mark: recorded.Mark}
			return nil
		})
}

// Leave takes what AMS has for good: nothing more is told until the cluster changes again.
func (r *Relay) Leave(ctx context.Context, clusterID, by string) error {
	return r.order(ctx, clusterID, by, "is left in AMS as it is there.", "leave",
		func(d *outbox.Desired, recorded *outbox.Recorded) error {
			recorded.Stop, recorded.Generation, recorded.Acked = nil, d.Generation, d.Fields
			recorded.Note = "Left as it is in AMS by " + by + "."
			if d.Phase == outbox.Absent || !d.DeletedAt.IsZero() {
				recorded.Closed, recorded.ClosedAt = closedLeft, r.options.Clock.Now().UTC()
			}
			return nil
		})
}

// ErrEdit is the error of an edit that AMS could not be told.
var ErrEdit = fault.Sentinel(fault.Invalid, "that can not be told")

const longestName = 255 // bytes

// Edit has other values told than the cluster has, until it is edited again; the empty ones are the
// cluster's own. Its own id can not be edited: metrics are found by it.
func (r *Relay) Edit(ctx context.Context, clusterID, by string, fields outbox.Fields) error {
	switch address, err := url.Parse(fields.ConsoleURL); {
	case fields.ExternalClusterID != "":
		return fmt.Errorf("%w: the id that a cluster gave itself stays", ErrEdit)
	case len(fields.DisplayName) > longestName:
		return fmt.Errorf("%w: the name has %d bytes; at most %d are taken", ErrEdit, len(fields.DisplayName),
			longestName)
	case fields.ConsoleURL != "" && (err != nil || address.Scheme != "https" && address.Scheme != "http" ||
		address.Host == ""):
		return fmt.Errorf("%w: the console's URL is %q; expected one that begins with https://", ErrEdit,
			fields.ConsoleURL)
	}
	now := r.options.Clock.Now().UTC()
	what := "AMS is told other values than its own from now on."
	if fields == (outbox.Fields{}) {
		what = "AMS is told its own values again."
	}
	entry := &JournalEntry{Cluster: clusterID, At: now, Op: "edit", Outcome: "ordered", By: by}
	err := r.options.Clusters.RecordSubscription(ctx, clusterID, "", what+" "+by+" said so.", false,
		func(tx *store.Tx) error {
			held, err := outbox.DesiredRows.Get(tx, clusterID)
			if err != nil {
				return err
			}
			wanted := *held
			wanted.Edited, wanted.Fields = fields, held.Fields.Over(fields)
			next, changed := held.Next(wanted, now)
			if !changed {
				return nil
			}
			entry.Generation = next.Generation
			return errors.Join(outbox.PutDesired(tx, clusterID, &next), journal.Put(tx, journalKey(entry), entry))
		})
	return r.ordered(clusterID, err)
}

// Reverify says that the store was restored from a backup: what is missing in AMS is not made
// again, and what differs is not overwritten, before a person has looked.
func (r *Relay) Reverify(ctx context.Context) error {
	err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		return outbox.DesiredRows.Each(tx, "", func(id string, d *outbox.Desired) error {
			recorded, err := loadRecorded(tx, id)
			if err != nil || recorded.Closed != "" || !outbox.RecordedRows.Exists(tx, id) {
				return err
			}
			recorded.Reverify, recorded.Generation = true, 0
			return outbox.PutRecorded(tx, id, d, &recorded)
		})
	})
	if err != nil {
		return err
	}
	_, err = r.scan()
	r.wakeUp()
	return err
}

// Accept ends a pause that a person decides: the site speaks in the name of the new organization,
// or from this machine.
func (r *Relay) Accept(ctx context.Context) error {
	r.mu.Lock()
	state := r.state
	r.mu.Unlock()
	switch state {
	case PausedIdentity:
		if err := r.pin(ctx, Identity{}); err != nil {
			return err
		}
		if err := r.resendAll(ctx); err != nil {
			return err
		}
	case PausedPerson:
		r.mu.Lock()
		identity := r.identity
		r.mu.Unlock()
		identity.Machine = r.options.Machine
		if err := r.pin(ctx, identity); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: it is %s", ErrPaused, state)
	}
	r.Connect(0)
	return nil
}

// resendAll has everything told anew, for another organization.
func (r *Relay) resendAll(ctx context.Context) error {
	err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		return outbox.DesiredRows.Each(tx, "", func(id string, d *outbox.Desired) error {
			if d.Phase == outbox.Absent {
				return nil
			}
			return outbox.PutDesired(tx, id, d) // is as it was, and waits
		})
	})
	if err != nil {
		return err
	}
	_, err = r.scan()
	return err
}

// order is what a person has done about one cluster, with the event that says who.
func (r *Relay) order(ctx context.Context, clusterID, by, what, op string, fn func(*outbox.Desired,
	*outbox.Recorded) error) error {
	states := &dbState{r.options.DB, r.options.Clusters}
	entry := &JournalEntry{Cluster: clusterID, At: r.options.Clock.Now().UTC(), Op: op, Outcome: "ordered", By: by}
	return r.ordered(clusterID, states.Change(ctx, clusterID, Note{Text: what + " " + by + " said so.", Entry: entry}, fn))
}

// ordered has the relay look at a cluster of which an order was written down.
func (r *Relay) ordered(clusterID string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return ErrNothing
	}
	if err != nil {
		return err
	}
	r.enqueue(clusterID, r.options.Clock.Now(), false)
	r.wakeUp()
	return nil
}
