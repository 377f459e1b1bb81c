package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/validation"
)

// HostSituation holds the facts about a host that the conditions of the table read.
type HostSituation struct {
	ClusterStatus string // empty if the host is in no cluster
	Stage         models.HostStage
	Readiness     validation.Readiness // decided by the host's validations
	Failing       string               // messages of the failing validations
	Reason        string               // passed with the trigger: the text of a failure
	DiskError     string               // why the installation disk could not be measured or used
	ImagesError   string               // why an image could not be pulled
	Limit         time.Duration        // limit of the stage
	Joining       JoiningFacts

	Connected          bool // the agent polled within the limit
	Restarting         bool // the machine restarts to boot a newer discovery image
	Joins              bool // the host joins a cluster that is already installed
	TimedOut           bool // the limit of the host's state or stage has passed
	WarnOnly           bool // expired limits only warn during an installation
	Expendable         bool // the cluster can be installed without the host
	ConnectionTimedOut bool // an event reported that the agent stopped polling
	DiskReady          bool // the installation disk was measured
	ImagesReady        bool // all images were pulled
}

func (s HostSituation) clusterIs(states ...string) bool {
	return slices.Contains(states, s.ClusterStatus)
}

// afterReboot reports whether the host runs from its disk. No agent polls then.
func (s HostSituation) afterReboot() bool { return AfterReboot(s.Stage) }

func (s HostSituation) unbound() bool { return s.ClusterStatus == "" }

func (s HostSituation) disconnected() bool {
	return !s.Connected || s.Readiness == validation.Disconnected
}

func (s HostSituation) clusterFailed() bool { return s.clusterIs(ClusterFailed) && !s.Joins }

func (s HostSituation) clusterIsPreparing() bool {
	return s.clusterIs(ClusterPreparing, ClusterInstalling)
}

// waitsForOthers reports whether the host is blocked until a person corrects the boot order of
// another host.
func (s HostSituation) waitsForOthers() bool {
	return s.clusterIs(ClusterPendingUserAction) && slices.Contains(StagesWaitingForOthers, s.Stage)
}

// restartAdvice says how to begin the installation of a failed host again.
func (s HostSituation) restartAdvice() string {
	if s.Joins {
		return "reset the host, boot it from the discovery image and install the host again."
	}
	return "reset the cluster and install again."
}

func hostInfo(text string) func(HostSituation) string {
	return func(HostSituation) string { return text }
}

// Lists of states for several rows.
var (
	HostOpenStates = []string{HostDiscovering, HostDisconnected, HostInsufficient, HostKnown,
		HostPendingForInput}
	HostOpenUnboundStates = []string{HostDiscoveringUnbound, HostDisconnectedUnbound, HostInsufficientUnbound,
		HostKnownUnbound}
	HostPreparingStates  = []string{HostPreparing, HostPreparingFailed, HostPrepared}
	HostInstallingStates = []string{HostInstalling, HostInstallingInProgress, HostPendingUserAction}
)

// BeforeInstallation reports whether the name, the role and the disks of a host in this state may
// change. In the other states, an installation or its preparation reads them.
func BeforeInstallation(state string) bool {
	return slices.Contains(HostOpenStates, state) || slices.Contains(HostOpenUnboundStates, state) ||
		slices.Contains([]string{HostBinding, HostUnbinding, HostDisabled, HostDisabledUnbound}, state)
}

const (
	InfoSilent = "The host's agent has not contacted the appliance for some minutes. Check that the host is " +
		"on and can reach the appliance."
	infoMediaLost  = "The host can no longer read its discovery image. Attach the image again and restart the host."
	InfoRestarting = "The host is restarting to boot a newer image of its infra-env. Its agent registers again " +
		"without further action."
	// InfoClusterFailed is the text of hosts that failed only because their cluster failed.
	InfoClusterFailed = "The installation of the cluster failed."

	infoReady   = "The host is ready to be installed."
	infoWaiting = "Waiting for the host to report its hardware."
	infoUnbound = "The host was unbound from its cluster. Restart it from the discovery image to use it again."
	infoReset   = "The cluster was reset. Restart the host from the discovery image to use it again."
	infoRestart = "The host restarted; waiting for it to report its hardware."
	infoUnbinds = "The host was unbound from its cluster; waiting for its agent to register again."
)

