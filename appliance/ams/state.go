package ams

import (
	"context"
	"fmt"
	"time"

	"landfall/appliance/ams/outbox"
	"landfall/store"
)

// JournalEntry is a call that changed something in AMS, or was refused, as the journal keeps it.
type JournalEntry struct {
	Cluster      string    `json:"cluster_id"`
	At           time.Time `json:"at"`
	Op           string    `json:"op"`      // create, update, delete, adopt, close
	Outcome      string    `json:"outcome"` // done, refused, unclear, or what a person did
	Generation   int       `json:"generation"`
	Subscription string    `json:"subscription_id,omitempty"`
	HTTP         int       `json:"http,omitempty"`
	Code         string    `json:"code,omitempty"`
	OperationID  string    `json:"operation_id,omitempty"`
	Text         string    `json:"text,omitempty"`
	By           string    `json:"by,omitempty"` // relay, courier, or the person who ordered it
}

// Note is what is written beside a change of what is recorded.
type Note struct {
	Text         string        // for people, as an event of the cluster; "" is none
	Refused      bool          // the event is a warning
	Subscription string        // the id that the cluster's subscription has now; "" leaves it
	Entry        *JournalEntry // for the journal; may be nil
}

// StateStore is where whoever tells AMS finds what is desired and keeps what it remembers.
type StateStore interface {
	// Entry returns the newest state of a cluster; store.ErrNotFound when AMS is to hear nothing of
	// it.
	Entry(ctx context.Context, clusterID string) (outbox.Desired, outbox.Recorded, error)
	// Change alters what is recorded in one transaction and writes the note with it. The function
	// may be run again.
	Change(ctx context.Context, clusterID string, note Note, fn func(*outbox.Desired, *outbox.Recorded) error) error
}

// journal lies under "<time>-<cluster>", so that it can be cut by age.
var journal = store.NewBucket[JournalEntry]("subscription-journal", 1)

func journalKey(entry *JournalEntry) string {
	return fmt.Sprintf("%016x-%s", uint64(entry.At.UnixNano()), entry.Cluster)
}

// Clusters is told what people read of a cluster's subscription, and writes it in one transaction
// with the given rows; *engine.Engine implements it.
type Clusters interface {
	RecordSubscription(ctx context.Context, clusterID, subscriptionID, note string, refused bool,
		write func(*store.Tx) error) error
}

// dbState is the appliance's own states.
type dbState struct {
	db       *store.DB
	clusters Clusters
}

func (b *dbState) Entry(_ context.Context, clusterID string) (d outbox.Desired, r outbox.Recorded, err error) {
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

// loadRecorded is what is recorded of a cluster; nothing, if nobody could have mentioned it yet.
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

func (b *dbState) Change(ctx context.Context, clusterID string, note Note,
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
