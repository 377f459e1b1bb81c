package membership

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"landfall/appliance/fault"
	"landfall/appliance/fleet"
	"landfall/appliance/sentence"
)

// Status describes a fleet as one member sees it.
type Status struct {
	Fleet string `json:"fleet"` // ID; "" on a single machine
	// Member is the member that was asked.
	Member string `json:"member"`
	// Leader reports whether that member leads. A single machine does.
	Leader bool `json:"leader"`
	// Leading is the member that leads.
	Leading string    `json:"leading"`
	Since   time.Time `json:"since,omitzero"` // it leads since then
	// Records is the number of the newest record of the log.
	Records uint64   `json:"records"`
	Etcd    []string `json:"etcd,omitempty"`
	Prefix  string   `json:"prefix,omitempty"`
	Members []Member `json:"members"`
	// Loss says what a loss of the leader now would cost.
	Loss string `json:"loss"`
}

// Member is a member of a fleet that is connected to etcd.
type Member struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Version string `json:"version"`
	Leader  bool   `json:"leader"`
	// Records is the number of the newest record in its database.
	Records uint64 `json:"records"`
	// Behind is the number of records that its database lacks.
	Behind uint64 `json:"behind"`
	// ClockSeconds is how far its clock was ahead of that of the leader, when it wrote its row. It
	// contains the time since then, up to a second.
	ClockSeconds float64 `json:"clock_seconds"`
}

// Status returns the state of the fleet. The request may have come through another member, which is
// then the one that was asked.
func (m *Membership) Status(ctx context.Context) (*Status, error) {
	leader, err := m.sequence.Leader(ctx)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	rows, err := m.sequence.Members(ctx)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	head, err := m.sequence.Head(ctx)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	s := &Status{Fleet: m.state.Fleet, Member: m.state.Member, Records: head.Number, Etcd: m.state.Etcd,
		Prefix: m.state.Prefix, Members: []Member{}}
	if through := fleet.Through(ctx); through != "" {
		s.Member = through
	}
	if leader != nil {
		s.Leading, s.Since = leader.Member.Name, leader.Since
	}
	s.Leader = s.Leading == s.Member
	now := m.Clock.Now()
	for _, row := range rows {
		if row.ID == m.state.ID { // the row is up to a second old
			row = m.describe()
			row.Clock = now
		}
		s.Members = append(s.Members, Member{Name: row.Name, URL: row.URL, Version: row.Version,
			Leader: row.Name == s.Leading, Records: row.Applied, Behind: head.Number - min(head.Number, row.Applied),
			ClockSeconds: row.Clock.Sub(now).Seconds()})
	}
	s.Loss = loss(s)
	return s, nil
}

// loss says what a loss of the leader would cost.
func loss(s *Status) string {
	var others []string
	for _, member := range s.Members {
		if !member.Leader {
			others = append(others, member.Name)
		}
	}
	slices.Sort(others)
	if len(others) == 0 {
		return "No other member is there to take over: the appliance would be down until this machine is back."
	}
	return fmt.Sprintf("No change: etcd has every change that was acknowledged, and %s would take over (%s).",
		sentence.Count(len(others), "member"), strings.Join(others, ", "))
}

// Invitation is what a machine needs to join a fleet, besides a snapshot.
type Invitation struct {
	Fleet  string   `json:"fleet"`
	Etcd   []string `json:"etcd"`
	Prefix string   `json:"prefix"`
}

// Invitation returns the invitation of the fleet.
func (m *Membership) Invitation(context.Context) (*Invitation, error) {
	return &Invitation{Fleet: m.state.Fleet, Etcd: m.state.Etcd, Prefix: m.state.Prefix}, nil
}
