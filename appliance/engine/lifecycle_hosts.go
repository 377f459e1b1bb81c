package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/validation"
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
	timedOut      bool          // the limit of the host's state or stage has passed
	limit         time.Duration // of the stage
	warnOnly      bool          // limits of an installation warn and do not end it
	expendable    func() bool   // the cluster gets along without the host; nil: not asked
	reason        string        // of the trigger: a failure's text, the completion's error
}

func (s hostSituation) clusterIs(states ...string) bool {
	return slices.Contains(states, s.clusterStatus)
}

// afterReboot tells whether the host runs from its disk, without an agent that polls.
func (s hostSituation) afterReboot() bool { return afterReboot(s.stage) }

// joins tells whether the host is added to a cluster that is installed already.
func (s hostSituation) joins() bool { return s.host.day2() }

func (s hostSituation) unbound() bool { return s.clusterStatus == "" }

func (s hostSituation) gone() bool { return !s.connected || s.verdict == validation.Disconnected }

func (s hostSituation) clusterFailed() bool { return s.clusterIs(clusterFailed) && !s.joins() }

func (s hostSituation) clusterPrepares() bool {
	return s.clusterIs(clusterPreparing, clusterInstalling)
}

// waitsForOthers tells whether the host can't go on because a person must first correct the boot
// order of another.
func (s hostSituation) waitsForOthers() bool {
	return s.clusterIs(clusterUserAction) && slices.Contains(stagesWaitingForOthers, s.stage)
}

func says(text string) func(hostSituation) string {
	return func(hostSituation) string { return text }
}

// lists of states that rows have in common.
var (
	undecided        = []string{discovering, disconnected, insufficient, known, pendingForInput}
	undecidedUnbound = []string{discoveringUnbound, disconnectedUnbound, insufficientUnbound, knownUnbound}
	beforeInstall    = []string{preparing, preparingFailed, prepared}
	duringInstall    = []string{installing, inProgress, pendingUserAction}
)

const (
	sentenceLost = "The host's agent has not been heard for some minutes. Check that it is switched on and " +
		"reaches this appliance."
	sentenceMediaLost = "The host can no longer read its discovery image. Attach the image again and restart the host."
	sentenceRestarts  = "The host is restarted to boot a newer image of its infra-env; its agent registers again by " +
		"itself."
	sentenceReady   = "The host is ready to be installed."
	sentenceWaiting = "Waiting for the host to report its hardware."
	sentenceTaken   = "The host was taken from its cluster. Restart it from the discovery image to use it again."
)

// hostLife returns the lifecycle of a host.
func hostLife() *life[hostSituation] {
	return newLife(slices.Concat(hostRegistrations(), hostReports(), hostOrders(), hostConnections(),
		hostPreparations(), hostInstallations(), hostVerdicts(), hostEnds()))
}

// hostRegistrations are what it means that an agent starts on a host.
func hostRegistrations() []row[hostSituation] {
	discovers := func(s hostSituation) bool { return !s.afterReboot() }
	bootedAgain := func(s hostSituation) bool {
		return s.afterReboot() && (s.stage != models.HostStageDone || s.joins())
	}
	return []row[hostSituation]{
		{on: onRegister, from: in(initial), when: hostSituation.unbound, because: "the infra-env belongs to no cluster",
			to: discoveringUnbound, info: says(sentenceWaiting)},
		{on: onRegister, from: in(initial), to: discovering, info: says(sentenceWaiting)},
		{on: onRegister, from: in(preparing, prepared), to: known,
			info: says("The host started again in the middle of its preparation, which begins anew.")},
		{on: onRegister, from: in(undecided, disabled, preparingFailed, binding, resetPending, cancelled),
			to: discovering, info: says("The host started again; waiting for it to report its hardware.")},
		{on: onRegister, from: in(resetting), when: discovers, because: "it was not about to restart", to: discovering,
			info: says("The host started again; waiting for it to report its hardware.")},
		{on: onRegister, from: in(resetting), to: same},
		{on: onRegister, from: in(undecidedUnbound, disabledUnbound, unbinding, unbindingPending, reclaiming,
			reclaimRebooting), to: discoveringUnbound, info: says(sentenceWaiting)},
		{on: onRegister, from: in(inProgress, pendingUserAction, added), when: bootedAgain,
			because: "it was to boot from its disk", to: pendingUserAction,
			info: says("The host booted the discovery image again instead of its installation disk. Set its boot " +
				"order to the disk and restart it.")},
		{on: onRegister, from: in(installing, inProgress), to: failed,
			info: says("The host restarted in the middle of its installation. Reset the cluster and install again.")},
		{on: onRegister, from: in(failed, installed), to: same},
	}
}

