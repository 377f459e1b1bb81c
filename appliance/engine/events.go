package engine

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/store"
)

// event is something that happened, for people to read. Names follow the Assisted Installer's list of events, so that
// programs which look for them find them; the words are ours.
type event struct {
	name     string
	severity string // info, warning, error, critical
	message  string
	category string // "" is user
	props    string // JSON
	cluster  *strfmt.UUID
	infraEnv *strfmt.UUID
	host     *strfmt.UUID
}

// eventName names the kinds of event that the engine writes.
const (
	eventClusterRegistered      = "cluster_registration_succeeded"
	eventClusterDeregistered    = "cluster_deregistered"
	eventClusterStatus          = "cluster_status_updated"
	eventClusterPrepared        = "cluster_prepare_for_installation_started"
	eventInstallConfig          = "generate_image_completed"
	eventPreparationFailed      = "prepare_cluster_installation_failed"
	eventInstallationCanceled   = "cancel_installation_start"
	eventInstallationReset      = "reset_installation_start"
	eventInstallationCompleted  = "cluster_installation_completed"
	eventInstallationFailed     = "cluster_installation_failed"
	eventIngressCert            = "upload_ingress_cert_finished"
	eventFinalizingStage        = "cluster_finalizing_stage_updated"
	eventOperatorStatus         = "cluster_operator_status"
	eventInfraEnvRegistered     = "infra_env_registered"
	eventInfraEnvDeregistered   = "infra_env_deregistered"
	eventImageUpdated           = "image_info_updated"
	eventImageURLUpdated        = "image_url_updated" // ours: of the short URL
	eventHostRegistered         = "host_registration_succeeded"
	eventHostDeregistered       = "host_deregistered"
	eventHostStatus             = "host_status_updated"
	eventHostStage              = "host_install_progress_updated"
	eventHostBound              = "host_bind_succeeded"
	eventHostUnbound            = "host_unbind_succeeded"
	eventHostRole               = "host_role_updated"
	eventHostBootstrap          = "host_bootstrap_set"
	eventValidationFixed        = "host_validation_fixed"
	eventValidationFailed       = "host_validation_failed"
	eventClusterValidationFixed = "cluster_validation_fixed"
	eventClusterValidationFail  = "cluster_validation_failed"
	eventLogsUploaded           = "cluster_logs_uploaded"
	eventHostLogsUploaded       = "host_logs_uploaded"
	eventMediaDisconnected      = "host_media_disconnected"
	eventVIPsUpdated            = "api_ingress_vip_updated"
	eventStageTimedOut          = "host_stage_timed_out"
	eventFinalizingTimedOut     = "finalizing_stage_timed_out"
)

// emit writes an event within the change and a line of the log after it.
func (c *change) emit(ev event) error {
	subjects := ev.subjects()
	key := eventKey(eventID{c.tx.Revision(), c.events}, subjects)
	c.events++
	at := c.dateTime()
	row := &models.Event{
		Name: ev.name, Severity: &ev.severity, Message: &ev.message, EventTime: &at, Category: orText(ev.category, models.EventCategoryUser), Props: ev.props,
		ClusterID: ev.cluster, InfraEnvID: ev.infraEnv, HostID: ev.host,
		RequestID: strfmt.UUID(causeOf(c.ctx).request),
	}
	if err := eventRows.Put(c.tx, key, row); err != nil {
		return err
	}
	attrs := []any{"event", ev.name}
	for _, subject := range subjects {
		attrs = append(attrs, subject.kind, subject.id)
	}
	c.log(eventLevel(ev.severity), ev.message, attrs...)
	return nil
}

// subject is what an event is about.
type subject struct{ kind, id string }

func (ev event) subjects() []subject {
	var subjects []subject
	for _, s := range []struct {
		kind string
		id   *strfmt.UUID
	}{{"cluster", ev.cluster}, {"infra_env", ev.infraEnv}, {"host", ev.host}} {
		if s.id != nil && *s.id != "" {
			subjects = append(subjects, subject{s.kind, s.id.String()})
		}
	}
	return subjects
}