// HostMachine returns the state machine of a host.
func HostMachine() *Machine[HostSituation] {
	return newMachine(slices.Concat(hostRegistrationRows(), hostReportRows(), hostRequestRows(), hostConnectionRows(),
		hostPreparationRows(), hostInstallationRows(), hostValidationRows(), hostEndRows()))
}

// hostRegistrationRows returns the transitions for the registration of an agent.
func hostRegistrationRows() []Row[HostSituation] {
	notRebooting := func(s HostSituation) bool { return !s.afterReboot() }
	wrongBootInfo := func(s HostSituation) string {
		info := WrongBootOrder + ". Set its boot order to the disk and restart it."
		if s.Stage == models.HostStageDone && !s.Joining.Followed {
			info += " If the host is a node of its cluster again, but stays in this state, delete it here."
		}
		return info
	}
	leftOut := func(s HostSituation) bool { return s.clusterIs(ClusterAddingHosts) && !s.Joins }
	imageBooted := func(s HostSituation) bool {
		return s.afterReboot() && (s.Stage != models.HostStageDone || s.Joins)
	}
	return []Row[HostSituation]{
		{On: OnRegister, From: states(HostInitial), When: HostSituation.unbound,
			Because: "the infra-env belongs to no cluster",
			To:      HostDiscoveringUnbound, Info: hostInfo(infoWaiting)},
		{On: OnRegister, From: states(HostInitial), To: HostDiscovering, Info: hostInfo(infoWaiting)},
		{On: OnRegister, From: states(HostPreparing, HostPrepared), To: HostKnown,
			Info: hostInfo("The host restarted during its preparation. The preparation starts again.")},
		{On: OnRegister, From: states(HostOpenStates, HostDisabled, HostPreparingFailed, HostBinding,
			HostResettingPendingUserAction, HostCancelled),
			To: HostDiscovering, Info: hostInfo(infoRestart)},
		{On: OnRegister, From: states(HostResetting), When: notRebooting, Because: "the host was not rebooting",
			To:   HostDiscovering,
			Info: hostInfo(infoRestart)},
		{On: OnRegister, From: states(HostResetting), To: Same},
		{On: OnRegister, From: states(HostOpenUnboundStates, HostDisabledUnbound, HostUnbinding,
			HostUnbindingPendingUserAction, HostReclaiming,
			HostReclaimingRebooting), To: HostDiscoveringUnbound, Info: hostInfo(infoWaiting)},
		{On: OnRegister, From: states(HostInstallingInProgress, HostPendingUserAction, HostAdded), When: imageBooted,
			Because: "the host should have booted from its disk", To: HostPendingUserAction,
			Info: wrongBootInfo},
		{On: OnRegister, From: states(HostInstalling, HostInstallingInProgress), To: HostFailed,
			Info: func(s HostSituation) string {
				return "The host restarted during its installation. To try again, " + s.restartAdvice()
			}},
		{On: OnRegister, From: states(HostFailed), When: leftOut,
			Because: "its cluster was installed without it and takes more hosts", To: HostDiscovering,
			Info: hostInfo(infoRestart)},
		{On: OnRegister, From: states(HostFailed, HostInstalled), To: Same},
	}
}

// Beginnings of sentences that clients search for (see docs/compatibility.md). They are the
// Assisted Installer's.
const (
	WrongBootOrder = "Expected the host to boot from disk, but it booted the installation image"
	RebootTimedOut = "Host timed out when pulling"
)

// hostReportRows returns the transitions for reports of the agent, the installer and the
// controller.
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
			Info: func(s HostSituation) string {
				return "The host can no longer read its discovery image, so its installation failed. Attach the " +
					"image, " + s.restartAdvice()
			}},
		{On: OnMediaLost, From: states(HostPendingUserAction, HostInstalled, HostAdded, HostCancelled, HostResetting,
			HostResettingPendingUserAction, HostDisabled,
			HostDisabledUnbound, HostUnbindingPendingUserAction, HostReclaiming, HostReclaimingRebooting), To: Same},

		{On: OnProgress, From: states(HostInstallingStates), When: joined,
			Because: "the host joins an installed cluster and is in stage Done",
			To:      HostAdded,
			Info:    func(s HostSituation) string { return joinedInfo(s.Joining) }},
		{On: OnProgress, From: states(HostInstallingStates), When: done, Because: "the host is in stage Done",
			To:   HostInstalled,
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
			Info: hostInfo("The host could not download or start the discovery image. Restart it from the discovery " +
				"image to use it again.")},
	}
}

