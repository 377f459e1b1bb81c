package maestro

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/store"
)

// statusBatch is the number of bundles in a request to resync statuses.
const statusBatch = 1000

// checkSender checks what all events of an agent have in common.
func checkSender(event *cloudevent.Event, consumer string) error {
	if event.Consumer != consumer {
		return fmt.Errorf("the event is about the consumer %q", event.Consumer)
	}
	// A request to resync may address all sources.
	if event.OriginalSource != broker.SourceID && (event.OriginalSource != "" || event.SubResource != cloudevent.Spec) {
		return fmt.Errorf("the event is for the source %q", event.OriginalSource)
	}
	return nil
}

// resync compares the bundles that an agent holds with the rows, and starts the delivery.
func (s *Service) resync(ctx context.Context, consumer string, event *cloudevent.Event) error {
	var held cloudevent.HeldList
	if err := json.Unmarshal(event.Data, &held); err != nil {
		s.drop(consumer, "", "the list of versions is invalid: "+err.Error())
		return nil
	}
	d := s.delivery(consumer)
	if d == nil {
		return nil // the session has ended
	}
	named := slices.DeleteFunc(held.Versions, func(one cloudevent.Held) bool { return !idForm.MatchString(one.ID) })
	plan, err := s.compare(ctx, consumer, named)
	if err != nil {
		return err
	}
	d.start(named, plan)
	return nil
}

// idForm is the form of the IDs of bundles: UUIDs here, other names elsewhere.
var idForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]{0,252}$`)

// maxFindings limits the new findings of one comparison.
const maxFindings = 5000

// plan is what follows from a comparison.
type plan struct {
	revision uint64 // of the store at the comparison
	held     bool   // nothing may be sent but requests for statuses
	// send are the bundles to send, verify those of which a status must come first.
	send, verify []string
	// request are the requests for statuses. An empty list of hashes asks for all.
	request []cloudevent.KnownStatuses
}

// compare compares the bundles that an agent holds with the rows. It records findings.
func (s *Service) compare(ctx context.Context, consumer string, named []cloudevent.Held) (*plan, error) {
	p := new(plan)
	var found []Finding
	now := s.clock.Now()
	err := s.db.View(func(tx *store.Tx) error {
		p.revision = tx.Revision()
		var err error
		found, err = s.differences(tx, consumer, named, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, s.db.Update(ctx, func(tx *store.Tx) error {
		if len(found) > maxFindings {
			s.drop(consumer, "", fmt.Sprintf("%d bundles contradict the rows; %d are recorded", len(found),
				maxFindings))
			found = found[:maxFindings]
		}
		for _, f := range found {
			if _, err := s.find(tx, f, now); err != nil {
				return err
			}
		}
		hold, err := GetHold(tx, consumer)
		if err != nil {
			return err
		}
		if p.held = hold != nil; p.held {
			// The agent describes all that it holds.
			p.request = []cloudevent.KnownStatuses{{Hashes: []cloudevent.KnownStatus{}}}
			p.verify = nil
			if hold.Cause == HoldCopied {
				for _, one := range named {
					p.verify = append(p.verify, one.ID)
				}
			}
		}
		return noteSeen(tx, consumer, now)
	})
}

// differences fills a plan, and returns the contradictions.
func (s *Service) differences(tx *store.Tx, consumer string, named []cloudevent.Held, p *plan) ([]Finding, error) {
	var found []Finding
	versions := make(map[string]int64, len(named))
	for _, one := range named {
		versions[one.ID] = one.Version
	}
	rows := make(map[string]bool, len(named))
	var order []*bundle.Bundle
	var hashes []cloudevent.KnownStatus
	err := bundle.EachOfConsumer(tx, consumer, func(b *bundle.Bundle) error {
		rows[b.ID] = true
		version, held := versions[b.ID]
		status, err := bundle.GetStatus(tx, b.ID)
		if err != nil {
			return err
		}
		known := cloudevent.KnownStatus{ID: b.ID, Hash: cloudevent.NoStatusHash}
		if status != nil && status.Hash != "" {
			known.Hash = status.Hash
		}
		decided, err := getFinding(tx, consumer, b.ID)
		if err != nil {
			return store.SkipDamaged(err) // it may say that a person wants the bundle to stay as it is
		}
		switch {
		case b.Deleting() || !held:
			order = append(order, b)
			return nil
		case decided != nil && decided.covers(version) && version < b.Version:
			order = append(order, b)
		case version > b.Version:
			found = append(found, Finding{Consumer: consumer, ID: b.ID, Kind: Newer, Name: b.Name, Labels: b.Labels,
				Version: version})
			known.Hash = cloudevent.NoStatusHash // for the stamp
		case version < b.Version && status != nil && status.ResourceVersion == version:
			order = append(order, b) // the status had a known stamp
		case version < b.Version:
			p.verify = append(p.verify, b.ID)
			known.Hash = cloudevent.NoStatusHash
		}
		hashes = append(hashes, known)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, one := range named {
		if rows[one.ID] {
			continue
		}
		tombstone, deleted, err := bundle.GetTombstone(tx, one.ID)
		if _, failed := bundle.Get(tx, one.ID); store.IsDamaged(failed) || store.IsDamaged(err) {
			continue // the agent keeps what it has; DB.Damage lists the row
		}
		switch {
		case err != nil:
			return nil, err
		case deleted && tombstone.Consumer == consumer:
			p.send = append(p.send, one.ID) // its removal was lost, or a person deleted it by name
		default:
			found = append(found, Finding{Consumer: consumer, ID: one.ID, Kind: Unknown, Version: one.Version})
		}
	}
	slices.SortStableFunc(order, func(a, b *bundle.Bundle) int { return a.Created.Compare(b.Created) })
	for _, b := range order {
		p.send = append(p.send, b.ID)
	}
	for batch := range slices.Chunk(hashes, statusBatch) {
		p.request = append(p.request, cloudevent.KnownStatuses{Hashes: batch})
	}
	return found, nil
}
