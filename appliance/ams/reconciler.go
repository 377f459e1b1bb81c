package ams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jonboulle/clockwork"
	"go.opentelemetry.io/otel/attribute"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/tracing"
	"landfall/store"
)

// api is the part of AMS that the reconciler uses. *Client implements it.
type api interface {
	Get(ctx context.Context, id string) (*Row, error)
	Search(ctx context.Context, clusterID, externalID string) ([]Row, error)
	Create(ctx context.Context, account, clusterID, displayName string) (*Row, error)
	Update(ctx context.Context, id string, fields outbox.Fields, status string) (*Row, error)
	Delete(ctx context.Context, id string) error
}

// reconciler synchronizes one cluster at a time with AMS: it decides, executes the action, stores
// the result, and decides again.
type reconciler struct {
	api      api
	states   StateStore
	clock    clockwork.Clock
	site     Site
	account  string // owner of new subscriptions
	identity string // URL and organization of the stored IDs
	by       string // relay or courier
}

// result is the result of an attempt on a cluster.
type result struct {
	state   progress
	until   time.Time // time of the next attempt if waiting; zero for the relay's backoff
	failure *CallError
	err     error // an error of the local store
}

// problem returns why the changes were not sent, or nil.
func (r result) problem() error {
	if r.failure != nil {
		return r.failure
	}
	return r.err
}

type progress int

const (
	synced  progress = iota // AMS has confirmed everything
	waiting                 // another attempt follows
	stopped                 // a person must decide
	leased                  // the cluster is in a courier file
)

// maxSteps is the maximum number of actions of an attempt. The longest sequence in the table is
// shorter.
const maxSteps = 12

// errChanged means that the desired state changed between the decision and the action.
var errChanged = errors.New("the cluster changed during the call to AMS")

// attempt is the state of one attempt on a cluster.
type attempt struct {
	*reconciler
	id        string
	refresh   bool
	d         outbox.Desired
	r         outbox.Recorded
	observed  Observed
	conflicts int
}

// reconcile sends the changes of a cluster as far as possible now.
func (t *reconciler) reconcile(ctx context.Context, id string, refresh bool) (r result) {
	ctx, span := tracing.Start(ctx, "report to AMS", attribute.String("landfall.cluster", id))
	defer func() { tracing.End(span, r.problem()) }()
	v := &attempt{reconciler: t, id: id, refresh: refresh}
	for range maxSteps {
		var err error
		if v.d, v.r, err = t.states.Load(ctx, id); errors.Is(err, store.ErrNotFound) {
			return result{state: synced}
		} else if err != nil {
			return result{state: waiting, err: err}
		}
		t.dropForeign(&v.r)
		now := t.clock.Now().UTC()
		if stop := v.r.Stopped(&v.d, now); stop != nil {
			return result{state: stopped, until: stop.RetryAt}
		}
		action := Decide(Situation{
			ClusterID: id, Desired: v.d, Recorded: v.r, Observed: v.observed, Site: t.site, Now: now,
			Courier: t.by == byCourier, Refresh: v.refresh,
		})
		if lease := v.r.Lease; lease != nil && t.by == byRelay && now.Before(lease.Until) &&
			(action.Do == Create || action.Do == Delete || action.Do == Close) {
			return result{state: leased, until: lease.Until}
		}
		if result, done := v.act(ctx, action); done {
			return result
		}
	}
	return result{state: waiting, failure: &CallError{Class: Failing,
		Text: "AMS does not show the values that were sent; Landfall sends them again later."}}
}

// dropForeign deletes recorded state that came from another AMS or another organization, because
// its IDs are not valid for the present one.
func (t *reconciler) dropForeign(r *outbox.Recorded) {
	if r.API == "" || r.API == t.identity || r.Closed != "" {
		return
	}
	former := r.Former
	if r.SubscriptionID != "" {
		former = append(former, r.SubscriptionID)
	}
	*r = outbox.Recorded{Former: former, Lease: r.Lease}
}

