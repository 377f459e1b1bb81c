// Package lifecycle holds the state machines of hosts and clusters as tables of transitions.
//
// A row has a trigger, source states, a condition, a target state and a sentence that explains the
// target state. The first matching row is taken. Without a matching row, a refresh changes nothing
// and any other trigger is rejected as a conflict. Conditions read a situation, which is a plain
// value: the package reads and writes no records. A row that changes a record beyond its state
// returns a [Mark].
//
// The states and transitions are those of the Assisted Installer (internal/host/statemachine.go,
// internal/host/pool_host_statemachine.go, internal/cluster/statemachine.go). The sentences are
// Landfall's own. testdata/transitions.json gives the reason of each difference. docs/lifecycle.md
// is generated from the tables.
//
// Design: docs/design.md#state-machines-as-tables.
package lifecycle

import (
	"slices"

	"github.com/openshift/assisted-service/models"
)

// Trigger is the cause of a transition.
type Trigger string

// The triggers of both tables.
const (
	OnRegister  Trigger = "register"   // an agent registered the host
	OnRefresh   Trigger = "refresh"    // a record changed, or a limit passed
	OnProgress  Trigger = "progress"   // the installer reported a stage
	OnFailure   Trigger = "failure"    // the installer reported that it failed
	OnMediaLost Trigger = "media lost" // the agent can't read the discovery image any more
	OnRestart   Trigger = "restart"    // the machine restarts to boot a newer image
	OnInstall   Trigger = "install"    // a user started an installation, of a cluster or of a joining host
	OnCancel    Trigger = "cancel"     // a user cancelled the installation
	OnReset     Trigger = "reset"      // a user reset the cluster or host
	OnBind      Trigger = "bind"       // a user bound the host to a cluster
	OnUnbind    Trigger = "unbind"     // a user unbound the host from its cluster
	// OnReclaim: a user unbound the host from its cluster, and the host boots the discovery image
	// without a user action.
	OnReclaim       Trigger = "reclaim"
	OnReclaimReboot Trigger = "reclaim reboot" // the host has downloaded the boot artifacts
	OnReclaimFailed Trigger = "reclaim failed" // the host could not download or start the boot artifacts
	OnCompletion    Trigger = "completion"     // the controller reported the end of the installation
	OnAddHosts      Trigger = "add hosts"      // a user opened an installed cluster for more hosts
)

// The states of hosts and clusters.
const (
	HostDiscovering                = models.HostStatusDiscovering
	HostKnown                      = models.HostStatusKnown
	HostDisconnected               = models.HostStatusDisconnected
	HostInsufficient               = models.HostStatusInsufficient
	HostDisabled                   = models.HostStatusDisabled
	HostPendingForInput            = models.HostStatusPendingForInput
	HostPreparing                  = models.HostStatusPreparingForInstallation
	HostPreparingFailed            = models.HostStatusPreparingFailed
	HostPrepared                   = models.HostStatusPreparingSuccessful
	HostInstalling                 = models.HostStatusInstalling
	HostInstallingInProgress       = models.HostStatusInstallingInProgress
	HostPendingUserAction          = models.HostStatusInstallingPendingUserAction
	HostInstalled                  = models.HostStatusInstalled
	HostAdded                      = models.HostStatusAddedToExistingCluster
	HostFailed                     = models.HostStatusError
	HostCancelled                  = models.HostStatusCancelled
	HostResetting                  = models.HostStatusResetting
	HostResettingPendingUserAction = models.HostStatusResettingPendingUserAction
	HostBinding                    = models.HostStatusBinding
	HostUnbinding                  = models.HostStatusUnbinding
	HostUnbindingPendingUserAction = models.HostStatusUnbindingPendingUserAction
	HostDiscoveringUnbound         = models.HostStatusDiscoveringUnbound
	HostKnownUnbound               = models.HostStatusKnownUnbound
	HostDisconnectedUnbound        = models.HostStatusDisconnectedUnbound
	HostInsufficientUnbound        = models.HostStatusInsufficientUnbound
	HostDisabledUnbound            = models.HostStatusDisabledUnbound
	HostReclaiming                 = models.HostStatusReclaiming
	HostReclaimingRebooting        = models.HostStatusReclaimingRebooting

	ClusterReady             = models.ClusterStatusReady
	ClusterInsufficient      = models.ClusterStatusInsufficient
	ClusterPendingForInput   = models.ClusterStatusPendingForInput
	ClusterPreparing         = models.ClusterStatusPreparingForInstallation
	ClusterInstalling        = models.ClusterStatusInstalling
	ClusterPendingUserAction = models.ClusterStatusInstallingPendingUserAction
	ClusterFinalizing        = models.ClusterStatusFinalizing
	ClusterInstalled         = models.ClusterStatusInstalled
	ClusterFailed            = models.ClusterStatusError
	ClusterCancelled         = models.ClusterStatusCancelled
	ClusterAddingHosts       = models.ClusterStatusAddingHosts
	ClusterUnmonitored       = models.ClusterStatusUnmonitored

	HostInitial = ""
	Same        = "=" // as the target of a row: the state stays the same
)

