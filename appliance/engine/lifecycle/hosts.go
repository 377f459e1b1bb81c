package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/validation"
)

// HostSituation holds the facts of a host that the conditions of the table use.
type HostSituation struct {
	ClusterStatus string // empty for a host without a cluster
	Stage         models.HostStage
	Readiness     validation.Readiness // result of the host's validations
	Failing       string               // messages of the failing validations
	Reason        string               // given with the trigger: the text of a failure, the error of the completion
	DiskError     string               // why the installation disk could not be measured
	ImagesError   string               // why an image could not be pulled
	Limit         time.Duration        // of the stage
	Joining       JoiningFacts

	Connected          bool // the agent polled within the limit
	Restarting         bool // the machine restarts to boot a newer discovery image
	Joins              bool // the host joins an installed cluster
	TimedOut           bool // the limit of the host's state or stage has passed
	WarnOnly           bool // limits of an installation only warn
	Expendable         bool // the cluster can be installed without the host
	ConnectionTimedOut bool // the silence of the agent was reported
	DiskReady          bool // the installation disk was measured
	ImagesReady        bool // all images were pulled
}

func (s HostSituation) clusterIs(states ...string) bool {
	return slices.Contains(states, s.ClusterStatus)
}

// afterReboot reports whether the host runs from its disk, where no agent polls.
func (s HostSituation) afterReboot() bool { return AfterReboot(s.Stage) }

func (s HostSituation) unbound() bool { return s.ClusterStatus == "" }

func (s HostSituation) gone() bool { return !s.Connected || s.Readiness == validation.Disconnected }

func (s HostSituation) clusterFailed() bool { return s.clusterIs(ClusterFailed) && !s.Joins }

func (s HostSituation) clusterPrepares() bool {
	return s.clusterIs(ClusterPreparing, ClusterInstalling)
}

// waitsForOthers reports whether the host can't continue until a person corrects the boot order of
// another host.
func (s HostSituation) waitsForOthers() bool {
	return s.clusterIs(ClusterPendingUserAction) && slices.Contains(StagesWaitingForOthers, s.Stage)
}

func hostInfo(text string) func(HostSituation) string {
	return func(HostSituation) string { return text }
}

// Lists of states that several rows share.
var (
	HostOpenStates = []string{HostDiscovering, HostDisconnected, HostInsufficient, HostKnown,
		HostPendingForInput}
	HostOpenUnboundStates = []string{HostDiscoveringUnbound, HostDisconnectedUnbound, HostInsufficientUnbound,
		HostKnownUnbound}
	HostPreparingStates  = []string{HostPreparing, HostPreparingFailed, HostPrepared}
	HostInstallingStates = []string{HostInstalling, HostInstallingInProgress, HostPendingUserAction}
)

const (
	InfoSilent = "The host's agent has not been heard for some minutes. Check that it is switched on and " +
		"reaches this appliance."
	infoMediaLost  = "The host can no longer read its discovery image. Attach the image again and restart the host."
	InfoRestarting = "The host is restarted to boot a newer image of its infra-env; its agent registers again by " +
		"itself."
	infoReady   = "The host is ready to be installed."
	infoWaiting = "Waiting for the host to report its hardware."
	infoTaken   = "The host was taken from its cluster. Restart it from the discovery image to use it again."
)

// HostMachine returns the state machine of a host.
func HostMachine() *Machine[HostSituation] {
	return newMachine(slices.Concat(hostRegistrationRows(), hostReportRows(), hostRequestRows(), hostConnectionRows(),
		hostPreparationRows(), hostInstallationRows(), hostValidationRows(), hostEndRows()))
}

