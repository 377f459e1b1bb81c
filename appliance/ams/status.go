package ams

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"landfall/appliance/ams/outbox"
	"landfall/store"
)

// Status is the state of a site's connection to AMS and of its clusters.
type Status struct {
	State         State     `json:"state"`
	Since         time.Time `json:"since,omitzero"` // time at which State began
	Problem       string    `json:"problem,omitempty"`
	URL           string    `json:"api_url"`
	SiteKey       string    `json:"site_key"` // fingerprint of the key that signs courier files
	Organization  string    `json:"organization,omitempty"`
	Account       string    `json:"account,omitempty"`
	LastContact   time.Time `json:"last_contact,omitzero"`
	NextTry       time.Time `json:"next_try,omitzero"`
	TokenUntil    time.Time `json:"token_until,omitzero"`
	ClockSkew     float64   `json:"clock_skew_seconds"`
	ConnectedTill time.Time `json:"connected_till,omitzero"` // end of a manual connection
	Waiting       int       `json:"waiting"`
	Sent          int       `json:"sent"`
	Attention     int       `json:"attention"`
	Left          int       `json:"left"`
	OldestWaiting time.Time `json:"oldest_waiting,omitzero"`
	SecondsLeft   float64   `json:"seconds_left"` // to send all queued changes at the permitted rate
	Couriers      []Courier `json:"couriers"`     // courier files without imported receipts
	Total         int       `json:"total"`        // number of selected clusters
	// sorted: clusters that need attention, then waiting clusters, the longest waiting first
	Clusters []ClusterStatus `json:"clusters"`
}

// Courier is an export whose receipts have not been imported.
type Courier struct {
	Export   string    `json:"export_id"`
	Until    time.Time `json:"until"`
	Clusters int       `json:"clusters"`
}

// Selection selects clusters for a status. The zero value selects all. The counts always include
// all clusters.
type Selection struct {
	ClusterID string
	State     string // state of a cluster
	Name      string // part of the cluster's name
	Offset    int
	Limit     int // 0 for no limit
}

// States of a cluster in a status.
const (
	ClusterWaiting   = "waiting"
	ClusterSent      = "sent"
	ClusterAttention = "attention"
	ClusterLeft      = "left"
)

// ClusterStatus reports which fields of a cluster AMS has confirmed and which are still queued.
type ClusterStatus struct {
	ClusterID      string    `json:"cluster_id"`
	Name           string    `json:"name"`
	SubscriptionID string    `json:"subscription_id"`
	State          string    `json:"state"` // waiting, sent, attention, left
	Since          time.Time `json:"since,omitzero"`
	// reason for the wait or for the stop
	Reason       string        `json:"reason,omitempty"`
	Kind         string        `json:"kind,omitempty"` // kind of the stop: blocked, dead, attention
	HTTP         int           `json:"http,omitempty"`
	Code         string        `json:"code,omitempty"`
	OperationID  string        `json:"operation_id,omitempty"`
	Note         string        `json:"note,omitempty"`
	RemoteStatus string        `json:"ams_status,omitempty"` // last known status in AMS
	Confirmed    outbox.Fields `json:"told"`
	Pending      outbox.Fields `json:"to_tell"`
	Edited       outbox.Fields `json:"edited"` // edited values, which replace the cluster's own
	PendingPhase outbox.Phase  `json:"to_become"`
	By           string        `json:"by,omitempty"`
	Attempts     int           `json:"attempts,omitempty"`
	NextTry      time.Time     `json:"next_try,omitzero"`
	Deleted      bool          `json:"deleted,omitempty"` // the cluster is deleted here
}

// callsPerCluster is the number of calls for a new cluster: search, create, and one update.
const callsPerCluster = 3

// Status returns the state of the connection and of the selected clusters. For a single cluster it
// reads and counts only that cluster.
func (r *Relay) Status(_ context.Context, of Selection) (s *Status, err error) {
	err = r.options.DB.View(func(tx *store.Tx) (err error) {
		s, err = r.status(tx, of)
		return err
	})
	return s, err
}

func (r *Relay) status(tx *store.Tx, of Selection) (*Status, error) {
	r.mu.Lock()
	s := &Status{
		State: r.state, Since: r.since, Problem: r.problem, URL: r.options.URL, LastContact: r.contact,
		ConnectedTill: r.connectUntil, SiteKey: r.options.Key.Public().Fingerprint(),
		Organization: orNone(r.identity.OrganizationName, r.identity.OrganizationID),
		Account:      cmp.Or(r.options.Account, r.identity.Username),
		ClockSkew:    r.options.Client.Skew().Seconds(), TokenUntil: r.options.Client.TokenUntil(),
		Clusters: []ClusterStatus{}, Couriers: []Courier{},
	}
	if r.state == Offline && len(r.jobs) > 0 {
		s.NextTry = r.probeAt
	}
	jobs := make(map[string]job, len(r.jobs))
	for id, j := range r.jobs {
		jobs[id] = *j
	}
	r.mu.Unlock()
	err := each(tx, of.ClusterID, func(id string, d *outbox.Desired) error {
		recorded, err := loadRecorded(tx, id)
		if store.IsDamaged(err) {
			recorded.Stop = &outbox.Stop{Kind: outbox.Attention, At: d.ChangedAt, Reason: err.Error() + "."}
		} else if err != nil {
			return err
		}
		s.add(id, d, &recorded, jobs[id], r.options.Clock.Now())
		return nil
	})
	s.SecondsLeft = float64(s.Waiting*callsPerCluster) / float64(max(1, r.options.Client.limiter.Limit()))
	s.choose(of)
	return s, err
}

