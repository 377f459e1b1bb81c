package maestro

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/store"
)

// statusData is the part of a status that this package reads.
type statusData struct {
	Conditions []struct {
		Type   string `json:"type"`
		Status string `json:"status"`
	} `json:"conditions"`
	ResourceStatus []struct {
		Meta Object `json:"resourceMeta"`
	} `json:"resourceStatus"`
}

// removed reports whether the agent has removed the bundle and its objects.
func (d *statusData) removed() bool {
	for _, condition := range d.Conditions {
		if condition.Type == "Deleted" && condition.Status == "True" {
			return true
		}
	}
	return false
}

// outcome is what became of a status.
type outcome struct {
	ignored   string // why the status was not stored, or ""
	clock     *ClockFault
	newest    sequence // the number of the stored status, if this one is another and was ignored
	confirmed bool     // its stamp is one of this store
}

// report is a status that can be read.
type report struct {
	event    *cloudevent.Event
	data     statusData
	sequence sequence
}

// readReport reads a status.
func readReport(event *cloudevent.Event) (r report, err error) {
	r.event = event
	if err := json.Unmarshal(event.Data, &r.data); err != nil {
		return r, fmt.Errorf("the status of %s is not valid: %w", event.ResourceID, err)
	}
	if !idForm.MatchString(event.ResourceID) {
		return r, errors.New("the resourceid of the status is not an ID")
	}
	r.sequence, err = parseSequence(event.SequenceID)
	return r, err
}