// Senders.
const (
	byRelay   = "relay"
	byCourier = "courier"
)

// act executes an action. The second result is true if the action ends the attempt.
func (v *attempt) act(ctx context.Context, action Action) (result, bool) {
	var err error
	switch action.Do {
	case Read:
		err = v.read(ctx, action.Search)
	case Rest:
		return v.rest(ctx, action), true
	case Close:
		return v.close(ctx, action), true
	case Wait:
		return v.wait(ctx, action), true
	case Refuse:
		return v.stop(ctx, outbox.Stop{Kind: action.Stop, Reason: action.Reason, Disputed: action.Disputed},
			"decide"), true
	case Dispute:
		return v.stop(ctx, outbox.Stop{Kind: outbox.Attention, Reason: action.Reason, Disputed: action.Disputed},
			"decide"), true
	case Create:
		err = v.create(ctx)
	case Adopt:
		err = v.adopt(ctx, action)
	case Clear:
		v.observed = Observed{}
		err = v.change(ctx, Note{}, func(r *outbox.Recorded) { r.Mark = nil })
	case DropID:
		err = v.dropID(ctx)
	case Update:
		err = v.update(ctx, action)
	case Delete:
		err = v.delete(ctx, action)
	}
	if errors.Is(err, errChanged) {
		v.observed = Observed{}
		return result{}, false
	}
	if failure, ok := errors.AsType[*CallError](err); ok {
		return v.failed(ctx, failure)
	}
	if err != nil {
		return result{state: waiting, err: err}, true
	}
	return result{}, false
}

func (v *attempt) read(ctx context.Context, search bool) error {
	if search || v.r.SubscriptionID == "" {
		rows, err := v.api.Search(ctx, v.id, v.d.ExternalClusterID)
		v.observed = Observed{BySearch, rows}
		if err != nil {
			v.observed = Observed{}
		}
		return err
	}
	row, err := v.api.Get(ctx, v.r.SubscriptionID)
	if err != nil {
		return err
	}
	v.observed = Observed{How: ByID}
	if row != nil {
		v.observed.Rows = []Row{*row}
	}
	return nil
}

// change modifies the recorded state as decided.
func (v *attempt) change(ctx context.Context, note Note, fn func(*outbox.Recorded)) error {
	if note.Entry != nil {
		note.Entry.Cluster, note.Entry.At, note.Entry.Generation, note.Entry.By = v.id, v.clock.Now().UTC(),
			v.d.Generation,
			v.by
	}
	return v.states.Modify(ctx, v.id, note, func(_ *outbox.Desired, r *outbox.Recorded) error {
		v.dropForeign(r)
		r.API, r.ReportedBy, r.ReportedAt = v.identity, v.by, v.clock.Now().UTC()
		fn(r)
		return nil
	})
}

// storeRemote stores the subscription as AMS returned it.
func (v *attempt) storeRemote(r *outbox.Recorded, row *Row) {
	if row != nil && row.Status != "" {
		r.Remote, r.RemoteAt = row.Raw, v.clock.Now().UTC()
	}
}

func (v *attempt) rest(ctx context.Context, action Action) result {
	if v.r.Done(&v.d) && action.Row == nil {
		return result{state: synced, until: action.Until}
	}
	err := v.change(ctx, Note{}, func(r *outbox.Recorded) { v.confirm(r, action) })
	return result{state: synced, until: action.Until, err: err}
}

// confirm records that AMS has confirmed the current generation.
func (v *attempt) confirm(r *outbox.Recorded, action Action) {
	r.Generation = v.d.Generation
	r.Stop, r.Reverify, r.Note = nil, false, cmp.Or(action.Note, r.Note)
	r.Overwrite = outbox.Fields{}
	if action.Row == nil {
		return
	}
	r.Acked, r.Unconfirmed = r.Acked.Over(action.Acked), nil
	r.AckedStatus = action.Row.Status
	v.storeRemote(r, action.Row)
}

