package ams

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"landfall/appliance/ams/outbox"
)

// The statuses of a subscription in AMS.
const (
	statusReserved      = "Reserved"
	statusActive        = "Active"
	statusStale         = "Stale"
	statusArchived      = "Archived"
	statusDisconnected  = "Disconnected"
	statusDeprovisioned = "Deprovisioned"
)

const assistedInstall = "AssistedInstall"

// Row is a subscription as AMS shows it: what is decided by, and the object as it came.
type Row struct {
	ID                string
	Status            string
	ClusterID         string
	ExternalClusterID string
	OrganizationID    string
	CreatorID         string
	PlanCategory      string
	DisplayName       string
	ConsoleURL        string
	Raw               json.RawMessage
}

func (r *Row) fields() outbox.Fields {
	return outbox.Fields{DisplayName: r.DisplayName, ExternalClusterID: r.ExternalClusterID, ConsoleURL: r.ConsoleURL}
}

// Query is how AMS was asked.
type Query int

// How AMS was asked for a cluster's subscription.
const (
	NotRead Query = iota
	ByID
	BySearch // by cluster_id, and by external_cluster_id when it is known
)

// Observed is what AMS answered last. Rows that are deprovisioned are as good as gone and not in
// it.
type Observed struct {
	How  Query
	Rows []Row
}

// Site is who tells AMS, and how clusters end.
type Site struct {
	Organization string
	AccountID    string
	FinalStatus  string        // Active or Disconnected
	Quarantine   time.Duration // for which a search may not find what was created
}

// Situation is all that a decision follows from.
type Situation struct {
	ClusterID string
	Desired   outbox.Desired
	Recorded  outbox.Recorded
	Observed  Observed
	Site      Site
	Now       time.Time
	Courier   bool // a courier tells: what others changed meanwhile is not overwritten
	Refresh   bool // nothing waits: look how the row is
}

// Do is what to do next about a cluster's subscription.
type Do string

// The actions.
const (
	Rest    Do = "rest"    // AMS knows all there is to tell
	Read    Do = "look"    // ask AMS: by id when there is one, else by search
	Wait    Do = "wait"    // until Action.Until, then look again
	Create  Do = "create"  // write the mark, then POST
	Adopt   Do = "adopt"   // remember the id of Action.Row
	Clear   Do = "clear"   // forget the mark: there is no second subscription
	Forget  Do = "forget"  // the id leads nowhere any more
	Update  Do = "update"  // PATCH Action.Patch and Action.Status
	Delete  Do = "delete"  // DELETE Action.Row
	Close   Do = "close"   // nothing is left to do, for ever; Action.Note says how it ended
	Refuse  Do = "stop"    // Action.Stop: a person decides
	Dispute Do = "quarrel" // a courier found other values than those it was sent out with
)

// How a subscription ended.
const (
	closedDeleted = "deleted"
	closedLeft    = "left"
	closedNever   = "never"
)

// Action is the outcome of a decision.
type Action struct {
	Do     Do
	Rule   int // of the table in docs/ams.md
	Row    *Row
	Patch  outbox.Fields
	Status string
	Acked  outbox.Fields // what AMS turns out to have already
	Search bool          // look by search though the id is known
	Until  time.Time
	Stop   string // outbox.Blocked, outbox.Attention
	Reason string // a sentence: why it stopped
	Note   string // worth knowing
	Ended  string
}

// maxCreates is how often a subscription is asked for before a person is.
const maxCreates = 3

// maxQuarantineAge bounds how long a quarantine may seem to have lasted: beyond it the clock may have
// jumped, and it begins anew.
const maxQuarantineAge = 24 * time.Hour

// Decide says what to do next about a cluster's subscription. It is a function of its argument
// alone: whoever acts does what it says, remembers what came of it, and asks again until it says
// [Rest], [Wait], [Close] or [Refuse].
func Decide(s Situation) Action {
	switch {
	case s.Recorded.Closed != "":
		return Action{Do: Rest}
	case s.Desired.Phase == outbox.Absent && !s.Desired.MustExist:
		return s.remove()
	case s.markExpired():
		return s.clear()
	case s.Recorded.Done(&s.Desired) && !s.Refresh:
		return s.finished(Action{Rule: 14})
	case s.Observed.How == NotRead:
		return Action{Do: Read}
	case s.Recorded.SubscriptionID == "":
		return s.find()
	}
	return s.keep()
}

// remove ends a subscription that AMS is not to keep.
func (s Situation) remove() Action {
	r := s.Recorded
	if r.SubscriptionID == "" && r.Mark == nil {
		return Action{Do: Close, Rule: 1, Ended: closedNever}
	}
	if s.Observed.How == NotRead {
		return Action{Do: Read}
	}
	if r.SubscriptionID == "" {
		rows := s.ours()
		if len(rows) == 0 {
			return s.quarantine(2, Action{Do: Close, Rule: 3, Ended: closedNever})
		}
		return Action{Do: Adopt, Rule: 4, Row: &rows[0]}
	}
	if len(s.Observed.Rows) == 0 {
		return Action{Do: Close, Rule: 6, Ended: closedDeleted}
	}
	row := &s.Observed.Rows[0]
	if s.foreign(row) {
		return s.notOurs(row)
	}
	if row.Status == statusReserved && !r.Twin {
		return Action{Do: Delete, Rule: 4, Row: row}
	}
	return Action{Do: Close, Rule: 5, Row: row, Ended: closedLeft,
		Note: fmt.Sprintf("AMS has the subscription as %s and keeps it.", row.Status)}
}

