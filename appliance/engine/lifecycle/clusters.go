package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/validation"
)

// ClusterSituation holds the facts about a cluster that the conditions of the table read.
type ClusterSituation struct {
	Readiness       validation.Readiness // decided by the cluster's validations
	Failing         string               // messages of the failing validations
	FinalizingStage models.FinalizingStage
	StageLimit      time.Duration // limit of the finalizing stage

	PreparationFailed string // why the run of openshift-install failed
	CompletionError   string // error in the controller's report
	HostNotPrepared   string // name and state of a host that is not being prepared any more
	HostNotPreparable string // name of a host whose preparation failed, and the reason
	HostFailed        string // name of a host that failed, and the reason
	FailedOperators   []string
	Damaged           []string // keys of the hosts whose rows are damaged

	PreparationDone   bool // openshift-install generated the files
	Completed         bool // the controller reported success
	CompletionFailed  bool // the controller reported a failure
	IngressCA         bool // the controller uploaded the ingress certificate
	OperatorsDone     bool // no optional operator is still being installed
	PlatformAvailable bool // each operator of every cluster is available
	AllPrepared       bool // each host is prepared
	PendingUserAction bool // a person must correct the boot order of a host
	EnoughLeft        bool // enough hosts have not failed
	EnoughInstalled   bool // enough hosts are installed
	AllDone           bool // each host is installed or has failed

	TimedOut      bool // the limit of the current state has passed
	TotalTimedOut bool // the limit of the whole installation has passed
	StageTimedOut bool // the limit of the finalizing stage has passed
	WarnOnly      bool // expired limits only warn during an installation
}

func (s ClusterSituation) preparationFailed() bool { return s.PreparationFailed != "" }

func (s ClusterSituation) completionFailed() bool { return s.CompletionFailed }

// finishes reports whether only the controller in the cluster has work left.
func (s ClusterSituation) finishes() bool { return s.EnoughInstalled && !s.PendingUserAction }

// complete reports whether an installation has ended. The available operators are enough, because
// the controller's last report may be lost; the report is enough for a controller that reports no
// operators.
func (s ClusterSituation) complete() bool {
	return s.AllDone && s.IngressCA && s.OperatorsDone && (s.Completed || s.PlatformAvailable)
}

// toleratedFinalizingStages lists the finalizing stages whose limit never ends an installation,
// because their result may arrive later.
var toleratedFinalizingStages = []models.FinalizingStage{
	models.FinalizingStageApplyingOlmManifests, models.FinalizingStageWaitingForOlmOperatorsCsvInitialization,
	models.FinalizingStageWaitingForOlmOperatorsCsv,
}

func clusterInfo(text string) func(ClusterSituation) string {
	return func(ClusterSituation) string { return text }
}

var (
	ClusterOpenStates       = []string{ClusterPendingForInput, ClusterReady, ClusterInsufficient}
	ClusterInstallingStates = []string{ClusterInstalling, ClusterPendingUserAction, ClusterFinalizing}
)

const infoInstalling = "The installation is in progress."

// ClusterMachine returns the state machine of a cluster.
func ClusterMachine() *Machine[ClusterSituation] {
	return newMachine(slices.Concat(clusterRequestRows(), clusterValidationRows(), clusterPreparationRows(),
		clusterInstallationRows()))
}

// clusterRequestRows returns the transitions for requests of users and of the controller in the
// cluster.
func clusterRequestRows() []Row[ClusterSituation] {
	return []Row[ClusterSituation]{
		{On: OnInstall, From: states(ClusterReady), To: ClusterPreparing,
			Info: clusterInfo("The installation is being prepared.")},
		{On: OnCancel, From: states(ClusterInstallingStates, ClusterFailed), To: ClusterCancelled,
			Info: clusterInfo("The installation was cancelled.")},
		{On: OnCancel, From: states(ClusterPreparing), To: ClusterReady,
			Info: clusterInfo("The preparation was cancelled; the cluster is ready to be installed.")},
		{On: OnReset, From: states(ClusterInstallingStates, ClusterPreparing, ClusterFailed, ClusterCancelled),
			To:   ClusterInsufficient,
			Info: clusterInfo("The cluster was reset. Restart its hosts from the discovery image.")},
		{On: OnCompletion, From: states(ClusterInstallingStates, ClusterInstalled, ClusterAddingHosts, ClusterFailed,
			ClusterCancelled), To: Same},
		{On: OnAddHosts, From: states(ClusterInstalled), To: ClusterAddingHosts,
			Info: clusterInfo("The cluster is installed and takes more hosts.")},
	}
}

