package engine

import (
	"context"
	"log/slog"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/appliance/journal"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/store/fastjson"
)

// The store keeps the history of clusters, infra-envs and hosts; package journal collects it. Each
// change writes a [journal.Note] that says when and why it was made.

// SecretsPurpose is the purpose of the box that seals pull secrets in the store.
const SecretsPurpose sitekey.Purpose = "landfall pull secrets"

// JournalLayout returns how the engine keeps the objects that belong to journals.
func JournalLayout() journal.Layout {
	return journal.Layout{
		Hosts: record.ClusterHosts, InfraEnvs: record.ClusterInfraEnvs, Files: record.InstallerFiles,
		LogDirectory: logDirectory, PublicFiles: []string{logDirectory, manifestFolder},
		PasswordFiles: []string{fileKubeadminPassword},
		Kubeconfigs:   []string{fileKubeconfig, fileKubeconfigNoIngress},
		Events: func(tx *store.Tx, visit func(subjects []string) error) error {
			return event.Rows.Keys(tx, "", func(key string) error {
				_, subjects, err := event.ParseKey(key)
				if err != nil {
					return err
				}
				return visit(subjects)
			})
		},
		SecretsPurpose: SecretsPurpose,
	}
}

// logDirectory is the prefix of the names of log files among the files of a cluster.
const logDirectory = "logs/"

// Operations of notes: the API's ids of what hosts do, and the names of the appliance's own
// activities.
const (
	operationPoll        = "v2GetNextSteps"
	operationReply       = "v2PostStepReply"
	operationTimer       = "timer"
	operationTrim        = "removal of old events"
	operationPreparation = "preparation"
)

// Request is an API request that causes changes.
type Request struct {
	Operation               string // the API's id
	ID                      string // in the form of a UUID, as events require
	Cluster, InfraEnv, Host string // ids in the request's path
}

// cause is the reason of a change, as its context says.
type cause struct {
	Request
	reply *models.StepReply
}

type causeKey struct{}

func causeOf(ctx context.Context) cause {
	held, _ := ctx.Value(causeKey{}).(cause)
	return held
}

// WithRequest returns a context whose changes are caused by a request.
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
	held.Operation, held.Host, held.reply = operationReply, host, reply
	return context.WithValue(ctx, causeKey{}, held)
}

// note returns the note of the change as JSON.
func (c *change) note() []byte {
	reason := causeOf(c.ctx)
	note := &journal.Note{At: c.now, Operation: reason.Operation, Request: reason.ID, Host: reason.Host}
	if reason.reply != nil {
		note.Reply = journal.NoteOf(reason.reply)
	}
	text, err := fastjson.Marshal(note)
	if err != nil {
		c.log(slog.LevelError, "A change could not be recorded in the history.", "error", err)
	}
	return text
}
