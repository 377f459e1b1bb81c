package agents

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access/machine"
	"landfall/appliance/engine/event"
	"landfall/appliance/fault"
)

// Limits of the events about refused machines. An agent repeats its requests for days, and anyone
// can send invalid tokens.
const (
	refusalInterval = time.Hour // between two events about one address
	maxRefusals     = 100       // events in one interval
)

// refusals limits the events about refused machines.
type refusals struct {
	clock clockwork.Clock

	mu       sync.Mutex
	begun    time.Time
	reported map[string]bool // infra-env and address, in the present interval
}

func newRefusals(clock clockwork.Clock) *refusals {
	return &refusals{clock: clock, reported: make(map[string]bool)}
}

// due reports whether an event about an address must be written now.
func (r *refusals) due(infraEnvID, address string) bool {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := now.Sub(r.begun); since >= refusalInterval || since < 0 {
		clear(r.reported)
		r.begun = now
	}
	key := infraEnvID + " " + address
	if r.reported[key] || len(r.reported) >= maxRefusals {
		return false
	}
	r.reported[key] = true
	return true
}

// report writes the event about a refused machine to the infra-env in its path or its token.
func (s *Service) report(ctx context.Context, r Request, refusal *machine.Refusal) {
	infraEnvID := r.InfraEnv
	if infraEnvID == "" {
		infraEnvID = refusal.InfraEnvID
	}
	if !s.refusals.due(infraEnvID, r.Address) {
		return
	}
	s.options.Logger.WarnContext(ctx, "A machine was refused.", "address", r.Address, "operation", r.Operation,
		"infra_env_id", infraEnvID, "host_id", r.Host, "error", refusal)
	if uuid.Validate(infraEnvID) != nil {
		return
	}
	who := "A machine at " + r.Address
	if uuid.Validate(r.Host) == nil {
		who = "Host " + r.Host + " at " + r.Address
	}
	id, severity := strfmt.UUID(infraEnvID), models.EventSeverityWarning
	message := fmt.Sprintf("%s was refused. %s", who, refusal.Reason)
	err := s.options.Engine.ReportEvent(ctx, &models.Event{Name: event.MachineRefused, InfraEnvID: &id,
		Severity: &severity, Message: &message, EventTime: new(strfmt.DateTime)})
	if err != nil && fault.KindOf(err) != fault.NotFound {
		s.options.Logger.WarnContext(ctx, "The event about a refused machine could not be written.", "error", err)
	}
}