// choose sorts the clusters and keeps the selected ones.
func (s *Status) choose(of Selection) {
	s.Clusters = slices.DeleteFunc(s.Clusters, func(c ClusterStatus) bool {
		return of.State != "" && c.State != of.State || !strings.Contains(c.Name, of.Name)
	})
	order := []string{ClusterAttention, ClusterWaiting, ClusterSent, ClusterLeft}
	slices.SortFunc(s.Clusters, func(a, b ClusterStatus) int {
		since := a.Since.Compare(b.Since)
		if a.State == ClusterSent || a.State == ClusterLeft {
			since = -since // the latest first
		}
		return cmp.Or(slices.Index(order, a.State)-slices.Index(order, b.State), since, cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.ClusterID, b.ClusterID))
	})
	s.Total = len(s.Clusters)
	s.Clusters = s.Clusters[min(max(0, of.Offset), s.Total):]
	if of.Limit > 0 && len(s.Clusters) > of.Limit {
		s.Clusters = s.Clusters[:of.Limit]
	}
}

func (s *Status) add(id string, d *outbox.Desired, r *outbox.Recorded, j job, now time.Time) {
	c := ClusterStatus{
		ClusterID: id, Name: d.DisplayName, SubscriptionID: cmp.Or(r.SubscriptionID,
			outbox.ProvisionalID(id, d.CreatedAt)),
		Confirmed: r.Acked, PendingPhase: d.Phase, Edited: d.Edited,
		Note: r.Note, RemoteStatus: r.AckedStatus, By: r.ReportedBy, Deleted: !d.DeletedAt.IsZero(),
		Attempts: j.attempts,
		NextTry:  j.next,
		Pending: outbox.Fields{
			DisplayName:       unless(r.Acked.DisplayName, d.DisplayName),
			ExternalClusterID: unless(r.Acked.ExternalClusterID, d.ExternalClusterID),
			ConsoleURL:        unless(r.Acked.ConsoleURL, d.ConsoleURL),
		},
	}
	if lease := r.Lease; lease != nil && now.Before(lease.Until) {
		s.addLease(lease)
	}
	stop := r.Stopped(d, now)
	switch {
	case r.Closed != "":
		c.State, c.Since, c.Reason, c.Pending = ClusterLeft, r.ClosedAt,
			closedReason(r.Closed), outbox.Fields{}
		s.Left++
	case stop != nil:
		c.State, c.Since, c.Reason, c.Kind = ClusterAttention, stop.At, stop.Reason, stop.Kind
		c.HTTP, c.Code, c.OperationID = stop.HTTP, stop.Code, stop.OperationID
		s.Attention++
	case r.Done(d):
		c.State, c.Since, c.Pending = ClusterSent, r.ReportedAt, outbox.Fields{}
		s.Sent++
	default:
		c.State, c.Since, c.Reason = ClusterWaiting, d.ChangedAt, s.waitsFor(r, j, now)
		s.Waiting++
		if s.OldestWaiting.IsZero() || c.Since.Before(s.OldestWaiting) {
			s.OldestWaiting = c.Since
		}
	}
	s.Clusters = append(s.Clusters, c)
}

// addLease counts a cluster in a courier file.
func (s *Status) addLease(lease *outbox.Lease) {
	i := slices.IndexFunc(s.Couriers, func(w Courier) bool { return w.Export == lease.Export })
	if i < 0 {
		i = len(s.Couriers)
		s.Couriers = append(s.Couriers, Courier{Export: lease.Export, Until: lease.Until})
	}
	s.Couriers[i].Clusters++
}

// waitsFor returns the reason why a cluster waits.
func (s *Status) waitsFor(r *outbox.Recorded, j job, now time.Time) string {
	switch {
	case r.Lease != nil && now.Before(r.Lease.Until):
		return "The cluster is in the courier file " + r.Lease.Export + ", whose receipts have not been imported."
	case s.State != Online:
		return cmp.Or(s.Problem, "There is no connection yet.")
	case r.Mark != nil && r.SubscriptionID == "":
		return "AMS may have created the subscription although its answer was lost; Landfall searches for it before " +
			"it sends another request."
	}
	return cmp.Or(j.failure, "The cluster is queued.")
}

// closedReason describes the end of a deleted cluster's subscription.
func closedReason(ended string) string {
	switch ended {
	case closedDeleted:
		return "The cluster and its subscription in AMS were deleted."
	case closedNever:
		return "The cluster was deleted before it had a subscription in AMS."
	}
	return "The cluster was deleted; its subscription stays in AMS."
}

func unless(confirmed, wanted string) string {
	if confirmed == wanted {
		return ""
	}
	return wanted
}