// hostReports are what the agent, the installer and the controller say of a host.
func hostReports() []row[hostSituation] {
	done := func(s hostSituation) bool { return s.stage == models.HostStageDone }
	joined := func(s hostSituation) bool { return done(s) && s.joins() }
	reason := func(s hostSituation) string { return s.reason }
	return []row[hostSituation]{
		{on: onMediaLost, from: in(undecided, binding), to: disconnected, info: says(sentenceMediaLost)},
		{on: onMediaLost, from: in(undecidedUnbound, unbinding), to: disconnectedUnbound,
			info: says(sentenceMediaLost)},
		{on: onMediaLost, from: in(beforeInstall, installing, inProgress, failed), to: failed,
			info: says("The host can no longer read its discovery image, so its installation cannot go on. Attach " +
				"the image, reset the cluster and install again.")},
		{on: onMediaLost, from: in(pendingUserAction, installed, added, cancelled, resetting, resetPending, disabled,
			disabledUnbound, unbindingPending, reclaiming, reclaimRebooting), to: same},

		{on: onProgress, from: in(duringInstall), when: joined, because: "stage Done of a host that joins", to: added,
			info: func(s hostSituation) string { return joinedSentence(s.host) }},
		{on: onProgress, from: in(duringInstall), when: done, because: "stage Done", to: installed,
			info: says("The host is installed.")},
		{on: onProgress, from: in(duringInstall), to: inProgress,
			info: func(s hostSituation) string { return string(s.stage) }},
		{on: onProgress, from: in(installed, added, resetting, resetPending, failed, cancelled, unbindingPending),
			to: same},

		{on: onFailure, from: in(duringInstall), to: failed, info: reason},
		{on: onFailure, from: in(failed, cancelled, resetting, resetPending, unbindingPending), to: same},

		{on: onReclaimReboot, from: in(reclaiming), to: reclaimRebooting,
			info: says("The host restarts into the discovery image.")},
		{on: onReclaimFailed, from: in(reclaiming, reclaimRebooting), to: unbindingPending,
			info: says("The host could not fetch or start the discovery image by itself. Restart it from the " +
				"discovery image to use it again.")},
	}
}

// hostOrders are what people do with a host.
func hostOrders() []row[hostSituation] {
	return []row[hostSituation]{
		{on: onRestart, from: in(undecided, binding), to: disconnected, info: says(sentenceRestarts)},
		{on: onRestart, from: in(undecidedUnbound, unbinding), to: disconnectedUnbound, info: says(sentenceRestarts)},

		{on: onInstall, from: in(known), when: hostSituation.joins, because: "it joins an installed cluster",
			to: installing, info: says("The installation is starting.")},

		{on: onCancel, from: in(duringInstall, installed, failed), to: cancelled,
			info: says("The installation was cancelled.")},
		{on: onCancel, from: in(beforeInstall, known), to: known, info: says(sentenceReady)},
		{on: onCancel, from: in(discovering, disconnected, insufficient, pendingForInput, disabled, binding, resetting,
			resetPending, cancelled, added), to: same},

		{on: onReset, from: in(duringInstall, installed, added, failed, cancelled, resetting, resetPending),
			to:   resetPending,
			info: says("The cluster was reset. Restart the host from the discovery image to use it again.")},
		{on: onReset, from: in(undecided, disabled, binding, beforeInstall), to: same},

		{on: onBind, from: in(knownUnbound), to: binding,
			info: says("The host was given to a cluster; waiting for its agent to notice.")},

		{on: onUnbind, from: in(undecided, disabled, binding), to: unbinding,
			info: says("The host was taken from its cluster; waiting for its agent to notice.")},
		{on: onUnbind, from: in(installed, added, failed, cancelled, resetting, resetPending), to: unbindingPending,
			info: says(sentenceTaken)},

		{on: onReclaim, from: in(installed, added), to: reclaiming,
			info: says("The host was taken from its cluster and fetches the discovery image to restart from it.")},
		{on: onReclaim, from: in(undecided, disabled, binding), to: unbinding,
			info: says("The host was taken from its cluster; waiting for its agent to notice.")},
		{on: onReclaim, from: in(failed, cancelled, resetting, resetPending), to: unbindingPending,
			info: says(sentenceTaken)},
	}
}

