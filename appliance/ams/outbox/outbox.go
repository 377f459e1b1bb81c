// Package outbox stores the desired state of each cluster's subscription in OpenShift Cluster
// Manager (AMS), and the state that AMS has confirmed.
//
// The engine writes a [Desired] row in the same transaction as the change of the cluster. The
// package stores no list of calls: the sender (the relay or a courier) compares the desired state
// with the [Recorded] row and with AMS's own object, and sends the difference.
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

// Phase is the desired state of a cluster's subscription in AMS.
type Phase string

// Phases of a subscription.
const (
	Absent   Phase = "absent"   // the cluster was deleted and never installed
	Reserved Phase = "reserved" // the cluster is registered
	Active   Phase = "active"   // the cluster was installed
)

// Fields are the reported values of a cluster, apart from its status. An empty field is not
// reported.
type Fields struct {
	DisplayName       string `json:"display_name,omitempty"`
	ExternalClusterID string `json:"external_cluster_id,omitempty"`
	ConsoleURL        string `json:"console_url,omitempty"`
}

// Desired is the desired state of a cluster's subscription in AMS. It exists until AMS has
// confirmed it, even if the cluster is deleted earlier.
type Desired struct {
	Generation int   `json:"generation"` // incremented by each change
	Phase      Phase `json:"phase"`
	// the cluster was installed, so AMS must have a subscription even after its deletion
	MustExist bool `json:"must_exist"`
	Fields
	Edited    Fields    `json:"edited,omitzero"` // reported instead of the cluster's own values
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"` // time of the change to this generation
	DeletedAt time.Time `json:"local_deleted_at,omitzero"`
}

// Over returns f, overridden by the non-empty fields of a.
func (f Fields) Over(a Fields) Fields {
	return Fields{
		DisplayName:       cmp.Or(a.DisplayName, f.DisplayName),
		ExternalClusterID: cmp.Or(a.ExternalClusterID, f.ExternalClusterID),
		ConsoleURL:        cmp.Or(a.ConsoleURL, f.ConsoleURL),
	}
}

// Next returns the row that replaces d. It has the next generation if the reported state differs.
// The second result is false if no row must be written.
func (d Desired) Next(wanted Desired, now time.Time) (Desired, bool) {
	wanted.Generation, wanted.ChangedAt = d.Generation, d.ChangedAt
	if wanted == d {
		return d, false
	}
	wanted.Generation++
	wanted.ChangedAt = now
	return wanted, true
}

// Mark records a POST whose answer may have been lost.
type Mark struct {
	At         time.Time `json:"at"`        // time just before the last POST
	Tries      int       `json:"tries"`     // number of POSTs
	Account    string    `json:"account"`   // account of the POST
	SearchedAt time.Time `json:"looked"`    // first search without a result after the last POST
	Requested  Fields    `json:"requested"` // values in the POST
}

// Stop is the reason why a cluster's subscription waits for a person or for a change of the desired
// state.
type Stop struct {
	Kind        string    `json:"kind"`       // blocked, dead, attention
	Generation  int       `json:"generation"` // generation at the stop
	Reason      string    `json:"reason"`     // a sentence
	HTTP        int       `json:"http,omitempty"`
	Code        string    `json:"code,omitempty"` // AMS's own
	OperationID string    `json:"operation_id,omitempty"`
	At          time.Time `json:"at"`
	RetryAt     time.Time `json:"retry_at,omitzero"` // time of the next attempt after a limit or quota
	// values in AMS that differ from the last confirmed ones and would be overwritten
	Disputed Fields `json:"disputed,omitzero"`
}

// Kinds of [Stop].
const (
	Blocked   = "blocked"   // AMS does not allow the subscription for this cluster
	Dead      = "dead"      // AMS rejects the values; a change or a person ends the stop
	Attention = "attention" // the state in AMS requires a person's decision
)

// Lease means that a courier file contains the cluster. Until its receipts are imported, the relay
// neither creates nor deletes the subscription.
type Lease struct {
	Export     string    `json:"export"`
	Generation int       `json:"generation"`
	Until      time.Time `json:"until"`
}

// Recorded is the last recorded state of a cluster's subscription in AMS. The relay or a courier
// writes it. The row exists from the first call about the cluster.
type Recorded struct {
	SubscriptionID string   `json:"subscription_id,omitempty"`
	Former         []string `json:"former,omitempty"` // former IDs
	Twin           bool     `json:"twin,omitempty"`   // telemetry created the subscription, and the site adopted it
	Acked          Fields   `json:"acked,omitzero"`
	AckedStatus    string   `json:"acked_status,omitempty"`
	// contents of PATCHes without an answer, the newest last
	Unconfirmed []Fields `json:"unconfirmed,omitempty"`
	// last generation that AMS confirmed completely
	Generation int             `json:"generation,omitempty"`
	Remote     json.RawMessage `json:"remote,omitempty"` // the object of AMS at the last read
	RemoteAt   time.Time       `json:"remote_at,omitzero"`
	Mark       *Mark           `json:"mark,omitempty"`
	Stop       *Stop           `json:"stop,omitempty"`
	Lease      *Lease          `json:"lease,omitempty"`
	// values in AMS that a person has decided to overwrite, until AMS confirms the cluster
	Overwrite Fields `json:"overwrite,omitzero"`
	// the store was restored from a backup: a missing subscription is not recreated
	Reverify   bool      `json:"reverify,omitempty"`
	Closed     string    `json:"closed,omitempty"` // how the subscription ended: deleted, left, never
	ClosedAt   time.Time `json:"closed_at,omitzero"`
	Note       string    `json:"note,omitempty"`    // information for people; no action is needed
	API        string    `json:"api,omitempty"`     // URL and organization that the IDs belong to
	ReportedBy string    `json:"told_by,omitempty"` // relay or courier
	ReportedAt time.Time `json:"told_at,omitzero"`
}

// Done reports whether AMS has confirmed the desired state.
func (r *Recorded) Done(d *Desired) bool { return r != nil && r.Generation >= d.Generation }

// Stopped returns the stop that applies to the current generation, or nil. A new generation ends a
// stop of kind Dead. A manual retry ends a stop of kind Blocked.
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

// Close records that a cluster was deleted. It deletes the rows of a cluster that must never be
// reported if no call has mentioned it.
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

// ProvisionalID returns the ID of a subscription until AMS assigns one. It is a KSUID, the format
// of AMS's IDs, and contains the cluster's ID and registration time. [ClusterOf] reads the
// cluster's ID from it.
func ProvisionalID(clusterID string, createdAt time.Time) string {
	id, err := uuid.Parse(clusterID)
	if err != nil {
		return ""
	}
	provisional, err := ksuid.FromParts(createdAt, id[:])
	if err != nil {
		return ""
	}
	return provisional.String()
}

// ClusterOf returns the cluster's ID in a provisional ID, or "" if the text is not a KSUID.
func ClusterOf(provisionalID string) string {
	parsed, err := ksuid.Parse(provisionalID)
	if err != nil {
		return ""
	}
	id, err := uuid.FromBytes(parsed.Payload())
	if err != nil {
		return ""
	}
	return id.String()
}
