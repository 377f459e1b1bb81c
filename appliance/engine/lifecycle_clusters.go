package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/validation"
)

// clusterSituation is what the rows of the cluster table look at.
type clusterSituation struct {
	cluster *clusterRecord
	now     time.Time
	verdict validation.Verdict
	failing string

	notPrepared   string // the name of a host that is not being prepared, and why
	notPreparable string // the name of a host whose preparation failed, and why
	allPrepared   bool
	hostFailed    string // the name of a host that failed, and why
	pendingAction bool   // a host waits for a person to correct its boot order
	enoughLeft    bool   // hosts that are installed or may still be
	enoughUp      bool   // hosts that are installed
	allDone       bool   // each host is installed or has failed

	timedOut      bool // the limit of the present state has passed
	totalTimedOut bool // the limit of the whole installation
	stageTimedOut bool // the limit of the finalizing stage
	stageLimit    time.Duration
	warnOnly      bool // limits of an installation warn and do not end it
}

func (s clusterSituation) preparationFailed() bool {
	return s.cluster.Preparation != nil && s.cluster.Preparation.Failed != ""
}

func (s clusterSituation) completionFailed() bool {
	return s.cluster.Completion != nil && !s.cluster.Completion.Success
}

// finishes tells whether the cluster is up but for what the controller in it still does.
func (s clusterSituation) finishes() bool { return s.enoughUp && !s.pendingAction }

func (s clusterSituation) complete() bool {
	return s.cluster.Completion != nil && s.cluster.Completion.Success && s.allDone && s.cluster.IngressCA &&
		operator.Finished(&s.cluster.API)
}

// tolerated are the finalizing stages whose limit never ends an installation: what they wait for
// may come later.
var tolerated = []models.FinalizingStage{
	models.FinalizingStageApplyingOlmManifests, models.FinalizingStageWaitingForOlmOperatorsCsvInitialization,
	models.FinalizingStageWaitingForOlmOperatorsCsv,
}

func (s clusterSituation) stage() models.FinalizingStage {
	return s.cluster.API.Progress.FinalizingStage
}

func tells(text string) func(clusterSituation) string {
	return func(clusterSituation) string { return text }
}

var (
	clusterOpen    = []string{clusterPending, clusterReady, clusterInsufficient}
	clusterRunning = []string{clusterInstalling, clusterUserAction, clusterFinalizing}
)

const sentenceInstalling = "The installation is in progress."

// clusterLife returns the lifecycle of a cluster.
func clusterLife() *life[clusterSituation] {
	return newLife(slices.Concat(clusterOrders(), clusterVerdicts(), clusterPreparations(), clusterInstallations()))
}

// clusterOrders are what people and the controller in the cluster do.
func clusterOrders() []row[clusterSituation] {
	return []row[clusterSituation]{
		{on: onInstall, from: in(clusterReady), to: clusterPreparing, info: tells("Preparing the installation.")},
		{on: onCancel, from: in(clusterRunning, clusterFailed), to: clusterCancelled,
			info: tells("The installation was cancelled.")},
		{on: onCancel, from: in(clusterPreparing), to: clusterReady,
			info: tells("The preparation was cancelled; the cluster is ready to be installed.")},
		{on: onReset, from: in(clusterRunning, clusterPreparing, clusterFailed, clusterCancelled),
			to: clusterInsufficient, info: tells("The cluster was reset. Restart its hosts from the discovery image.")},
		{on: onCompletion, from: in(clusterRunning, clusterInstalled, clusterAddingHosts, clusterFailed,
			clusterCancelled), to: same},
		{on: onAddHosts, from: in(clusterInstalled), to: clusterAddingHosts,
			info: tells("The cluster is installed and takes more hosts.")},
	}
}

