package ams

import (
	"context"
	"fmt"
	"time"

	"landfall/appliance/ams/outbox"
	"landfall/store"
)

// JournalEntry records a manual order, or a call that changed AMS or was refused.
type JournalEntry struct {
	Cluster      string    `json:"cluster_id"`
	At           time.Time `json:"at"`
	Op           string    `json:"op"`      // create, update, delete, adopt, close
	Outcome      string    `json:"outcome"` // done, refused, unclear, or the kind of a manual order
	Generation   int       `json:"generation"`
	Subscription string    `json:"subscription_id,omitempty"`
	HTTP         int       `json:"http,omitempty"`
	Code         string    `json:"code,omitempty"`
	OperationID  string    `json:"operation_id,omitempty"`
	Text         string    `json:"text,omitempty"`
	By           string    `json:"by,omitempty"` // relay, courier, or the name of the person
}

// Note contains the event and the journal entry that are written in the transaction of a change.
type Note struct {
	Text         string        // text of an event of the cluster; "" writes no event
	Refused      bool          // the event is a warning
	Subscription string        // new ID of the cluster's subscription; "" for no change
	Entry        *JournalEntry // may be nil
}

// StateStore stores the desired and the recorded state of clusters.
type StateStore interface {
	// Load returns the current state of a cluster. The error is store.ErrNotFound if the cluster
	// has no subscription.
	Load(ctx context.Context, clusterID string) (outbox.Desired, outbox.Recorded, error)
	// Modify changes the recorded state and writes the note in one transaction. It may call fn more
	// than once.
	Modify(ctx context.Context, clusterID string, note Note, fn func(*outbox.Desired, *outbox.Recorded) error) error
}

// journal stores entries under "<time>-<cluster>", so that a range delete removes old entries.
var journal = store.NewBucket[JournalEntry]("subscription-journal", 1)

func journalKey(entry *JournalEntry) string {
	return fmt.Sprintf("%016x-%s", uint64(entry.At.UnixNano()), entry.Cluster)
}

// Clusters writes the event of a cluster's subscription in one transaction with the given rows.
// *engine.Engine implements it.
type Clusters interface {
	RecordSubscription(ctx context.Context, clusterID, subscriptionID, note string, refused bool,
		write func(*store.Tx) error) error
}

// dbState is the StateStore of the appliance's database.
type dbState struct {
	db       *store.DB
	clusters Clusters
}

func (b *dbState) Load(_ context.Context, clusterID string) (d outbox.Desired, r outbox.Recorded, err error) {
	err = b.db.View(func(tx *store.Tx) error {
		d, r, err = entry(tx, clusterID)
		return err
	})
	return d, r, err
}

func entry(tx *store.Tx, clusterID string) (d outbox.Desired, r outbox.Recorded, err error) {
	desired, err := outbox.DesiredRows.Get(tx, clusterID)
	if err != nil {
		return d, r, err
	}
	r, err = loadRecorded(tx, clusterID)
	return *desired, r, err
}

// loadRecorded returns the recorded state of a cluster, or the zero value before the first call.
func loadRecorded(tx *store.Tx, clusterID string) (outbox.Recorded, error) {
	if !outbox.RecordedRows.Exists(tx, clusterID) {
		return outbox.Recorded{}, nil
	}
	recorded, err := outbox.RecordedRows.Get(tx, clusterID)
	if err != nil {
		return outbox.Recorded{}, err
	}
	return *recorded, nil
}

func (b *dbState) Modify(ctx context.Context, clusterID string, note Note,
	fn func(*outbox.Desired, *outbox.Recorded) error) error {
	return b.clusters.RecordSubscription(ctx, clusterID, note.Subscription, note.Text, note.Refused,
		func(tx *store.Tx) error {
			d, r, err := entry(tx, clusterID)
			if err != nil {
				return err
			}
			if err := fn(&d, &r); err != nil {
				return err
			}
			if note.Entry != nil {
				if err := journal.Put(tx, journalKey(note.Entry), note.Entry); err != nil {
					return err
				}
			}
			return outbox.PutRecorded(tx, clusterID, &d, &r)
		})
}
