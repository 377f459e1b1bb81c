package lifecycle

import (
	"reflect"
	"time"

	"github.com/openshift/assisted-service/models"
)

// Timeouts holds the time limits of hosts and installations. The tags of a field name its key under
// timeouts in the configuration and its default. [TimeoutHelp] explains it. A limit of zero means
// the default.
//
// The defaults are those of the Assisted Installer's own service (internal/host/config.go,
// internal/host/host.go, internal/cluster/cluster.go, internal/cluster/finalizing_stages.go).
type Timeouts struct {
	HostDisconnected time.Duration `mapstructure:"host_disconnected" default:"3m"`
	HostPreparing    time.Duration `mapstructure:"host_preparing" default:"8m"`
	HostStarting     time.Duration `mapstructure:"host_starting" default:"20m"`
	ClusterPreparing time.Duration `mapstructure:"cluster_preparing" default:"10m"`
	Installation     time.Duration `mapstructure:"installation" default:"24h"`
	Finalizing       time.Duration `mapstructure:"finalizing" default:"5h"`
	UserAction       time.Duration `mapstructure:"user_action" default:"1h"`
	Resetting        time.Duration `mapstructure:"resetting" default:"3m"`
	Reclaiming       time.Duration `mapstructure:"reclaiming" default:"1h"`
	// SingleNodeReboot is longer than the limit of other nodes: the node starts the whole control
	// plane.
	SingleNodeReboot time.Duration `mapstructure:"single_node_reboot" default:"80m"`
	// The limits named Pending start at the end of the installation.
	HostLogs           time.Duration `mapstructure:"host_logs" default:"10m"`
	HostLogsPending    time.Duration `mapstructure:"host_logs_pending" default:"2m"`
	ClusterLogs        time.Duration `mapstructure:"cluster_logs" default:"1h"`
	ClusterLogsPending time.Duration `mapstructure:"cluster_logs_pending" default:"10m"`

	Stages           StageTimeouts           `mapstructure:"stages"`
	FinalizingStages FinalizingStageTimeouts `mapstructure:"finalizing_stages"`

	// WarnOnly makes expired limits warn instead of failing the installation. It applies to the
	// limits of stages, of finalizing stages and of agents that stop polling. The limit of the
	// whole installation is always enforced.
	WarnOnly bool `mapstructure:"-"`
}

// StageTimeouts holds the limits of the stages of a host's installation. The key of a stage is its
// name in lower case, with underscores.
type StageTimeouts struct {
	StartingInstallation      time.Duration `mapstructure:"starting_installation" default:"30m"`
	Installing                time.Duration `mapstructure:"installing" default:"1h"`
	WritingImageToDisk        time.Duration `mapstructure:"writing_image_to_disk" default:"30m"`
	CopyingRegistryDataToDisk time.Duration `mapstructure:"copying_registry_data_to_disk" default:"90m"`
	WaitingForControlPlane    time.Duration `mapstructure:"waiting_for_control_plane" default:"1h"`
	WaitingForBootkube        time.Duration `mapstructure:"waiting_for_bootkube" default:"1h"`
	WaitingForController      time.Duration `mapstructure:"waiting_for_controller" default:"1h"`
	WaitingForIgnition        time.Duration `mapstructure:"waiting_for_ignition" default:"24h"`
	Rebooting                 time.Duration `mapstructure:"rebooting" default:"40m"`
	Configuring               time.Duration `mapstructure:"configuring" default:"1h"`
	Joined                    time.Duration `mapstructure:"joined" default:"1h"`
}

// FinalizingStageTimeouts holds the limits of the stages that the controller in a new cluster
// reports. The keys are formed like those of [StageTimeouts].
type FinalizingStageTimeouts struct {
	WaitingForClusterOperators time.Duration `mapstructure:"waiting_for_cluster_operators" default:"10h"`
	AddingRouterCA             time.Duration `mapstructure:"adding_router_ca" default:"70m"`
	ApplyingManifests          time.Duration `mapstructure:"applying_olm_manifests" default:"10m"`

	WaitingForOperatorsInit time.Duration `mapstructure:"waiting_for_olm_operators_csv_initialization" default:"70m"`

	WaitingForOperators time.Duration `mapstructure:"waiting_for_olm_operators_csv" default:"70m"`
	WaitingForSetupJobs time.Duration `mapstructure:"waiting_for_olm_operator_setup_jobs" default:"10m"`
	Done                time.Duration `mapstructure:"done" default:"70m"`
}

