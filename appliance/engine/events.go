package engine

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/store"
	"landfall/store/fastjson"
)

// event is a record for people. Names are those of the Assisted Installer's events, so that
// programs find them. The texts are ours.
type event struct {
	name     string
	severity string // info, warning, error, critical
	message  string
	category string // "" is user
	props    props
	rawProps string // JSON that came as it is
	cluster  *strfmt.UUID
	infraEnv *strfmt.UUID
	host     *strfmt.UUID
}

// props are the properties of an event, for programs.
type props map[string]any

func (p props) json() (string, error) {
	if len(p) == 0 {
		return "", nil
	}
	text, err := fastjson.Marshal(p)
	return string(text), err
}

// eventName names the kinds of event that the engine writes.
const (
	eventClusterRegistered      = "cluster_registration_succeeded"
	eventClusterDeregistered    = "cluster_deregistered"
	eventClusterStatus          = "cluster_status_updated"
	eventClusterPrepared        = "cluster_prepare_installation_started"
	eventInstallConfig          = "installer_files_generated" // ours
	eventPreparationFailed      = "prepare_installation_failed"
	eventInstallationCanceled   = "cluster_installation_canceled"
	eventInstallationReset      = "cluster_installation_reset"
	eventInstallationCompleted  = "cluster_installation_completed"
	eventInstallationFailed     = "cluster_installation_failed"
	eventIngressCert            = "ingress_certificate_received" // ours
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

// emit writes an event within the change and a line of the log after it, unless there are too many
// of them.
func (c *change) emit(ev event) error {
	subjects := ev.subjects()
	admitted, err := c.admit(ev, subjects)
	if err != nil || !admitted {
		return err
	}
	return c.writeEvent(ev, subjects)
}

func (c *change) writeEvent(ev event, subjects []subject) error {
	about, err := ev.props.json()
	if err != nil {
		return err
	}
	key := eventKey(eventID{c.tx.Revision(), c.events}, subjects)
	c.events++
	at := c.dateTime()
	row := &models.Event{
		Name: ev.name, Severity: &ev.severity, Message: &ev.message, EventTime: &at,
		Category: orText(ev.category, models.EventCategoryUser), Props: orText(ev.rawProps, about),
		ClusterID: ev.cluster, InfraEnvID: ev.infraEnv, HostID: ev.host,
		RequestID: strfmt.UUID(causeOf(c.ctx).ID),
	}
	if err := eventRows.Put(c.tx, key, row); err != nil {
		return err
	}
	if c.e.options.Projector != nil {
		c.written = append(c.written, row)
	}
	attrs := []any{"event", ev.name}
	for _, subject := range subjects {
		attrs = append(attrs, subject.kind, subject.id)
	}
	c.log(eventLevel(ev.severity), ev.message, attrs...)
	return nil
}

// subject is an object that an event belongs to.
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
	return c.clusterEventOf(row, nil, name, severity, format, args...)
}

func (c *change) clusterEventOf(row *clusterRecord, about props, name, severity, format string, args ...any) error {
	return c.emit(event{name: name, severity: severity, message: fmt.Sprintf(format, args...), cluster: row.API.ID,
		props: about})
}

func (c *change) hostEvent(h *hostRecord, name, severity, format string, args ...any) error {
	return c.hostEventOf(h, props{}, name, severity, format, args...)
}

// hostEventOf is hostEvent with properties beside the host's name.
func (c *change) hostEventOf(h *hostRecord, about props, name, severity, format string, args ...any) error {
	about["host_name"] = c.hostName(h)
	return c.emit(event{
		name: name, severity: severity, message: fmt.Sprintf(format, args...), props: about,
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
	ClusterLevel          bool     // events of the cluster itself
	DeletedHosts          bool     // events of hosts that are no more; those three together select any of them
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
	err := e.options.DB.View(func(tx *store.Tx) error {
		gone := func(ev *models.Event) bool {
			return ev.InfraEnvID == nil || !hostRows.Exists(tx, ev.InfraEnvID.String()+"/"+ev.HostID.String())
		}
		keep := func(ev *models.Event) {
			if filter.matches(ev, gone) {
				all = append(all, ev)
			}
		}
		subject := filter.subject()
		if subject == "" {
			return eventRows.Each(tx, "", func(_ string, ev *models.Event) error { keep(ev); return nil })
		}
		ids, err := e.events.of(tx, subject)
		for _, id := range ids {
			if err := eventRows.Each(tx, id.String(), func(_ string,
				ev *models.Event) error {
				keep(ev)
				return store.ErrStop
			}); err != nil {
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
		all = slices.DeleteFunc(all, func(ev *models.Event) bool {
			return !slices.Contains(filter.Severities,
				*ev.Severity)
		})
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
	case len(f.HostIDs) == 1 && !f.ClusterLevel && !f.DeletedHosts:
		return f.HostIDs[0]
	case f.InfraEnvID != "":
		return f.InfraEnvID
	}
	return f.ClusterID
}

// ofHosts tells whether an event is of one of the hosts that are asked for, or of none where such
// are asked for.
func (f EventFilter) ofHosts(ev *models.Event, gone func(*models.Event) bool) bool {
	if ev.HostID == nil {
		return f.ClusterLevel
	}
	return slices.Contains(f.HostIDs, ev.HostID.String()) || f.DeletedHosts && gone(ev)
}

func (f EventFilter) matches(ev *models.Event, gone func(*models.Event) bool) bool {
	is := func(id *strfmt.UUID, want string) bool { return want == "" || id != nil && id.String() == want }
	if !is(ev.ClusterID, f.ClusterID) || !is(ev.InfraEnvID, f.InfraEnvID) {
		return false
	}
	if chosen := len(f.HostIDs) > 0 || f.ClusterLevel || f.DeletedHosts; chosen && !f.ofHosts(ev, gone) {
		return false
	}
	if len(f.Categories) == 0 && ev.Category != models.EventCategoryUser || len(f.Categories) > 0 &&
		!slices.Contains(f.Categories, ev.Category) {
		return false
	}
	return f.Message == "" || strings.Contains(strings.ToLower(*ev.Message), strings.ToLower(f.Message))
}
