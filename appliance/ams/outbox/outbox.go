// Package outbox is what OpenShift Cluster Manager (AMS) must come to know of each cluster, and
// what it was told.
//
// The engine writes a [Desired] in the transaction of the change that it follows from. No list of
// calls is kept, only the state that AMS is to arrive at: whoever tells AMS (the relay, a courier)
// compares it with what is [Recorded] of AMS and with what AMS shows, and makes up the
// difference.
package outbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/segmentio/ksuid"

	"landfall/store"
)

// Phase is how a cluster's subscription is to be in AMS.
type Phase string

// The phases of a subscription.
const (
	Absent   Phase = "absent"   // the cluster is gone and was never installed
	Reserved Phase = "reserved" // the cluster is registered
	Active   Phase = "active"   // the cluster was installed
)

// Fields are what AMS is told of a cluster beside its status. An empty one is not told.
type Fields struct {
	DisplayName       string `json:"display_name,omitempty"`
	ExternalClusterID string `json:"external_cluster_id,omitempty"`
	ConsoleURL        string `json:"console_url,omitempty"`
}

// Desired is what AMS must come to know of a cluster. It outlives the cluster until AMS knows.
type Desired struct {
	Generation int   `json:"generation"` // raised by each change
	Phase      Phase `json:"phase"`
	// the cluster was installed, so AMS must hear of it even when it is deleted here
	MustExist bool `json:"must_exist"`
	Fields
	Edited    Fields    `json:"edited,omitzero"` // what a person wants told in place of what the cluster has
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"` // of this generation
	DeletedAt time.Time `json:"local_deleted_at,omitzero"`
}

// Over returns the fields with those of a that are set in their place.
func (f Fields) Over(a Fields) Fields {
	return Fields{
		DisplayName:       cmp.Or(a.DisplayName, f.DisplayName),
		ExternalClusterID: cmp.Or(a.ExternalClusterID, f.ExternalClusterID),
		ConsoleURL:        cmp.Or(a.ConsoleURL, f.ConsoleURL),
	}
}

// Next returns the row to write in place of d, and whether there is anything to write: the next
// generation, if wanted differs in what AMS must hear.
func (d Desired) Next(wanted Desired, now time.Time) (Desired, bool) {
	wanted.Generation, wanted.ChangedAt = d.Generation, d.ChangedAt
	if wanted == d {
		return d, false
	}
	wanted.Generation++
	wanted.ChangedAt = now
	return wanted, true
}

// Mark says that a subscription may have been created without its id having come back.
type Mark struct {
	At         time.Time `json:"at"`        // when the last POST was about to be sent
	Tries      int       `json:"tries"`     // how many POSTs were sent
	Account    string    `json:"account"`   // by whom
	SearchedAt time.Time `json:"looked"`    // when a search first found nothing after the last POST
	Requested  Fields    `json:"requested"` // what the POST said
}

// Stop is why a cluster's subscription waits for a person, or for a change of what is to be told.
type Stop struct {
	Kind        string    `json:"kind"`       // blocked, dead, attention
	Generation  int       `json:"generation"` // that it was about
	Reason      string    `json:"reason"`     // a sentence
	HTTP        int       `json:"http,omitempty"`
	Code        string    `json:"code,omitempty"` // AMS's own
	OperationID string    `json:"operation_id,omitempty"`
	At          time.Time `json:"at"`
	RetryAt     time.Time `json:"retry_at,omitzero"` // a limit or quota is tried again then
}

// The kinds of [Stop].
const (
	Blocked   = "blocked"   // AMS does not allow it for this cluster
	Dead      = "dead"      // AMS does not take what is told; a change or a person revives it
	Attention = "attention" // what AMS shows needs a person's decision
)

// Lease says that a courier's file holds what is to be told: until it comes back nobody else
// creates or deletes the row.
type Lease struct {
	Export     string    `json:"export"`
	Generation int       `json:"generation"`
	Until      time.Time `json:"until"`
}

