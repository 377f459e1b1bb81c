package journal

import (
	"context"
	"time"

	"github.com/openshift/assisted-service/models"
)

// Operations of causes: the API's ids of the requests of hosts, and the names of the appliance's
// own activities.
const (
	OperationPoll        = "v2GetNextSteps"
	OperationReply       = "v2PostStepReply"
	OperationTimer       = "timer"
	OperationTrim        = "removal of old events"
	OperationPreparation = "preparation"
)

// Request is an API request that causes changes.
type Request struct {
	Operation               string // the API's id
	ID                      string // in the form of a UUID, as events require
	Cluster, InfraEnv, Host string // ids in the request's path
}

// Cause is the reason of a change. The context of the change holds it.
type Cause struct {
	Request
	reply *models.StepReply
}

type causeKey struct{}

// CauseOf returns the cause of the changes of a context.
func CauseOf(ctx context.Context) Cause {
	held, _ := ctx.Value(causeKey{}).(Cause)
	return held
}

// WithRequest returns a context whose changes are caused by a request.
func WithRequest(ctx context.Context, request Request) context.Context {
	return context.WithValue(ctx, causeKey{}, Cause{Request: request})
}

// WithOperation returns a context whose changes are caused by an operation of the same request.
func WithOperation(ctx context.Context, operation string) context.Context {
	held := CauseOf(ctx)
	held.Operation = operation
	return context.WithValue(ctx, causeKey{}, held)
}

// WithReply returns a context whose changes are caused by the reply of a host to a step.
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