// Names of the events that rows write.
const (
	EventStageTimedOut           = "host_stage_timed_out"
	EventFinalizingStageTimedOut = "finalizing_stage_timed_out"
)

// Mark names a change of a record that a row makes besides the state. Its condition then no longer
// holds, so a row that keeps the state is taken only once.
type Mark int

// The marks of both tables.
const (
	MarkNone                    Mark = iota
	MarkConnectionTimedOut           // an event reported that the host's agent stopped polling
	MarkConnectionBack               // the host's agent polls again
	MarkStageResumed                 // the limit of the host's stage counts from now on
	MarkStageTimedOut                // an event reported the expired limit of the host's stage
	MarkFinalizingStageTimedOut      // an event reported the expired limit of the finalizing stage
	MarkDiskRejected                 // the installation disk can't be used; the validations decide from now on
	MarkLogsTimedOut                 // the logs are not expected any more
)

// Row is one transition of a state machine. S is the situation that its condition reads.
type Row[S any] struct {
	On      Trigger
	From    []string
	When    func(S) bool // nil if the row has no condition
	Because string       // the condition in words, for docs/lifecycle.md
	To      string
	Info    func(S) string // the sentence that explains the state; nil keeps the previous sentence
	Mark    Mark
	Event   string // event that is written when the row keeps the state and applies its mark
}

// Machine is a table of rows with an index by trigger and state.
type Machine[S any] struct {
	rows  []Row[S]
	at    map[key][]*Row[S]
	taken func(row int, from string) // called for each row that is taken; may be nil
}

type key struct {
	on   Trigger
	from string
}

func newMachine[S any](rows []Row[S]) *Machine[S] {
	m := &Machine[S]{rows: rows, at: make(map[key][]*Row[S])}
	for i := range rows {
		for _, from := range rows[i].From {
			at := key{rows[i].On, from}
			m.at[at] = append(m.at[at], &rows[i])
		}
	}
	return m
}

// Next returns the first row for a trigger and a state whose condition holds, or nil.
func (m *Machine[S]) Next(on Trigger, from string, s S) *Row[S] {
	for _, r := range m.at[key{on, from}] {
		if r.When == nil || r.When(s) {
			if m.taken != nil {
				m.taken(m.index(r), from)
			}
			return r
		}
	}
	return nil
}

// Rows returns the table. The caller must not change it.
func (m *Machine[S]) Rows() []Row[S] { return m.rows }

// Observed returns a machine with the same table that calls a function for each row it takes.
func (m *Machine[S]) Observed(taken func(row int, from string)) *Machine[S] {
	return &Machine[S]{rows: m.rows, at: m.at, taken: taken}
}

func (m *Machine[S]) index(row *Row[S]) int {
	for i := range m.rows {
		if &m.rows[i] == row {
			return i
		}
	}
	return -1
}

// states returns one list of the given states and lists of states.
func states(parts ...any) []string {
	var list []string
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			list = append(list, part)
		case []string:
			list = append(list, part...)
		}
	}
	return list
}

// StageCopyingRegistry is a stage that the models of the API lack.
const StageCopyingRegistry models.HostStage = "Copying registry data to disk"

// stagesAfterReboot lists the stages in which the host runs from its disk, without an agent.
var stagesAfterReboot = []models.HostStage{
	models.HostStageRebooting, models.HostStageWaitingForIgnition, models.HostStageConfiguring, models.HostStageJoined,
	models.HostStageDone,
}

// StagesWaitingForOthers lists the stages in which a host waits for other hosts. The host is
// blocked if another host boots from the wrong disk.
var StagesWaitingForOthers = []models.HostStage{
	models.HostStageWaitingForControlPlane, models.HostStageWaitingForController, models.HostStageWaitingForBootkube,
	models.HostStageRebooting,
}

// AfterReboot reports whether a host in this stage runs from its disk, without an agent.
func AfterReboot(stage models.HostStage) bool { return slices.Contains(stagesAfterReboot, stage) }