// find looks for the subscription of a cluster whose id is not known.
func (s Situation) find() Action {
	rows := s.ours()
	switch {
	case len(rows) == 1 && s.foreign(&rows[0]):
		return s.notOurs(&rows[0])
	case len(rows) == 1:
		return Action{Do: Adopt, Rule: 10, Row: &rows[0]}
	case len(rows) > 1:
		return s.surplus(rows)
	}
	for i := range s.Observed.Rows {
		row := &s.Observed.Rows[i]
		if s.Desired.ExternalClusterID == "" || row.ExternalClusterID != s.Desired.ExternalClusterID {
			continue
		}
		if row.PlanCategory == assistedInstall || !s.sameOrganization(row) {
			return s.notOurs(row)
		}
		return Action{Do: Adopt, Rule: 20, Row: row,
			Note: "The cluster's metrics reached AMS first and made this subscription; its plan, creator and " +
				"provenance are not those of an assisted installation."}
	}
	if s.Recorded.Mark == nil {
		return Action{Do: Create, Rule: 7}
	}
	if s.Recorded.Mark.Tries >= maxCreates {
		return s.quarantine(8, Action{Do: Refuse, Rule: 9, Stop: outbox.Attention,
			Reason: fmt.Sprintf("AMS was asked %d times for a subscription and shows none; look for it there, then "+
				"try again.", maxCreates)})
	}
	return s.quarantine(8, Action{Do: Create, Rule: 9})
}

// quarantine waits until a search would find what may have been created, then does what was asked.
func (s Situation) quarantine(rule int, then Action) Action {
	looked := s.Recorded.Mark.SearchedAt
	if age := s.Now.Sub(looked); looked.IsZero() || age < 0 || age > maxQuarantineAge {
		looked = s.Now // the first look, or the clock jumped meanwhile
	}
	if until := looked.Add(s.Site.Quarantine); s.Now.Before(until) {
		return Action{Do: Wait, Rule: rule, Until: until}
	}
	return then
}

// surplus chooses among several subscriptions of one cluster, and has those deleted that this site
// made twice.
func (s Situation) surplus(rows []Row) Action {
	order := []string{statusActive, statusStale, statusDisconnected, statusReserved}
	rank := func(row Row) int {
		if i := slices.Index(order, row.Status); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a.ID, b.ID)) })
	for i := range rows[1:] {
		if row := &rows[i+1]; row.Status == statusReserved && s.made(row) {
			return Action{Do: Delete, Rule: 11, Row: row,
				Note: "AMS had two subscriptions of this cluster; the later one was deleted."}
		}
	}
	return Action{Do: Refuse, Rule: 11, Stop: outbox.Attention, Reason: fmt.Sprintf(
		"AMS has %d subscriptions of this cluster that were not made here; delete all but %s there, then try again.",
		len(rows), rows[0].ID)}
}

// made tells whether a row can only be one that this site asked for when it was not sure that it
// had one.
func (s Situation) made(row *Row) bool {
	if slices.Contains(s.Recorded.Former, row.ID) {
		return true
	}
	mark := s.Recorded.Mark
	return mark != nil && mark.Tries > 1 && row.PlanCategory == assistedInstall && row.CreatorID == s.Site.AccountID &&
		s.Site.AccountID != ""
}

// keep brings the known row to what is desired.
func (s Situation) keep() Action {
	r := s.Recorded
	if len(s.Observed.Rows) == 0 {
		if r.AckedStatus == statusActive || r.AckedStatus == statusDisconnected || r.Reverify {
			return Action{Do: Refuse, Rule: 13, Stop: outbox.Attention,
				Reason: "The subscription is gone from AMS; have it created again, or leave it so."}
		}
		return Action{Do: Forget, Rule: 12}
	}
	row := &s.Observed.Rows[0]
	if s.foreign(row) {
		return s.notOurs(row)
	}
	action := Action{Rule: 14, Row: row}
	switch {
	case s.Desired.Phase == outbox.Active && row.Status == statusArchived:
		action.Rule, action.Note = 17, "The subscription is archived in AMS; it is not changed any more."
		return s.finished(action)
	case s.Desired.Phase == outbox.Active && row.Status == statusReserved:
		action.Rule, action.Status = 15, cmp.Or(s.Site.FinalStatus, statusActive)
	case s.Desired.Phase == outbox.Active:
		action.Rule = 16
	case row.Status != statusReserved:
		action.Rule, action.Note = 18,
			fmt.Sprintf("AMS has the subscription as %s though the cluster is not installed.", row.Status)
	}
	if r.Twin {
		action.Rule = 20
	}
	return s.delta(action)
}

