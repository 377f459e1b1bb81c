package maestro

import (
	"context"

	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/store"
)

// Steps serves a session of a consumer in steps: nothing happens between the calls. Simulations
// need this, because they pass messages on in an order that they choose.
type Steps struct {
	service  *Service
	delivery *delivery
	from     uint64 // the store's revision of the last step
	queue    queue
}

// queue is a connection that keeps the messages to the agent until the step ends.
type queue []cloudevent.Message

// Send implements connection.
func (q *queue) Send(_ context.Context, m cloudevent.Message) error {
	*q = append(*q, m)
	return nil
}

// End implements connection. Only a session that is not served in steps ends itself.
func (*queue) End() {}

// Step opens a session that is served in steps.
func (s *Service) Step(consumer string) *Steps {
	p := &Steps{service: s}
	p.delivery = newDelivery(s, consumer, &p.queue, func() {})
	s.mu.Lock()
	s.begin(p.delivery)
	s.mu.Unlock()
	return p
}

// Receive processes messages of the agent. The errors say which were not stored.
func (p *Steps) Receive(ctx context.Context, messages ...cloudevent.Message) []error {
	return p.service.receive(ctx, p.delivery.consumer, messages)
}

// Send returns the messages to the agent about what has changed since the last step.
func (p *Steps) Send(ctx context.Context) ([]cloudevent.Message, error) {
	d := p.delivery
	d.mu.Lock()
	started, from := d.started, max(p.from, d.from)
	d.mu.Unlock()
	if started {
		if err := p.service.db.View(func(tx *store.Tx) error {
			p.from = tx.Revision()
			return bundle.EachOfConsumer(tx, d.consumer, func(b *bundle.Bundle) error {
				revision, err := bundle.Revision(tx, b.ID)
				if err == nil && revision > from {
					d.mu.Lock()
					d.add(b.ID)
					d.mu.Unlock()
				}
				return err
			})
		}); err != nil {
			return nil, err
		}
	}
	err := d.sendAll(ctx)
	messages := p.queue
	p.queue = nil
	return messages, err
}

// Probe does what a session does once in a minute.
func (p *Steps) Probe() { p.delivery.probe() }

// End ends the session.
func (p *Steps) End() { p.service.disconnect(p.delivery.consumer) }
