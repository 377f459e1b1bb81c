package engine

import (
	"slices"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/validation"
)

// The lifecycles of hosts and clusters are the two tables of this file. A row says: on this trigger, from one of these
// states, when this holds, go to that state and say so. The first row that fits is taken; when none fits, a refresh
// changes nothing and any other trigger is refused as a conflict. States and transitions are those of the Assisted
// Installer (internal/host/statemachine.go, internal/cluster/statemachine.go); the words are ours.

type trigger string

const (
	onRegister   trigger = "register"   // an agent registered the host
	onRefresh    trigger = "refresh"    // something changed, or time passed
	onProgress   trigger = "progress"   // the installer reported a stage
	onFailure    trigger = "failure"    // the installer reported that it failed
	onMediaLost  trigger = "media lost" // the agent can't read the discovery ISO any more
	onInstall    trigger = "install"    // a person pressed Install
	onCancel     trigger = "cancel"     // a person cancelled the installation
	onReset      trigger = "reset"      // a person reset the cluster
	onBind       trigger = "bind"       // the host was given to a cluster
	onUnbind     trigger = "unbind"     // the host was taken from its cluster
	onCompletion trigger = "completion" // the controller reported the end of the installation
)

const (
	discovering         = models.HostStatusDiscovering
	known               = models.HostStatusKnown
	disconnected        = models.HostStatusDisconnected
	insufficient        = models.HostStatusInsufficient
	pendingForInput     = models.HostStatusPendingForInput
	preparing           = models.HostStatusPreparingForInstallation
	preparingFailed     = models.HostStatusPreparingFailed
	prepared            = models.HostStatusPreparingSuccessful
	installing          = models.HostStatusInstalling
	inProgress          = models.HostStatusInstallingInProgress
	pendingUserAction   = models.HostStatusInstallingPendingUserAction
	installed           = models.HostStatusInstalled
	failed              = models.HostStatusError
	cancelled           = models.HostStatusCancelled
	resetting           = models.HostStatusResetting
	resetPending        = models.HostStatusResettingPendingUserAction
	binding             = models.HostStatusBinding
	unbinding           = models.HostStatusUnbinding
	unbindingPending    = models.HostStatusUnbindingPendingUserAction
	discoveringUnbound  = models.HostStatusDiscoveringUnbound
	knownUnbound        = models.HostStatusKnownUnbound
	disconnectedUnbound = models.HostStatusDisconnectedUnbound
	insufficientUnbound = models.HostStatusInsufficientUnbound
	clusterReady        = models.ClusterStatusReady
	clusterInsufficient = models.ClusterStatusInsufficient
	clusterPending      = models.ClusterStatusPendingForInput
	clusterPreparing    = models.ClusterStatusPreparingForInstallation
	clusterInstalling   = models.ClusterStatusInstalling
	clusterUserAction   = models.ClusterStatusInstallingPendingUserAction
	clusterFinalizing   = models.ClusterStatusFinalizing
	clusterInstalled    = models.ClusterStatusInstalled
	clusterFailed       = models.ClusterStatusError
	clusterCancelled    = models.ClusterStatusCancelled
	clusterAddingHosts  = models.ClusterStatusAddingHosts
	initial             = ""
	same                = "=" // stay in the present state
)

// hostSituation is what the rows of the host table look at.
type hostSituation struct {
	host          *hostRecord
	clusterStatus string // empty for a host of no cluster
	now           time.Time
	connected     bool
	verdict       validation.Verdict // of the host's validations, where they are made in its state
	failing       string             // what stands behind the verdict
	stage         models.HostStage
	stageTimedOut bool
	reason        string // of the trigger: a failure's text, the completion's error
}

type hostRow struct {
	on   trigger
	from []string
	when func(hostSituation) bool
	to   string
	info func(hostSituation) string
}

func says(text string) func(hostSituation) string {
	return func(hostSituation) string { return text }
}

func (s hostSituation) clusterIs(states ...string) bool {
	return slices.Contains(states, s.clusterStatus)
}

// beforeReboot tells whether the host still runs the discovery image, whose agent polls.
func (s hostSituation) beforeReboot() bool { return !slices.Contains(stagesAfterReboot, s.stage) }

var (
	undecided        = []string{discovering, disconnected, insufficient, known, pendingForInput}
	undecidedUnbound = []string{discoveringUnbound, disconnectedUnbound, insufficientUnbound, knownUnbound}
	duringInstall    = []string{installing, inProgress, pendingUserAction}

	stagesAfterReboot = []models.HostStage{
		models.HostStageRebooting, models.HostStageWaitingForIgnition, models.HostStageConfiguring, models.HostStageJoined, models.HostStageDone,
	}
)