func (v *attempt) close(ctx context.Context, action Action) result {
	entry := &JournalEntry{Op: "close", Outcome: action.Ended, Subscription: v.r.SubscriptionID, Text: action.Note}
	err := v.change(ctx, Note{Entry: entry}, func(r *outbox.Recorded) {
		v.confirm(r, action)
		r.Closed, r.ClosedAt, r.Mark, r.Lease = action.Ended, v.clock.Now().UTC(), nil, nil
	})
	return result{state: synced, err: err}
}

// wait records the time of the first search without a result. The quarantine starts at that time.
func (v *attempt) wait(ctx context.Context, action Action) result {
	searchedAt := action.Until.Add(-v.site.Quarantine)
	if v.r.Mark.SearchedAt.Equal(searchedAt) {
		return result{state: waiting, until: action.Until}
	}
	err := v.change(ctx, Note{}, func(r *outbox.Recorded) {
		if r.Mark != nil {
			r.Mark.SearchedAt = searchedAt
		}
	})
	return result{state: waiting, until: action.Until, err: err}
}

// stop stops the cluster until a person decides.
func (v *attempt) stop(ctx context.Context, stop outbox.Stop, op string) result {
	stop.Generation, stop.At = v.d.Generation, v.clock.Now().UTC()
	entry := &JournalEntry{Op: op, Outcome: stop.Kind, Subscription: v.r.SubscriptionID, HTTP: stop.HTTP,
		Code:        stop.Code,
		OperationID: stop.OperationID, Text: stop.Reason}
	err := v.change(ctx, Note{Text: "Reporting to AMS needs attention: " + stop.Reason, Refused: true, Entry: entry},
		func(r *outbox.Recorded) { r.Stop = &stop })
	return result{state: stopped, until: stop.RetryAt, err: err}
}

// create stores the mark before the POST. After an interruption the next step is therefore a
// search.
func (v *attempt) create(ctx context.Context) error {
	before, generation := v.r.Mark, v.d.Generation
	mark := outbox.Mark{At: v.clock.Now().UTC(), Tries: 1, Account: v.account,
		Requested: outbox.Fields{DisplayName: v.d.DisplayName}}
	if before != nil {
		mark.Tries = before.Tries + 1
	}
	err := v.states.Modify(ctx, v.id, Note{}, func(d *outbox.Desired, r *outbox.Recorded) error {
		if d.Generation != generation || r.Lease != nil && v.by == byRelay && v.clock.Now().Before(r.Lease.Until) {
			return errChanged
		}
		v.dropForeign(r)
		r.Mark, r.API = &mark, v.identity
		return nil
	})
	if err != nil {
		return err
	}
	row, err := v.api.Create(ctx, v.account, v.id, v.d.DisplayName)
	if failure, ok := errors.AsType[*CallError](err); ok {
		if failure.Settled() {
			return errors.Join(failure, v.change(ctx, Note{}, func(r *outbox.Recorded) { r.Mark = before }))
		}
		v.observed = Observed{}
		return failure
	}
	if err != nil {
		return err
	}
	v.observed = Observed{}
	if row.Status != "" {
		v.observed = Observed{ByID, []Row{*row}}
	}
	entry := &JournalEntry{Op: "create", Outcome: "done", Subscription: row.ID}
	return v.change(ctx, Note{Text: "AMS created the subscription " + row.ID + ".", Subscription: row.ID,
		Entry: entry}, func(r *outbox.Recorded) {
		r.SubscriptionID, r.Mark, r.Acked = row.ID, v.keepMark(r.Mark), mark.Requested
		v.storeRemote(r, row)
	})
}

// keepMark returns the mark if a second subscription may exist.
func (v *attempt) keepMark(mark *outbox.Mark) *outbox.Mark {
	if mark != nil && mark.Tries > 1 {
		return mark
	}
	return nil
}

