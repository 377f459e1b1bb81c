package ams

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"landfall/appliance/ams/outbox"
)

// Statuses of a subscription in AMS.
const (
	statusReserved      = "Reserved"
	statusActive        = "Active"
	statusStale         = "Stale"
	statusArchived      = "Archived"
	statusDisconnected  = "Disconnected"
	statusDeprovisioned = "Deprovisioned"
)

const assistedInstall = "AssistedInstall"

// Row is a subscription in AMS: the fields that decisions use, and the raw object.
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

// Query is the kind of request with which AMS was read.
type Query int

// Kinds of read requests.
const (
	NotRead Query = iota
	ByID
	BySearch // by cluster_id and, if it is set, by external_cluster_id
)

// Observed is AMS's last answer. It contains no deprovisioned rows; a deprovisioned row counts as
// deleted.
type Observed struct {
	How  Query
	Rows []Row
}

// Site identifies the reporting account and contains the rules for installed clusters.
type Site struct {
	Organization string
	AccountID    string
	FinalStatus  string        // Active or Disconnected
	Quarantine   time.Duration // after this time, a search finds every created subscription
}

// Situation is the complete input of a decision.
type Situation struct {
	ClusterID string
	Desired   outbox.Desired
	Recorded  outbox.Recorded
	Observed  Observed
	Site      Site
	Now       time.Time
	Courier   bool // a courier reports: do not overwrite edits of other people
	Refresh   bool // no change waits: only read the row
}

// Do names the next action for a cluster's subscription.
type Do string

// Actions.
const (
	Rest    Do = "rest"    // AMS has confirmed everything
	Read    Do = "look"    // read from AMS, by ID or else by search
	Wait    Do = "wait"    // until Action.Until, then decide again
	Create  Do = "create"  // store the mark, then send POST
	Adopt   Do = "adopt"   // record the ID of Action.Row
	Clear   Do = "clear"   // delete the mark: there is no second subscription
	DropID  Do = "forget"  // delete the ID: its subscription no longer exists
	Update  Do = "update"  // PATCH Action.Patch and Action.Status
	Delete  Do = "delete"  // DELETE Action.Row
	Close   Do = "close"   // end permanently; Action.Note contains the reason
	Refuse  Do = "stop"    // stop until a person decides; see Action.Stop
	Dispute Do = "quarrel" // a courier found values that changed since the export
)

// Results with which a subscription is closed.
const (
	closedDeleted = "deleted"
	closedLeft    = "left"
	closedNever   = "never"
)

// Action is the result of a decision.
type Action struct {
	Do     Do
	Rule   int // in the table of docs/ams.md
	Row    *Row
	Patch  outbox.Fields
	Status string
	Acked  outbox.Fields // fields that AMS already has
	Search bool          // search even if the ID is set
	Until  time.Time
	Stop   string // outbox.Blocked, outbox.Attention
	Reason string // reason for the stop, a sentence
	// values in AMS that a person may decide to overwrite
	Disputed outbox.Fields
	Note     string // information for people
	Ended    string
}

// maxCreates is the number of POSTs after which a person must decide.
const maxCreates = 3

// maxQuarantineAge is the longest plausible quarantine. After a longer time the clock may have
// jumped, so the quarantine starts again.
const maxQuarantineAge = 24 * time.Hour

// Decide returns the next action for a cluster's subscription. The result depends only on the
// argument. The caller executes the action, stores the result, and calls Decide again until the
// action is [Rest], [Wait], [Close] or [Refuse].
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

// remove ends a subscription that must not exist in AMS.
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
		Note: fmt.Sprintf("The subscription stays in AMS with the status %s.", row.Status)}
}

// find decides for a cluster without a recorded subscription ID.
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
			Note: "The cluster's metrics reached AMS first and created this subscription; its plan, creator and " +
				"provenance are not those of an assisted installation."}
	}
	if s.Recorded.Mark == nil {
		return Action{Do: Create, Rule: 7}
	}
	if s.Recorded.Mark.Tries >= maxCreates {
		return s.quarantine(8, Action{Do: Refuse, Rule: 9, Stop: outbox.Attention,
			Reason: fmt.Sprintf("AMS shows no subscription after %d requests to create one; search for it in AMS, "+
				"then try again.", maxCreates)})
	}
	return s.quarantine(8, Action{Do: Create, Rule: 9})
}

// quarantine returns Wait until a search is certain to find a created subscription. Then it returns
// the given action.
func (s Situation) quarantine(rule int, then Action) Action {
	searchedAt := s.Recorded.Mark.SearchedAt
	if age := s.Now.Sub(searchedAt); searchedAt.IsZero() || age < 0 || age > maxQuarantineAge {
		searchedAt = s.Now // first search, or the clock has jumped
	}
	if until := searchedAt.Add(s.Site.Quarantine); s.Now.Before(until) {
		return Action{Do: Wait, Rule: rule, Until: until}
	}
	return then
}

// surplus selects one of several subscriptions of a cluster. It deletes a duplicate only if this
// site must have created it.
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
				Note: "AMS had two subscriptions of this cluster; Landfall deleted the later one."}
		}
	}
	return Action{Do: Refuse, Rule: 11, Stop: outbox.Attention, Reason: fmt.Sprintf(
		"AMS has %d subscriptions of this cluster that another client created; delete all but %s in AMS, then try "+
			"again.",
		len(rows), rows[0].ID)}
}