// hostRequestRows returns the transitions for requests of users.
func hostRequestRows() []Row[HostSituation] {
	joins := func(s HostSituation) bool { return s.Joins }
	return []Row[HostSituation]{
		{On: OnRestart, From: states(HostOpenStates, HostBinding), To: HostDisconnected,
			Info: hostInfo(InfoRestarting)},
		{On: OnRestart, From: states(HostOpenUnboundStates, HostUnbinding), To: HostDisconnectedUnbound,
			Info: hostInfo(InfoRestarting)},

		{On: OnInstall, From: states(HostKnown), When: joins, Because: "the host joins an installed cluster",
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
			Info: hostInfo(infoReset)},
		{On: OnReset, From: states(HostOpenStates, HostDisabled, HostBinding, HostPreparingStates), To: Same},

		{On: OnBind, From: states(HostKnownUnbound), To: HostBinding,
			Info: hostInfo("The host was bound to a cluster; waiting for its agent to register again.")},

		{On: OnUnbind, From: states(HostOpenStates, HostDisabled, HostBinding), To: HostUnbinding,
			Info: hostInfo(infoUnbinds)},
		{On: OnUnbind, From: states(HostInstalled, HostAdded, HostFailed, HostCancelled, HostResetting,
			HostResettingPendingUserAction), To: HostUnbindingPendingUserAction,
			Info: hostInfo(infoUnbound)},

		{On: OnReclaim, From: states(HostInstalled, HostAdded), To: HostReclaiming,
			Info: hostInfo("The host was unbound from its cluster. It downloads the discovery image and restarts " +
				"from it.")},
		{On: OnReclaim, From: states(HostOpenStates, HostDisabled, HostBinding), To: HostUnbinding,
			Info: hostInfo(infoUnbinds)},
		{On: OnReclaim, From: states(HostFailed, HostCancelled, HostResetting, HostResettingPendingUserAction),
			To:   HostUnbindingPendingUserAction,
			Info: hostInfo(infoUnbound)},
	}
}

// hostConnectionRows returns the transitions for agents that stop polling or poll again.
func hostConnectionRows() []Row[HostSituation] {
	silent := func(s HostSituation) bool { return s.disconnected() && !s.afterReboot() }
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
		{On: OnRefresh, From: states(HostOpenStates, HostPreparingStates), When: HostSituation.disconnected,
			Because: "its agent has stopped polling, or cannot read its image", To: HostDisconnected, Info: lost},
		{On: OnRefresh, From: states(HostOpenUnboundStates, HostUnbinding), When: HostSituation.disconnected,
			Because: "its agent has stopped polling, or cannot read its image", To: HostDisconnectedUnbound,
			Info: lost},
		{On: OnRefresh, From: states(HostInstallingStates, HostInstalled, HostResettingPendingUserAction),
			When:    HostSituation.clusterFailed,
			Because: "the cluster failed", To: HostFailed, Info: hostInfo(InfoClusterFailed)},
		{On: OnRefresh, From: states(HostInstalling, HostInstallingInProgress), When: ends,
			Because: "its agent has stopped polling before the reboot",
			To:      HostFailed, Info: hostInfo(InfoSilent)},
		{On: OnRefresh, From: states(HostInstalling, HostInstallingInProgress), When: warns,
			Because: "its agent has stopped polling, and limits only warn",
			To:      Same, Mark: MarkConnectionTimedOut,
			Info: hostInfo("The host's agent has not contacted the appliance for some minutes. Its installation " +
				"continues. Check that the host can reach the appliance.")},
		{On: OnRefresh, From: states(HostInstalling, HostInstallingInProgress), When: back,
			Because: "its agent polls again, and limits only warn", To: Same, Mark: MarkConnectionBack,
			Info: func(s HostSituation) string {
				return "The host's agent contacted the appliance again. Its installation continues: " +
					cmp.Or(string(s.Stage), "starting") + "."
			}},
	}
}

