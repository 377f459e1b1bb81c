package event

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/steps"
)

// The functions of this file return the events for new states, replies of hosts and rejected
// requests. The caller adds the subjects.

func info(name string, props Props, format string, args ...any) Event {
	return Event{Name: name, Severity: models.EventSeverityInfo, Message: fmt.Sprintf(format, args...), Props: props}
}

func warning(name string, props Props, format string, args ...any) Event {
	return Event{Name: name, Severity: models.EventSeverityWarning, Message: fmt.Sprintf(format, args...),
		Props: props}
}

// OfHostState returns the events for a host that entered a state.
func OfHostState(host, from, to string) []Event {
	reset := func() Event { return info(HostReset, nil, "Host %s: the installation was reset.", host) }
	switch to {
	case lifecycle.HostCancelled:
		return []Event{info(HostCancelled, nil, "Host %s: the installation was cancelled.", host)}
	case lifecycle.HostResetting:
		return []Event{reset()}
	case lifecycle.HostResettingPendingUserAction:
		var events []Event
		if from != lifecycle.HostResetting {
			events = append(events, reset())
		}
		return append(events, info(ResetNeedsUser, nil,
			"Host %s: a user must restart it from the discovery image to complete the reset.", host))
	}
	return nil
}

// OfDisks returns an event for each disk that a host's installation wipes, and for each bootable
// disk that it keeps. Wiped and kept are the ids of disks.
func OfDisks(host string, inv *models.Inventory, wiped, kept []string) []Event {
	var events []Event
	for _, id := range wiped {
		disk := inventory.DiskByPath(inv.Disks, id)
		if disk == nil {
			continue
		}
		props := Props{"disk_name": disk.Name, "disk_id": id}
		if slices.ContainsFunc(kept, func(path string) bool { return inventory.DiskByPath(inv.Disks, path) == disk }) {
			events = append(events, info(DiskNotFormatted, props, "Host %s: disk %s (%s) is not formatted, as "+
				"requested; if the host boots from it, the installation stops.", host, disk.Name, id))
			continue
		}
		events = append(events, info(DiskFormatted, props, "Host %s: disk %s (%s) is quickly formatted.", host,
			disk.Name, id))
	}
	return events
}

// OfOperators returns an event about the operators for which a late stage of a cluster's
// installation may wait. The second value is false if there are none.
func OfOperators(cluster *models.Cluster) (Event, bool) {
	var unavailable []string
	for _, operator := range cluster.MonitoredOperators {
		if operator.Status != models.OperatorStatusAvailable {
			unavailable = append(unavailable, strings.TrimSpace(operator.Name+" ("+
				cmp.Or(string(operator.Status), "not reported yet")+") "+operator.StatusInfo))
		}
	}
	if len(unavailable) == 0 {
		return Event{}, false
	}
	report := strings.Join(unavailable, "; ")
	return info(OperatorReport, Props{"report": report}, "Cluster %s waits for these operators: %s.", cluster.Name,
		report), true
}

// OfChecks returns the events for results of a host's checks that differ from the stored facts.
func OfChecks(host string, stored *inventory.Facts, effect *steps.Effect) []Event {
	var events []Event
	for _, image := range effect.Images {
		if before := stored.Images[image.Name]; before != nil && before.Result == image.Result {
			continue
		}
		severity := warning
		if image.Result == models.ContainerImageAvailabilityResultSuccess {
			severity = info
		}
		events = append(events, severity(ImageStatus, Props{"image_status": image.Name, "result": image.Result},
			"Host %s: image %s: %s.", host, image.Name, image.Result))
	}
	if speed := effect.DiskSpeed; speed != nil && speed.ExitCode == 0 && speed.Slow {
		events = append(events, warning(SlowDisk, Props{"host_disk": speed.Path, "fdatasync_duration": speed.SyncMs},
			"Host %s: disk %s takes %d ms for a sync, which is longer than recommended; the cluster may be slow.",
			host, speed.Path, speed.SyncMs))
	}
	if upgrade := effect.Upgrade; upgrade != nil {
		props := Props{"agent_image": upgrade.AgentImage}
		ev := info(UpgradeFinished, props, "Host %s: the agent has pulled %s and restarts with it.", host,
			upgrade.AgentImage)
		if upgrade.Result == models.UpgradeAgentResultFailure {
			ev = info(UpgradeFailed, props, "Host %s: the agent could not pull %s and will try again.", host,
				upgrade.AgentImage)
			ev.Severity = models.EventSeverityError
		}
		events = append(events, ev)
	}
	return events
}

// OfUpgrade returns the event for an agent that gets the step to upgrade itself to an image.
func OfUpgrade(host, image string) Event {
	return info(UpgradeStarted, Props{"agent_image": image},
		"Host %s: the agent was requested to pull %s and to restart with it.", host, image)
}

// rejections holds the event name and the first clause of the message for rejected requests, by the
// API's id of the operation.
var rejections = map[string][2]string{
	"v2DeregisterCluster":  {DeregisterFailed, "The cluster could not be deleted"},
	"V2CancelInstallation": {CancelFailed, "The installation could not be cancelled"},
	"v2ResetCluster":       {ResetFailed, "The cluster could not be reset"},
	"DeregisterInfraEnv":   {InfraEnvDeregisterFailed, "The infra-env could not be deleted"},
	"v2RegisterHost":       {HostRegistrationFailed, "A host could not register"},
	"BindHost":             {BindFailed, "The host could not be bound to a cluster"},
	"UnbindHost":           {UnbindFailed, "The host could not be unbound from its cluster"},
	"v2ResetHost":          {HostResetFailed, "The host could not be reset"},
}

// OfRejection returns the event for a request that was rejected because of the state of its object.
// The second value is false if such requests have no event.
func OfRejection(operation string, reason error) (Event, bool) {
	texts, ok := rejections[operation]
	if !ok {
		return Event{}, false
	}
	return Event{Name: texts[0], Severity: models.EventSeverityError, Message: texts[1] + ": " + reason.Error(),
		Props: Props{"error": reason.Error()}}, true
}

// Severity returns the severity of the event that a host or cluster entered a state.
func Severity(state string) string {
	switch state {
	case lifecycle.HostFailed:
		return models.EventSeverityError
	case lifecycle.HostInsufficient, lifecycle.HostDisconnected, lifecycle.HostPreparingFailed,
		lifecycle.HostPendingUserAction, lifecycle.HostCancelled, lifecycle.HostInsufficientUnbound,
		lifecycle.HostDisconnectedUnbound:
		return models.EventSeverityWarning
	}
	return models.EventSeverityInfo
}
