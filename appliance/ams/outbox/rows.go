package outbox

import (
	"errors"
	"time"

	"landfall/store"
)

// Rows of both kinds lie under their cluster's id.
var (
	DesiredRows  = store.NewBucket[Desired]("subscriptions", 1)
	RecordedRows = store.NewBucket[Recorded]("subscription-replies", 1)
)

// What is found without reading rows; both are written with the rows that they follow from.
var (
	waiting = store.NewDeadlines("subscriptions-waiting") // <cluster>, since when
	// <subscription>/<cluster>, of all ids that AMS ever gave
	owners  = store.NewIndex("clusters-by-subscription")
	indexed = store.NewIndex("subscriptions-indexed")                  // says that both are complete
	longest = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC) // later than whatever waits
)

const indexVersion = "1"

// Put writes what AMS must come to know of a cluster.
func PutDesired(tx *store.Tx, clusterID string, d *Desired) error {
	if err := DesiredRows.Put(tx, clusterID, d); err != nil {
		return err
	}
	return note(tx, clusterID, d.ChangedAt, true)
}

// Remember writes what is known of a cluster's subscription in AMS.
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

// settled tells whether nothing is left to do about a cluster, now or by itself later.
func (r *Recorded) settled(d *Desired) bool {
	return r.Closed != "" || r.Done(d) && d.DeletedAt.IsZero() && r.Mark == nil
}

// note keeps the time from which a cluster waits: that of the first change since AMS knew all.
func note(tx *store.Tx, clusterID string, since time.Time, waits bool) error {
	if !waits {
		return waiting.Clear(tx, clusterID)
	}
	if _, ok := waiting.At(tx, clusterID); ok {
		return nil
	}
	return waiting.Set(tx, clusterID, since)
}

// Remove removes all of a cluster.
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

// Waiting is a cluster of which AMS has yet to hear.
type Waiting struct {
	ClusterID string
	Since     time.Time
}

// AllWaiting lists the clusters of which AMS has yet to hear, those that wait longest first,
// without reading their rows.
func AllWaiting(tx *store.Tx) ([]Waiting, error) {
	due, err := waiting.Due(tx, longest, 0)
	all := make([]Waiting, len(due))
	for i, one := range due {
		all[i] = Waiting{one.Key, one.At}
	}
	return all, err
}

// ClusterWith finds the cluster that a subscription is of, by any id that it ever had; "" when
// there is none.
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

// Indexed tells whether a store's rows can be found without reading them all; see Index.
func Indexed(tx *store.Tx) bool { return indexed.Exists(tx, indexVersion) }

// Index finds out what waits in a store whose rows were written before it was noted with them.
func Index(tx *store.Tx) error {
	err := DesiredRows.Each(tx, "", func(id string, d *Desired) error {
		r, err := RecordedRows.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return note(tx, id, d.ChangedAt, true)
		}
		if err != nil {
			return err
		}
		return PutRecorded(tx, id, d, r)
	})
	return errors.Join(err, indexed.Add(tx, indexVersion))
}