// clusterVerdicts are what the validations say.
func clusterVerdicts() []row[clusterSituation] {
	lacks := func(s clusterSituation) bool { return s.verdict == validation.PendingForInput }
	fails := func(s clusterSituation) bool { return s.verdict != validation.Ready }
	return []row[clusterSituation]{
		{on: onRefresh, from: clusterOpen, when: lacks, because: "a setting is missing", to: clusterPending,
			info: func(s clusterSituation) string { return "Waiting for input: " + s.failing }},
		{on: onRefresh, from: clusterOpen, when: fails, because: "a check fails", to: clusterInsufficient,
			info: func(s clusterSituation) string { return "The cluster is not ready to be installed: " + s.failing }},
		{on: onRefresh, from: clusterOpen, because: "all checks pass", to: clusterReady,
			info: func(s clusterSituation) string {
				if s.preparationFailed() {
					return "The cluster is ready to be installed. Its last preparation failed: " +
						s.cluster.Preparation.Failed
				}
				return "The cluster is ready to be installed."
			}},
	}
}

// clusterPreparations are how the preparation of an installation ends.
func clusterPreparations() []row[clusterSituation] {
	hostFailed := func(s clusterSituation) bool { return s.hostFailed != "" }
	hostOut := func(s clusterSituation) bool { return s.notPrepared != "" }
	hostUnable := func(s clusterSituation) bool { return s.notPreparable != "" }
	timedOut := func(s clusterSituation) bool { return s.timedOut }
	done := func(s clusterSituation) bool { return s.allPrepared && s.cluster.Preparation.Done }
	return []row[clusterSituation]{
		{on: onRefresh, from: in(clusterPreparing), when: clusterSituation.preparationFailed,
			because: "openshift-install failed", to: clusterReady, info: func(s clusterSituation) string {
				return "The installation could not be prepared: " + s.cluster.Preparation.Failed
			}},
		{on: onRefresh, from: in(clusterPreparing), when: hostFailed, because: "a host failed", to: clusterFailed,
			info: func(s clusterSituation) string { return "The installation could not be prepared: " + s.hostFailed }},
		{on: onRefresh, from: in(clusterPreparing), when: hostOut, because: "a host is not ready any more",
			to: clusterInsufficient,
			info: func(s clusterSituation) string {
				return "The installation could not be prepared: " +
					s.notPrepared
			}},
		{on: onRefresh, from: in(clusterPreparing), when: hostUnable, because: "a host could not be prepared",
			to: clusterReady,
			info: func(s clusterSituation) string {
				return "The installation could not be prepared: " +
					s.notPreparable
			}},
		{on: onRefresh, from: in(clusterPreparing), when: timedOut, because: "it took too long", to: clusterReady,
			info: tells("The preparation took too long. Look at the events, then press Install again.")},
		{on: onRefresh, from: in(clusterPreparing), when: done, because: "all hosts and files are prepared",
			to: clusterInstalling, info: tells(sentenceInstalling)},
	}
}