// delta adds the fields that are to be sent: those that changed here since AMS confirmed them. One
// that was edited in AMS since is left; one that changed on both sides is overwritten by the relay,
// and by a courier not.
func (s Situation) delta(action Action) Action {
	acked, shown := s.Recorded.Acked, action.Row.fields()
	disputed := ""
	field := func(name, wanted, known, seen string, insist bool, to, ack *string) {
		insist = insist || s.sent(seen)
		switch {
		case wanted == "":
		case wanted == seen:
			*ack = wanted
		case wanted == known && !insist:
			*ack = known
			action.Note = cmp.Or(action.Note, fmt.Sprintf("The %s was changed in AMS to %q; it is left so.", name,
				seen))
		case known != seen && seen != "" && (s.Courier || s.Recorded.Reverify && known != "") && !insist:
			disputed = fmt.Sprintf("AMS has the %s %q where %q was expected, and %q is to be told; try again to "+
				"overwrite it, or leave it so.", name, seen, known, wanted)
		default:
			*to = wanted
		}
	}
	d := s.Desired
	field("name", d.DisplayName, acked.DisplayName, shown.DisplayName, false, &action.Patch.DisplayName,
		&action.Acked.DisplayName)
	if !s.Recorded.Twin {
		field("cluster's own id", d.ExternalClusterID, acked.ExternalClusterID, shown.ExternalClusterID,
			action.Row.Status == statusReserved,
			&action.Patch.ExternalClusterID, &action.Acked.ExternalClusterID)
	}
	field("console's URL", d.ConsoleURL, acked.ConsoleURL, shown.ConsoleURL, false, &action.Patch.ConsoleURL,
		&action.Acked.ConsoleURL)
	switch {
	case disputed != "" && s.Courier:
		return Action{Do: Dispute, Rule: action.Rule, Row: action.Row, Reason: disputed}
	case disputed != "":
		return Action{Do: Refuse, Rule: action.Rule, Row: action.Row, Stop: outbox.Attention, Reason: disputed}
	case action.Patch == outbox.Fields{} && action.Status == "":
		return s.finished(action)
	}
	action.Do = Update
	return action
}

// sent tells whether a value that AMS shows was sent from here without an answer having come:
// nobody else made it so.
func (s Situation) sent(value string) bool {
	return value != "" && slices.ContainsFunc(s.Recorded.Unconfirmed, func(f outbox.Fields) bool {
		return value == f.DisplayName || value == f.ExternalClusterID || value == f.ConsoleURL
	})
}

// markExpired tells whether it is time to look for a second subscription, which may have been made
// while an answer was missing.
func (s Situation) markExpired() bool {
	mark := s.Recorded.Mark
	return mark != nil && s.Recorded.SubscriptionID != "" && !s.Now.Before(s.markEnds())
}

func (s Situation) markEnds() time.Time {
	return s.Recorded.Mark.At.Add(markQuarantines * s.Site.Quarantine)
}

// markQuarantines is after how many quarantines a search shows all that was made.
const markQuarantines = 4

func (s Situation) clear() Action {
	if s.Observed.How != BySearch {
		return Action{Do: Read, Rule: 11, Search: true}
	}
	if rows := s.ours(); len(rows) > 1 {
		return s.surplus(rows)
	}
	return Action{Do: Clear, Rule: 11}
}

// finished rests, or closes what outlived its cluster.
func (s Situation) finished(action Action) Action {
	action.Do = Rest
	if s.Recorded.Mark != nil {
		action.Until = s.markEnds()
		return action
	}
	if !s.Desired.DeletedAt.IsZero() {
		action.Do, action.Ended = Close, closedLeft
	}
	return action
}

// ours are the rows that bear the cluster's id.
func (s Situation) ours() []Row {
	var rows []Row
	for _, row := range s.Observed.Rows {
		if row.ClusterID == s.ClusterID {
			rows = append(rows, row)
		}
	}
	return rows
}

func (s Situation) sameOrganization(row *Row) bool {
	return row.OrganizationID == "" || s.Site.Organization == "" || row.OrganizationID == s.Site.Organization
}

func (s Situation) foreign(row *Row) bool {
	if s.Recorded.Twin {
		return !s.sameOrganization(row)
	}
	return row.ClusterID != "" && row.ClusterID != s.ClusterID || !s.sameOrganization(row)
}

func (s Situation) notOurs(row *Row) Action {
	return Action{Do: Refuse, Rule: 19, Row: row, Stop: outbox.Blocked, Reason: fmt.Sprintf(
		"Subscription %s in AMS is of cluster %s in organization %s, not of this cluster; nothing is told until a "+
			"person has looked at it.",
		row.ID, cmp.Or(row.ClusterID, "(none)"), cmp.Or(row.OrganizationID, "(none)"))}
}
