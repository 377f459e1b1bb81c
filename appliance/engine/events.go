package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/steps"
	"landfall/appliance/fault"
	"landfall/appliance/journal"
	"landfall/store"
)

// emit writes an event in the change and a log line after its commit. If the event budget of the
// object is used up, it writes neither.
func (c *change) emit(ev event.Event) error {
	subjects := ev.Subjects()
	admitted, notice := c.e.budgets.Admit(&c.budgets, &c.e.options.EventLimits, c.now, &ev, subjects)
	if notice != nil {
		if err := c.writeEvent(notice, subjects); err != nil {
			return err
		}
	}
	if !admitted {
		return nil
	}
	return c.writeEvent(&ev, subjects)
}

func (c *change) writeEvent(ev *event.Event, subjects []event.Subject) error {
	row, err := ev.Row(c.now, journal.CauseOf(c.ctx).ID)
	if err != nil {
		return err
	}
	id := event.ID{Revision: c.tx.Revision(), Number: c.events}
	c.events++
	if err := event.Rows.Put(c.tx, event.Key(id, subjects), row); err != nil {
		return err
	}
	if c.e.options.Projector != nil {
		if len(c.written) == 0 {
			c.firstEvent = id
		}
		c.written = append(c.written, row)
	}
	attrs := []any{"event", ev.Name}
	for _, subject := range subjects {
		attrs = append(attrs, subject.Kind, subject.ID)
	}
	c.log(ev.Level(), ev.Message, attrs...)
	return nil
}

func (c *change) clusterEvent(row *record.Cluster, name, severity, format string, args ...any) error {
	return c.clusterEventOf(row, nil, name, severity, format, args...)
}

func (c *change) clusterEventOf(row *record.Cluster, about event.Props, name, severity, format string,
	args ...any) error {
	return c.emit(event.Event{Name: name, Severity: severity, Message: fmt.Sprintf(format, args...),
		Cluster: row.API.ID, Props: about})
}

func (c *change) hostEvent(h *record.Host, name, severity, format string, args ...any) error {
	return c.hostEventOf(h, nil, name, severity, format, args...)
}

// hostEventOf emits an event about a host, like hostEvent. It adds the properties in about to the
// event.
func (c *change) hostEventOf(h *record.Host, about event.Props, name, severity, format string, args ...any) error {
	return c.emitForHost(h, event.Event{Name: name, Severity: severity, Message: fmt.Sprintf(format, args...),
		Props: about})
}

