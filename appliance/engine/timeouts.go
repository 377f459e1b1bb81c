package engine

import (
	"maps"
	"time"

	"github.com/openshift/assisted-service/models"
)

// Timeouts are the limits that the engine sets to hosts and installations. A limit of zero is the
// default one.
type Timeouts struct {
	HostDisconnected time.Duration // without a poll, before a host counts as disconnected
	HostPreparing    time.Duration
	HostStarting     time.Duration // from the order to install to the installer's first word
	ClusterPreparing time.Duration
	Installation     time.Duration
	Finalizing       time.Duration
	UserAction       time.Duration // waiting for a person to correct the boot order
	Resetting        time.Duration
	Reclaiming       time.Duration // from the order to the agent that runs again, each half
	Stages           map[string]time.Duration
	// SingleNodeReboot is the limit of the stage Rebooting of a single node, which brings the whole
	// control plane up.
	SingleNodeReboot time.Duration
	// FinalizingStages are the limits of what the controller in the cluster does, by its own names.
	FinalizingStages map[string]time.Duration
	// HostLogs and ClusterLogs are how long logs may take when they were announced; the pending
	// ones how long until they are announced, counted from the end of the installation.
	HostLogs, HostLogsPending, ClusterLogs, ClusterLogsPending time.Duration
	// WarnOnly lets the limits of a host's stages, of its silence while it is installed and of the
	// finalizing stages warn instead of ending the installation. The limit of the whole
	// installation always ends it.
	WarnOnly bool
}

// DefaultTimeouts returns the limits of the Assisted Installer's own service
// (internal/host/config.go, internal/host/host.go, internal/cluster/cluster.go,
// internal/cluster/finalizing_stages.go).
func DefaultTimeouts() Timeouts {
	return Timeouts{
		HostDisconnected: 3 * time.Minute,
		HostPreparing:    8 * time.Minute,
		HostStarting:     20 * time.Minute,
		ClusterPreparing: 10 * time.Minute,
		Installation:     24 * time.Hour,
		Finalizing:       5 * time.Hour,
		UserAction:       time.Hour,
		Resetting:        3 * time.Minute,
		Reclaiming:       time.Hour,
		SingleNodeReboot: 80 * time.Minute,
		Stages: map[string]time.Duration{
			string(models.HostStageStartingInstallation):   30 * time.Minute,
			string(models.HostStageWaitingForControlPlane): time.Hour,
			string(models.HostStageWaitingForController):   time.Hour,
			string(models.HostStageWaitingForBootkube):     time.Hour,
			string(models.HostStageInstalling):             time.Hour,
			string(models.HostStageJoined):                 time.Hour,
			string(models.HostStageWritingImageToDisk):     30 * time.Minute,
			string(stageCopyingRegistry):                   90 * time.Minute,
			string(models.HostStageRebooting):              40 * time.Minute,
			string(models.HostStageConfiguring):            time.Hour,
			string(models.HostStageWaitingForIgnition):     24 * time.Hour,
		},
		FinalizingStages: map[string]time.Duration{
			string(models.FinalizingStageWaitingForClusterOperators):              10 * time.Hour,
			string(models.FinalizingStageAddingRouterCa):                          70 * time.Minute,
			string(models.FinalizingStageApplyingOlmManifests):                    10 * time.Minute,
			string(models.FinalizingStageWaitingForOlmOperatorsCsvInitialization): 70 * time.Minute,
			string(models.FinalizingStageWaitingForOlmOperatorsCsv):               70 * time.Minute,
			string(models.FinalizingStageWaitingForOLMOperatorSetupJobs):          10 * time.Minute,
			string(models.FinalizingStageDone):                                    70 * time.Minute,
		},
		HostLogs: 10 * time.Minute, HostLogsPending: 2 * time.Minute,
		ClusterLogs: time.Hour, ClusterLogsPending: 10 * time.Minute,
	}
}

// orDefaults fills in the limits that are not given.
func (t Timeouts) orDefaults() Timeouts {
	defaults := DefaultTimeouts()
	for _, limit := range []struct {
		at        *time.Duration
		otherwise time.Duration
	}{
		{&t.HostDisconnected, defaults.HostDisconnected}, {&t.HostPreparing, defaults.HostPreparing},
		{&t.HostStarting, defaults.HostStarting},
		{&t.ClusterPreparing, defaults.ClusterPreparing}, {&t.Installation, defaults.Installation},
		{&t.Finalizing, defaults.Finalizing},
		{&t.UserAction, defaults.UserAction}, {&t.Resetting, defaults.Resetting}, {&t.Reclaiming, defaults.Reclaiming},
		{&t.SingleNodeReboot, defaults.SingleNodeReboot}, {&t.HostLogs, defaults.HostLogs},
		{&t.HostLogsPending, defaults.HostLogsPending},
		{&t.ClusterLogs, defaults.ClusterLogs}, {&t.ClusterLogsPending, defaults.ClusterLogsPending},
	} {
		if *limit.at == 0 {
			*limit.at = limit.otherwise
		}
	}
	t.Stages = merged(defaults.Stages, t.Stages)
	t.FinalizingStages = merged(defaults.FinalizingStages, t.FinalizingStages)
	return t
}

func merged(defaults, given map[string]time.Duration) map[string]time.Duration {
	all := maps.Clone(defaults)
	for name, limit := range given {
		if limit != 0 {
			all[name] = limit
		}
	}
	return all
}

// stage is the limit of a stage of a host's installation; stages that nobody has named get an hour.
func (t Timeouts) stage(name models.HostStage, singleNode bool) time.Duration {
	if singleNode && name == models.HostStageRebooting {
		return max(t.SingleNodeReboot, t.Stages[string(name)])
	}
	if limit, ok := t.Stages[string(name)]; ok {
		return limit
	}
	return time.Hour
}

// finalizingStage is the limit of a stage of the controller in the cluster. The stages that wait
// for operators get as long as the slowest of these.
func (t Timeouts) finalizingStage(stage models.FinalizingStage, operators []*models.MonitoredOperator) time.Duration {
	limit, ok := t.FinalizingStages[string(stage)]
	if !ok {
		limit = 70 * time.Minute
	}
	switch stage {
	case models.FinalizingStageWaitingForOlmOperatorsCsvInitialization, models.FinalizingStageWaitingForOlmOperatorsCsv,
		models.FinalizingStageWaitingForOLMOperatorSetupJobs:
		for _, operator := range operators {
			if operator.OperatorType == models.OperatorTypeOlm {
				limit = max(limit, time.Duration(operator.TimeoutSeconds)*time.Second)
			}
		}
	}
	return limit
}