// clusterValidationRows returns the transitions that follow from validations.
func clusterValidationRows() []Row[ClusterSituation] {
	lacks := func(s ClusterSituation) bool { return s.Readiness == validation.PendingForInput }
	fails := func(s ClusterSituation) bool { return s.Readiness != validation.Ready }
	return []Row[ClusterSituation]{
		{On: OnRefresh, From: ClusterOpenStates, When: lacks, Because: "a setting is missing",
			To:   ClusterPendingForInput,
			Info: func(s ClusterSituation) string { return "The cluster waits for input: " + s.Failing }},
		{On: OnRefresh, From: ClusterOpenStates, When: fails, Because: "a validation fails", To: ClusterInsufficient,
			Info: func(s ClusterSituation) string { return "The cluster is not ready to be installed: " + s.Failing }},
		{On: OnRefresh, From: ClusterOpenStates, Because: "all validations pass", To: ClusterReady,
			Info: func(s ClusterSituation) string {
				if s.preparationFailed() {
					return "The cluster is ready to be installed. Its last preparation failed: " + s.PreparationFailed
				}
				return "The cluster is ready to be installed."
			}},
	}
}

// clusterPreparationRows returns the transitions from the preparation of an installation.
func clusterPreparationRows() []Row[ClusterSituation] {
	hostFailed := func(s ClusterSituation) bool { return s.HostFailed != "" }
	hostLeft := func(s ClusterSituation) bool { return s.HostNotPrepared != "" }
	notPreparable := func(s ClusterSituation) bool { return s.HostNotPreparable != "" }
	timedOut := func(s ClusterSituation) bool { return s.TimedOut }
	done := func(s ClusterSituation) bool { return s.AllPrepared && s.PreparationDone }
	return []Row[ClusterSituation]{
		{On: OnRefresh, From: states(ClusterPreparing), When: ClusterSituation.preparationFailed,
			Because: "openshift-install failed", To: ClusterReady, Info: func(s ClusterSituation) string {
				return "The installation could not be prepared: " + s.PreparationFailed
			}},
		{On: OnRefresh, From: states(ClusterPreparing), When: hostFailed, Because: "a host failed", To: ClusterFailed,
			Info: func(s ClusterSituation) string { return "The installation could not be prepared: " + s.HostFailed }},
		{On: OnRefresh, From: states(ClusterPreparing), When: hostLeft, Because: "a host is not ready any more",
			To: ClusterInsufficient,
			Info: func(s ClusterSituation) string {
				return "The installation could not be prepared: " + s.HostNotPrepared
			}},
		{On: OnRefresh, From: states(ClusterPreparing), When: notPreparable, Because: "a host could not be prepared",
			To: ClusterReady,
			Info: func(s ClusterSituation) string {
				return "The installation could not be prepared: " + s.HostNotPreparable
			}},
		{On: OnRefresh, From: states(ClusterPreparing), When: timedOut, Because: "the preparation took too long",
			To:   ClusterReady,
			Info: clusterInfo("The preparation took too long. Check the events, then press Install again.")},
		{On: OnRefresh, From: states(ClusterPreparing), When: done, Because: "all hosts and files are prepared",
			To: ClusterInstalling, Info: clusterInfo(infoInstalling)},
	}
}

