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

// ErrNothing is returned for a manual action on a cluster that is not reported to AMS.
var ErrNothing = fault.Sentinel(fault.NotFound, "there is nothing to report to AMS about this cluster")

// ErrPaused is returned for a manual action that the state of the relay does not allow.
var ErrPaused = fault.Sentinel(fault.Conflict, "the relay is not waiting for a confirmation")

// Connect makes the relay retry immediately. It also permits a relay with ByHand to connect for the
// given time.
func (r *Relay) Connect(span time.Duration) {
	r.mu.Lock()
	now := r.options.Clock.Now()
	r.connectUntil, r.probes, r.pauseUntil = now.Add(span), 0, time.Time{}
	for _, j := range r.jobs {
		j.next, j.attempts = time.Time{}, 0
	}
	r.mu.Unlock()
	r.renewSession("")
}

// renewSession ends the session for a reason, which may be "", and opens a new one with the present
// credentials, even if no cluster waits. It does not allow a relay with ByHand to connect.
func (r *Relay) renewSession(reason string) {
	r.setState(Offline, reason)
	r.mu.Lock()
	r.probeAt, r.lastSecret, r.openNow = r.options.Clock.Now(), Secret{}, true
	r.mu.Unlock()
	r.wakeUp()
}

// Retry ends a stop of any kind and sends the cluster's changes again.
func (r *Relay) Retry(ctx context.Context, clusterID, by string) error {
	return r.perform(ctx, clusterID, by, "The cluster is reported to AMS again.", "retry",
		func(_ *outbox.Desired, recorded *outbox.Recorded) error {
			clearStop(recorded)
			return nil
		})
}

// clearStop removes the reason for a stop. It allows one more creation of the subscription, and
// that the values that the person saw in AMS are overwritten, by a courier too.
func clearStop(recorded *outbox.Recorded) {
	if recorded.Stop != nil {
		recorded.Overwrite = recorded.Stop.Disputed
	}
	recorded.Stop, recorded.Generation, recorded.Reverify = nil, 0, false
	if mark := recorded.Mark; mark != nil {
		mark.Tries = min(mark.Tries, maxCreates-1)
	}
}

// CreateAgain creates a new subscription for a cluster whose subscription is gone from AMS.
func (r *Relay) CreateAgain(ctx context.Context, clusterID, by string) error {
	return r.perform(ctx, clusterID, by, "The cluster gets a new subscription in AMS.", "create again",
		func(_ *outbox.Desired, recorded *outbox.Recorded) error {
			former := recorded.Former
			if recorded.SubscriptionID != "" {
				former = append(former, recorded.SubscriptionID)
			}
			*recorded = outbox.Recorded{Former: former, Lease: recorded.Lease, Mark: recorded.Mark}
			return nil
		})
}

// Leave accepts the state in AMS. The relay sends nothing until the cluster changes again.
func (r *Relay) Leave(ctx context.Context, clusterID, by string) error {
	return r.perform(ctx, clusterID, by, "The state in AMS is accepted.", "leave",
		func(d *outbox.Desired, recorded *outbox.Recorded) error {
			recorded.Stop, recorded.Generation, recorded.Acked = nil, d.Generation, d.Fields
			recorded.Overwrite = outbox.Fields{}
			recorded.Note = "The state in AMS was accepted by " + by + "."
			if d.Phase == outbox.Absent || !d.DeletedAt.IsZero() {
				recorded.Closed, recorded.ClosedAt = closedLeft, r.options.Clock.Now().UTC()
			}
			return nil
		})
}

// ErrEdit is returned for values that AMS does not accept.
var ErrEdit = fault.Sentinel(fault.Invalid, "AMS does not accept the value")

const longestName = 255 // bytes

