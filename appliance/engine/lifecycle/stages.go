package lifecycle

import (
	"slices"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
)

// StageText describes a stage and the report about it.
func StageText(stage models.HostStage, info string) string {
	if info == "" {
		return string(stage) + "."
	}
	return string(stage) + " (" + info + ")."
}

// FinalizingStages returns the stages of the end of an installation, in order.
func FinalizingStages() []models.FinalizingStage {
	return []models.FinalizingStage{
		models.FinalizingStageWaitingForClusterOperators, models.FinalizingStageAddingRouterCa,
		models.FinalizingStageApplyingOlmManifests, models.FinalizingStageWaitingForOlmOperatorsCsvInitialization,
		models.FinalizingStageWaitingForOlmOperatorsCsv, models.FinalizingStageWaitingForOLMOperatorSetupJobs,
		models.FinalizingStageDone,
	}
}

// Validated reports whether hosts in a state are validated.
func Validated(status string) bool {
	return slices.Contains(HostOpenStates, status) || slices.Contains(HostOpenUnboundStates, status) ||
		slices.Contains([]string{HostPreparing, HostPreparingFailed, HostPrepared, HostBinding, HostUnbinding}, status)
}

// ExpectsPolls reports whether a host in its state must poll.
func ExpectsPolls(host *models.Host) bool {
	status := *host.Status
	if slices.Contains([]string{HostDisconnected, HostDisconnectedUnbound, HostBinding}, status) {
		return false
	}
	return Validated(status) || slices.Contains([]string{HostInstalling, HostInstallingInProgress}, status) &&
		!host.ConnectionTimedOut && !AfterReboot(host.Progress.CurrentStage)
}

// StartsFromDisk reports whether the installed system is on a host's disk.
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