func (v *attempt) adopt(ctx context.Context, action Action) error {
	row := action.Row
	v.observed = Observed{ByID, []Row{*row}}
	if v.d.Phase == outbox.Absent {
		v.observed = Observed{} // search results may be outdated, so read the row by its ID before deleting it
	}
	text := "AMS already had the subscription " + row.ID + "."
	if action.Note != "" {
		text += " " + action.Note
	}
	entry := &JournalEntry{Op: "adopt", Outcome: "done", Subscription: row.ID, Text: action.Note}
	return v.change(ctx, Note{Text: text, Subscription: row.ID, Entry: entry}, func(r *outbox.Recorded) {
		r.SubscriptionID, r.Mark, r.Twin = row.ID, v.keepMark(r.Mark), action.Rule == 20
		v.storeRemote(r, row)
	})
}

func (v *attempt) dropID(ctx context.Context) error {
	v.observed = Observed{}
	entry := &JournalEntry{Op: "forget", Outcome: "done", Subscription: v.r.SubscriptionID,
		Text: "The subscription was deleted in AMS."}
	return v.change(ctx, Note{Entry: entry}, func(r *outbox.Recorded) {
		r.Former = append(r.Former, r.SubscriptionID)
		r.SubscriptionID, r.Acked, r.AckedStatus, r.Twin = "", outbox.Fields{}, "", false
	})
}

func (v *attempt) update(ctx context.Context, action Action) error {
	if err := v.recordPatch(ctx, action.Patch); err != nil {
		return err
	}
	row, err := v.api.Update(ctx, v.r.SubscriptionID, action.Patch, action.Status)
	if failure, ok := errors.AsType[*CallError](err); ok && action.Status == statusDisconnected &&
		(failure.Class == Refused || failure.Class == Forbidden) {
		action.Status, action.Note = statusActive,
			"AMS rejected the status Disconnected; the subscription is Active instead."
		row, err = v.api.Update(ctx, v.r.SubscriptionID, action.Patch, action.Status)
	}
	if err != nil {
		return err
	}
	v.observed = Observed{}
	if row.Status != "" {
		v.observed = Observed{ByID, []Row{*row}}
	}
	note := Note{Text: updated(action), Subscription: row.ID, Entry: &JournalEntry{Op: "update", Outcome: "done",
		Subscription: row.ID, Text: action.Note}}
	if action.Status != "" && v.d.ExternalClusterID != "" && !v.r.Twin {
		if err := v.findTwin(ctx, row.ID, &note, &action); err != nil {
			note.Entry.Text = err.Error() // additional information only, so a failed search is not repeated
		}
	}
	return v.change(ctx, note, func(r *outbox.Recorded) {
		r.Acked, r.Unconfirmed = r.Acked.Over(action.Acked).Over(action.Patch), nil
		r.AckedStatus, r.Note = cmp.Or(row.Status, action.Status, r.AckedStatus), action.Note
		v.storeRemote(r, row)
	})
}

// maxUnconfirmed is the maximum number of stored PATCHes without an answer. Each attempt starts
// with a read from AMS.
const maxUnconfirmed = 8

// recordPatch stores the content of a PATCH before it is sent. If the answer is lost, AMS may show
// values that it never confirmed. Without this record they would look like an edit by a person.
func (v *attempt) recordPatch(ctx context.Context, patch outbox.Fields) error {
	if patch == (outbox.Fields{}) || slices.Contains(v.r.Unconfirmed, patch) {
		return nil
	}
	return v.change(ctx, Note{}, func(r *outbox.Recorded) {
		r.Unconfirmed = append(r.Unconfirmed, patch)
		r.Unconfirmed = r.Unconfirmed[max(0, len(r.Unconfirmed)-maxUnconfirmed):]
	})
}

