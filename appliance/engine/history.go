package engine

import (
	"context"
	"log/slog"
	"strings"

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

// noteTextLimit bounds each text of a reply in a note, in bytes.
const noteTextLimit = 2048

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
		note.Reply = noteReply(reason.reply)
	}
	text, err := fastjson.Marshal(note)
	if err != nil {
		c.log(slog.LevelError, "A change could not be recorded in the history.", "error", err)
	}
	return text
}

func noteReply(reply *models.StepReply) *journal.NoteReply {
	note := &journal.NoteReply{Type: string(reply.StepType), ID: reply.StepID, ExitCode: reply.ExitCode,
		Bytes: len(reply.Output), Error: lastBytes(reply.Error)}
	switch reply.StepType {
	case models.StepTypeInventory, models.StepTypeConnectivityCheck, models.StepTypeFreeNetworkAddresses,
		models.StepTypeNtpSynchronizer,
		models.StepTypeDomainResolution, models.StepTypeTangConnectivityCheck, models.StepTypeAPIVipConnectivityCheck,
		models.StepTypeContainerImageAvailability:
		if reply.ExitCode == 0 {
			return note // the output is in a row of its own
		}
	}
	note.Output = lastBytes(reply.Output)
	return note
}

// lastBytes returns the last noteTextLimit bytes of a text, without a broken character.
func lastBytes(text string) string {
	if len(text) <= noteTextLimit {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-noteTextLimit:], "")
}
