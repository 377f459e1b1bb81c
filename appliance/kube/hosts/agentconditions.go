package hosts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store/fastjson"
)

// The conditions of an Agent, in the order of its status.
const (
	conditionSpecSynced      = "SpecSynced"
	conditionConnected       = "Connected"
	conditionRequirementsMet = "RequirementsMet"
	conditionValidated       = "Validated"
	conditionInstalled       = "Installed"
	conditionBound           = "Bound"
	conditionCleanup         = "Cleanup"
)

const (
	agentSyncOK        = "SyncOK"
	agentBackendError  = "BackendError"
	agentInputError    = "InputError"
	agentSyncOKMessage = "The Spec has been successfully applied"
)

// setAgentCondition sets a condition. The transition time changes with the status, the reason or
// the message.
func setAgentCondition(conditions []agentinstall.Condition, now time.Time,
	is agentinstall.Condition) []agentinstall.Condition {
	is.LastTransitionTime = metav1.NewTime(now.UTC().Truncate(time.Second))
	at := slices.IndexFunc(conditions, func(c agentinstall.Condition) bool { return c.Type == is.Type })
	if at < 0 {
		return append(conditions, is)
	}
	held := conditions[at]
	if held.Status != is.Status || held.Reason != is.Reason || held.Message != is.Message {
		conditions[at] = is
	}
	return conditions
}

func agentConditionOf(conditions []agentinstall.Condition, name string) agentinstall.Condition {
	at := slices.IndexFunc(conditions, func(c agentinstall.Condition) bool { return c.Type == name })
	if at < 0 {
		return agentinstall.Condition{}
	}
	return conditions[at]
}

// agentSynced returns the condition SpecSynced. failure is the error of the sync; input reports
// whether it is an error in the user's input.
func agentSynced(failure error, input bool) agentinstall.Condition {
	switch {
	case failure == nil:
		return agentinstall.Condition{Type: conditionSpecSynced, Status: corev1.ConditionTrue, Reason: agentSyncOK,
			Message: agentSyncOKMessage}
	case input:
		return agentinstall.Condition{Type: conditionSpecSynced, Status: corev1.ConditionFalse, Reason: agentInputError,
			Message: "The Spec could not be synced due to an input error: " + failure.Error()}
	}
	return agentinstall.Condition{Type: conditionSpecSynced, Status: corev1.ConditionFalse, Reason: agentBackendError,
		Message: "The Spec could not be synced due to backend error: " + failure.Error()}
}

// agentConditions returns the conditions that are derived from a host, in order: all except
// SpecSynced and Cleanup. host is nil if the host does not exist; groups are its validations.
func agentConditions(host *models.Host, groups agentinstall.ValidationsInfo, approved bool) []agentinstall.Condition {
	if host == nil {
		var unknown []agentinstall.Condition
		for _, name := range []string{conditionConnected, conditionRequirementsMet, conditionValidated,
			conditionInstalled, conditionBound} {
			unknown = append(unknown, agentinstall.Condition{Type: name, Status: corev1.ConditionUnknown,
				Reason: "NotAvailable", Message: "Information not available"})
		}
		return unknown
	}
	status := conv.Value(host.Status)
	return []agentinstall.Condition{agentConnected(status), agentRequirementsMet(status, approved),
		agentValidated(status, groups), agentInstalled(status, conv.Value(host.StatusInfo)),
		agentBound(status)}
}

// Groups of host states with the same conditions.
var (
	statesUndecided = []string{
		models.HostStatusDiscovering, models.HostStatusInsufficient, models.HostStatusDisconnected,
		models.HostStatusPendingForInput,
		models.HostStatusDiscoveringUnbound, models.HostStatusInsufficientUnbound, models.HostStatusDisconnectedUnbound,
	}
	statesReady      = []string{models.HostStatusKnown, models.HostStatusKnownUnbound}
	statesInstalling = []string{
		models.HostStatusPreparingForInstallation, models.HostStatusPreparingSuccessful, models.HostStatusInstalling,
		models.HostStatusInstallingInProgress, models.HostStatusInstallingPendingUserAction,
	}
	statesInstalled = []string{models.HostStatusInstalled, models.HostStatusAddedToExistingCluster}
	statesUnbound   = []string{
		models.HostStatusDisconnectedUnbound, models.HostStatusKnownUnbound, models.HostStatusInsufficientUnbound,
		models.HostStatusDisabledUnbound, models.HostStatusDiscoveringUnbound,
	}
)

func agentConnected(status string) agentinstall.Condition {
	if status == models.HostStatusDisconnected || status == models.HostStatusDisconnectedUnbound {
		return agentinstall.Condition{Type: conditionConnected, Status: corev1.ConditionFalse,
			Reason:  "AgentIsDisconnected",
			Message: "The agent has not contacted the installation service in some time, user action should be taken"}
	}
	return agentinstall.Condition{Type: conditionConnected, Status: corev1.ConditionTrue, Reason: "AgentIsConnected",
		Message: "The agent's connection to the installation service is unimpaired"}
}

// agentMoving returns the value of a condition while a host is being bound or unbound. ok is false
// in other states.
func agentMoving(name, status string) (agentinstall.Condition, bool) {
	switch status {
	case models.HostStatusBinding:
		return agentinstall.Condition{Type: name, Status: corev1.ConditionFalse, Reason: "Binding",
			Message: "The agent is currently binding to a cluster deployment"}, true
	case models.HostStatusUnbinding, models.HostStatusUnbindingPendingUserAction:
		return agentinstall.Condition{Type: name, Status: corev1.ConditionFalse, Reason: "Unbinding",
			Message: "The agent is currently unbinding from a cluster deployment"}, true
	}
	return agentinstall.Condition{}, false
}

