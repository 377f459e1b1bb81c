// Package integrity says what is damaged in the stored data of a running appliance.
//
// The store notices a damaged row when it reads it (store.DB.Damage). This package writes an event
// for each damaged row of a cluster, infra-env or host, and states the damage as a finding of the
// appliance's own protections.
//
// Design: docs/design.md#damaged-data.
package integrity

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/doctor"
	"landfall/store"
)

// Event is the name of the event about a damaged row.
const Event = "stored_data_damaged"

// advice is the remedy of damaged data.
const advice = "Run landfall check, which lists the damage and what it means. Check the disk and the kernel's " +
	"log, and copy the data directory before you repair it."

// Events writes events.
type Events interface {
	ReportEvent(ctx context.Context, event *models.Event) error
}

// Monitor follows the damage that the store notices.
type Monitor struct {
	db     *store.DB
	events Events
	logger *slog.Logger
}

// New returns a monitor.
func New(db *store.DB, events Events, logger *slog.Logger) *Monitor {
	return &Monitor{db: db, events: events, logger: logger}
}

// Run writes an event for each damaged row of a cluster, infra-env or host, until the context ends.
func (m *Monitor) Run(ctx context.Context) error {
	written := make(map[string]bool)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.db.DamageNoticed():
		}
		for _, found := range m.db.Damage() {
			if written[found.Key] {
				continue
			}
			written[found.Key] = true
			if err := m.report(ctx, found); err != nil && ctx.Err() == nil {
				m.logger.WarnContext(ctx, "The event about damaged data could not be written.", "key", found.Key,
					"error", err)
			}
		}
	}
}

func (m *Monitor) report(ctx context.Context, found store.Damage) error {
	event := subject(found.Key)
	if event == nil {
		return nil // the log and the finding name it
	}
	severity := models.EventSeverityCritical
	message := fmt.Sprintf("The stored data %s is damaged and is left out until it is repaired: %s. %s", found.Key,
		found.Reason, advice)
	event.Name, event.Severity, event.Message, event.Category = Event, &severity, &message, models.EventCategoryUser
	return m.events.ReportEvent(ctx, event)
}

// subject returns an event about the object that a row belongs to, or nil if it belongs to none.
func subject(key string) *models.Event {
	parts := strings.Split(strings.TrimPrefix(key, "/"), "/")
	kind, ids := parts[0], parts[1:]
	if kind == "validations" && len(ids) > 0 {
		kind, ids = ids[0]+"s", ids[1:]
	}
	id := func(position int) *strfmt.UUID {
		if position >= len(ids) || !strfmt.IsUUID(ids[position]) {
			return nil
		}
		uuid := strfmt.UUID(ids[position])
		return &uuid
	}
	event := new(models.Event)
	switch kind {
	case "clusters", "files", "subscriptions":
		event.ClusterID = id(0)
	case "infra-envs", "recipes":
		event.InfraEnvID = id(0)
	case "hosts", "reports":
		event.InfraEnvID, event.HostID = id(0), id(1)
	}
	if event.ClusterID == nil && event.InfraEnvID == nil {
		return nil
	}
	return event
}

// Finding states whether stored data is damaged.
func (m *Monitor) Finding() doctor.Finding {
	finding := doctor.Finding{Area: doctor.Protection, Subject: "stored data", Status: doctor.Green,
		Check: "whether stored data is damaged", Result: "no damage was noticed since the start"}
	damage := m.db.Damage()
	if len(damage) == 0 {
		return finding
	}
	const shown = 5
	var keys []string
	for _, found := range damage[:min(len(damage), shown)] {
		keys = append(keys, found.Key)
	}
	if len(damage) > shown {
		keys = append(keys, fmt.Sprintf("%d more", len(damage)-shown))
	}
	finding.Status = doctor.Red
	finding.Result = fmt.Sprintf("%d damaged and left out: %s", len(damage), strings.Join(keys, ", "))
	finding.Advice = advice
	return finding
}
