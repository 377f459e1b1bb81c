package engine

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/store"
	"landfall/store/fastjson"
)

// What happens to clusters, infra-envs and hosts is kept in the store's history, from which a
// cluster's story can be told to somebody who was not there (see package journal). Each change says
// there when and why it was made.

// History has a store keep what the engine's changes were, as far as the bounds in bytes allow:
// those for the history of each cluster, infra-env and host, and for all of them together.
func History(each, all int64) store.History {
	return store.History{Owner: historyOwner, OwnerBytes: each, Bytes: all}
}

// historyOwner names whose history the changes of a key belong to: the host, infra-env or cluster
// that the key names, or "" for what has none.
func historyOwner(key string) string {
	kind, rest, _ := strings.Cut(key[1:], "/")
	switch kind {
	case "clusters", "infra-envs", "subscriptions":
		return rest
	case "hosts":
		return rest
	case "files":
		id, _, _ := strings.Cut(rest, "/")
		return id
	case "reports":
		return rest[:max(strings.LastIndexByte(rest, '/'), 0)]
	case "validations":
		_, subject, _ := strings.Cut(rest, "/")
		return subject
	case "events":
		return rest[strings.LastIndexByte(rest, '/')+1:] // what the event is about most closely
	}
	return ""
}

// Note is what a change's first entry in the history says of it.
type Note struct {
	At        time.Time  `json:"at"`
	Operation string     `json:"do,omitempty"`   // the API's id of the operation, or what the appliance did by itself
	Request   string     `json:"req,omitempty"`  // the request's id
	Host      string     `json:"host,omitempty"` // that it is about
	Reply     *NoteReply `json:"reply,omitempty"`
}

// NoteReply is a step's reply by a host's agent. What it reports is in the rows that the change
// wrote; what it says beside that is here.
type NoteReply struct {
	Type     string `json:"type"`
	ID       string `json:"id,omitempty"`
	ExitCode int64  `json:"exit,omitempty"`
	Bytes    int    `json:"bytes"`            // of the output
	Output   string `json:"output,omitempty"` // its end, of replies that no row keeps
	Error    string `json:"error,omitempty"`  // its end
}

// noteTextLimit bounds the texts of a reply that are kept in a note, in bytes.
const noteTextLimit = 2048

// What hosts do, by the names of the API's operations, and what the appliance does by itself.
const (
	doPoll        = "v2GetNextSteps"
	doReply       = "v2PostStepReply"
	doTimer       = "timer"
	doTrim        = "removal of old events"
	doPreparation = "preparation"
)

// Request is a request that changes are made for.
type Request struct {
	Operation               string // the API's id
	ID                      string // in events, which want a UUID
	Cluster, InfraEnv, Host string // that its path names
}

// cause is why a change is made, as its context says.
type cause struct {
	Request
	reply *models.StepReply
}

type causeKey struct{}

func causeOf(ctx context.Context) cause {
	held, _ := ctx.Value(causeKey{}).(cause)
	return held
}

// WithRequest returns a context whose changes are those of a request.
func WithRequest(ctx context.Context, request Request) context.Context {
	return context.WithValue(ctx, causeKey{}, cause{Request: request})
}

func withOperation(ctx context.Context, operation string) context.Context {
	held := causeOf(ctx)
	held.Operation = operation
	return context.WithValue(ctx, causeKey{}, held)
}

func withReply(ctx context.Context, host string, reply *models.StepReply) context.Context {
	held := causeOf(ctx)
	held.Operation, held.Host, held.reply = doReply, host, reply
	return context.WithValue(ctx, causeKey{}, held)
}

// note is what the change says of itself in the history.
func (c *change) note() []byte {
	why := causeOf(c.ctx)
	note := &Note{At: c.now, Operation: why.Operation, Request: why.ID, Host: why.Host}
	if why.reply != nil {
		note.Reply = noteOf(why.reply)
	}
	text, err := fastjson.Marshal(note)
	if err != nil {
		c.log(slog.LevelError, "What a change was about could not be noted.", "error", err)
	}
	return text
}

func noteOf(reply *models.StepReply) *NoteReply {
	note := &NoteReply{Type: string(reply.StepType), ID: reply.StepID, ExitCode: reply.ExitCode,
		Bytes: len(reply.Output), Error: end(reply.Error)}
	switch reply.StepType {
	case models.StepTypeInventory, models.StepTypeConnectivityCheck, models.StepTypeFreeNetworkAddresses,
		models.StepTypeNtpSynchronizer,
		models.StepTypeDomainResolution, models.StepTypeTangConnectivityCheck, models.StepTypeAPIVipConnectivityCheck,
		models.StepTypeContainerImageAvailability:
		if reply.ExitCode == 0 {
			return note // a row of its own holds it
		}
	}
	note.Output = end(reply.Output)
	return note
}

// end is the end of a text that may be too long to be kept.
func end(text string) string {
	if len(text) <= noteTextLimit {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-noteTextLimit:], "")
}
