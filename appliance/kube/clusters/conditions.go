package clusters

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/kube/objects"
)

// The conditions of an AgentClusterInstall have the types, reasons and messages of the Assisted
// Installer (api/hiveextension/v1beta1, docs/hive-integration/kube-api-conditions.md). Users and
// their scripts match on them.

// installCondition is a condition of an AgentClusterInstall without its times.
type installCondition struct {
	kind    hivev1.ClusterInstallConditionType
	status  corev1.ConditionStatus
	reason  string
	message string
}

// installConditionOrder is the order in which the documentation of the Assisted Installer lists the
// conditions.
var installConditionOrder = []hivev1.ClusterInstallConditionType{
	hiveext.ClusterSpecSyncedCondition, hiveext.ClusterValidatedCondition, hiveext.ClusterRequirementsMetCondition,
	hiveext.ClusterCompletedCondition,
	hiveext.ClusterFailedCondition, hiveext.ClusterStoppedCondition,
	hiveext.ClusterLastInstallationPreparationFailedCondition,
}

// clusterState holds the inputs of the conditions and of the decision to start an installation.
type clusterState struct {
	cluster       *models.Cluster
	onHold        bool // the start is on hold, or reconciliation is paused
	required      roleCount
	known         roleCount // hosts of the cluster in the state "known", by future role
	approved      int       // number of the known hosts that are approved
	unsynced      int       // Agents with an error in the spec
	pendingAgents int       // approved Agents whose spec is not applied to the host yet
	failing       []string  // messages of the cluster's failed or pending validations
}

// roleCount counts hosts by role.
type roleCount struct{ masters, arbiters, workers int }

func (c roleCount) total() int { return c.masters + c.arbiters + c.workers }

// startable reports whether an installation starts automatically: the number of known hosts is
// exactly the requested number, all of them are approved, and the specs of their Agents are
// applied. The last condition is necessary because a user may approve a host and change its
// installation options in one update.
func (s clusterState) startable() bool {
	return *s.cluster.Status == models.ClusterStatusReady && !s.onHold && s.known == s.required &&
		s.approved == s.required.total() && s.unsynced == 0 && s.pendingAgents == 0
}

// backoff returns the remaining time before the installation may start again after a failed
// preparation.
func (s clusterState) backoff(now time.Time) time.Duration {
	if s.cluster.LastInstallationPreparation.Status != models.LastInstallationPreparationStatusFailed {
		return 0
	}
	return max(0, time.Time(s.cluster.StatusUpdatedAt).Add(retryPreparation).Sub(now))
}

// clusterConditions returns the conditions that are derived from the engine's cluster.
func clusterConditions(s clusterState) []installCondition {
	return []installCondition{validated(s), requirementsMet(s), completed(s), failed(s), stopped(s), lastPreparation(s)}
}

func is(kind hivev1.ClusterInstallConditionType, holds bool, reason, message string) installCondition {
	status := corev1.ConditionFalse
	if holds {
		status = corev1.ConditionTrue
	}
	return installCondition{kind, status, reason, message}
}

func unrecognized(kind hivev1.ClusterInstallConditionType, status string) installCondition {
	return installCondition{kind, corev1.ConditionUnknown, hiveext.ClusterUnknownStatusReason,
		hiveext.ClusterUnknownStatusMsg + " " + status}
}

func validated(s clusterState) installCondition {
	kind, failing := hiveext.ClusterValidatedCondition, strings.Join(s.failing, " ")
	switch status := *s.cluster.Status; {
	case status == models.ClusterStatusInsufficient:
		return is(kind, false, hiveext.ClusterValidationsFailingReason, hiveext.ClusterValidationsFailingMsg+
			" "+failing)
	case status == models.ClusterStatusPendingForInput:
		return is(kind, false, hiveext.ClusterValidationsUserPendingReason, hiveext.ClusterValidationsUserPendingMsg+
			" "+failing)
	case s.cluster.ValidationsInfo == "" && status != models.ClusterStatusAddingHosts:
		return installCondition{kind, corev1.ConditionUnknown, hiveext.ClusterValidationsUnknownReason,
			hiveext.ClusterValidationsUnknownMsg}
	}
	return is(kind, true, hiveext.ClusterValidationsPassingReason, hiveext.ClusterValidationsOKMsg)
}

