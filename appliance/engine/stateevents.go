package engine

import (
	"context"
	"errors"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/steps"
)

// This file emits the events that follow from new states, from replies of hosts and from refusals.
// upstreamEvents, in a test, lists all events of the Assisted Installer.

// Names of such events.
const (
	eventHostCancelled       = "host_installation_cancelled"
	eventResetNeedsUser      = "user_required_complete_installation_reset"
	eventDiskFormatted       = "quick_disk_format_performed"
	eventDiskNotFormatted    = "quick_disk_format_skipped"
	eventPreparationTimedOut = "installation_preparing_timed_out"
	eventOperatorReport      = "cluster_operator_report"
	eventImageStatus         = "image_status_updated"
	eventSlowDisk            = "disk_speed_slower_than_supported"
	eventProxyChanged        = "proxy_settings_changed"
	eventUpgradeStarted      = "upgrade_agent_started"
	eventUpgradeFinished     = "upgrade_agent_finished"
	eventUpgradeFailed       = "upgrade_agent_failed"
	eventStepFailed          = "host_step_failed" // ours

	eventDeregisterFailed         = "cluster_deregister_failed"
	eventCancelFailed             = "cancel_installation_failed"
	eventResetFailed              = "reset_installation_failed"
	eventInfraEnvDeregisterFailed = "infra_env_deregister_failed"
	eventHostRegistrationFailed   = "host_registration_failed"
	eventBindFailed               = "host_bind_failed"
	eventUnbindFailed             = "host_unbind_failed"
	eventHostResetFailed          = "host_installation_reset_failed"
)

// emitHostStateEvents emits the events of a host that entered a state.
func (c *change) emitHostStateEvents(h *hostRecord, from, to string) error {
	name := c.hostName(h)
	switch to {
	case lifecycle.HostCancelled:
		return c.hostEvent(h, eventHostCancelled, models.EventSeverityInfo, "Host %s: the installation was cancelled.",
			name)
	case lifecycle.HostResetting:
		return c.hostEvent(h, eventHostReset, models.EventSeverityInfo, "Host %s: the installation was reset.", name)
	case lifecycle.HostResettingPendingUserAction:
		var reset error
		if from != lifecycle.HostResetting {
			reset = c.hostEvent(h, eventHostReset, models.EventSeverityInfo, "Host %s: the installation was reset.",
				name)
		}
		return errors.Join(reset, c.hostEvent(h, eventResetNeedsUser, models.EventSeverityInfo,
			"Host %s: a person must restart it from the discovery image to complete the reset.", name))
	case lifecycle.HostInstalling:
		return c.emitDiskEvents(h)
	}
	return nil
}

// emitDiskEvents emits an event for each disk that a host's installation wipes, and for each
// bootable disk that it keeps.
func (c *change) emitDiskEvents(h *hostRecord) error {
	facts, err := c.hostFacts(h)
	if err != nil || facts.Inventory == nil {
		return err
	}
	skipped := commaList(h.API.SkipFormattingDisks)
	var errs []error
	for _, id := range commaList(h.API.DisksToBeFormatted) {
		disk := inventory.DiskByPath(facts.Inventory.Disks, id)
		if disk == nil {
			continue
		}
		left := false
		for _, other := range skipped {
			left = left || inventory.DiskByPath(facts.Inventory.Disks, other) == disk
		}
		about := props{"disk_name": disk.Name, "disk_id": id}
		if left {
			errs = append(errs, c.hostEventOf(h, about, eventDiskNotFormatted, models.EventSeverityInfo,
				"Host %s: disk %s (%s) is left as it is, as was asked for; should the host boot from it, the "+
					"installation stops.", c.hostName(h), disk.Name, id))
			continue
		}
		errs = append(errs, c.hostEventOf(h, about, eventDiskFormatted, models.EventSeverityInfo,
			"Host %s: disk %s (%s) is quickly formatted.", c.hostName(h), disk.Name, id))
	}
	return errors.Join(errs...)
}

// emitClusterStateEvents emits the events of a cluster that left a state.
func (c *change) emitClusterStateEvents(row *clusterRecord, from string, timedOut bool) error {
	if from != lifecycle.ClusterPreparing || !timedOut {
		return nil
	}
	return c.clusterEventOf(row, props{"reason": *row.API.StatusInfo}, eventPreparationTimedOut,
		models.EventSeverityWarning,
		"Cluster %s was not prepared for its installation in time.", row.API.Name)
}

// emitOperatorReport emits an event with the operators that a late stage may wait for.
func (c *change) emitOperatorReport(row *clusterRecord) error {
	var troubled []string
	for _, operator := range row.API.MonitoredOperators {
		if operator.Status != models.OperatorStatusAvailable {
			troubled = append(troubled, strings.TrimSpace(operator.Name+" ("+orText(string(operator.Status),
				"not seen yet")+") "+operator.StatusInfo))
		}
	}
	if len(troubled) == 0 {
		return nil
	}
	report := strings.Join(troubled, "; ")
	return c.clusterEventOf(row, props{"report": report}, eventOperatorReport, models.EventSeverityInfo,
		"Cluster %s waits for these operators: %s.", row.API.Name, report)
}

