package outbox

import (
	"errors"
	"time"

	"landfall/store"
)

// The keys of both buckets are IDs of clusters.
var (
	DesiredRows  = store.NewBucket[Desired]("subscriptions", 1)
	RecordedRows = store.NewBucket[Recorded]("subscription-replies", 1)
)

// Indexes that avoid reading the rows. They are written together with the rows.
var (
	waiting = store.NewDeadlines("subscriptions-waiting") // <cluster>, with the time at which its wait began
	// <subscription>/<cluster>, for every ID that AMS ever assigned
	owners  = store.NewIndex("clusters-by-subscription")
	indexed = store.NewIndex("subscriptions-indexed")                  // exists if both indexes are complete
	longest = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC) // later than all waiting times
)

const indexVersion = "1"

// PutDesired writes the desired state of a cluster's subscription.
func PutDesired(tx *store.Tx, clusterID string, d *Desired) error {
	if err := DesiredRows.Put(tx, clusterID, d); err != nil {
		return err
	}
	return note(tx, clusterID, d.ChangedAt, true)
}

// PutRecorded writes the recorded state of a cluster's subscription.
func PutRecorded(tx *store.Tx, clusterID string, d *Desired, r *Recorded) error {
	if err := RecordedRows.Put(tx, clusterID, r); err != nil {
		return err
	}
	if r.SubscriptionID != "" {
		if err := owners.Add(tx, r.SubscriptionID+"/"+clusterID); err != nil {
			return err
		}
	}
	return note(tx, clusterID, d.ChangedAt, !r.settled(d))
}

// settled reports whether a cluster needs no further call.
func (r *Recorded) settled(d *Desired) bool {
	return r.Closed != "" || r.Done(d) && d.DeletedAt.IsZero() && r.Mark == nil
}

// note records the time at which a cluster's wait began: the first change after AMS had confirmed
// everything.
func note(tx *store.Tx, clusterID string, since time.Time, waits bool) error {
	if !waits {
		return waiting.Clear(tx, clusterID)
	}
	if _, ok := waiting.At(tx, clusterID); ok {
		return nil
	}
	return waiting.Set(tx, clusterID, since)
}

// Lost replaces a lost recorded state. What was sent is unknown, so the row says that a request to
// create the subscription may have had no answer: the sender creates one only when a search is
// certain to find an existing one.
func Lost(tx *store.Tx, clusterID string, now time.Time) error {
	d, err := DesiredRows.Get(tx, clusterID)
	if errors.Is(err, store.ErrNotFound) || store.IsDamaged(err) || RecordedRows.Exists(tx, clusterID) {
		return nil // nothing is to be sent, or the state is known again
	}
	if err != nil {
		return err
	}
	return PutRecorded(tx, clusterID, d, &Recorded{Mark: &Mark{At: now, Tries: 1}})
}

// Remove removes all rows of a cluster.
func Remove(tx *store.Tx, clusterID string) error {
	var ids []string
	if r, err := RecordedRows.Get(tx, clusterID); err == nil {
		ids = append(r.Former, r.SubscriptionID)
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	errs := []error{DesiredRows.Delete(tx, clusterID), RecordedRows.Delete(tx, clusterID), waiting.Clear(tx, clusterID)}
	for _, id := range ids {
		errs = append(errs, owners.Remove(tx, id+"/"+clusterID))
	}
	return errors.Join(errs...)
}

// Waiting is a cluster with unconfirmed changes.
type Waiting struct {
	ClusterID string
	Since     time.Time
}

// AllWaiting returns the waiting clusters, the longest waiting first. It does not read their rows.
func AllWaiting(tx *store.Tx) ([]Waiting, error) {
	due, err := waiting.Due(tx, longest, 0)
	all := make([]Waiting, len(due))
	for i, one := range due {
		all[i] = Waiting{one.Key, one.At}
	}
	return all, err
}

// ClusterWith returns the cluster of a subscription, by any ID that the subscription ever had. It
// returns "" if there is none.
func ClusterWith(tx *store.Tx, subscriptionID string) (clusterID string, err error) {
	if id := ClusterOf(subscriptionID); id != "" && DesiredRows.Exists(tx, id) {
		return id, nil
	}
	err = owners.Keys(tx, subscriptionID+"/", func(key string) error {
		clusterID = key[len(subscriptionID)+1:]
		return store.ErrStop
	})
	return clusterID, err
}

// Indexed reports whether the indexes are complete; see Index.
func Indexed(tx *store.Tx) bool { return indexed.Exists(tx, indexVersion) }

// Index builds the indexes for rows of earlier releases. A cluster with a damaged row waits, so
// that the damage is reported for it.
func Index(tx *store.Tx) error {
	err := DesiredRows.Each(tx, "", func(id string, d *Desired) error {
		r, err := RecordedRows.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) || store.IsDamaged(err) {
			return note(tx, id, d.ChangedAt, true)
		}
		if err != nil {
			return err
		}
		return PutRecorded(tx, id, d, r)
	})
	return errors.Join(err, indexed.Add(tx, indexVersion))
}
