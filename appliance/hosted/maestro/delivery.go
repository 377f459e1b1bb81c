package maestro

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/store"
)

// delivery sends bundles in one session. It starts when the agent has named the bundles that it
// holds: before that, it is not known what to send.
type delivery struct {
	service  *Service
	consumer string
	to       connection
	cancel   context.CancelFunc
	wake     chan struct{} // has capacity 1

	mu      sync.Mutex
	started bool
	from    uint64            // the store's revision of the last comparison
	named   []cloudevent.Held // what the agent named last
	queue   []string          // IDs of bundles
	queued  map[string]bool   // the IDs in queue
	verify  map[string]bool   // bundles of which a status must come before they are sent
	request []cloudevent.KnownStatuses
	late    map[string]sequence // bundles with an ignored status, and the number of the stored one
	probed  string              // the bundle of the last probe
}

func newDelivery(s *Service, consumer string, to connection, cancel context.CancelFunc) *delivery {
	return &delivery{service: s, consumer: consumer, to: to, cancel: cancel, wake: make(chan struct{}, 1),
		queued: map[string]bool{}, verify: map[string]bool{}, late: map[string]sequence{}}
}

// start sets what a comparison found.
func (d *delivery) start(named []cloudevent.Held, p *plan) {
	d.mu.Lock()
	d.started, d.from, d.named = true, p.revision, named
	d.request = p.request
	d.verify = map[string]bool{}
	for _, id := range p.verify {
		d.verify[id] = true
	}
	if !p.held {
		for _, id := range p.send {
			d.add(id)
		}
	}
	d.mu.Unlock()
	d.wakeUp()
}

// add queues a bundle. The caller holds the lock.
func (d *delivery) add(id string) {
	if !d.queued[id] {
		d.queued[id] = true
		d.queue = append(d.queue, id)
	}
}

func (d *delivery) wakeUp() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// confirm notes that the agent reported a bundle with a known stamp. all reports whether it was the
// last one that was waited for.
func (d *delivery) confirm(id string) (all bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.verify[id] {
		return false
	}
	delete(d.verify, id)
	d.add(id)
	d.wakeUp()
	return len(d.verify) == 0
}

// run sends until the session ends.
func (d *delivery) run(ctx context.Context) {
	defer d.cancel()
	var changes <-chan []store.Change
	var late <-chan time.Time
	for {
		if changes == nil {
			d.mu.Lock()
			started, from := d.started, d.from
			d.mu.Unlock()
			if started {
				changes = d.service.db.Watch(ctx, from, bundle.Prefix()).C()
			}
		}
		if err := d.sendAll(ctx); err != nil {
			if ctx.Err() == nil && !errors.Is(err, broker.ErrEnded) {
				d.service.log.Error("Bundles could not be sent. The connection is ended, so that the agent asks again.",
					"consumer", d.consumer, "error", err)
				d.to.End()
			}
			return
		}
		if late == nil && d.misses() {
			late = d.service.clock.After(lateInterval)
		}
		select {
		case <-ctx.Done():
			return
		case <-late:
			late = nil
			d.probe()
		case <-d.wake:
		case batch, ok := <-changes:
			if !ok { // the change log was compacted, or the store is closed
				if ctx.Err() == nil {
					d.to.End()
				}
				return
			}
			d.mu.Lock()
			for _, change := range batch {
				d.add(strings.TrimPrefix(change.Key, bundle.Prefix()))
			}
			d.mu.Unlock()
		}
	}
}

// sendAll sends requests for statuses and the queued bundles.
func (d *delivery) sendAll(ctx context.Context) error {
	for {
		d.mu.Lock()
		requests := d.request
		d.request = nil
		d.mu.Unlock()
		for _, request := range requests {
			event := d.service.event(d.consumer, cloudevent.Status, cloudevent.ResyncRequest)
			var err error
			if event.Data, err = json.Marshal(request); err != nil {
				return fmt.Errorf("write a request for statuses: %w", err)
			}
			if err := d.to.Send(ctx, event.Message()); err != nil {
				return err
			}
		}
		id, ok := d.next()
		if !ok {
			return nil
		}
		event, err := d.service.spec(d.consumer, id)
		if err != nil {
			return err
		}
		if event == nil {
			continue
		}
		if err := d.to.Send(ctx, event.Message()); err != nil {
			return err
		}
	}
}