// emitCheckEvents says what a host found out before its installation, where it is news. It is asked
// before the reply is kept.
func (c *change) emitCheckEvents(h *hostRecord, effect *steps.Effect) error {
	facts, err := c.hostFacts(h)
	if err != nil {
		return err
	}
	var errs []error
	for _, image := range effect.Images {
		if before := facts.Images[image.Name]; before != nil && before.Result == image.Result {
			continue
		}
		severity := models.EventSeverityInfo
		if image.Result != models.ContainerImageAvailabilityResultSuccess {
			severity = models.EventSeverityWarning
		}
		errs = append(errs, c.hostEventOf(h, props{"image_status": image.Name, "result": image.Result},
			eventImageStatus, severity, "Host %s: image %s: %s.", c.hostName(h), image.Name, image.Result))
	}
	if speed := effect.DiskSpeed; speed != nil && speed.ExitCode == 0 && speed.Slow {
		errs = append(errs, c.hostEventOf(h, props{"host_disk": speed.Path, "fdatasync_duration": speed.SyncMs},
			eventSlowDisk, models.EventSeverityWarning,
			"Host %s: disk %s takes %d ms for a sync, which is longer than it should; the cluster may be slow on it.",
			c.hostName(h), speed.Path, speed.SyncMs))
	}
	if upgrade := effect.Upgrade; upgrade != nil {
		name, severity, text := eventUpgradeFinished, models.EventSeverityInfo,
			"Host %s: the agent has pulled %s and starts anew as that."
		if upgrade.Result == models.UpgradeAgentResultFailure {
			name, severity, text = eventUpgradeFailed, models.EventSeverityError,
				"Host %s: the agent could not pull %s and tries again."
		}
		errs = append(errs, c.hostEventOf(h, props{"agent_image": upgrade.AgentImage}, name, severity,
			text, c.hostName(h), upgrade.AgentImage))
	}
	return errors.Join(errs...)
}

// emitUpgradeStarted says that a host's agent, which polled, is told to become the one of its
// cluster's release.
func (c *change) emitUpgradeStarted(h *hostRecord) error {
	if h.API.ClusterID == nil {
		return nil
	}
	row, err := c.cluster(h.API.ClusterID.String())
	if err != nil || row.Release == nil || !steps.Upgrades(&h.API, row.Release.Agent) {
		return err
	}
	return c.hostEventOf(h, props{"agent_image": row.Release.Agent}, eventUpgradeStarted, models.EventSeverityInfo,
		"Host %s: the agent is told to pull %s and to start anew as that.", c.hostName(h), row.Release.Agent)
}

// emitProxyChange emits an event if the proxy settings of a cluster changed.
func (c *change) emitProxyChange(row *clusterRecord, before models.Cluster) error {
	api := &row.API
	if api.HTTPProxy == before.HTTPProxy && api.HTTPSProxy == before.HTTPSProxy && api.NoProxy == before.NoProxy {
		return nil
	}
	return c.clusterEvent(row, eventProxyChanged, models.EventSeverityInfo,
		"Cluster %s: the proxy settings were changed.", api.Name)
}

// refusalEvent names the event of a request that is refused because of the state that something is
// in; "" for one that has none.
func refusalEvent(operation string) (name, what string) {
	switch operation {
	case "v2DeregisterCluster":
		return eventDeregisterFailed, "The cluster could not be deleted"
	case "V2CancelInstallation":
		return eventCancelFailed, "The installation could not be cancelled"
	case "v2ResetCluster":
		return eventResetFailed, "The cluster could not be reset"
	case "DeregisterInfraEnv":
		return eventInfraEnvDeregisterFailed, "The infra-env could not be deleted"
	case "v2RegisterHost":
		return eventHostRegistrationFailed, "A host could not register"
	case "BindHost":
		return eventBindFailed, "The host could not be given to a cluster"
	case "UnbindHost":
		return eventUnbindFailed, "The host could not be taken from its cluster"
	case "v2ResetHost":
		return eventHostResetFailed, "The host could not be reset"
	}
	return "", ""
}

// recordRefusal writes the event of a request that was refused. What can't be written is logged:
// the one who asked is to be told of the refusal, not of that.
func (e *Engine) recordRefusal(ctx context.Context, refused error) {
	why := causeOf(ctx)
	name, what := refusalEvent(why.Operation)
	if name == "" || KindOf(refused) != Conflict {
		return
	}
	err := e.update(withOperation(ctx, why.Operation+" refused"), func(c *change) error {
		ev := event{name: name, severity: models.EventSeverityError, message: what + ": " + refused.Error(),
			props: props{"error": refused.Error()}}
		for _, subject := range []struct {
			id   string
			into **strfmt.UUID
			is   bool
		}{
			{why.Cluster, &ev.cluster, clusterRows.Exists(c.tx, why.Cluster)},
			{why.InfraEnv, &ev.infraEnv, infraEnvRows.Exists(c.tx, why.InfraEnv)},
			{why.Host, &ev.host, hostRows.Exists(c.tx, why.InfraEnv+"/"+why.Host)},
		} {
			if subject.is {
				id := strfmt.UUID(subject.id)
				*subject.into = &id
			}
		}
		if ev.infraEnv != nil && ev.cluster == nil {
			if row, err := c.infraEnv(why.InfraEnv); err == nil && row.API.ClusterID != "" {
				ev.cluster = &row.API.ClusterID
			}
		}
		if len(ev.subjects()) == 0 {
			return nil
		}
		return c.emit(ev)
	})
	if err != nil {
		e.options.Logger.WarnContext(ctx, "The event of a refused request could not be written.", "refusal", refused,
			"error", err)
	}
}