func eventLevel(severity string) slog.Level {
	switch severity {
	case models.EventSeverityWarning:
		return slog.LevelWarn
	case models.EventSeverityError, models.EventSeverityCritical:
		return slog.LevelError
	}
	return slog.LevelInfo
}

func (c *change) clusterEvent(row *clusterRecord, name, severity, format string, args ...any) error {
	return c.emit(event{name: name, severity: severity, message: fmt.Sprintf(format, args...), cluster: row.API.ID})
}

func (c *change) hostEvent(h *hostRecord, name, severity, format string, args ...any) error {
	return c.emit(event{
		name: name, severity: severity, message: fmt.Sprintf(format, args...),
		cluster: h.API.ClusterID, infraEnv: &h.API.InfraEnvID, host: h.API.ID,
	})
}

func (c *change) infraEnvEvent(row *infraEnvRecord, name, severity, format string, args ...any) error {
	ev := event{name: name, severity: severity, message: fmt.Sprintf(format, args...), infraEnv: row.API.ID}
	if row.API.ClusterID != "" {
		ev.cluster = &row.API.ClusterID
	}
	return c.emit(ev)
}

// EventFilter selects events; empty fields select all.
type EventFilter struct {
	ClusterID, InfraEnvID string
	HostIDs               []string
	Severities            []string
	Categories            []string // none means user
	Message               string   // a part of the message, in any case
	ClusterLevel          bool     // only events of the cluster itself
	Descending            bool
	Limit, Offset         int // Limit 0 means all
}

// EventPage is a page of events with the number of all that the filter selects, by severity too.
type EventPage struct {
	Events     []*models.Event
	Total      int
	BySeverity map[string]int
}

// Events returns the events that the filter selects, the oldest first unless it says otherwise.
func (e *Engine) Events(filter EventFilter) (*EventPage, error) {
	page := &EventPage{BySeverity: make(map[string]int)}
	var all []*models.Event
	err := e.DB.View(func(tx *store.Tx) error {
		keep := func(ev *models.Event) {
			if filter.matches(ev) {
				all = append(all, ev)
			}
		}
		subject := filter.subject()
		if subject == "" {
			return eventRows.Each(tx, "", func(_ string, ev *models.Event) error { keep(ev); return nil })
		}
		ids, err := e.events.of(tx, subject)
		for _, id := range ids {
			if err := eventRows.Each(tx, id.String(), func(_ string, ev *models.Event) error { keep(ev); return store.ErrStop }); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, ev := range all {
		page.BySeverity[*ev.Severity]++
	}
	if len(filter.Severities) > 0 {
		all = slices.DeleteFunc(all, func(ev *models.Event) bool { return !slices.Contains(filter.Severities, *ev.Severity) })
	}
	page.Total = len(all)
	if filter.Descending {
		slices.Reverse(all)
	}
	all = all[min(filter.Offset, len(all)):]
	if filter.Limit > 0 {
		all = all[:min(filter.Limit, len(all))]
	}
	page.Events = all
	return page, nil
}

// subject returns the id under which the index finds the fewest events that may match.
func (f EventFilter) subject() string {
	switch {
	case len(f.HostIDs) == 1:
		return f.HostIDs[0]
	case f.InfraEnvID != "":
		return f.InfraEnvID
	}
	return f.ClusterID
}

func (f EventFilter) matches(ev *models.Event) bool {
	is := func(id *strfmt.UUID, want string) bool { return want == "" || id != nil && id.String() == want }
	if !is(ev.ClusterID, f.ClusterID) || !is(ev.InfraEnvID, f.InfraEnvID) {
		return false
	}
	if len(f.HostIDs) > 0 && (ev.HostID == nil || !slices.Contains(f.HostIDs, ev.HostID.String())) {
		return false
	}
	if f.ClusterLevel && ev.HostID != nil {
		return false
	}
	if len(f.Categories) == 0 && ev.Category != models.EventCategoryUser || len(f.Categories) > 0 && !slices.Contains(f.Categories, ev.Category) {
		return false
	}
	return f.Message == "" || strings.Contains(strings.ToLower(*ev.Message), strings.ToLower(f.Message))
}