// TimeoutHelp explains each limit by its key under timeouts in the configuration.
var TimeoutHelp = map[string]string{
	"host_disconnected":    "time without a poll after which a host counts as disconnected",
	"host_preparing":       "time for a host's checks before the installation",
	"host_starting":        "time from the start of a host's installation to the installer's first report",
	"cluster_preparing":    "time for a cluster's preparation before the installation",
	"installation":         "time for a cluster's whole installation",
	"finalizing":           "time from the last host's reboot to the cluster's completion",
	"user_action":          "time for a person to correct a host's boot order",
	"resetting":            "time for a host to stop its work when it is reset",
	"reclaiming":           "time for a reclaimed host to fetch the discovery image, and again to start it",
	"single_node_reboot":   "time for the stage Rebooting of a single node",
	"host_logs":            "time for a host's logs to arrive after they were announced",
	"host_logs_pending":    "time for a host's logs to be announced",
	"cluster_logs":         "time for a cluster's logs to arrive after they were announced",
	"cluster_logs_pending": "time for a cluster's logs to be announced",

	"stages.starting_installation":         "time for the stage Starting installation",
	"stages.installing":                    "time for the stage Installing",
	"stages.writing_image_to_disk":         "time without progress in the stage Writing image to disk",
	"stages.copying_registry_data_to_disk": "time for the stage Copying registry data to disk",
	"stages.waiting_for_control_plane":     "time for the stage Waiting for control plane",
	"stages.waiting_for_bootkube":          "time for the stage Waiting for bootkube",
	"stages.waiting_for_controller":        "time for the stage Waiting for controller",
	"stages.waiting_for_ignition":          "time for the stage Waiting for ignition",
	"stages.rebooting":                     "time for the stage Rebooting",
	"stages.configuring":                   "time for the stage Configuring",
	"stages.joined":                        "time for the stage Joined",

	"finalizing_stages.waiting_for_cluster_operators": "time for the stage Waiting for cluster operators",
	"finalizing_stages.adding_router_ca":              "time for the stage Adding router ca",
	"finalizing_stages.applying_olm_manifests":        "time for the stage Applying olm manifests",

	"finalizing_stages.waiting_for_olm_operators_csv_initialization": "time for the stage Waiting for olm " +
		"operators csv initialization",
	"finalizing_stages.waiting_for_olm_operators_csv":       "time for the stage Waiting for olm operators csv",
	"finalizing_stages.waiting_for_olm_operator_setup_jobs": "time for the stage Waiting for OLM operator setup jobs",
	"finalizing_stages.done":                                "time for the stage Done",
}

// DefaultTimeouts returns the default limits.
func DefaultTimeouts() Timeouts { return Timeouts{}.OrDefaults() }

// OrDefaults returns the limits with defaults in place of zeros.
func (t Timeouts) OrDefaults() Timeouts {
	setDefaults(reflect.ValueOf(&t).Elem())
	return t
}

func setDefaults(limits reflect.Value) {
	for field, value := range limits.Fields() {
		if value.Kind() == reflect.Struct {
			setDefaults(value)
			continue
		}
		text, ok := field.Tag.Lookup("default")
		if !ok || !value.IsZero() {
			continue
		}
		limit, err := time.ParseDuration(text)
		if err != nil {
			panic("the default of the limit " + field.Name + " is not a duration: " + text)
		}
		value.SetInt(int64(limit))
	}
}

// Stage returns the limit of a stage of a host's installation. It is one hour for unknown stages.
func (t Timeouts) Stage(name models.HostStage, singleNode bool) time.Duration {
	switch name {
	case models.HostStageStartingInstallation:
		return t.Stages.StartingInstallation
	case models.HostStageInstalling:
		return t.Stages.Installing
	case models.HostStageWritingImageToDisk:
		return t.Stages.WritingImageToDisk
	case StageCopyingRegistry:
		return t.Stages.CopyingRegistryDataToDisk
	case models.HostStageWaitingForControlPlane:
		return t.Stages.WaitingForControlPlane
	case models.HostStageWaitingForBootkube:
		return t.Stages.WaitingForBootkube
	case models.HostStageWaitingForController:
		return t.Stages.WaitingForController
	case models.HostStageWaitingForIgnition:
		return t.Stages.WaitingForIgnition
	case models.HostStageRebooting:
		if singleNode {
			return max(t.SingleNodeReboot, t.Stages.Rebooting)
		}
		return t.Stages.Rebooting
	case models.HostStageConfiguring:
		return t.Stages.Configuring
	case models.HostStageJoined:
		return t.Stages.Joined
	}
	return time.Hour
}

// FinalizingStage returns the limit of a finalizing stage. It is 70 minutes for unknown stages. For
// stages that wait for operators, it is at least the limit of the slowest operator.
func (t Timeouts) FinalizingStage(stage models.FinalizingStage, operators []*models.MonitoredOperator) time.Duration {
	limit := t.FinalizingStages.of(stage)
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

func (t FinalizingStageTimeouts) of(stage models.FinalizingStage) time.Duration {
	switch stage {
	case models.FinalizingStageWaitingForClusterOperators:
		return t.WaitingForClusterOperators
	case models.FinalizingStageAddingRouterCa:
		return t.AddingRouterCA
	case models.FinalizingStageApplyingOlmManifests:
		return t.ApplyingManifests
	case models.FinalizingStageWaitingForOlmOperatorsCsvInitialization:
		return t.WaitingForOperatorsInit
	case models.FinalizingStageWaitingForOlmOperatorsCsv:
		return t.WaitingForOperators
	case models.FinalizingStageWaitingForOLMOperatorSetupJobs:
		return t.WaitingForSetupJobs
	case models.FinalizingStageDone:
		return t.Done
	}
	return 70 * time.Minute
}