// hostPreparationRows returns the transitions during the preparation of an installation.
func hostPreparationRows() []Row[HostSituation] {
	begins := func(s HostSituation) bool { return s.Readiness == validation.Ready && s.clusterIs(ClusterPreparing) }
	diskFailed := func(s HostSituation) bool { return s.DiskError != "" }
	imageFailed := func(s HostSituation) bool { return s.ImagesError != "" }
	timedOut := func(s HostSituation) bool { return s.TimedOut }
	stopped := func(s HostSituation) bool { return !s.clusterIsPreparing() }
	done := func(s HostSituation) bool { return s.DiskReady && s.ImagesReady }
	starts := func(s HostSituation) bool { return s.clusterIs(ClusterInstalling) }
	return []Row[HostSituation]{
		{On: OnRefresh, From: states(HostKnown), When: begins, Because: "the cluster prepares its installation",
			To:   HostPreparing,
			Info: hostInfo("Measuring the installation disk and pulling the images that the installation needs.")},
		{On: OnRefresh, From: states(HostPreparing, HostPreparingFailed, HostPrepared, HostKnown), When: diskFailed,
			Because: "its disk is gone or could not be measured", To: HostInsufficient, Mark: MarkDiskRejected,
			Info: func(s HostSituation) string { return s.DiskError }},
		{On: OnRefresh, From: states(HostPreparing), When: imageFailed, Because: "an image could not be pulled",
			To: HostPreparingFailed, Info: func(s HostSituation) string { return s.ImagesError }},
		{On: OnRefresh, From: states(HostPreparing), When: timedOut, Because: "the preparation took too long",
			To:   HostPreparingFailed,
			Info: hostInfo("The host's preparation took too long. Check its events, then press Install again.")},
		{On: OnRefresh, From: states(HostPreparing), When: stopped, Because: "the cluster stopped preparing",
			To:   HostKnown,
			Info: hostInfo(infoReady)},
		{On: OnRefresh, From: states(HostPreparing), When: done,
			Because: "its disk is measured and its images are pulled",
			To:      HostPrepared,
			Info:    hostInfo("The host is prepared; waiting for the other hosts.")},
		{On: OnRefresh, From: states(HostPrepared), When: starts, Because: "the cluster is being installed",
			To:   HostInstalling,
			Info: hostInfo("The installation is starting.")},
		{On: OnRefresh, From: states(HostPrepared, HostPreparingFailed), When: stopped,
			Because: "the cluster stopped preparing",
			To:      HostKnown, Info: hostInfo(infoReady)},
	}
}

// hostInstallationRows returns the transitions for time-outs during an installation.
func hostInstallationRows() []Row[HostSituation] {
	timedOut := func(s HostSituation) bool { return s.TimedOut }
	blocked := func(s HostSituation) bool { return s.TimedOut && s.waitsForOthers() }
	rebooting := func(s HostSituation) bool { return s.TimedOut && s.Stage == models.HostStageRebooting }
	warns := func(s HostSituation) bool { return s.TimedOut && s.WarnOnly }
	dispensable := func(s HostSituation) bool {
		return s.TimedOut && !s.clusterIs(ClusterInstalled, ClusterAddingHosts) && s.Expendable
	}
	return []Row[HostSituation]{
		{On: OnRefresh, From: states(HostInstalling), When: timedOut, Because: "the installer did not start in time",
			To: HostFailed,
			Info: func(s HostSituation) string {
				return "The installer did not start on the host in time. Check the host's logs, " + s.restartAdvice()
			}},
		{On: OnRefresh, From: states(HostInstallingInProgress), When: blocked,
			Because: "the stage took too long because another host boots from the wrong disk", To: Same,
			Mark: MarkStageResumed},
		{On: OnRefresh, From: states(HostInstallingInProgress), When: rebooting,
			Because: "the host did not contact the cluster after its reboot",
			To:      HostPendingUserAction,
			Info: func(s HostSituation) string {
				return RebootTimedOut + " the configuration files from its cluster after the reboot. " +
					joiningAdvice(s)
			}},
		{On: OnRefresh, From: states(HostInstallingInProgress), When: warns,
			Because: "the stage took too long, and limits only warn",
			To:      Same, Event: EventStageTimedOut,
			Mark: MarkStageTimedOut,
			Info: func(s HostSituation) string {
				advice := "Check the host's console."
				if s.afterReboot() {
					advice = joiningAdvice(s)
				}
				return fmt.Sprintf("The stage %q takes longer than its limit of %s; the installation continues. %s",
					s.Stage, s.Limit, advice)
			}},
		{On: OnRefresh, From: states(HostInstallingInProgress), When: timedOut, Because: "the stage took too long",
			To: HostFailed,
			Info: func(s HostSituation) string {
				advice := "Check the host's logs, "
				if s.afterReboot() {
					advice = joiningAdvice(s) + " Then "
				}
				return fmt.Sprintf("The host has been in the stage %q for too long: more than %s. %s%s", s.Stage,
					s.Limit, advice, s.restartAdvice())
			}},
		{On: OnRefresh, From: states(HostPendingUserAction), When: dispensable,
			Because: "its boot order was not corrected in time, and the cluster can be installed without it",
			To:      HostFailed,
			Info:    hostInfo("The boot order was not corrected in time. The cluster is installed without the host.")},
	}
}