// findTwin searches for a subscription that the cluster's metrics created before Landfall sent the
// cluster's external ID to AMS.
func (v *attempt) findTwin(ctx context.Context, id string, note *Note, action *Action) error {
	rows, err := v.api.Search(ctx, v.id, v.d.ExternalClusterID)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.ID != id && row.ClusterID != v.id && row.ExternalClusterID == v.d.ExternalClusterID {
			action.Note = fmt.Sprintf("The cluster's metrics reached AMS first and created a separate subscription, "+
				"%s; delete it in AMS.", row.ID)
			note.Text += " " + action.Note
		}
	}
	return nil
}

func updated(action Action) string {
	text := "AMS has confirmed"
	for _, part := range []struct{ name, value string }{
		{"the name", action.Patch.DisplayName}, {"the cluster's own id", action.Patch.ExternalClusterID},
		{"the console's URL", action.Patch.ConsoleURL}, {"the status", action.Status},
	} {
		if part.value != "" {
			text += " " + part.name + " " + part.value + ","
		}
	}
	return text[:len(text)-1] + "."
}

// delete deletes a row that is still Reserved when read by its ID. A DELETE may have an empty
// answer, which any server could send. The next read therefore shows the result.
func (v *attempt) delete(ctx context.Context, action Action) error {
	row := action.Row
	if v.observed.How != ByID {
		fresh, err := v.api.Get(ctx, row.ID)
		if err != nil {
			return err
		}
		if fresh == nil || fresh.Status != statusReserved {
			v.observed = Observed{}
			return nil
		}
	}
	v.observed = Observed{}
	if err := v.api.Delete(ctx, row.ID); err != nil {
		return err
	}
	entry := &JournalEntry{Op: "delete", Outcome: "done", Subscription: row.ID, Text: action.Note}
	return v.change(ctx, Note{Entry: entry}, func(r *outbox.Recorded) {
		if r.SubscriptionID != row.ID {
			r.Former = append(r.Former, row.ID)
			return
		}
		if r.Mark != nil { // another row may exist
			r.Former, r.SubscriptionID = append(r.Former, row.ID), ""
		}
	})
}

// failed returns the result of a failed call for the cluster. The relay derives the state of the
// connection from it.
func (v *attempt) failed(ctx context.Context, failure *CallError) (result, bool) {
	stop := outbox.Stop{Kind: outbox.Blocked, Reason: failure.Text, HTTP: failure.HTTP, Code: failure.Code,
		OperationID: failure.OperationID}
	switch {
	case failure.Class == Missing && failure.Op == "update":
		v.observed = Observed{}
		return result{}, false
	case failure.Class == Missing: // of a path that AMS always has
		failure.Class = Intercepted
		return result{state: waiting, failure: failure}, true
	case failure.Class == Conflict && failure.Op == "create":
		stop.Reason = "According to AMS, the cluster belongs to another account: " + failure.Text
	case failure.Class == Conflict && v.conflicts == 0:
		v.conflicts++
		v.observed = Observed{}
		return result{}, false
	case failure.Class == Forbidden && failure.Banned:
		return result{state: waiting, failure: failure}, true
	case failure.Class == Forbidden && failure.Quota:
		stop.RetryAt = v.clock.Now().UTC().Add(quotaRetry)
	case failure.Class == Forbidden:
	case failure.Class == Refused, failure.Class == Unsupported, failure.Class == Conflict:
		stop.Kind = outbox.Dead
		if failure.Class == Unsupported {
			stop.Reason = fmt.Sprintf("AMS sent an unexpected answer (%d %s): %s", failure.HTTP,
				http.StatusText(failure.HTTP), failure.Text)
		}
	default:
		return result{state: waiting, failure: failure}, true
	}
	ended := v.stop(ctx, stop, failure.Op)
	ended.failure = failure
	return ended, true
}

// quotaRetry is the wait before the next attempt on a cluster that a quota stopped.
const quotaRetry = 24 * time.Hour