// accept stores statuses together, or one by one if that fails. It returns an error for each status
// that could not be written.
func (s *Service) accept(ctx context.Context, consumer string, reports []report) []error {
	errs := make([]error, len(reports))
	if len(reports) == 0 {
		return errs
	}
	results := make([]outcome, len(reports))
	err := s.db.Update(ctx, func(tx *store.Tx) (err error) {
		for i, r := range reports {
			if results[i], err = s.store(tx, consumer, r); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err != nil && len(reports) == 1:
		errs[0] = err
		return errs
	case err != nil:
		for i := range reports {
			errs[i] = s.accept(ctx, consumer, reports[i:i+1])[0]
		}
		return errs
	}
	for i, r := range reports {
		errs[i] = s.noteOutcome(ctx, consumer, r, results[i])
	}
	return errs
}

// noteOutcome does what follows from a status after the commit.
func (s *Service) noteOutcome(ctx context.Context, consumer string, r report, result outcome) error {
	id, d := r.event.ResourceID, s.delivery(consumer)
	right := result.ignored == "" // the clock is right, as far as it is known
	probed := false               // there is an answer to a probe each minute, for as long as it takes
	switch {
	case d == nil:
	case right:
		right = d.accepted(id, r.sequence)
	case result.newest != 0:
		probed = d.ignored(id, result.newest)
	}
	s.mu.Lock()
	switch {
	case result.clock != nil:
		s.clocks[consumer] = *result.clock
	case right:
		delete(s.clocks, consumer)
	}
	s.mu.Unlock()
	if result.ignored != "" && !probed {
		s.drop(consumer, id, result.ignored)
	}
	if d != nil && result.confirmed && d.confirm(id) {
		return s.confirmCopy(ctx, consumer)
	}
	return nil
}

// store stores a status by the rules of Maestro, and checks it for contradictions.
func (s *Service) store(tx *store.Tx, consumer string, r report) (result outcome, err error) {
	event, data := r.event, &r.data
	now := s.clock.Now().UTC()
	meta, stamp := readMeta(event.Metadata)
	found := Finding{Consumer: consumer, ID: event.ResourceID, Name: meta.Annotations[nameAnnotation],
		Version: event.ResourceVersion, Stamp: stamp, Labels: ownLabels(meta.Labels)}
	for _, resource := range data.ResourceStatus {
		found.Objects = append(found.Objects, resource.Meta)
	}
	b, err := bundle.Get(tx, event.ResourceID)
	if errors.Is(err, bundle.ErrNotFound) {
		return s.storeUnknown(tx, found, data, now)
	}
	if store.IsDamaged(err) {
		return outcome{ignored: "the row of the bundle is damaged"}, nil
	}
	if err != nil {
		return result, err
	}
	find := func(kind Kind) (outcome, error) {
		found.Kind, found.Name, found.Labels = kind, b.Name, b.Labels
		open, err := s.find(tx, found, now)
		if err != nil || open {
			return outcome{ignored: found.Sentence()}, err
		}
		decided, err := getFinding(tx, consumer, b.ID)
		if err != nil {
			return outcome{}, err
		}
		return outcome{ignored: "a person decided about it", confirmed: decided.covers(found.Version)}, nil
	}
	switch {
	case b.Consumer != consumer:
		return outcome{ignored: fmt.Sprintf("the bundle belongs to the consumer %s", b.Consumer)}, nil
	case data.removed() && b.Deleting():
		return result, errors.Join(bundle.Remove(tx, b.ID), findings.Delete(tx, findingKey(consumer, b.ID)),
			noteSeen(tx, consumer, now))
	case event.ResourceVersion > b.Version:
		return find(Newer)
	case needsStamp(b) && !s.known(stamp):
		return find(Foreign)
	case data.removed():
		return find(Gone)
	}
	result.confirmed = true
	if event.ResourceVersion != b.Version {
		result.ignored = fmt.Sprintf("the status is about version %d, the bundle has version %d", event.ResourceVersion,
			b.Version)
		return result, nil
	}
	before, err := bundle.GetStatus(tx, b.ID)
	if err != nil {
		return result, err
	}
	if before != nil {
		last, err := parseSequence(before.SequenceID)
		if err == nil && r.sequence <= last {
			if last.time().Sub(r.sequence.time()) > time.Second {
				result.clock = &ClockFault{Until: last.time(), Agent: r.sequence.time(), Seen: now}
			}
			if r.sequence < last || event.StatusHash != before.Hash {
				result.newest = last // it is no duplicate
			}
			result.ignored = fmt.Sprintf("a newer status is stored (sequence %s)", before.SequenceID)
			return result, nil
		}
	}
	return result, errors.Join(
		bundle.PutStatus(tx, b.ID, &bundle.Status{ResourceVersion: event.ResourceVersion, SequenceID: event.SequenceID,
			Hash: event.StatusHash, Received: now, Data: event.Data, Metadata: event.Metadata}),
		noteSeen(tx, consumer, now))
}

// storeUnknown handles a status of a bundle without a row.
func (s *Service) storeUnknown(tx *store.Tx, found Finding, data *statusData, now time.Time) (outcome, error) {
	_, deleted, err := bundle.GetTombstone(tx, found.ID)
	if err != nil {
		return outcome{}, err
	}
	if data.removed() {
		// Nothing is left of it there.
		return outcome{}, findings.Delete(tx, findingKey(found.Consumer, found.ID))
	}
	if deleted {
		return outcome{ignored: "the bundle was deleted"}, nil
	}
	found.Kind = Unknown
	_, err = s.find(tx, found, now)
	return outcome{ignored: found.Sentence()}, err
}

// ownLabels returns labels without those that agents add.
func ownLabels(labels map[string]string) map[string]string {
	own := map[string]string{}
	for key, value := range labels {
		if key != "cloudevents.open-cluster-management.io/originalsource" {
			own[key] = value
		}
	}
	return own
}

// confirmCopy ends the hold of a consumer whose agent has confirmed all that it holds.
func (s *Service) confirmCopy(ctx context.Context, consumer string) error {
	ended := false
	err := s.db.Update(ctx, func(tx *store.Tx) error {
		held, err := GetHold(tx, consumer)
		if err != nil || held == nil || held.Cause != HoldCopied {
			return err
		}
		ended = true
		return holds.Delete(tx, consumer)
	})
	if err == nil && ended {
		s.log.Info("A management cluster has confirmed the rows of this copy of the database. Its hold has ended.",
			"consumer", consumer)
		return s.again(ctx, consumer)
	}
	return err
}

// sequence is the number of a status: a snowflake, with the milliseconds since its epoch in the
// upper bits, then 10 bits for the node and 12 for a counter (github.com/bwmarrin/snowflake).
type sequence uint64

const snowflakeEpoch = 1288834974657 // 2010-11-04, in milliseconds since 1970

func parseSequence(text string) (sequence, error) {
	number, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("the sequenceid %q is not a number", text)
	}
	return sequence(number), nil
}

// time returns the time of the agent's clock.
func (s sequence) time() time.Time { return time.UnixMilli(int64(s>>22) + snowflakeEpoch).UTC() }