// next takes the next bundle of the queue that need not wait for a status.
func (d *delivery) next() (id string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.queue) > 0 {
		id = d.queue[0]
		d.queue = d.queue[1:]
		delete(d.queued, id)
		if !d.verify[id] {
			return id, true
		}
	}
	return "", false
}

// spec returns the event that brings an agent to the state of a row, or nil if there is nothing to
// send: the bundle belongs to another consumer, its consumer is held, or a row about it is damaged.
func (s *Service) spec(consumer, id string) (event *cloudevent.Event, err error) {
	return event, store.SkipDamaged(s.db.View(func(tx *store.Tx) error {
		hold, err := GetHold(tx, consumer)
		if err != nil || hold != nil {
			return err
		}
		finding, err := getFinding(tx, consumer, id)
		if err != nil || finding != nil && finding.Decision == Ignore {
			return err // a person wants it to stay as it is
		}
		b, err := bundle.Get(tx, id)
		if errors.Is(err, bundle.ErrNotFound) {
			tombstone, deleted, err := bundle.GetTombstone(tx, id)
			if err != nil || !deleted || tombstone.Consumer != consumer {
				return err
			}
			event = s.event(consumer, cloudevent.Spec, cloudevent.Delete)
			event.ResourceID, event.Deleted = id, tombstone.At
			event.Metadata, err = json.Marshal(objectMeta{Name: id})
			return err
		}
		if err != nil || b.Consumer != consumer {
			return err
		}
		event, err = s.specOf(tx, b)
		return err
	}))
}

// specOf returns the event with a row.
func (s *Service) specOf(tx *store.Tx, b *bundle.Bundle) (*cloudevent.Event, error) {
	action := cloudevent.Update
	switch {
	case b.Deleting():
		action = cloudevent.Delete
	case b.Version == 1:
		action = cloudevent.Create
	}
	event := s.event(b.Consumer, cloudevent.Spec, action)
	event.ResourceID, event.ResourceVersion = b.ID, b.Version
	revision, err := bundle.Revision(tx, b.ID)
	if err != nil {
		return nil, err
	}
	stamp := s.stamp(revision)
	annotations := map[string]string{runAnnotation: stamp.Run,
		revisionAnnotation: strconv.FormatUint(stamp.Revision, 10)}
	maps.Copy(annotations, b.Annotations)
	if b.Name != "" {
		annotations[nameAnnotation] = b.Name
	}
	event.Metadata, err = json.Marshal(objectMeta{Name: b.ID, Labels: b.Labels, Annotations: annotations})
	if err != nil {
		return nil, fmt.Errorf("write the metadata of the bundle %s: %w", b.ID, err)
	}
	if b.Deleting() {
		event.Deleted = b.Deleted
		return event, nil
	}
	event.Data, err = json.Marshal(cloudevent.BundleData{Manifests: b.Manifests, DeleteOption: b.DeleteOption,
		Configs: b.Configs})
	if err != nil {
		return nil, fmt.Errorf("write the bundle %s: %w", b.ID, err)
	}
	return event, nil
}

// nameAnnotation is the name of a bundle for people, so that it is known even without a row.
const nameAnnotation = "landfall.io/name"

// again compares what a connected agent named with the rows again, after a decision.
func (s *Service) again(ctx context.Context, consumer string) error {
	d := s.delivery(consumer)
	if d == nil {
		return nil
	}
	d.mu.Lock()
	started, named := d.started, d.named
	d.mu.Unlock()
	if !started {
		return nil
	}
	p, err := s.compare(ctx, consumer, named)
	if err == nil {
		d.start(named, p)
	}
	return err
}