// emitForHost emits events about a host.
func (c *change) emitForHost(h *record.Host, events ...event.Event) error {
	var errs []error
	for _, ev := range events {
		if ev.Props == nil {
			ev.Props = event.Props{}
		}
		ev.Props["host_name"] = c.hostName(h)
		ev.Cluster, ev.InfraEnv, ev.Host = h.API.ClusterID, &h.API.InfraEnvID, h.API.ID
		if err := c.emit(ev); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (c *change) infraEnvEvent(row *record.InfraEnv, name, severity, format string, args ...any) error {
	ev := event.Event{Name: name, Severity: severity, Message: fmt.Sprintf(format, args...), InfraEnv: row.API.ID}
	if row.API.ClusterID != "" {
		ev.Cluster = &row.API.ClusterID
	}
	return c.emit(ev)
}

// emitHostStateEvents emits the events of a host that entered a state.
func (c *change) emitHostStateEvents(h *record.Host, from, to string) error {
	if to == lifecycle.HostInstalling {
		return c.emitDiskEvents(h)
	}
	return c.emitForHost(h, event.OfHostState(c.hostName(h), from, to)...)
}

func (c *change) emitDiskEvents(h *record.Host) error {
	facts, err := c.hostFacts(h)
	if err != nil || facts.Inventory == nil {
		return err
	}
	return c.emitForHost(h, event.OfDisks(c.hostName(h), facts.Inventory, commaList(h.API.DisksToBeFormatted),
		commaList(h.API.SkipFormattingDisks))...)
}

// emitClusterStateEvents emits the events of a cluster that left a state.
func (c *change) emitClusterStateEvents(row *record.Cluster, from string, timedOut bool) error {
	if from != lifecycle.ClusterPreparing || !timedOut {
		return nil
	}
	return c.clusterEventOf(row, event.Props{"reason": *row.API.StatusInfo}, event.PreparationTimedOut,
		models.EventSeverityWarning, "Cluster %s was not prepared for its installation in time.", row.API.Name)
}

// emitOperatorReport emits an event that lists the operators that may delay a late stage of the
// installation.
func (c *change) emitOperatorReport(row *record.Cluster) error {
	ev, ok := event.OfOperators(&row.API)
	if !ok {
		return nil
	}
	ev.Cluster = row.API.ID
	return c.emit(ev)
}

// emitCheckEvents emits the events about new results of a host's checks. It must run before the
// reply is stored.
func (c *change) emitCheckEvents(h *record.Host, effect *steps.Effect) error {
	if effect.Images == nil && effect.DiskSpeed == nil && effect.Upgrade == nil {
		return nil
	}
	facts, err := c.hostFacts(h)
	if err != nil {
		return err
	}
	return c.emitForHost(h, event.OfChecks(c.hostName(h), facts, effect)...)
}

// emitUpgradeStarted emits an event if the next instructions of a host tell its agent to upgrade to
// the version in the cluster's release.
func (c *change) emitUpgradeStarted(h *record.Host) error {
	if h.API.ClusterID == nil {
		return nil
	}
	row, err := c.cluster(h.API.ClusterID.String())
	if err != nil || row.Release == nil || !steps.Upgrades(&h.API, row.Release.Agent) {
		return err
	}
	return c.emitForHost(h, event.OfUpgrade(c.hostName(h), row.Release.Agent))
}

// emitProxyChange emits an event if the proxy settings of a cluster changed.
func (c *change) emitProxyChange(row *record.Cluster, before models.Cluster) error {
	api := &row.API
	if api.HTTPProxy == before.HTTPProxy && api.HTTPSProxy == before.HTTPSProxy && api.NoProxy == before.NoProxy {
		return nil
	}
	return c.clusterEvent(row, event.ProxyChanged, models.EventSeverityInfo,
		"Cluster %s: the proxy settings were changed.", api.Name)
}

// recordRejection writes an event about a rejected request. If that fails, it only logs the error,
// because the client must receive the rejection.
func (e *Engine) recordRejection(ctx context.Context, rejected error) {
	cause := journal.CauseOf(ctx)
	ev, ok := event.OfRejection(cause.Operation, rejected)
	if !ok || fault.KindOf(rejected) != fault.Conflict || store.IsDryRun(ctx) {
		return
	}
	err := e.update(journal.WithOperation(ctx, cause.Operation+" refused"), func(c *change) error {
		ev := ev
		for _, subject := range []struct {
			id     string
			field  **strfmt.UUID
			exists bool
		}{
			{cause.Cluster, &ev.Cluster, record.Clusters.Exists(c.tx, cause.Cluster)},
			{cause.InfraEnv, &ev.InfraEnv, record.InfraEnvs.Exists(c.tx, cause.InfraEnv)},
			{cause.Host, &ev.Host, record.Hosts.Exists(c.tx, cause.InfraEnv+"/"+cause.Host)},
		} {
			if subject.exists {
				id := strfmt.UUID(subject.id)
				*subject.field = &id
			}
		}
		if ev.InfraEnv != nil && ev.Cluster == nil {
			if row, err := c.infraEnv(cause.InfraEnv); err == nil && row.API.ClusterID != "" {
				ev.Cluster = &row.API.ClusterID
			}
		}
		if len(ev.Subjects()) == 0 {
			return nil
		}
		return c.emit(ev)
	})
	if err != nil {
		e.options.Logger.WarnContext(ctx, "The event about a rejected request could not be written.", "rejection",
			rejected, "error", err)
	}
}

// Events returns the events that match the filter.
func (e *Engine) Events(filter event.Filter) (page *event.Page, err error) {
	err = e.options.DB.View(func(tx *store.Tx) (err error) {
		page, err = e.events.Select(tx, filter, func(host string) bool { return record.Hosts.Exists(tx, host) })
		return err
	})
	return page, err
}

// TrimEvents removes the oldest events beyond the limits. The appliance calls it regularly.
func (e *Engine) TrimEvents(ctx context.Context) error {
	e.budgets.DropFull(e.options.Clock.Now(), e.options.EventLimits.PerHour)
	var excess map[string][]string
	if err := e.options.DB.View(func(tx *store.Tx) (err error) {
		excess, err = event.Excess(tx, e.options.EventLimits)
		return err
	}); err != nil || len(excess) == 0 {
		return err
	}
	const batchSize = 500
	for subject, keys := range excess {
		total := len(keys)
		for len(keys) > 0 {
			batch := keys[:min(len(keys), batchSize)]
			keys = keys[len(batch):]
			err := e.update(journal.WithOperation(ctx, journal.OperationTrim), func(c *change) error {
				for _, key := range batch {
					if err := event.Rows.Delete(c.tx, key); err != nil {
						return err
					}
				}
				if len(keys) > 0 {
					return nil
				}
				return c.emitEventsRemoved(subject, batch[len(batch)-1], total)
			})
			if err != nil {
				return err
			}
		}
	}
	e.events.Reset()
	return nil
}

// emitEventsRemoved writes the event about the removed events of an object that still exists.
func (c *change) emitEventsRemoved(about, key string, count int) error {
	ev := event.RemovedNotice(count)
	id := strfmt.UUID(about)
	_, subjects, err := event.ParseKey(key)
	switch {
	case err != nil:
		return err
	case record.Clusters.Exists(c.tx, about):
		ev.Cluster = &id
	case record.InfraEnvs.Exists(c.tx, about):
		ev.InfraEnv = &id
	case len(subjects) > 1 && record.Hosts.Exists(c.tx, subjects[len(subjects)-2]+"/"+about):
		env := strfmt.UUID(subjects[len(subjects)-2])
		ev.Host, ev.InfraEnv = &id, &env
		if h, err := c.host(subjects[len(subjects)-2] + "/" + about); err == nil {
			ev.Cluster = h.API.ClusterID
		}
	default:
		return nil
	}
	return c.writeEvent(&ev, ev.Subjects())
}

// AddHostWarning adds a warning to the events of a host.
func (e *Engine) AddHostWarning(ctx context.Context, infraEnvID, hostID, name, message string) error {
	return e.update(ctx, func(c *change) error {
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		return c.hostEvent(h, name, models.EventSeverityWarning, "Host %s: %s", c.hostName(h), message)
	})
}