// hostRegistrationRows are the transitions after an agent starts on a host.
func hostRegistrationRows() []Row[HostSituation] {
	discovers := func(s HostSituation) bool { return !s.afterReboot() }
	bootedAgain := func(s HostSituation) bool {
		return s.afterReboot() && (s.Stage != models.HostStageDone || s.Joins)
	}
	return []Row[HostSituation]{
		{On: OnRegister, From: states(HostInitial), When: HostSituation.unbound,
			Because: "the infra-env belongs to no cluster",
			To:      HostDiscoveringUnbound, Info: hostInfo(infoWaiting)},
		{On: OnRegister, From: states(HostInitial), To: HostDiscovering, Info: hostInfo(infoWaiting)},
		{On: OnRegister, From: states(HostPreparing, HostPrepared), To: HostKnown,
			Info: hostInfo("The host started again in the middle of its preparation, which begins anew.")},
		{On: OnRegister, From: states(HostOpenStates, HostDisabled, HostPreparingFailed, HostBinding,
			HostResettingPendingUserAction, HostCancelled),
			To: HostDiscovering, Info: hostInfo("The host started again; waiting for it to report its hardware.")},
		{On: OnRegister, From: states(HostResetting), When: discovers, Because: "it was not about to restart",
			To:   HostDiscovering,
			Info: hostInfo("The host started again; waiting for it to report its hardware.")},
		{On: OnRegister, From: states(HostResetting), To: Same},
		{On: OnRegister, From: states(HostOpenUnboundStates, HostDisabledUnbound, HostUnbinding,
			HostUnbindingPendingUserAction, HostReclaiming,
			HostReclaimingRebooting), To: HostDiscoveringUnbound, Info: hostInfo(infoWaiting)},
		{On: OnRegister, From: states(HostInstallingInProgress, HostPendingUserAction, HostAdded), When: bootedAgain,
			Because: "it was to boot from its disk", To: HostPendingUserAction,
			Info: hostInfo("The host booted the discovery image again instead of its installation disk. Set its boot " +
				"order to the disk and restart it.")},
		{On: OnRegister, From: states(HostInstalling, HostInstallingInProgress), To: HostFailed,
			Info: hostInfo(
				"The host restarted in the middle of its installation. Reset the cluster and install again.")},
		{On: OnRegister, From: states(HostFailed, HostInstalled), To: Same},
	}
}

// hostReportRows are the transitions after reports of the agent, the installer and the controller.
func hostReportRows() []Row[HostSituation] {
	done := func(s HostSituation) bool { return s.Stage == models.HostStageDone }
	joined := func(s HostSituation) bool { return done(s) && s.Joins }
	reason := func(s HostSituation) string { return s.Reason }
	return []Row[HostSituation]{
		{On: OnMediaLost, From: states(HostOpenStates, HostBinding), To: HostDisconnected,
			Info: hostInfo(infoMediaLost)},
		{On: OnMediaLost, From: states(HostOpenUnboundStates, HostUnbinding), To: HostDisconnectedUnbound,
			Info: hostInfo(infoMediaLost)},
		{On: OnMediaLost, From: states(HostPreparingStates, HostInstalling, HostInstallingInProgress, HostFailed),
			To: HostFailed,
			Info: hostInfo(
				"The host can no longer read its discovery image, so its installation cannot go on. Attach " +
					"the image, reset the cluster and install again.")},
		{On: OnMediaLost, From: states(HostPendingUserAction, HostInstalled, HostAdded, HostCancelled, HostResetting,
			HostResettingPendingUserAction, HostDisabled,
			HostDisabledUnbound, HostUnbindingPendingUserAction, HostReclaiming, HostReclaimingRebooting), To: Same},

		{On: OnProgress, From: states(HostInstallingStates), When: joined, Because: "stage Done of a host that joins",
			To:   HostAdded,
			Info: func(s HostSituation) string { return joinedInfo(s.Joining) }},
		{On: OnProgress, From: states(HostInstallingStates), When: done, Because: "stage Done", To: HostInstalled,
			Info: hostInfo("The host is installed.")},
		{On: OnProgress, From: states(HostInstallingStates), To: HostInstallingInProgress,
			Info: func(s HostSituation) string { return string(s.Stage) }},
		{On: OnProgress, From: states(HostInstalled, HostAdded, HostResetting, HostResettingPendingUserAction,
			HostFailed, HostCancelled, HostUnbindingPendingUserAction),
			To: Same},

		{On: OnFailure, From: states(HostInstallingStates), To: HostFailed, Info: reason},
		{On: OnFailure, From: states(HostFailed, HostCancelled, HostResetting, HostResettingPendingUserAction,
			HostUnbindingPendingUserAction), To: Same},

		{On: OnReclaimReboot, From: states(HostReclaiming), To: HostReclaimingRebooting,
			Info: hostInfo("The host restarts into the discovery image.")},
		{On: OnReclaimFailed, From: states(HostReclaiming, HostReclaimingRebooting), To: HostUnbindingPendingUserAction,
			Info: hostInfo("The host could not fetch or start the discovery image by itself. Restart it from the " +
				"discovery image to use it again.")},
	}
}