func agentUnrecognized(name, status string) agentinstall.Condition {
	return agentinstall.Condition{Type: name, Status: corev1.ConditionUnknown, Reason: "UnknownStatus",
		Message: "The installation status is currently not recognized: " + status}
}

func agentRequirementsMet(status string, approved bool) agentinstall.Condition {
	is := func(status corev1.ConditionStatus, reason, message string) agentinstall.Condition {
		return agentinstall.Condition{Type: conditionRequirementsMet, Status: status, Reason: reason, Message: message}
	}
	if c, ok := agentMoving(conditionRequirementsMet, status); ok {
		return c
	}
	switch {
	case slices.Contains(statesReady, status) && approved:
		return is(corev1.ConditionTrue, "AgentIsReady", "The agent is ready to begin the installation")
	case slices.Contains(statesReady, status):
		return is(corev1.ConditionFalse, "AgentIsNotApproved", "The agent is not approved")
	case slices.Contains(statesUndecided, status):
		return is(corev1.ConditionFalse, "AgentNotReady", "The agent is not ready to begin the installation")
	case slices.Contains(statesInstalling, status):
		return is(corev1.ConditionTrue, "AgentAlreadyInstalling", "Installation already started and is in progress")
	case slices.Contains(statesInstalled, status), status == models.HostStatusError:
		return is(corev1.ConditionTrue, "AgentInstallationStopped", "The agent installation stopped")
	}
	return agentUnrecognized(conditionRequirementsMet, status)
}

func agentValidated(status string, groups agentinstall.ValidationsInfo) agentinstall.Condition {
	is := func(status corev1.ConditionStatus, reason, message string) agentinstall.Condition {
		return agentinstall.Condition{Type: conditionValidated, Status: status, Reason: reason, Message: message}
	}
	if c, ok := agentMoving(conditionValidated, status); ok {
		return c
	}
	switch status {
	case models.HostStatusInsufficient, models.HostStatusInsufficientUnbound:
		return is(corev1.ConditionFalse, "ValidationsFailing", "The agent's validations are failing: "+
			failingValidations(groups))
	case models.HostStatusPendingForInput:
		return is(corev1.ConditionFalse, "ValidationsUserPending", "The agent's validations are pending for user: "+
			failingValidations(groups))
	}
	if groups == nil {
		return is(corev1.ConditionUnknown, "ValidationsUnknown", "The agent's validations have not yet been calculated")
	}
	return is(corev1.ConditionTrue, "ValidationsPassing", "The agent's validations are passing")
}

// failingValidations joins the messages of the validations that failed or are pending, ordered by
// group. Validations that wait for the same data have the same message, which occurs once.
func failingValidations(groups agentinstall.ValidationsInfo) string {
	var messages []string
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		for _, v := range groups[group] {
			if v.Status != "success" && v.Status != "disabled" && !slices.Contains(messages, v.Message) {
				messages = append(messages, v.Message)
			}
		}
	}
	return strings.Join(messages, " ")
}

func parseValidations(text string) (agentinstall.ValidationsInfo, error) {
	if text == "" {
		return nil, nil
	}
	var groups agentinstall.ValidationsInfo
	if err := fastjson.UnmarshalText(text, &groups); err != nil {
		return nil, fmt.Errorf("read the validations: %w", err)
	}
	return groups, nil
}

func agentInstalled(status, info string) agentinstall.Condition {
	is := func(status corev1.ConditionStatus, reason, message string) agentinstall.Condition {
		return agentinstall.Condition{Type: conditionInstalled, Status: status, Reason: reason, Message: message}
	}
	if c, ok := agentMoving(conditionInstalled, status); ok {
		return c
	}
	switch {
	case slices.Contains(statesInstalled, status):
		return is(corev1.ConditionTrue, "InstallationCompleted", "The installation has completed: "+info)
	case status == models.HostStatusError:
		return is(corev1.ConditionFalse, "InstallationFailed", "The installation has failed: "+info)
	case slices.Contains(statesUndecided, status), slices.Contains(statesReady, status):
		return is(corev1.ConditionFalse, "InstallationNotStarted", "The installation has not yet started")
	case slices.Contains(statesInstalling, status):
		return is(corev1.ConditionFalse, "InstallationInProgress", "The installation is in progress: "+info)
	}
	return agentUnrecognized(conditionInstalled, status)
}

func agentBound(status string) agentinstall.Condition {
	switch {
	case status == models.HostStatusUnbindingPendingUserAction:
		return agentinstall.Condition{Type: conditionBound, Status: corev1.ConditionFalse,
			Reason:  "UnbindingPendingUserAction",
			Message: "The agent is currently unbinding; Pending host reboot from infraenv image"}
	case slices.Contains(statesUnbound, status):
		return agentinstall.Condition{Type: conditionBound, Status: corev1.ConditionFalse, Reason: "Unbound",
			Message: "The agent is not bound to any cluster deployment"}
	}
	if c, ok := agentMoving(conditionBound, status); ok {
		return c
	}
	return agentinstall.Condition{Type: conditionBound, Status: corev1.ConditionTrue, Reason: "Bound",
		Message: "The agent is bound to a cluster deployment"}
}