// Recorded is what is known of a cluster's subscription in AMS, written by whoever tells AMS.
// There is none as long as nobody could have mentioned the cluster.
type Recorded struct {
	SubscriptionID string   `json:"subscription_id,omitempty"`
	Former         []string `json:"former,omitempty"` // ids it had before
	Twin           bool     `json:"twin,omitempty"`   // the row was made by telemetry and adopted
	Acked          Fields   `json:"acked,omitzero"`
	AckedStatus    string   `json:"acked_status,omitempty"`
	// what PATCHes said whose answers never came, the newest last
	Unconfirmed []Fields        `json:"unconfirmed,omitempty"`
	Generation  int             `json:"generation,omitempty"` // the one that AMS was told of in full
	Remote      json.RawMessage `json:"remote,omitempty"`     // AMS's own object, as it came last
	RemoteAt    time.Time       `json:"remote_at,omitzero"`
	Mark        *Mark           `json:"mark,omitempty"`
	Stop        *Stop           `json:"stop,omitempty"`
	Lease       *Lease          `json:"lease,omitempty"`
	// restored from a backup: a row that is gone is not made again
	Reverify   bool      `json:"reverify,omitempty"`
	Closed     string    `json:"closed,omitempty"` // how it ended: deleted, left, never
	ClosedAt   time.Time `json:"closed_at,omitzero"`
	Note       string    `json:"note,omitempty"`    // a sentence worth knowing that asks for nothing
	API        string    `json:"api,omitempty"`     // whose ids these are: URL and organization
	ReportedBy string    `json:"told_by,omitempty"` // relay or courier
	ReportedAt time.Time `json:"told_at,omitzero"`
}

// Done tells whether AMS knows all there is to tell.
func (r *Recorded) Done(d *Desired) bool { return r != nil && r.Generation >= d.Generation }

// Stopped returns the stop that holds for what is desired now, or nil. A new generation revives
// what AMS did not take; what is not allowed stays so until a person tries again.
func (r *Recorded) Stopped(d *Desired, now time.Time) *Stop {
	if r == nil || r.Stop == nil {
		return nil
	}
	if r.Stop.Kind == Dead && r.Stop.Generation < d.Generation {
		return nil
	}
	if !r.Stop.RetryAt.IsZero() && !now.Before(r.Stop.RetryAt) {
		return nil
	}
	return r.Stop
}

// Close writes the end of a cluster: one that AMS was never to keep, or that it is never to hear
// of, and of which nobody can have told it leaves no trace.
func Close(tx *store.Tx, clusterID string, never bool, now time.Time) error {
	held, err := DesiredRows.Get(tx, clusterID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if (never || !held.MustExist) && !RecordedRows.Exists(tx, clusterID) {
		return Remove(tx, clusterID)
	}
	wanted := *held
	wanted.DeletedAt = now
	if !held.MustExist {
		wanted.Phase = Absent
	}
	next, changed := held.Next(wanted, now)
	if !changed {
		return nil
	}
	return PutDesired(tx, clusterID, &next)
}

// ProvisionalID is the id that a subscription has here before AMS gives it one: a KSUID as AMS's own
// are, of the time of the cluster's registration and its id, so the cluster can be read from it
// ([ClusterOf]).
func ProvisionalID(clusterID string, createdAt time.Time) string {
	id, err := uuid.Parse(clusterID)
	if err != nil {
		return ""
	}
	shadow, err := ksuid.FromParts(createdAt, id[:])
	if err != nil {
		return ""
	}
	return shadow.String()
}

// ClusterOf is the cluster that a shadow id was made for; "" for what is no KSUID.
func ClusterOf(shadowID string) string {
	shadow, err := ksuid.Parse(shadowID)
	if err != nil {
		return ""
	}
	id, err := uuid.FromBytes(shadow.Payload())
	if err != nil {
		return ""
	}
	return id.String()
}