// Edit overrides values that are sent to AMS, until the next edit. An empty field restores the
// cluster's own value. The cluster's own external ID cannot be edited, because AMS assigns the
// cluster's metrics by it.
func (r *Relay) Edit(ctx context.Context, clusterID, by string, fields outbox.Fields) error {
	switch address, err := url.Parse(fields.ConsoleURL); {
	case fields.ExternalClusterID != "":
		return fmt.Errorf("%w: the cluster's own ID cannot be edited", ErrEdit)
	case len(fields.DisplayName) > longestName:
		return fmt.Errorf("%w: the name has %d bytes; at most %d are allowed", ErrEdit, len(fields.DisplayName),
			longestName)
	case fields.ConsoleURL != "" && (err != nil || address.Scheme != "https" && address.Scheme != "http" ||
		address.Host == ""):
		return fmt.Errorf("%w: the console's URL is %q; expected one that begins with https://", ErrEdit,
			fields.ConsoleURL)
	}
	now := r.options.Clock.Now().UTC()
	what := "AMS receives edited values."
	if fields == (outbox.Fields{}) {
		what = "AMS receives the cluster's own values again."
	}
	entry := &JournalEntry{Cluster: clusterID, At: now, Op: "edit", Outcome: "ordered", By: by}
	err := r.options.Clusters.RecordSubscription(ctx, clusterID, "", what+" Requested by "+by+".", false,
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
	return r.schedule(clusterID, err)
}

// Reverify marks all subscriptions after the store was restored from a backup. Until a person
// decides, Landfall neither recreates subscriptions that are missing in AMS nor overwrites values
// that differ. A subscription with a damaged row waits, so that the damage is reported for it.
func (r *Relay) Reverify(ctx context.Context) error {
	err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		return outbox.DesiredRows.Each(tx, "", func(id string, d *outbox.Desired) error {
			recorded, err := loadRecorded(tx, id)
			if store.IsDamaged(err) {
				return outbox.PutDesired(tx, id, d) // unchanged, but queued again
			}
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

// Accept ends a pause that only a person can end. The site then reports for the new organization,
// or from this machine.
func (r *Relay) Accept(ctx context.Context) error {
	r.mu.Lock()
	state := r.state
	r.mu.Unlock()
	switch state {
	case PausedIdentity:
		if err := r.resendAll(ctx); err != nil {
			return err
		}
	case PausedPerson:
		r.mu.Lock()
		identity := r.identity
		r.mu.Unlock()
		identity.Machine = r.options.Machine
		if err := r.storeIdentity(ctx, identity); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: its state is %s", ErrPaused, state)
	}
	r.Connect(0)
	return nil
}

// resendAll removes the identity and sends every cluster again, to the organization of the next
// session. It does so in one transaction: without its queued clusters, the new organization would
// never get them.
func (r *Relay) resendAll(ctx context.Context) error {
	err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		if err := identities.Put(tx, identityKey, &Identity{}); err != nil {
			return err
		}
		return outbox.DesiredRows.Each(tx, "", func(id string, d *outbox.Desired) error {
			if d.Phase == outbox.Absent {
				return nil
			}
			return outbox.PutDesired(tx, id, d) // unchanged, but queued again
		})
	})
	if err != nil {
		return err
	}
	r.setIdentity(Identity{})
	_, err = r.scan()
	return err
}

// perform stores the change of a manual action and writes an event with the name of the person.
func (r *Relay) perform(ctx context.Context, clusterID, by, what, op string, fn func(*outbox.Desired,
	*outbox.Recorded) error) error {
	states := &dbState{r.options.DB, r.options.Clusters}
	entry := &JournalEntry{Cluster: clusterID, At: r.options.Clock.Now().UTC(), Op: op, Outcome: "ordered", By: by}
	return r.schedule(clusterID, states.Modify(ctx, clusterID, Note{Text: what + " Requested by " + by + ".",
		Entry: entry}, fn))
}

// schedule queues a cluster after the change of a manual action was stored.
func (r *Relay) schedule(clusterID string, err error) error {
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