// clusterInstallations are how an installation goes on and ends.
func clusterInstallations() []row[clusterSituation] {
	totalTimedOut := func(s clusterSituation) bool { return s.totalTimedOut }
	timedOut := func(s clusterSituation) bool { return s.timedOut && !s.warnOnly }
	stageEnds := func(s clusterSituation) bool {
		return s.stageTimedOut && !s.warnOnly && !slices.Contains(tolerated, s.stage())
	}
	stageWarns := func(s clusterSituation) bool { return s.stageTimedOut }
	tooFew := func(s clusterSituation) bool { return !s.enoughLeft }
	waits := func(s clusterSituation) bool { return s.pendingAction }
	return []row[clusterSituation]{
		{on: onRefresh, from: clusterRunning, when: totalTimedOut, because: "the whole installation took too long",
			to: clusterFailed,
			info: tells("The installation took too long: the certificates that are made for an installation last " +
				"24 hours. Download the logs, reset the cluster and install again, which makes new ones.")},
		{on: onRefresh, from: in(clusterFinalizing), when: timedOut, because: "it took too long", to: clusterFailed,
			info: tells("The cluster did not finish in time. Download the logs, reset the cluster and install again.")},
		{on: onRefresh, from: in(clusterFinalizing), when: stageEnds, because: "the stage took too long",
			to: clusterFailed, info: func(s clusterSituation) string {
				return fmt.Sprintf("The cluster did not finish in time: its stage %q took longer than %s. Download "+
					"the "+
					"logs, reset the cluster and install again.", s.stage(), s.stageLimit)
			}},
		{on: onRefresh, from: in(clusterFinalizing), when: stageWarns,
			because: "the stage took too long, its limit only warns", to: same, event: eventFinalizingTimedOut,
			mark: func(s clusterSituation) bool {
				return replace(&s.cluster.API.Progress.FinalizingStageTimedOut,
					true)
			},
			info: func(s clusterSituation) string {
				return fmt.Sprintf("The cluster is up; its stage %q takes longer than the %s that it should take at "+
					"most.", s.stage(), s.stageLimit)
			}},
		{on: onRefresh, from: clusterRunning, when: clusterSituation.completionFailed,
			because: "the controller reported a failure", to: clusterFailed, info: func(s clusterSituation) string {
				return "The installation failed: " + s.cluster.Completion.Error
			}},
		{on: onRefresh, from: in(clusterInstalling, clusterUserAction), when: tooFew, because: "too few hosts are left",
			to: clusterFailed, info: func(s clusterSituation) string {
				return "The installation failed: " +
					s.hostFailed
			}},
		{on: onRefresh, from: in(clusterInstalling, clusterFinalizing), when: waits,
			because: "a host waits for a person", to: clusterUserAction,
			info: tells("A host waits for a person to correct its boot order.")},
		{on: onRefresh, from: in(clusterInstalling, clusterUserAction), when: clusterSituation.finishes,
			because: "enough hosts are installed", to: clusterFinalizing,
			info: tells("The cluster is up; waiting for it to finish.")},
		{on: onRefresh, from: in(clusterUserAction), when: func(s clusterSituation) bool { return !s.pendingAction },
			because: "no host waits for a person any more", to: clusterInstalling, info: tells(sentenceInstalling)},
		{on: onRefresh, from: in(clusterFinalizing), when: clusterSituation.complete,
			because: "all hosts are done and the controller reported success", to: clusterInstalled,
			info: func(s clusterSituation) string {
				if names := operator.Failed(&s.cluster.API); len(names) > 0 {
					return "The cluster is installed but degraded. Failed OLM operators: " + strings.Join(names, ", ") +
						"."
				}
				if s.hostFailed != "" {
					return "The cluster is installed, without " + s.hostFailed
				}
				return "The cluster is installed."
			}},
		{on: onRefresh, from: in(clusterFailed, clusterCancelled),
			when: func(s clusterSituation) bool { return s.timedOut }, because: "its logs did not come in time",
			to:   same,
			mark: func(s clusterSituation) bool { return replace(&s.cluster.API.LogsInfo, models.LogsStateTimeout) }},
	}
}

// enough tells whether the hosts in one of the states suffice for the cluster: all of the control
// plane, an arbiter if there are any, and two workers if there are two or more.
func enough(cluster *models.Cluster, hosts []*hostRecord, states ...string) bool {
	have, all := make(map[models.HostRole]int), make(map[models.HostRole]int)
	for _, h := range hosts {
		role := h.API.Role
		if role == models.HostRoleBootstrap {
			role = models.HostRoleMaster
		}
		all[role]++
		if slices.Contains(states, *h.API.Status) {
			have[role]++
		}
	}
	if all[models.HostRoleMaster] == 0 || have[models.HostRoleMaster] < all[models.HostRoleMaster] {
		return false
	}
	if all[models.HostRoleArbiter] > 0 && have[models.HostRoleArbiter] == 0 {
		return false
	}
	return all[models.HostRoleWorker] < 2 || have[models.HostRoleWorker] >= 2
}