// hostTable returns the lifecycle of a host.
func hostTable() []hostRow {
	is := func(conditions ...func(hostSituation) bool) func(hostSituation) bool {
		return func(s hostSituation) bool {
			return !slices.ContainsFunc(conditions, func(holds func(hostSituation) bool) bool { return !holds(s) })
		}
	}
	judged := func(verdict validation.Verdict) func(hostSituation) bool {
		return func(s hostSituation) bool { return s.verdict == verdict }
	}
	gone := func(s hostSituation) bool { return !s.connected || s.verdict == validation.Disconnected }
	const lost = "The host's agent has not been heard for some minutes. Check that it is switched on and reaches this appliance."
	return []hostRow{
		{onRegister, []string{initial}, func(s hostSituation) bool { return s.clusterStatus == "" }, discoveringUnbound, says("Waiting for the host to report its hardware.")},
		{onRegister, []string{initial}, nil, discovering, says("Waiting for the host to report its hardware.")},
		{onRegister, append(slices.Clone(undecided), resetPending, resetting, preparing, preparingFailed, prepared, binding, cancelled), nil, discovering, says("The host started again; waiting for it to report its hardware.")},
		{onRegister, append(slices.Clone(undecidedUnbound), unbinding, unbindingPending), nil, discoveringUnbound, says("Waiting for the host to report its hardware.")},
		{onRegister, []string{inProgress, pendingUserAction}, func(s hostSituation) bool { return !s.beforeReboot() }, pendingUserAction,
			says("The host booted the discovery image again instead of its installation disk. Set its boot order to the disk and restart it.")},
		{onRegister, []string{installing, inProgress}, nil, failed, says("The host restarted in the middle of its installation. Reset the cluster and install again.")},
		{onRegister, []string{failed, installed, models.HostStatusAddedToExistingCluster}, nil, same, nil},

		{onMediaLost, append(slices.Clone(undecided), binding), nil, disconnected, says("The host can no longer read its discovery image. Attach the image again and restart the host.")},
		{onMediaLost, undecidedUnbound, nil, disconnectedUnbound, says("The host can no longer read its discovery image. Attach the image again and restart the host.")},
		{onMediaLost, []string{preparing, preparingFailed, prepared, installing, inProgress, failed}, nil, failed, says("The host can no longer read its discovery image, so its installation cannot go on. Attach the image, reset the cluster and install again.")},

		{onProgress, []string{installing, inProgress, pendingUserAction}, func(s hostSituation) bool { return s.stage == models.HostStageDone }, installed, says("The host is installed.")},
		{onProgress, []string{installing, inProgress, pendingUserAction}, nil, inProgress, func(s hostSituation) string { return string(s.stage) }},
		{onProgress, []string{installed, resetPending, failed, cancelled}, nil, same, nil},

		{onFailure, duringInstall, nil, failed, func(s hostSituation) string { return s.reason }},
		{onFailure, []string{failed, cancelled, resetPending}, nil, same, nil},

		{onCancel, append(slices.Clone(duringInstall), installed, failed), nil, cancelled, says("The installation was cancelled.")},
		{onCancel, []string{preparing, preparingFailed, prepared, known}, nil, known, says("The host is ready to be installed.")},
		{onCancel, append(slices.Clone(undecided), resetPending, cancelled), nil, same, nil},

		{onReset, append(slices.Clone(duringInstall), installed, failed, cancelled, resetPending, resetting), nil, resetPending, says("The cluster was reset. Restart the host from the discovery image to use it again.")},
		{onReset, append(slices.Clone(undecided), preparing, preparingFailed, prepared), nil, same, nil},

		{onBind, []string{knownUnbound, discoveringUnbound, insufficientUnbound, disconnectedUnbound}, nil, binding, says("The host was given to a cluster; waiting for its agent to notice.")},
		{onUnbind, append(slices.Clone(undecided), binding), nil, unbinding, says("The host was taken from its cluster; waiting for its agent to notice.")},
		{onUnbind, []string{installed, failed, cancelled, resetPending, models.HostStatusAddedToExistingCluster}, nil, unbindingPending, says("The host was taken from its cluster. Restart it from the discovery image to use it again.")},

		{onRefresh, append(slices.Clone(undecided), preparing, preparingFailed, prepared), gone, disconnected, says(lost)},
		{onRefresh, undecidedUnbound, gone, disconnectedUnbound, says(lost)},
		{onRefresh, duringInstall, func(s hostSituation) bool { return s.clusterIs(clusterFailed) }, failed, says("The installation of the cluster failed.")},
		{onRefresh, []string{installing, inProgress}, is(gone, hostSituation.beforeReboot), failed, says(lost)},

		{onRefresh, []string{known}, func(s hostSituation) bool { return s.verdict == validation.Ready && s.clusterIs(clusterPreparing) }, preparing, says("Measuring the installation disk and pulling the images that the installation needs.")},
		{onRefresh, []string{preparing, known}, func(s hostSituation) bool { return s.host.DiskError != "" }, insufficient, func(s hostSituation) string { return s.host.DiskError }},
		{onRefresh, []string{preparing}, func(s hostSituation) bool { return s.host.ImagesError != "" }, preparingFailed, func(s hostSituation) string { return s.host.ImagesError }},
		{onRefresh, []string{preparing}, func(s hostSituation) bool { return s.stageTimedOut }, preparingFailed, says("The host did not finish its preparation in time. Look at its events, then press Install again.")},
		{onRefresh, []string{preparing}, func(s hostSituation) bool { return !s.clusterIs(clusterPreparing, clusterInstalling) }, known, says("The host is ready to be installed.")},
		{onRefresh, []string{preparing}, func(s hostSituation) bool { return s.host.DiskOK && s.host.ImagesOK }, prepared, says("The host is prepared; waiting for the others.")},
		{onRefresh, []string{prepared}, func(s hostSituation) bool { return s.clusterIs(clusterInstalling) }, installing, says("The installation is starting.")},
		{onRefresh, []string{prepared, preparingFailed}, func(s hostSituation) bool { return !s.clusterIs(clusterPreparing, clusterInstalling) }, known, says("The host is ready to be installed.")},

		{onRefresh, []string{inProgress}, func(s hostSituation) bool { return s.stageTimedOut && s.stage == models.HostStageRebooting }, pendingUserAction,
			says("The host has not come back from its restart. Check that it boots from its installation disk, correct the boot order if not, and restart it.")},
		{onRefresh, []string{installing, inProgress}, func(s hostSituation) bool { return s.stageTimedOut }, failed, func(s hostSituation) string {
			return "The host has been in the stage \"" + string(s.stage) + "\" for too long. Look at its logs, reset the cluster and install again."
		}},
		{onRefresh, []string{pendingUserAction}, func(s hostSituation) bool { return !s.host.BootOrderBy.IsZero() && !s.now.Before(s.host.BootOrderBy) }, failed,
			says("Nobody corrected the boot order in time. Reset the cluster and install again.")},

		{onRefresh, undecided, judged(validation.Discovering), discovering, says("Waiting for the host to report its hardware.")},
		{onRefresh, undecided, judged(validation.Insufficient), insufficient, func(s hostSituation) string { return "The host is not ready to be installed: " + s.failing }},
		{onRefresh, undecided, judged(validation.PendingForInput), pendingForInput, func(s hostSituation) string { return "Waiting for input: " + s.failing }},
		{onRefresh, undecided, nil, known, says("The host is ready to be installed.")},

		{onRefresh, undecidedUnbound, judged(validation.Discovering), discoveringUnbound, says("Waiting for the host to report its hardware.")},
		{onRefresh, undecidedUnbound, judged(validation.Insufficient), insufficientUnbound, func(s hostSituation) string { return "The host is not ready to be bound: " + s.failing }},
		{onRefresh, undecidedUnbound, nil, knownUnbound, says("The host is ready to be bound to a cluster.")},
	}
}

