// Package maestro delivers the bundles of package appliance/hosted/bundle to the agents of
// management clusters, and stores the statuses that come back.
//
// The rows of the store are the queue. When an agent connects, it names the bundles that it holds;
// what differs from the rows is sent. While it is connected, the store's change log tells what
// changed. Nothing is kept for an absent agent.
//
// # The guard
//
// Maestro answers each name that it does not know with a delete, and the agent then removes the
// hosted cluster. After a restore from an older backup, or with a second appliance of the same
// name, this would destroy clusters that run. This package therefore
//
//   - sends a delete only for a bundle that a person deleted here: one with a tombstone;
//   - marks each bundle that it sends with a stamp (see Stamp), which agents return with each
//     status. A stamp that this store did not write shows a restore, or another appliance;
//   - holds a consumer at the first contradiction (see Finding): nothing is sent to it until a
//     person has decided about each finding.
//
// Files:
//
//	maestro.go   Service: sessions, messages of agents
//	delivery.go  what is sent in a session
//	resync.go    the comparison of an agent's bundles with the rows
//	status.go    the acceptance of statuses
//	step.go      sessions that are served in steps, for simulations
//	late.go      statuses that are asked for again, because the agent's clock was set back
//	hold.go      holds, findings, decisions
//	stamp.go     stamps, and the runs of this store
//
// Design: docs/design.md#hosted-control-planes.
package maestro

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/store"
)

// Options configures a [Service].
type Options struct {
	DB     *store.DB
	Clock  clockwork.Clock
	Logger *slog.Logger
	// Identity identifies the file of the database (see Identity). A change means that the file is
	// a copy: the consumers are then held until their agents or a person confirm the rows. "":
	// unknown.
	Identity string
}

// Service exchanges bundles and statuses with agents. It implements broker.Handler.
type Service struct {
	db    *store.DB
	clock clockwork.Clock
	log   *slog.Logger
	runs  []run

	mu       sync.Mutex
	open     map[string]*delivery // by consumer
	clocks   map[string]ClockFault
	running  sync.WaitGroup
	stopping bool
}

// ClockFault says that a consumer's statuses are not accepted, because its clock was set back. They
// are asked for again when the clock is right.
type ClockFault struct {
	// Until is when the consumer's statuses are accepted again, by the consumer's clock.
	Until time.Time `json:"until"`
	// Agent is the time of the consumer's clock at Seen.
	Agent time.Time `json:"agent"`
	Seen  time.Time `json:"seen"` // by the clock of this appliance
}

// New opens the service. It records a run of the store.
func New(ctx context.Context, options Options) (*Service, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{db: options.DB, clock: options.Clock, log: options.Logger, open: map[string]*delivery{},
		clocks: map[string]ClockFault{}}
	return s, s.startRun(ctx, options.Identity)
}

// Run waits for the end of the context and of all deliveries.
func (s *Service) Run(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	s.stopping = true
	for _, d := range s.open {
		d.cancel()
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// connection is the connection to a consumer's agent.
type connection interface {
	Send(ctx context.Context, m cloudevent.Message) error
	// End ends the connection. The agent connects again.
	End()
}

// Connected implements broker.Handler.
func (s *Service) Connected(session *broker.Session) { s.connect(session.Consumer, session) }

func (s *Service) connect(consumer string, to connection) {
	ctx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		cancel()
		return
	}
	d := newDelivery(s, consumer, to, cancel)
	s.begin(d)
	s.running.Go(func() { d.run(ctx) })
}

// begin adds the delivery of a new session. Each session compares all statuses, so that nothing
// follows from what an earlier one has ignored. The caller holds the lock.
func (s *Service) begin(d *delivery) {
	s.open[d.consumer] = d
	delete(s.clocks, d.consumer)
}

// Disconnected implements broker.Handler.
func (s *Service) Disconnected(session *broker.Session) { s.disconnect(session.Consumer) }

func (s *Service) disconnect(consumer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.open[consumer]; d != nil {
		d.cancel()
		delete(s.open, consumer)
	}
}

// delivery returns the delivery to a connected consumer, or nil.
func (s *Service) delivery(consumer string) *delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[consumer]
}

// ClockFaults returns the consumers whose clock was set back.
func (s *Service) ClockFaults() map[string]ClockFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]ClockFault, len(s.clocks))
	for consumer, fault := range s.clocks {
		all[consumer] = fault
	}
	return all
}

// Received implements broker.Handler. It returns errors only if the store could not be written: a
// message that is wrong would be as wrong when it is sent again.
func (s *Service) Received(ctx context.Context, session *broker.Session, messages []cloudevent.Message) []error {
	return s.receive(ctx, session.Consumer, messages)
}

// receive processes messages in their order. Statuses that follow one another are stored together.
func (s *Service) receive(ctx context.Context, consumer string, messages []cloudevent.Message) []error {
	errs := make([]error, len(messages))
	var reports []report
	flush := func(next int) {
		copy(errs[next-len(reports):], s.accept(ctx, consumer, reports))
		reports = nil
	}
	for i, m := range messages {
		event, err := cloudevent.Parse(m)
		if err == nil {
			err = checkSender(event, consumer)
		}
		if err == nil && event.SubResource == cloudevent.Status && event.Action != cloudevent.ResyncRequest {
			var one report
			if one, err = readReport(event); err == nil {
				reports = append(reports, one)
				continue
			}
		}
		flush(i)
		switch {
		case err != nil:
			s.drop(consumer, "", err.Error())
		case event.SubResource == cloudevent.Spec && event.Action == cloudevent.ResyncRequest:
			errs[i] = s.resync(ctx, consumer, event)
		default:
			s.drop(consumer, event.ResourceID, "an agent does not send events of the type "+event.Type())
		}
	}
	flush(len(messages))
	return errs
}

// drop logs a message that has no effect.
func (s *Service) drop(consumer, id, reason string) {
	s.log.Warn("A message of a management cluster was ignored.", "consumer", consumer, "bundle", id, "reason", reason)
}

// event returns a new event of this source.
func (s *Service) event(consumer string, part cloudevent.SubResource, action cloudevent.Action) *cloudevent.Event {
	return &cloudevent.Event{ID: uuid.NewString(), Source: broker.SourceID, SubResource: part, Action: action,
		Time: s.clock.Now(), Consumer: consumer}
}

// noteSeen writes the time of the last message, at most once a minute.
func noteSeen(tx *store.Tx, consumer string, now time.Time) error {
	held, err := bundle.GetConsumer(tx, consumer)
	if err != nil || now.Sub(held.Seen).Abs() < time.Minute {
		return err
	}
	_, err = bundle.UpdateConsumer(tx, consumer, held.Updated, func(c *bundle.Consumer) error {
		c.Seen = now.UTC().Truncate(time.Second)
		return nil
	})
	return err
}