// hostRequestRows are the transitions after requests of people.
func hostRequestRows() []Row[HostSituation] {
	joins := func(s HostSituation) bool { return s.Joins }
	return []Row[HostSituation]{
		{On: OnRestart, From: states(HostOpenStates, HostBinding), To: HostDisconnected,
			Info: hostInfo(InfoRestarting)},
		{On: OnRestart, From: states(HostOpenUnboundStates, HostUnbinding), To: HostDisconnectedUnbound,
			Info: hostInfo(InfoRestarting)},

		{On: OnInstall, From: states(HostKnown), When: joins, Because: "it joins an installed cluster",
			To: HostInstalling, Info: hostInfo("The installation is starting.")},

		{On: OnCancel, From: states(HostInstallingStates, HostInstalled, HostFailed), To: HostCancelled,
			Info: hostInfo("The installation was cancelled.")},
		{On: OnCancel, From: states(HostPreparingStates, HostKnown), To: HostKnown, Info: hostInfo(infoReady)},
		{On: OnCancel, From: states(HostDiscovering, HostDisconnected, HostInsufficient, HostPendingForInput,
			HostDisabled, HostBinding, HostResetting,
			HostResettingPendingUserAction, HostCancelled, HostAdded), To: Same},

		{On: OnReset, From: states(HostInstallingStates, HostInstalled, HostAdded, HostFailed, HostCancelled,
			HostResetting, HostResettingPendingUserAction),
			To:   HostResettingPendingUserAction,
			Info: hostInfo("The cluster was reset. Restart the host from the discovery image to use it again.")},
		{On: OnReset, From: states(HostOpenStates, HostDisabled, HostBinding, HostPreparingStates), To: Same},

		{On: OnBind, From: states(HostKnownUnbound), To: HostBinding,
			Info: hostInfo("The host was given to a cluster; waiting for its agent to notice.")},

		{On: OnUnbind, From: states(HostOpenStates, HostDisabled, HostBinding), To: HostUnbinding,
			Info: hostInfo("The host was taken from its cluster; waiting for its agent to notice.")},
		{On: OnUnbind, From: states(HostInstalled, HostAdded, HostFailed, HostCancelled, HostResetting,
			HostResettingPendingUserAction), To: HostUnbindingPendingUserAction,
			Info: hostInfo(infoTaken)},

		{On: OnReclaim, From: states(HostInstalled, HostAdded), To: HostReclaiming,
			Info: hostInfo("The host was taken from its cluster and fetches the discovery image to restart from it.")},
		{On: OnReclaim, From: states(HostOpenStates, HostDisabled, HostBinding), To: HostUnbinding,
			Info: hostInfo("The host was taken from its cluster; waiting for its agent to notice.")},
		{On: OnReclaim, From: states(HostFailed, HostCancelled, HostResetting, HostResettingPendingUserAction),
			To:   HostUnbindingPendingUserAction,
			Info: hostInfo(infoTaken)},
	}
}

// hostConnectionRows are the transitions after a loss of contact and its return.
func hostConnectionRows() []Row[HostSituation] {
	silent := func(s HostSituation) bool { return s.gone() && !s.afterReboot() }
	ends := func(s HostSituation) bool { return silent(s) && !s.WarnOnly }
	warns := func(s HostSituation) bool { return silent(s) && s.WarnOnly && !s.ConnectionTimedOut }
	back := func(s HostSituation) bool { return s.Connected && s.ConnectionTimedOut }
	lost := func(s HostSituation) string {
		if s.Restarting {
			return InfoRestarting
		}
		return InfoSilent
	}
	return []Row[HostSituation]{
		{On: OnRefresh, From: states(HostOpenStates, HostPreparingStates), When: HostSituation.gone,
			Because: "its agent is silent or its image is lost", To: HostDisconnected, Info: lost},
		{On: OnRefresh, From: states(HostOpenUnboundStates, HostUnbinding), When: HostSituation.gone,
			Because: "its agent is silent or its image is lost", To: HostDisconnectedUnbound, Info: lost},
		{On: OnRefresh, From: states(HostInstallingStates, HostInstalled, HostResettingPendingUserAction),
			When:    HostSituation.clusterFailed,
			Because: "the cluster failed", To: HostFailed, Info: hostInfo("The installation of the cluster failed.")},
		{On: OnRefresh, From: states(HostInstalling, HostInstallingInProgress), When: ends,
			Because: "its agent is silent before the restart",
			To:      HostFailed, Info: hostInfo(InfoSilent)},
		{On: OnRefresh, From: states(HostInstalling, HostInstallingInProgress), When: warns,
			Because: "its agent is silent, limits only warn",
			To:      Same, Mark: MarkConnectionTimedOut,
			Info: hostInfo("The host's agent has not been heard for some minutes; its installation is given more " +
				"time. " +
				"Check that it reaches this appliance.")},
		{On: OnRefresh, From: states(HostInstalling, HostInstallingInProgress), When: back,
			Because: "its agent is heard again, limits only warn", To: Same, Mark: MarkConnectionBack,
			Info: func(s HostSituation) string {
				return "The host's agent is heard again; its installation goes on: " + cmp.Or(string(s.Stage),
					"starting") + "."
			}},
	}
}