// hostConnections are what silence means.
func hostConnections() []row[hostSituation] {
	silent := func(s hostSituation) bool { return s.gone() && !s.afterReboot() }
	ends := func(s hostSituation) bool { return silent(s) && !s.warnOnly }
	warns := func(s hostSituation) bool { return silent(s) && s.warnOnly && !s.host.API.ConnectionTimedOut }
	back := func(s hostSituation) bool { return s.connected && s.host.API.ConnectionTimedOut }
	noted := func(timedOut bool) func(hostSituation) bool {
		return func(s hostSituation) bool { return replace(&s.host.API.ConnectionTimedOut, timedOut) }
	}
	lost := func(s hostSituation) string {
		if s.host.restarts() {
			return sentenceRestarts
		}
		return sentenceLost
	}
	return []row[hostSituation]{
		{on: onRefresh, from: in(undecided, beforeInstall), when: hostSituation.gone,
			because: "its agent is silent or its image is lost", to: disconnected, info: lost},
		{on: onRefresh, from: in(undecidedUnbound, unbinding), when: hostSituation.gone,
			because: "its agent is silent or its image is lost", to: disconnectedUnbound, info: lost},
		{on: onRefresh, from: in(duringInstall, installed, resetPending), when: hostSituation.clusterFailed,
			because: "the cluster failed", to: failed, info: says("The installation of the cluster failed.")},
		{on: onRefresh, from: in(installing, inProgress), when: ends, because: "its agent is silent before the restart",
			to: failed, info: says(sentenceLost)},
		{on: onRefresh, from: in(installing, inProgress), when: warns, because: "its agent is silent, limits only warn",
			to: same, mark: noted(true),
			info: says("The host's agent has not been heard for some minutes; its installation is given more time. " +
				"Check that it reaches this appliance.")},
		{on: onRefresh, from: in(installing, inProgress), when: back,
			because: "its agent is heard again, limits only warn", to: same, mark: noted(false),
			info: func(s hostSituation) string {
				return "The host's agent is heard again; its installation goes on: " + orText(string(s.stage),
					"starting") + "."
			}},
	}
}

// hostPreparations are the checks before an installation.
func hostPreparations() []row[hostSituation] {
	begins := func(s hostSituation) bool { return s.verdict == validation.Ready && s.clusterIs(clusterPreparing) }
	diskFailed := func(s hostSituation) bool { return s.host.DiskError != "" }
	imageFailed := func(s hostSituation) bool { return s.host.ImagesError != "" }
	timedOut := func(s hostSituation) bool { return s.timedOut }
	over := func(s hostSituation) bool { return !s.clusterPrepares() }
	done := func(s hostSituation) bool { return s.host.DiskOK && s.host.ImagesOK }
	starts := func(s hostSituation) bool { return s.clusterIs(clusterInstalling) }
	return []row[hostSituation]{
		{on: onRefresh, from: in(known), when: begins, because: "the cluster prepares its installation", to: preparing,
			info: says("Measuring the installation disk and pulling the images that the installation needs.")},
		{on: onRefresh, from: in(preparing, preparingFailed, known), when: diskFailed,
			because: "its disk could not be measured", to: insufficient,
			info: func(s hostSituation) string { return s.host.DiskError }},
		{on: onRefresh, from: in(preparing), when: imageFailed, because: "an image could not be pulled",
			to: preparingFailed, info: func(s hostSituation) string { return s.host.ImagesError }},
		{on: onRefresh, from: in(preparing), when: timedOut, because: "it took too long", to: preparingFailed,
			info: says(
				"The host did not finish its preparation in time. Look at its events, then press Install again.")},
		{on: onRefresh, from: in(preparing), when: over, because: "the cluster stopped preparing", to: known,
			info: says(sentenceReady)},
		{on: onRefresh, from: in(preparing), when: done, because: "its disk and images are there", to: prepared,
			info: says("The host is prepared; waiting for the others.")},
		{on: onRefresh, from: in(prepared), when: starts, because: "the cluster is being installed", to: installing,
			info: says("The installation is starting.")},
		{on: onRefresh, from: in(prepared, preparingFailed), when: over, because: "the cluster stopped preparing",
			to: known, info: says(sentenceReady)},
	}
}