func requirementsMet(s clusterState) installCondition {
	kind, fault := hiveext.ClusterRequirementsMetCondition, faultOfRequirements(s.required)
	if fault != "" {
		fault = ". " + fault
	}
	switch status := *s.cluster.Status; status {
	case models.ClusterStatusReady:
		switch {
		case s.known != s.required:
			return is(kind, false, hiveext.ClusterInsufficientAgentsReason,
				fmt.Sprintf(hiveext.ClusterInsufficientAgentsMsg,
					s.required.masters, s.required.arbiters, s.required.workers, s.known.masters, s.known.arbiters,
					s.known.workers)+fault)
		case s.unsynced > 0:
			return is(kind, false, hiveext.ClusterUnsyncedAgentsReason, fmt.Sprintf(hiveext.ClusterUnsyncedAgentsMsg,
				s.unsynced))
		case s.approved < s.required.total():
			return is(kind, false, hiveext.ClusterUnapprovedAgentsReason,
				fmt.Sprintf(hiveext.ClusterUnapprovedAgentsMsg, s.required.total()-s.approved))
		}
		return is(kind, true, hiveext.ClusterReadyReason, hiveext.ClusterReadyMsg)
	case models.ClusterStatusInsufficient, models.ClusterStatusPendingForInput:
		return is(kind, false, hiveext.ClusterNotReadyReason, hiveext.ClusterNotReadyMsg+fault)
	case models.ClusterStatusPreparingForInstallation, models.ClusterStatusInstalling,
		models.ClusterStatusInstallingPendingUserAction, models.ClusterStatusFinalizing:
		return is(kind, true, hiveext.ClusterAlreadyInstallingReason, hiveext.ClusterAlreadyInstallingMsg)
	case models.ClusterStatusAddingHosts:
		if conv.Value(s.cluster.Imported) {
			return is(kind, true, hiveext.ClusterAlreadyInstallingReason, hiveext.ClusterAlreadyInstallingMsg)
		}
		// A cluster accepts additional hosts immediately after its installation. The condition then
		// still reports the end of the installation, as on a hub.
		return is(kind, true, hiveext.ClusterInstallationStoppedReason, hiveext.ClusterInstallationStoppedMsg)
	case models.ClusterStatusInstalled, models.ClusterStatusError:
		return is(kind, true, hiveext.ClusterInstallationStoppedReason, hiveext.ClusterInstallationStoppedMsg)
	default:
		return unrecognized(kind, status)
	}
}

func completed(s clusterState) installCondition {
	kind, info := hiveext.ClusterCompletedCondition, statusInfo(s.cluster)
	switch status := *s.cluster.Status; status {
	case models.ClusterStatusInstalled, models.ClusterStatusAddingHosts:
		return is(kind, true, hiveext.ClusterInstalledReason, hiveext.ClusterInstalledMsg+" "+info)
	case models.ClusterStatusError:
		return is(kind, false, hiveext.ClusterInstallationFailedReason, hiveext.ClusterInstallationFailedMsg+" "+info)
	case models.ClusterStatusReady, models.ClusterStatusInsufficient, models.ClusterStatusPendingForInput:
		if s.onHold && status == models.ClusterStatusReady {
			return is(kind, false, hiveext.ClusterInstallationOnHoldReason, hiveext.ClusterInstallationOnHoldMsg)
		}
		return is(kind, false, hiveext.ClusterInstallationNotStartedReason, hiveext.ClusterInstallationNotStartedMsg)
	case models.ClusterStatusPreparingForInstallation, models.ClusterStatusInstalling,
		models.ClusterStatusInstallingPendingUserAction, models.ClusterStatusFinalizing:
		return is(kind, false, hiveext.ClusterInstallationInProgressReason, hiveext.ClusterInstallationInProgressMsg+
			" "+info+clusterVersion(s.cluster))
	default:
		return unrecognized(kind, status)
	}
}

// statusInfo returns the status info of a cluster without its final full stop, because the
// condition's message continues after it. For an installed cluster and for a running installation
// it returns the exact text of the Assisted Installer.
func statusInfo(cluster *models.Cluster) string {
	info := strings.TrimSuffix(conv.Value(cluster.StatusInfo), ".")
	if conv.Value(cluster.Status) == models.ClusterStatusAddingHosts && !conv.Value(cluster.Imported) ||
		info == "The cluster is installed" {
		return "Cluster is installed"
	}
	if info == "The installation is in progress" { // the text before it says the same
		return "Installation in progress"
	}
	return info
}

// clusterVersion returns the status of the cluster version operator, to be appended to a
// condition's message.
func clusterVersion(cluster *models.Cluster) string {
	for _, operator := range cluster.MonitoredOperators {
		if operator.Name == "cvo" && operator.Status != "" {
			return fmt.Sprintf(". Cluster version status: %s, message: %s", operator.Status, operator.StatusInfo)
		}
	}
	return ""
}