// hostPreparationRows are the transitions of the preparation of an installation.
func hostPreparationRows() []Row[HostSituation] {
	begins := func(s HostSituation) bool { return s.Readiness == validation.Ready && s.clusterIs(ClusterPreparing) }
	diskFailed := func(s HostSituation) bool { return s.DiskError != "" }
	imageFailed := func(s HostSituation) bool { return s.ImagesError != "" }
	timedOut := func(s HostSituation) bool { return s.TimedOut }
	over := func(s HostSituation) bool { return !s.clusterPrepares() }
	done := func(s HostSituation) bool { return s.DiskReady && s.ImagesReady }
	starts := func(s HostSituation) bool { return s.clusterIs(ClusterInstalling) }
	return []Row[HostSituation]{
		{On: OnRefresh, From: states(HostKnown), When: begins, Because: "the cluster prepares its installation",
			To:   HostPreparing,
			Info: hostInfo("Measuring the installation disk and pulling the images that the installation needs.")},
		{On: OnRefresh, From: states(HostPreparing, HostPreparingFailed, HostKnown), When: diskFailed,
			Because: "its disk could not be measured", To: HostInsufficient,
			Info: func(s HostSituation) string { return s.DiskError }},
		{On: OnRefresh, From: states(HostPreparing), When: imageFailed, Because: "an image could not be pulled",
			To: HostPreparingFailed, Info: func(s HostSituation) string { return s.ImagesError }},
		{On: OnRefresh, From: states(HostPreparing), When: timedOut, Because: "it took too long",
			To: HostPreparingFailed,
			Info: hostInfo(
				"The host did not finish its preparation in time. Look at its events, then press Install again.")},
		{On: OnRefresh, From: states(HostPreparing), When: over, Because: "the cluster stopped preparing",
			To:   HostKnown,
			Info: hostInfo(infoReady)},
		{On: OnRefresh, From: states(HostPreparing), When: done, Because: "its disk and images are there",
			To:   HostPrepared,
			Info: hostInfo("The host is prepared; waiting for the others.")},
		{On: OnRefresh, From: states(HostPrepared), When: starts, Because: "the cluster is being installed",
			To:   HostInstalling,
			Info: hostInfo("The installation is starting.")},
		{On: OnRefresh, From: states(HostPrepared, HostPreparingFailed), When: over,
			Because: "the cluster stopped preparing",
			To:      HostKnown, Info: hostInfo(infoReady)},
	}
}

