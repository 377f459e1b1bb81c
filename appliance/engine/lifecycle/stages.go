package lifecycle

import (
	"slices"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
)

// StageText returns a stage followed by the text that was reported with it.
func StageText(stage models.HostStage, info string) string {
	if info == "" {
		return string(stage) + "."
	}
	return string(stage) + " (" + info + ")."
}

// FinalizingStages returns the stages of the state finalizing, in order.
func FinalizingStages() []models.FinalizingStage {
	return []models.FinalizingStage{
		models.FinalizingStageWaitingForClusterOperators, models.FinalizingStageAddingRouterCa,
		models.FinalizingStageApplyingOlmManifests, models.FinalizingStageWaitingForOlmOperatorsCsvInitialization,
		models.FinalizingStageWaitingForOlmOperatorsCsv, models.FinalizingStageWaitingForOLMOperatorSetupJobs,
		models.FinalizingStageDone,
	}
}

// Validated reports whether the validations of hosts in this state are run.
func Validated(status string) bool {
	return slices.Contains(HostOpenStates, status) || slices.Contains(HostOpenUnboundStates, status) ||
		slices.Contains([]string{HostPreparing, HostPreparingFailed, HostPrepared, HostBinding, HostUnbinding}, status)
}

// ExpectsPolls reports whether the agent of a host in this state must poll.
func ExpectsPolls(host *models.Host) bool {
	status := *host.Status
	if slices.Contains([]string{HostDisconnected, HostDisconnectedUnbound, HostBinding}, status) {
		return false
	}
	return Validated(status) || slices.Contains([]string{HostInstalling, HostInstallingInProgress}, status) &&
		!host.ConnectionTimedOut && !AfterReboot(host.Progress.CurrentStage)
}

// StartsFromDisk reports whether the installed system is on the host's disk.
func StartsFromDisk(host *models.Host) bool {
	switch conv.Value(host.Status) {
	case models.HostStatusInstalled, models.HostStatusAddedToExistingCluster,
		models.HostStatusInstallingPendingUserAction:
		return true
	case models.HostStatusInstallingInProgress:
		return host.Progress != nil && AfterReboot(host.Progress.CurrentStage)
	}
	return false
}