// clusterSituation is what the rows of the cluster table look at.
type clusterSituation struct {
	cluster *clusterRecord
	now     time.Time
	verdict validation.Verdict
	failing string

	notPrepared   string // the name of a host that can't be prepared, and why
	allPrepared   bool
	hostFailed    string // the name of a host that failed, and why
	pendingAction bool
	enoughUp      bool // all control-plane hosts are installed
	allInstalled  bool
	timedOut      bool // the present state's limit has passed
	totalTimedOut bool
}

type clusterRow struct {
	on   trigger
	from []string
	when func(clusterSituation) bool
	to   string
	info func(clusterSituation) string
}

func tells(text string) func(clusterSituation) string {
	return func(clusterSituation) string { return text }
}

// clusterTable returns the lifecycle of a cluster.
func clusterTable() []clusterRow {
	open := []string{clusterPending, clusterReady, clusterInsufficient}
	running := []string{clusterInstalling, clusterUserAction, clusterFinalizing}
	return []clusterRow{
		{onInstall, []string{clusterReady}, nil, clusterPreparing, tells("Preparing the installation.")},
		{onCancel, append(slices.Clone(running), clusterFailed), nil, clusterCancelled, tells("The installation was cancelled.")},
		{onCancel, []string{clusterPreparing}, nil, clusterReady, tells("The preparation was cancelled; the cluster is ready to be installed.")},
		{onReset, append(slices.Clone(running), clusterPreparing, clusterFailed, clusterCancelled), nil, clusterInsufficient, tells("The cluster was reset. Restart its hosts from the discovery image.")},
		{onCompletion, append(slices.Clone(running), clusterInstalled, clusterFailed, clusterCancelled), nil, same, nil},

		{onRefresh, open, func(s clusterSituation) bool { return s.verdict == validation.PendingForInput }, clusterPending, func(s clusterSituation) string { return "Waiting for input: " + s.failing }},
		{onRefresh, open, func(s clusterSituation) bool { return s.verdict != validation.Ready }, clusterInsufficient, func(s clusterSituation) string { return "The cluster is not ready to be installed: " + s.failing }},
		{onRefresh, open, nil, clusterReady, func(s clusterSituation) string {
			if s.cluster.Preparation != nil && s.cluster.Preparation.Failed != "" {
				return "The cluster is ready to be installed. Its last preparation failed: " + s.cluster.Preparation.Failed
			}
			return "The cluster is ready to be installed."
		}},

		{onRefresh, []string{clusterPreparing}, func(s clusterSituation) bool {
			return s.cluster.Preparation != nil && s.cluster.Preparation.Failed != ""
		}, clusterReady, func(s clusterSituation) string {
			return "The installation could not be prepared: " + s.cluster.Preparation.Failed
		}},
		{onRefresh, []string{clusterPreparing}, func(s clusterSituation) bool { return s.hostFailed != "" }, clusterFailed, func(s clusterSituation) string { return "The installation could not be prepared: " + s.hostFailed }},
		{onRefresh, []string{clusterPreparing}, func(s clusterSituation) bool { return s.notPrepared != "" }, clusterInsufficient, func(s clusterSituation) string { return "The installation could not be prepared: " + s.notPrepared }},
		{onRefresh, []string{clusterPreparing}, func(s clusterSituation) bool { return s.timedOut }, clusterReady, tells("The preparation took too long. Look at the events, then press Install again.")},
		{onRefresh, []string{clusterPreparing}, func(s clusterSituation) bool { return s.allPrepared && s.cluster.Preparation.Done }, clusterInstalling, tells("The installation is in progress.")},

		{onRefresh, running, func(s clusterSituation) bool { return s.totalTimedOut }, clusterFailed, tells("The installation took too long. Download the logs, reset the cluster and install again.")},
		{onRefresh, []string{clusterFinalizing}, func(s clusterSituation) bool { return s.timedOut }, clusterFailed, tells("The cluster did not finish in time. Download the logs, reset the cluster and install again.")},
		{onRefresh, running, func(s clusterSituation) bool { return s.cluster.Completion != nil && !s.cluster.Completion.Success }, clusterFailed, func(s clusterSituation) string {
			return "The installation failed: " + s.cluster.Completion.Error
		}},
		{onRefresh, []string{clusterInstalling, clusterUserAction}, func(s clusterSituation) bool { return s.hostFailed != "" }, clusterFailed, func(s clusterSituation) string { return "The installation failed: " + s.hostFailed }},
		{onRefresh, []string{clusterInstalling, clusterFinalizing}, func(s clusterSituation) bool { return s.pendingAction }, clusterUserAction, tells("A host waits for a person to correct its boot order.")},
		{onRefresh, []string{clusterUserAction}, func(s clusterSituation) bool { return s.pendingAction }, same, nil},
		{onRefresh, []string{clusterInstalling, clusterUserAction}, func(s clusterSituation) bool { return s.enoughUp }, clusterFinalizing, tells("The cluster is up; waiting for it to finish.")},
		{onRefresh, []string{clusterUserAction}, nil, clusterInstalling, tells("The installation is in progress.")},
		{onRefresh, []string{clusterFinalizing}, func(s clusterSituation) bool {
			return s.cluster.Completion != nil && s.cluster.Completion.Success && s.allInstalled && s.cluster.IngressCA
		}, clusterInstalled, tells("The cluster is installed.")},
	}
}