// hostInstallationRows are the transitions after the time-outs of an installation.
func hostInstallationRows() []Row[HostSituation] {
	timedOut := func(s HostSituation) bool { return s.TimedOut }
	excused := func(s HostSituation) bool { return s.TimedOut && s.waitsForOthers() }
	rebooting := func(s HostSituation) bool { return s.TimedOut && s.Stage == models.HostStageRebooting }
	warns := func(s HostSituation) bool { return s.TimedOut && s.WarnOnly }
	given := func(s HostSituation) bool {
		return s.TimedOut && !s.clusterIs(ClusterInstalled, ClusterAddingHosts) && s.Expendable
	}
	return []Row[HostSituation]{
		{On: OnRefresh, From: states(HostInstalling), When: timedOut, Because: "the installer did not start in time",
			To: HostFailed,
			Info: hostInfo("The installer did not start on the host in time. Look at its logs, reset the cluster and " +
				"install again.")},
		{On: OnRefresh, From: states(HostInstallingInProgress), When: excused,
			Because: "it took too long, waiting for another host's boot order", To: Same,
			Mark: MarkStageResumed},
		{On: OnRefresh, From: states(HostInstallingInProgress), When: rebooting,
			Because: "it has not come back from its restart",
			To:      HostPendingUserAction,
			Info: func(s HostSituation) string {
				return "The host has not come back from its restart. " +
					joiningAdvice(s)
			}},
		{On: OnRefresh, From: states(HostInstallingInProgress), When: warns,
			Because: "the stage took too long, limits only warn",
			To:      Same, Event: EventStageTimedOut,
			Mark: MarkStageTimedOut,
			Info: func(s HostSituation) string {
				known := "Look at its console."
				if s.afterReboot() {
					known = joiningAdvice(s)
				}
				return fmt.Sprintf("The stage %q takes longer than the %s that it should take at most; the host is "+
					"given more time. %s", s.Stage, s.Limit, known)
			}},
		{On: OnRefresh, From: states(HostInstallingInProgress), When: timedOut, Because: "the stage took too long",
			To: HostFailed,
			Info: func(s HostSituation) string {
				known, again := "Look at its logs, ", "reset the cluster and install again."
				if s.afterReboot() {
					known = joiningAdvice(s) + " Then "
				}
				if s.Joins {
					again = "install the host again."
				}
				return fmt.Sprintf("The host has been in the stage %q for too long: more than %s. %s%s", s.Stage,
					s.Limit,
					known, again)
			}},
		{On: OnRefresh, From: states(HostPendingUserAction), When: given,
			Because: "nobody corrected its boot order in time and the cluster, which is not installed yet, gets " +
				"along without it", To: HostFailed,
			Info: hostInfo("Nobody corrected the boot order in time, and the cluster is installed without the host.")},
	}
}

// hostValidationRows are the transitions after validations.
func hostValidationRows() []Row[HostSituation] {
	is := func(levels ...validation.Readiness) func(HostSituation) bool {
		return func(s HostSituation) bool { return slices.Contains(levels, s.Readiness) }
	}
	return []Row[HostSituation]{
		{On: OnRefresh, From: states(HostDiscovering, HostDisconnected), When: is(validation.Discovering),
			Because: "its inventory is missing", To: HostDiscovering, Info: hostInfo(infoWaiting)},
		{On: OnRefresh, From: HostOpenStates, When: is(validation.Insufficient, validation.Discovering),
			Because: "a check fails", To: HostInsufficient,
			Info: func(s HostSituation) string { return "The host is not ready to be installed: " + s.Failing }},
		{On: OnRefresh, From: HostOpenStates, When: is(validation.PendingForInput),
			Because: "the cluster lacks a setting",
			To:      HostPendingForInput, Info: func(s HostSituation) string {
				return "Waiting for input: " +
					s.Failing
			}},
		{On: OnRefresh, From: HostOpenStates, Because: "all checks pass", To: HostKnown, Info: hostInfo(infoReady)},

		{On: OnRefresh, From: states(HostDiscoveringUnbound, HostDisconnectedUnbound), When: is(validation.Discovering),
			Because: "its inventory is missing", To: HostDiscoveringUnbound, Info: hostInfo(infoWaiting)},
		{On: OnRefresh, From: HostOpenUnboundStates, When: is(validation.Insufficient, validation.Discovering),
			Because: "a check fails", To: HostInsufficientUnbound,
			Info: func(s HostSituation) string { return "The host is not ready to be bound: " + s.Failing }},
		{On: OnRefresh, From: HostOpenUnboundStates, Because: "all checks pass", To: HostKnownUnbound,
			Info: hostInfo("The host is ready to be bound to a cluster.")},
	}
}

// hostEndRows are the transitions after the time-outs of states outside of an installation.
func hostEndRows() []Row[HostSituation] {
	timedOut := func(s HostSituation) bool { return s.TimedOut }
	lateOrRebooting := func(s HostSituation) bool { return s.TimedOut || s.afterReboot() }
	return []Row[HostSituation]{
		{On: OnRefresh, From: states(HostResetting), When: lateOrRebooting, Because: "it does not restart by itself",
			To:   HostResettingPendingUserAction,
			Info: hostInfo("The cluster was reset. Restart the host from the discovery image to use it again.")},
		{On: OnRefresh, From: states(HostReclaiming, HostReclaimingRebooting), When: timedOut,
			Because: "it took too long",
			To:      HostUnbindingPendingUserAction,
			Info: hostInfo("The host did not start the discovery image by itself in time. Restart it from the " +
				"discovery " +
				"image to use it again.")},
		{On: OnRefresh, From: states(HostFailed, HostCancelled), When: timedOut,
			Because: "its logs did not come in time", To: Same,
			Mark: MarkLogsTimedOut},
	}
}