// clusterInstallationRows returns the transitions during an installation and at its end.
func clusterInstallationRows() []Row[ClusterSituation] {
	totalTimedOut := func(s ClusterSituation) bool { return s.TotalTimedOut }
	timedOut := func(s ClusterSituation) bool { return s.TimedOut && !s.WarnOnly }
	stageEnds := func(s ClusterSituation) bool {
		return s.StageTimedOut && !s.WarnOnly && !slices.Contains(toleratedFinalizingStages, s.FinalizingStage)
	}
	stageWarns := func(s ClusterSituation) bool { return s.StageTimedOut }
	tooManyFailed := func(s ClusterSituation) bool { return !s.EnoughLeft }
	userAction := func(s ClusterSituation) bool { return s.PendingUserAction }
	return []Row[ClusterSituation]{
		// A report of the controller precedes the limits, which may have passed before it came.
		{On: OnRefresh, From: ClusterInstallingStates, When: ClusterSituation.completionFailed,
			Because: "the controller reported a failure", To: ClusterFailed, Info: func(s ClusterSituation) string {
				return "The installation failed: " + s.CompletionError
			}},
		{On: OnRefresh, From: states(ClusterFinalizing), When: ClusterSituation.complete,
			Because: "all hosts are done, the ingress certificate is there, and all operators are available or the " +
				"controller reported success", To: ClusterInstalled,
			Info: func(s ClusterSituation) string {
				if names := s.FailedOperators; len(names) > 0 {
					return "The cluster is installed but degraded. Failed OLM operators: " + strings.Join(names, ", ") +
						"."
				}
				if s.HostFailed != "" {
					return "The cluster is installed, without " + s.HostFailed
				}
				return "The cluster is installed."
			}},
		{On: OnRefresh, From: ClusterInstallingStates, When: totalTimedOut,
			Because: "the whole installation took too long",
			To:      ClusterFailed,
			Info: clusterInfo("The installation took too long: its certificates are valid for 24 hours. Download the " +
				"logs, " +
				"reset the cluster and install again. The new installation gets new certificates.")},
		{On: OnRefresh, From: states(ClusterFinalizing), When: timedOut, Because: "finalizing took too long",
			To: ClusterFailed,
			Info: clusterInfo("The cluster did not finish in time. Download the logs, reset the cluster and install " +
				"again.")},
		{On: OnRefresh, From: states(ClusterFinalizing), When: stageEnds, Because: "the stage took too long",
			To: ClusterFailed, Info: func(s ClusterSituation) string {
				return fmt.Sprintf("The cluster did not finish in time: its stage %q took longer than %s. Download "+
					"the logs, reset the cluster and install again.", s.FinalizingStage, s.StageLimit)
			}},
		{On: OnRefresh, From: states(ClusterFinalizing), When: stageWarns,
			Because: "the stage took too long, and its limit only warns", To: Same, Event: EventFinalizingStageTimedOut,
			Mark: MarkFinalizingStageTimedOut,
			Info: func(s ClusterSituation) string {
				return fmt.Sprintf("The cluster is up; its stage %q takes longer than its limit of %s.",
					s.FinalizingStage, s.StageLimit)
			}},
		{On: OnRefresh, From: states(ClusterInstalling, ClusterPendingUserAction), When: tooManyFailed,
			Because: "too many hosts failed",
			To:      ClusterFailed, Info: func(s ClusterSituation) string {
				return "The installation failed: " + s.HostFailed
			}},
		{On: OnRefresh, From: states(ClusterInstalling, ClusterFinalizing), When: userAction,
			Because: "a host boots from the wrong device", To: ClusterPendingUserAction,
			Info: clusterInfo("A host boots from the wrong device. Correct its boot order.")},
		{On: OnRefresh, From: states(ClusterInstalling, ClusterPendingUserAction), When: ClusterSituation.finishes,
			Because: "enough hosts are installed", To: ClusterFinalizing,
			Info: clusterInfo("The cluster is up; waiting for it to finish.")},
		{On: OnRefresh, From: states(ClusterPendingUserAction),
			When:    func(s ClusterSituation) bool { return !s.PendingUserAction },
			Because: "no host boots from the wrong device any more", To: ClusterInstalling,
			Info: clusterInfo(infoInstalling)},
		{On: OnRefresh, From: states(ClusterFailed, ClusterCancelled),
			When: func(s ClusterSituation) bool { return s.TimedOut }, Because: "its logs did not arrive in time",
			To:   Same,
			Mark: MarkLogsTimedOut},
	}
}
