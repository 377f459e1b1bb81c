package engine

import (
	"slices"

	"github.com/openshift/assisted-service/models"
)

// The lifecycles of hosts and clusters are two tables: hostLife in lifecycle_hosts.go and
// clusterLife in lifecycle_clusters.go. A row says: on this trigger, from one of these states, when
// this holds, go to that state and say so. The first row that fits is taken; when none fits, a
// refresh changes nothing and any other trigger is refused as a conflict. States and transitions
// are those of the Assisted Installer (internal/host/statemachine.go,
// internal/host/pool_host_statemachine.go, internal/cluster/statemachine.go), the words are ours;
// where the tables differ, testdata/transitions.json says why. docs/lifecycle.md is generated from
// the tables.

type trigger string

const (
	onRegister  trigger = "register"   // an agent registered the host
	onRefresh   trigger = "refresh"    // something changed, or time passed
	onProgress  trigger = "progress"   // the installer reported a stage
	onFailure   trigger = "failure"    // the installer reported that it failed
	onMediaLost trigger = "media lost" // the agent can't read the discovery image any more
	onRestart   trigger = "restart"    // the machine is about to be restarted to boot a newer image
	onInstall   trigger = "install"    // a person pressed Install: of a cluster, or of a host that joins one
	onCancel    trigger = "cancel"     // a person cancelled the installation
	onReset     trigger = "reset"      // a person reset the cluster or host
	onBind      trigger = "bind"       // the host was given to a cluster
	onUnbind    trigger = "unbind"     // the host was taken from its cluster
	// the host was taken from its cluster and is to boot the discovery image by itself
	onReclaim       trigger = "reclaim"
	onReclaimReboot trigger = "reclaim reboot" // the host has the files that it is to boot
	onReclaimFailed trigger = "reclaim failed" // the host could not fetch or start them
	onCompletion    trigger = "completion"     // the controller reported the end of the installation
	onAddHosts      trigger = "add hosts"      // a person opened an installed cluster for more hosts
)

const (
	discovering         = models.HostStatusDiscovering
	known               = models.HostStatusKnown
	disconnected        = models.HostStatusDisconnected
	insufficient        = models.HostStatusInsufficient
	disabled            = models.HostStatusDisabled
	pendingForInput     = models.HostStatusPendingForInput
	preparing           = models.HostStatusPreparingForInstallation
	preparingFailed     = models.HostStatusPreparingFailed
	prepared            = models.HostStatusPreparingSuccessful
	installing          = models.HostStatusInstalling
	inProgress          = models.HostStatusInstallingInProgress
	pendingUserAction   = models.HostStatusInstallingPendingUserAction
	installed           = models.HostStatusInstalled
	added               = models.HostStatusAddedToExistingCluster
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
	disabledUnbound     = models.HostStatusDisabledUnbound
	reclaiming          = models.HostStatusReclaiming
	reclaimRebooting    = models.HostStatusReclaimingRebooting

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
	clusterUnmonitored  = models.ClusterStatusUnmonitored

	initial = ""
	same    = "=" // stay in the present state
)

// row is one rule of a lifecycle. S is what its conditions look at.
type row[S any] struct {
	on      trigger
	from    []string
	when    func(S) bool // nil: always
	because string       // when in words, for docs/lifecycle.md; empty: always
	to      string
	info    func(S) string // the sentence that goes with the state; nil leaves the one there is
	// mark notes on the object that the row was taken, and tells whether that altered it. It makes
	// a row that stays in its state one that is taken once.
	mark  func(S) bool
	event string // written when a row that stays in its state marks the object; empty: none
}

// life is a table of rows with an index, so that a refresh asks only the rows of its state.
type life[S any] struct {
	rows []row[S]
	at   map[place][]*row[S]
}

type place struct {
	on   trigger
	from string
}

func newLife[S any](rows []row[S]) *life[S] {
	l := &life[S]{rows: rows, at: make(map[place][]*row[S])}
	for i := range rows {
		for _, from := range rows[i].from {
			where := place{rows[i].on, from}
			l.at[where] = append(l.at[where], &rows[i])
		}
	}
	return l
}

// next returns the row that a trigger takes from a state, or nil when none fits.
func (l *life[S]) next(on trigger, from string, s S) *row[S] {
	for _, r := range l.at[place{on, from}] {
		if r.when == nil || r.when(s) {
			return r
		}
	}
	return nil
}

// in joins states and lists of states to one list.
func in(parts ...any) []string {
	var states []string
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			states = append(states, part)
		case []string:
			states = append(states, part...)
		}
	}
	return states
}

// stageCopyingRegistry is newer than the list of stages that the models of the API have.
const stageCopyingRegistry models.HostStage = "Copying registry data to disk"

// stagesAfterReboot are those in which the agent is gone: the host runs from its disk.
var stagesAfterReboot = []models.HostStage{
	models.HostStageRebooting, models.HostStageWaitingForIgnition, models.HostStageConfiguring, models.HostStageJoined,
	models.HostStageDone,
}

// stagesWaitingForOthers are those in which a host can't go on while a person must correct the boot
// order of another.
var stagesWaitingForOthers = []models.HostStage{
	models.HostStageWaitingForControlPlane, models.HostStageWaitingForController, models.HostStageWaitingForBootkube,
	models.HostStageRebooting,
}

func afterReboot(stage models.HostStage) bool { return slices.Contains(stagesAfterReboot, stage) }