func failed(s clusterState) installCondition {
	if *s.cluster.Status == models.ClusterStatusError {
		return is(hiveext.ClusterFailedCondition, true, hiveext.ClusterFailedReason,
			hiveext.ClusterFailedMsg+" "+statusInfo(s.cluster))
	}
	return is(hiveext.ClusterFailedCondition, false, hiveext.ClusterNotFailedReason, hiveext.ClusterNotFailedMsg)
}

func stopped(s clusterState) installCondition {
	kind := hiveext.ClusterStoppedCondition
	switch *s.cluster.Status {
	case models.ClusterStatusError:
		return is(kind, true, hiveext.ClusterStoppedFailedReason, hiveext.ClusterStoppedFailedMsg)
	case models.ClusterStatusCancelled:
		return is(kind, true, hiveext.ClusterStoppedCanceledReason, hiveext.ClusterStoppedCanceledMsg)
	case models.ClusterStatusInstalled, models.ClusterStatusAddingHosts:
		return is(kind, true, hiveext.ClusterStoppedCompletedReason, hiveext.ClusterStoppedCompletedMsg)
	}
	return is(kind, false, hiveext.ClusterNotStoppedReason, hiveext.ClusterNotStoppedMsg)
}

func lastPreparation(s clusterState) installCondition {
	kind, last := hiveext.ClusterLastInstallationPreparationFailedCondition, s.cluster.LastInstallationPreparation
	switch last.Status {
	case models.LastInstallationPreparationStatusFailed:
		return is(kind, true, hiveext.ClusterLastInstallationPreparationFailedErrorReason, last.Reason)
	case models.LastInstallationPreparationStatusSuccess:
		return is(kind, false, hiveext.ClusterLastInstallationPreparationFailedOKReason, "")
	}
	return is(kind, false, hiveext.ClusterLastInstallationPreparationPending, "")
}

// conditionsWithoutCluster returns the conditions of an AgentClusterInstall without a cluster in
// the engine.
func conditionsWithoutCluster() []installCondition {
	conditions := make([]installCondition, 0, 5)
	for _, kind := range installConditionOrder[1:6] {
		conditions = append(conditions, installCondition{kind, corev1.ConditionUnknown,
			hiveext.ClusterNotAvailableReason, hiveext.ClusterNotAvailableMsg})
	}
	return conditions
}

// clusterSynced returns the condition SpecSynced. failure is the error of the sync; nil if it
// succeeded.
func clusterSynced(failure error) installCondition {
	kind := hiveext.ClusterSpecSyncedCondition
	switch {
	case failure == nil:
		return is(kind, true, hiveext.ClusterSyncedOkReason, hiveext.ClusterSyncedOkMsg)
	case isInput(failure):
		return is(kind, false, hiveext.ClusterInputErrorReason, hiveext.ClusterInputErrorMsg+" "+
			objects.InManifest(failure.Error()))
	}
	return is(kind, false, hiveext.ClusterBackendErrorReason, hiveext.ClusterBackendErrorMsg+" "+failure.Error())
}

// setInstallConditions sets conditions in their order. It updates the times of a condition if its
// status, reason or message changes.
func setInstallConditions(aci *hiveext.AgentClusterInstall, now time.Time, conditions ...installCondition) {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	held := aci.Status.Conditions
	for _, c := range conditions {
		fresh := hivev1.ClusterInstallCondition{Type: c.kind, Status: c.status, Reason: c.reason, Message: c.message,
			LastProbeTime: at, LastTransitionTime: at}
		i := slices.IndexFunc(held, func(h hivev1.ClusterInstallCondition) bool { return h.Type == c.kind })
		switch {
		case i < 0:
			held = append(held, fresh)
		case held[i].Status != c.status || held[i].Reason != c.reason || held[i].Message != c.message:
			held[i] = fresh
		}
	}
	place := func(c hivev1.ClusterInstallCondition) int {
		if i := slices.Index(installConditionOrder, c.Type); i >= 0 {
			return i
		}
		return len(installConditionOrder)
	}
	slices.SortStableFunc(held, func(a, b hivev1.ClusterInstallCondition) int { return place(a) - place(b) })
	aci.Status.Conditions = held
}

// installConditionOf returns a condition; its zero value if it was never set.
func installConditionOf(aci *hiveext.AgentClusterInstall,
	kind hivev1.ClusterInstallConditionType) hivev1.ClusterInstallCondition {
	if i := slices.IndexFunc(aci.Status.Conditions,
		func(c hivev1.ClusterInstallCondition) bool { return c.Type == kind }); i >= 0 {
		return aci.Status.Conditions[i]
	}
	return hivev1.ClusterInstallCondition{}
}