// made reports whether this site must have created the row, in a repeated POST.
func (s Situation) made(row *Row) bool {
	if slices.Contains(s.Recorded.Former, row.ID) {
		return true
	}
	mark := s.Recorded.Mark
	return mark != nil && mark.Tries > 1 && row.PlanCategory == assistedInstall && row.CreatorID == s.Site.AccountID &&
		s.Site.AccountID != ""
}

// keep decides for a cluster with a recorded subscription ID.
func (s Situation) keep() Action {
	r := s.Recorded
	if len(s.Observed.Rows) == 0 {
		if r.AckedStatus == statusActive || r.AckedStatus == statusDisconnected || r.Reverify {
			return Action{Do: Refuse, Rule: 13, Stop: outbox.Attention,
				Reason: "The subscription is gone from AMS; create it again, or accept its removal."}
		}
		return Action{Do: DropID, Rule: 12}
	}
	row := &s.Observed.Rows[0]
	if s.foreign(row) {
		return s.notOurs(row)
	}
	action := Action{Rule: 14, Row: row}
	switch {
	case s.Desired.Phase == outbox.Active && row.Status == statusArchived:
		action.Rule, action.Note = 17, "The subscription is archived in AMS; Landfall no longer changes it."
		return s.finished(action)
	case s.Desired.Phase == outbox.Active && row.Status == statusReserved:
		action.Rule, action.Status = 15, cmp.Or(s.Site.FinalStatus, statusActive)
	case s.Desired.Phase == outbox.Active:
		action.Rule = 16
	case row.Status != statusReserved:
		action.Rule, action.Note = 18,
			fmt.Sprintf("The subscription has the status %s although the cluster is not installed.", row.Status)
	}
	if r.Twin {
		action.Rule = 20
	}
	return s.delta(action)
}

// delta adds the fields to send: those that changed here since AMS confirmed them. It keeps a field
// that was edited in AMS since then. If a field changed on both sides, the relay overwrites it and
// a courier does not.
func (s Situation) delta(action Action) Action {
	acked, shown, allowed := s.Recorded.Acked, action.Row.fields(), s.Recorded.Overwrite
	disputed := ""
	field := func(name, wanted, known, seen, allowed string, overwrite bool, to, ack, dispute *string) {
		overwrite = overwrite || s.sent(seen)
		switch {
		case wanted == "":
		case wanted == seen:
			*ack = wanted
		case wanted == known && !overwrite:
			*ack = known
			action.Note = cmp.Or(action.Note,
				fmt.Sprintf("The %s was changed in AMS to %q; Landfall does not overwrite it.",
					name,
					seen))
		case known != seen && seen != "" && (s.Courier || s.Recorded.Reverify && known != "") && !overwrite &&
			seen != allowed:
			*dispute = seen
			disputed = fmt.Sprintf("AMS has the %s %q instead of %q, and %q is to be sent; try again to "+
				"overwrite the value in AMS, or accept it.", name, seen, known, wanted)
		default:
			*to = wanted
		}
	}
	d := s.Desired
	field("name", d.DisplayName, acked.DisplayName, shown.DisplayName, allowed.DisplayName, false,
		&action.Patch.DisplayName, &action.Acked.DisplayName, &action.Disputed.DisplayName)
	if !s.Recorded.Twin {
		field("cluster's own id", d.ExternalClusterID, acked.ExternalClusterID, shown.ExternalClusterID,
			allowed.ExternalClusterID, action.Row.Status == statusReserved,
			&action.Patch.ExternalClusterID, &action.Acked.ExternalClusterID, &action.Disputed.ExternalClusterID)
	}
	field("console's URL", d.ConsoleURL, acked.ConsoleURL, shown.ConsoleURL, allowed.ConsoleURL, false,
		&action.Patch.ConsoleURL, &action.Acked.ConsoleURL, &action.Disputed.ConsoleURL)
	switch {
	case disputed != "" && s.Courier:
		return Action{Do: Dispute, Rule: action.Rule, Row: action.Row, Reason: disputed, Disputed: action.Disputed}
	case disputed != "":
		return Action{Do: Refuse, Rule: action.Rule, Row: action.Row, Stop: outbox.Attention, Reason: disputed,
			Disputed: action.Disputed}
	case action.Patch == outbox.Fields{} && action.Status == "":
		return s.finished(action)
	}
	action.Do = Update
	return action
}

// sent reports whether this site sent the value earlier in a PATCH without an answer.
func (s Situation) sent(value string) bool {
	return value != "" && slices.ContainsFunc(s.Recorded.Unconfirmed, func(f outbox.Fields) bool {
		return value == f.DisplayName || value == f.ExternalClusterID || value == f.ConsoleURL
	})
}

// markExpired reports whether to search for a second subscription. It may exist because the answer
// to a POST was lost.
func (s Situation) markExpired() bool {
	mark := s.Recorded.Mark
	return mark != nil && s.Recorded.SubscriptionID != "" && !s.Now.Before(s.markEnds())
}

func (s Situation) markEnds() time.Time {
	return s.Recorded.Mark.At.Add(markQuarantines * s.Site.Quarantine)
}

// markQuarantines is the number of quarantines after which a search certainly finds every
// subscription.
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

// finished returns Rest or, if the cluster is deleted, Close.
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

// ours returns the rows with this cluster's ID.
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
		"Subscription %s in AMS belongs to cluster %s in organization %s, not to this cluster; Landfall sends "+
			"nothing until a person has checked it.",
		row.ID, cmp.Or(row.ClusterID, "(none)"), cmp.Or(row.OrganizationID, "(none)"))}
}
