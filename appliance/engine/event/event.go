// Package event holds the events of clusters, infra-envs and hosts: their names, sentences, keys
// and rows. It also has the index of events, and the limits of their number and size.
//
// The engine writes an event in the transaction of the change that the event describes.
//
// Design: docs/design.md#limits-of-events.
package event

import (
	"cmp"
	"log/slog"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/store"
	"landfall/store/fastjson"
)

// Rows holds the events by their keys; see [Key].
var Rows = store.NewBucket[models.Event]("events", 1)

// Event is a message for users. Programs use its name and properties.
type Event struct {
	Name     string
	Severity string // info, warning, error, critical
	Message  string
	Category string // "" means user
	Props    Props
	RawProps string // JSON; replaces Props unless it is empty
	Cluster  *strfmt.UUID
	InfraEnv *strfmt.UUID
	Host     *strfmt.UUID
}

// Props holds the properties of an event.
type Props map[string]any

func (p Props) json() (string, error) {
	if len(p) == 0 {
		return "", nil
	}
	text, err := fastjson.Marshal(p)
	return string(text), err
}

// Row returns the event in the format of the store. Request is the id of the request that caused
// it, or "".
func (ev *Event) Row(at time.Time, request string) (*models.Event, error) {
	props, err := ev.Props.json()
	if err != nil {
		return nil, err
	}
	when := strfmt.DateTime(at)
	return &models.Event{
		Name: ev.Name, Severity: &ev.Severity, Message: &ev.Message, EventTime: &when,
		Category: cmp.Or(ev.Category, models.EventCategoryUser), Props: cmp.Or(ev.RawProps, props),
		ClusterID: ev.Cluster, InfraEnvID: ev.InfraEnv, HostID: ev.Host, RequestID: strfmt.UUID(request),
	}, nil
}

// Level returns the level of the event's log line.
func (ev *Event) Level() slog.Level {
	switch ev.Severity {
	case models.EventSeverityWarning:
		return slog.LevelWarn
	case models.EventSeverityError, models.EventSeverityCritical:
		return slog.LevelError
	}
	return slog.LevelInfo
}

// Subject is an object that an event describes.
type Subject struct {
	Kind string // cluster, infra_env or host
	ID   string
}

// Subjects returns the cluster, infra-env and host of the event. Missing subjects are left out.
func (ev *Event) Subjects() []Subject {
	var subjects []Subject
	for _, s := range [...]struct {
		kind string
		id   *strfmt.UUID
	}{{"cluster", ev.Cluster}, {"infra_env", ev.InfraEnv}, {"host", ev.Host}} {
		if s.id != nil && *s.id != "" {
			subjects = append(subjects, Subject{s.kind, s.id.String()})
		}
	}
	return subjects
}

// noun returns the subject's kind as in texts for users.
func (s Subject) noun() string { return strings.ReplaceAll(s.Kind, "_", "-") }
