package engine

import (
	"errors"
	"slices"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/audit"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
)

// check checks the invariants after a change: those of every [audit.Auditor], and two more, because
// a walk has the whole history of its site:
//
// - Each recorded event is in the store.
// - The outbox entry follows from the cluster's history, with one generation for each difference.
func (s *site) check(c *change) {
	s.countEvents(c)
	if err := errors.Join(s.auditor.CheckIn(s.tx, s.audited(), audit.Change(c.committed())),
		s.auditor.CheckMembership(s.tx)); err != nil {
		s.fail("%v", err)
	}
	if found := s.auditor.Violation(); found != nil {
		s.fail("%v", found)
	}
	for _, h := range c.hosts { // the change did not load the other hosts
		s.seen.states["host "+*h.API.Status].Add(1)
	}
	if row := c.clusters[walkCluster]; row != nil {
		s.seen.states["cluster "+*row.API.Status].Add(1)
		s.checkOutbox(row)
	}
}

func (s *site) audited() audit.Site {
	return audit.Site{Engine: s.e, DB: s.e.options.DB, Now: s.clock.Now}
}

// countEvents counts the events of a change.
func (s *site) countEvents(c *change) {
	events := 0
	for _, line := range c.logLines {
		if len(line.attrs) >= 2 && line.attrs[0] == "event" {
			events++
			s.trace = append(s.trace, "    "+line.message)
		}
	}
	if events != c.events {
		s.fail("%d events were written and %d recorded", c.events, events)
	}
	s.events += events
}

// checkOutbox compares the outbox entry of the cluster with its history.
func (s *site) checkOutbox(row *record.Cluster) {
	want := s.outbox
	want.Phase, want.DisplayName = outbox.Reserved, row.API.Name
	if id := row.API.OpenshiftClusterID.String(); id != "" {
		want.ExternalClusterID = id // a reset leaves the id in AMS until another id replaces it
	}
	if url := consoleURLIfUp(row); url != "" && slices.Contains([]string{lifecycle.ClusterFinalizing,
		lifecycle.ClusterInstalled}, *row.API.Status) {
		want.ConsoleURL = url
	}
	if want.MustExist = want.MustExist || slices.Contains([]string{lifecycle.ClusterInstalled,
		lifecycle.ClusterAddingHosts},
		*row.API.Status); want.MustExist {
		want.Phase = outbox.Active
	}
	held, err := outbox.DesiredRows.Get(s.tx, walkCluster)
	if err != nil {
		s.fail("AMS must not receive anything: %v", err)
		return
	}
	if want != s.outbox || !s.history {
		want.Generation++
		want.CreatedAt, want.ChangedAt = held.CreatedAt, held.ChangedAt
		s.outbox, s.history = want, true
	}
	if *held != s.outbox {
		s.fail("the outbox entry is %+v, but must be %+v", held, s.outbox)
	}
}

// checkRest checks that each remaining state waits for an external event.
func (s *site) checkRest() {
	err := record.Hosts.Each(s.tx, "", func(key string, h *record.Host) error {
		if by, _ := audit.HostExit(s.audited(), &h.API); !by.IsZero() {
			s.fail("host %s stays %s; it must leave this state by %s", key, *h.API.Status, by)
		}
		return nil
	})
	row, getErr := record.Clusters.Get(s.tx, walkCluster)
	if err != nil || getErr != nil {
		s.fail("%v %v", err, getErr)
		return
	}
	if by, _ := audit.ClusterExit(s.audited(), &row.API); !by.IsZero() {
		s.fail("the cluster stays %s; it must leave this state by %s", *row.API.Status, by)
	}
}

// checkEmpty checks that no rows of a deleted site are left, and counts its events.
func (s *site) checkEmpty() {
	if s.fault != "" || s.over {
		return
	}
	events := 0
	for _, err := range []error{
		record.Hosts.Keys(s.tx, "", s.auditor.Leftover("the site", "a host")), record.Clusters.Keys(s.tx, "",
			s.auditor.Leftover("the site", "a cluster")),
		s.auditor.CheckRest(s.tx, s.audited(), nil, nil),
		event.Rows.Keys(s.tx, "", func(string) error { events++; return nil }),
	} {
		if err != nil {
			s.fail("%v", err)
		}
	}
	if found := s.auditor.Violation(); found != nil {
		s.fail("%v", found)
	}
	if events != s.events {
		s.fail("the store has %d events, but %d were recorded", events, s.events)
	}
}