// hostInstallations are the limits of an installation.
func hostInstallations() []row[hostSituation] {
	timedOut := func(s hostSituation) bool { return s.timedOut }
	excused := func(s hostSituation) bool { return s.timedOut && s.waitsForOthers() }
	rebooting := func(s hostSituation) bool { return s.timedOut && s.stage == models.HostStageRebooting }
	warns := func(s hostSituation) bool { return s.timedOut && s.warnOnly }
	given := func(s hostSituation) bool {
		return s.timedOut && !s.clusterIs(clusterInstalled, clusterAddingHosts) && s.expendable != nil && s.expendable()
	}
	return []row[hostSituation]{
		{on: onRefresh, from: in(installing), when: timedOut, because: "the installer did not start in time",
			to: failed,
			info: says("The installer did not start on the host in time. Look at its logs, reset the cluster and " +
				"install again.")},
		{on: onRefresh, from: in(inProgress), when: excused,
			because: "it took too long, waiting for another host's boot order", to: same,
			mark: func(s hostSituation) bool {
				s.host.API.StageUpdatedAt = strfmt.DateTime(s.now)
				return true
			}},
		{on: onRefresh, from: in(inProgress), when: rebooting, because: "it has not come back from its restart",
			to: pendingUserAction,
			info: func(s hostSituation) string {
				return "The host has not come back from its restart. " +
					onItsWay(s)
			}},
		{on: onRefresh, from: in(inProgress), when: warns, because: "the stage took too long, limits only warn",
			to: same, event: eventStageTimedOut,
			mark: func(s hostSituation) bool { return replace(&s.host.API.Progress.StageTimedOut, true) },
			info: func(s hostSituation) string {
				known := "Look at its console."
				if s.afterReboot() {
					known = onItsWay(s)
				}
				return fmt.Sprintf("The stage %q takes longer than the %s that it should take at most; the host is "+
					"given more time. %s", s.stage, s.limit, known)
			}},
		{on: onRefresh, from: in(inProgress), when: timedOut, because: "the stage took too long", to: failed,
			info: func(s hostSituation) string {
				known, again := "Look at its logs, ", "reset the cluster and install again."
				if s.afterReboot() {
					known = onItsWay(s) + " Then "
				}
				if s.joins() {
					again = "install the host again."
				}
				return fmt.Sprintf("The host has been in the stage %q for too long: more than %s. %s%s", s.stage,
					s.limit,
					known, again)
			}},
		{on: onRefresh, from: in(pendingUserAction), when: given,
			because: "nobody corrected its boot order in time and the cluster, which is not installed yet, gets " +
				"along without it", to: failed,
			info: says("Nobody corrected the boot order in time, and the cluster is installed without the host.")},
	}
}

// hostVerdicts are what the validations say.
func hostVerdicts() []row[hostSituation] {
	is := func(verdicts ...validation.Verdict) func(hostSituation) bool {
		return func(s hostSituation) bool { return slices.Contains(verdicts, s.verdict) }
	}
	return []row[hostSituation]{
		{on: onRefresh, from: in(discovering, disconnected), when: is(validation.Discovering),
			because: "its inventory is missing", to: discovering, info: says(sentenceWaiting)},
		{on: onRefresh, from: undecided, when: is(validation.Insufficient, validation.Discovering),
			because: "a check fails", to: insufficient,
			info: func(s hostSituation) string { return "The host is not ready to be installed: " + s.failing }},
		{on: onRefresh, from: undecided, when: is(validation.PendingForInput), because: "the cluster lacks a setting",
			to: pendingForInput, info: func(s hostSituation) string { return "Waiting for input: " + s.failing }},
		{on: onRefresh, from: undecided, because: "all checks pass", to: known, info: says(sentenceReady)},

		{on: onRefresh, from: in(discoveringUnbound, disconnectedUnbound), when: is(validation.Discovering),
			because: "its inventory is missing", to: discoveringUnbound, info: says(sentenceWaiting)},
		{on: onRefresh, from: undecidedUnbound, when: is(validation.Insufficient, validation.Discovering),
			because: "a check fails", to: insufficientUnbound,
			info: func(s hostSituation) string { return "The host is not ready to be bound: " + s.failing }},
		{on: onRefresh, from: undecidedUnbound, because: "all checks pass", to: knownUnbound,
			info: says("The host is ready to be bound to a cluster.")},
	}
}

// hostEnds are the limits of states in which nothing is installed any more.
func hostEnds() []row[hostSituation] {
	timedOut := func(s hostSituation) bool { return s.timedOut }
	lateOrRebooting := func(s hostSituation) bool { return s.timedOut || s.afterReboot() }
	return []row[hostSituation]{
		{on: onRefresh, from: in(resetting), when: lateOrRebooting, because: "it does not restart by itself",
			to:   resetPending,
			info: says("The cluster was reset. Restart the host from the discovery image to use it again.")},
		{on: onRefresh, from: in(reclaiming, reclaimRebooting), when: timedOut, because: "it took too long",
			to: unbindingPending,
			info: says("The host did not start the discovery image by itself in time. Restart it from the discovery " +
				"image to use it again.")},
		{on: onRefresh, from: in(failed, cancelled), when: timedOut, because: "its logs did not come in time", to: same,
			mark: func(s hostSituation) bool { return replace(&s.host.API.LogsInfo, models.LogsStateTimeout) }},
	}
}
