package journal

import (
	"context"
	"time"

	"github.com/openshift/assisted-service/models"
)

// Operations of causes: API operation IDs of requests from hosts, and names of the appliance's own
// activities.
const (
	OperationPoll        = "v2GetNextSteps"
	OperationReply       = "v2PostStepReply"
	OperationTimer       = "timer"
	OperationTrim        = "removal of old events"
	OperationPreparation = "preparation"
)

// Request is an API request that causes changes.
type Request struct {
	Operation               string // API operation ID
	ID                      string // a UUID, as events require
	Cluster, InfraEnv, Host string // IDs in the request's path
}

// Cause is the cause of a change. The context of the change contains it.
type Cause struct {
	Request
	reply *models.StepReply
}

type causeKey struct{}

// CauseOf returns the cause in a context.
func CauseOf(ctx context.Context) Cause {
	held, _ := ctx.Value(causeKey{}).(Cause)
	return held
}

// WithRequest returns a context with a request as the cause of changes.
func WithRequest(ctx context.Context, request Request) context.Context {
	return context.WithValue(ctx, causeKey{}, Cause{Request: request})
}

// WithOperation returns a context whose cause differs from the cause in ctx only in the operation.
func WithOperation(ctx context.Context, operation string) context.Context {
	held := CauseOf(ctx)
	held.Operation = operation
	return context.WithValue(ctx, causeKey{}, held)
}

// WithReply returns a context with a host's reply to a step as the cause of changes.
func WithReply(ctx context.Context, host string, reply *models.StepReply) context.Context {
	held := CauseOf(ctx)
	held.Operation, held.Host, held.reply = OperationReply, host, reply
	return context.WithValue(ctx, causeKey{}, held)
}

// Note returns the note of a change with this cause.
func (c Cause) Note(at time.Time) *Note {
	note := &Note{At: at, Operation: c.Operation, Request: c.ID, Host: c.Host}
	if c.reply != nil {
		note.Reply = noteOf(c.reply)
	}
	return note
}
