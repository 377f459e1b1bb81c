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

// Status is how a site stands with AMS.
type Status struct {
	State         State     `json:"state"`
	Since         time.Time `json:"since,omitzero"` // of the state
	Problem       string    `json:"problem,omitempty"`
	URL           string    `json:"api_url"`
	Organization  string    `json:"organization,omitempty"`
	Account       string    `json:"account,omitempty"`
	LastContact   time.Time `json:"last_contact,omitzero"`
	NextTry       time.Time `json:"next_try,omitzero"`
	TokenUntil    time.Time `json:"token_until,omitzero"`
	ClockSkew     float64   `json:"clock_skew_seconds"`
	ConnectedTill time.Time `json:"connected_till,omitzero"` // by hand
	Waiting       int       `json:"waiting"`
	Sent          int       `json:"sent"`
	Attention     int       `json:"attention"`
	Left          int       `json:"left"`
	OldestWaiting time.Time `json:"oldest_waiting,omitzero"`
	SecondsLeft   float64   `json:"seconds_left"` // to tell what waits, at the rate that is allowed
	Couriers      []Courier `json:"couriers"`     // that are out
	Total         int       `json:"total"`        // of the clusters that were asked for
	// what needs attention first, then what waits, the longest first
	Clusters []ClusterStatus `json:"clusters"`
}

// Courier is one that has not come back.
type Courier struct {
	Export   string    `json:"export_id"`
	Until    time.Time `json:"until"`
	Clusters int       `json:"clusters"`
}

// Selection says of which clusters a status tells; its zero value is of all. The counts are of all
// clusters in any case.
type Selection struct {
	ClusterID string
	State     string // of the lines
	Name      string // part of the cluster's name
	Offset    int
	Limit     int // 0: no limit
}

// The lines that people read of a cluster.
const (
	ClusterWaiting   = "waiting"
	ClusterSent      = "sent"
	ClusterAttention = "attention"
	ClusterLeft      = "left"
)

// ClusterStatus is what AMS knows of one cluster, and what not yet.
type ClusterStatus struct {
	ClusterID      string        `json:"cluster_id"`
	Name           string        `json:"name"`
	SubscriptionID string        `json:"subscription_id"`
	State          string        `json:"state"` // waiting, sent, attention, left
	Since          time.Time     `json:"since,omitzero"`
	Reason         string        `json:"reason,omitempty"` // what it waits for, or what stopped it
	Kind           string        `json:"kind,omitempty"`   // of what stopped it: blocked, dead, attention
	HTTP           int           `json:"http,omitempty"`
	Code           string        `json:"code,omitempty"`
	OperationID    string        `json:"operation_id,omitempty"`
	Note           string        `json:"note,omitempty"`
	RemoteStatus   string        `json:"ams_status,omitempty"` // as AMS showed it last
	Told           outbox.Fields `json:"told"`
	ToTell         outbox.Fields `json:"to_tell"`
	Edited         outbox.Fields `json:"edited"` // by a person, in place of the cluster's own
	ToBecome       outbox.Phase  `json:"to_become"`
	By             string        `json:"by,omitempty"`
	Attempts       int           `json:"attempts,omitempty"`
	NextTry        time.Time     `json:"next_try,omitzero"`
	Deleted        bool          `json:"deleted,omitempty"` // the cluster is gone here
}

// callsPerCluster is how many calls a new cluster takes: search, create, and the rest in one.
const callsPerCluster = 3

// Status tells how the site stands with AMS. Of a single cluster only that one is read, and only it
// is counted.
func (r *Relay) Status(_ context.Context, of Selection) (*Status, error) {
	r.mu.Lock()
	s := &Status{
		State: r.state, Since: r.since, Problem: r.problem, URL: r.options.URL, LastContact: r.contact,
		ConnectedTill: r.connectUntil,
		Organization:  orNone(r.identity.OrganizationName, r.identity.OrganizationID),
		Account:       cmp.Or(r.options.Account, r.identity.Username),
		ClockSkew:     r.options.Client.Skew().Seconds(), TokenUntil: r.options.Client.TokenUntil(),
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
	err := r.options.DB.View(func(tx *store.Tx) error {
		return each(tx, of.ClusterID, func(id string, d *outbox.Desired) error {
			recorded, err := loadRecorded(tx, id)
			if err != nil {
				return err
			}
			s.add(id, d, &recorded, jobs[id], r.options.Clock.Now())
			return nil
		})
	})
	s.SecondsLeft = float64(s.Waiting*callsPerCluster) / float64(max(1, r.options.Client.limiter.Limit()))
	s.choose(of)
	return s, err
}

// choose leaves the clusters that were asked for, in order.
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
		ClusterID: id, Name: d.DisplayName, SubscriptionID: cmp.Or(r.SubscriptionID, outbox.ProvisionalID(id, d.CreatedAt)),
		Told: r.Acked, ToBecome: d.Phase, Edited: d.Edited,
		Note: r.Note, RemoteStatus: r.AckedStatus, By: r.ReportedBy, Deleted: !d.DeletedAt.IsZero(), Attempts: j.attempts,
		NextTry: j.next,
		ToTell: outbox.Fields{
			DisplayName:       unless(r.Acked.DisplayName, d.DisplayName),
			ExternalClusterID: unless(r.Acked.ExternalClusterID, d.ExternalClusterID),
			ConsoleURL:        unless(r.Acked.ConsoleURL, d.ConsoleURL),
		},
	}
	if lease := r.Lease; lease != nil && now.Before(lease.Until) {
		s.lent(lease)
	}
	stop := r.Stopped(d, now)
	switch {
	case r.Closed != "":
		c.State, c.Since, c.Reason, c.ToTell = ClusterLeft, r.ClosedAt, "It ended here; in AMS it was "+r.Closed+".",
			outbox.Fields{}
		s.Left++
	case stop != nil:
		c.State, c.Since, c.Reason, c.Kind = ClusterAttention, stop.At, stop.Reason, stop.Kind
		c.HTTP, c.Code, c.OperationID = stop.HTTP, stop.Code, stop.OperationID
		s.Attention++
	case r.Done(d):
		c.State, c.Since, c.ToTell = ClusterSent, r.ReportedAt, outbox.Fields{}
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

// lent counts a cluster that a courier has.
func (s *Status) lent(lease *outbox.Lease) {
	i := slices.IndexFunc(s.Couriers, func(w Courier) bool { return w.Export == lease.Export })
	if i < 0 {
		i = len(s.Couriers)
		s.Couriers = append(s.Couriers, Courier{Export: lease.Export, Until: lease.Until})
	}
	s.Couriers[i].Clusters++
}

// waitsFor says what a cluster waits for.
func (s *Status) waitsFor(r *outbox.Recorded, j job, now time.Time) string {
	switch {
	case r.Lease != nil && now.Before(r.Lease.Until):
		return "A courier has it in file " + r.Lease.Export + "."
	case s.State != Online:
		return cmp.Or(s.Problem, "There is no connection yet.")
	case r.Mark != nil && r.SubscriptionID == "":
		return "AMS may have made its subscription without the answer having come through; it is looked for until " +
			"that is certain."
	}
	return cmp.Or(j.failure, "Its turn comes.")
}

func unless(told, wanted string) string {
	if told == wanted {
		return ""
	}
	return wanted
}