// hostValidationRows returns the transitions that follow from validations.
func hostValidationRows() []Row[HostSituation] {
	is := func(levels ...validation.Readiness) func(HostSituation) bool {
		return func(s HostSituation) bool { return slices.Contains(levels, s.Readiness) }
	}
	return []Row[HostSituation]{
		{On: OnRefresh, From: states(HostDiscovering, HostDisconnected), When: is(validation.Discovering),
			Because: "its inventory is missing", To: HostDiscovering, Info: hostInfo(infoWaiting)},
		{On: OnRefresh, From: HostOpenStates, When: is(validation.Insufficient, validation.Discovering),
			Because: "a validation fails", To: HostInsufficient,
			Info: func(s HostSituation) string { return "The host is not ready to be installed: " + s.Failing }},
		{On: OnRefresh, From: HostOpenStates, When: is(validation.PendingForInput),
			Because: "the cluster lacks a setting",
			To:      HostPendingForInput,
			Info:    func(s HostSituation) string { return "The host waits for input: " + s.Failing }},
		{On: OnRefresh, From: HostOpenStates, Because: "all validations pass", To: HostKnown,
			Info: hostInfo(infoReady)},

		{On: OnRefresh, From: states(HostDiscoveringUnbound, HostDisconnectedUnbound), When: is(validation.Discovering),
			Because: "its inventory is missing", To: HostDiscoveringUnbound, Info: hostInfo(infoWaiting)},
		{On: OnRefresh, From: HostOpenUnboundStates, When: is(validation.Insufficient, validation.Discovering),
			Because: "a validation fails", To: HostInsufficientUnbound,
			Info: func(s HostSituation) string { return "The host is not ready to be bound: " + s.Failing }},
		{On: OnRefresh, From: HostOpenUnboundStates, Because: "all validations pass", To: HostKnownUnbound,
			Info: hostInfo("The host is ready to be bound to a cluster.")},
	}
}

// hostEndRows returns the transitions for time-outs outside of an installation.
func hostEndRows() []Row[HostSituation] {
	timedOut := func(s HostSituation) bool { return s.TimedOut }
	lateOrRebooting := func(s HostSituation) bool { return s.TimedOut || s.afterReboot() }
	return []Row[HostSituation]{
		{On: OnRefresh, From: states(HostResetting), When: lateOrRebooting,
			Because: "the host does not restart by itself",
			To:      HostResettingPendingUserAction,
			Info:    hostInfo(infoReset)},
		{On: OnRefresh, From: states(HostReclaiming, HostReclaimingRebooting), When: timedOut,
			Because: "the restart took too long", To: HostUnbindingPendingUserAction,
			Info: hostInfo("The host did not boot the discovery image in time. Restart it from the discovery image " +
				"to use it again.")},
		{On: OnRefresh, From: states(HostFailed, HostCancelled), When: timedOut,
			Because: "its logs did not arrive in time", To: Same,
			Mark: MarkLogsTimedOut},
	}
}
