package lifecycle

import (
	"strings"

	"github.com/openshift/assisted-service/models"
)

// NoNewHosts is in the sentence with which a cluster refuses hosts during its installation and
// afterwards.
const NoNewHosts = "accepts no new hosts now"

// hostStateWords say what a host in a state does. The sentence of its event needs them if the
// explanation of the state is not about the host itself.
var hostStateWords = map[string]string{
	HostDiscovering:                "is being discovered",
	HostDiscoveringUnbound:         "is being discovered",
	HostDisconnected:               "is disconnected",
	HostDisconnectedUnbound:        "is disconnected",
	HostInsufficient:               "is not ready to be installed",
	HostInsufficientUnbound:        "is not ready to be bound",
	HostKnown:                      "is ready to be installed",
	HostKnownUnbound:               "is ready to be bound",
	HostDisabled:                   "is disabled",
	HostDisabledUnbound:            "is disabled",
	HostPendingForInput:            "waits for input",
	HostPreparing:                  "is being prepared",
	HostPreparingFailed:            "could not be prepared",
	HostPrepared:                   "is prepared",
	HostInstalling:                 "is being installed",
	HostInstallingInProgress:       "is being installed",
	HostPendingUserAction:          "needs a person",
	HostInstalled:                  "is installed",
	HostAdded:                      "was added to its cluster",
	HostFailed:                     "failed",
	HostCancelled:                  "is no longer being installed",
	HostResetting:                  "is being reset",
	HostResettingPendingUserAction: "must be restarted",
	HostBinding:                    "is being bound",
	HostUnbinding:                  "is being unbound",
	HostUnbindingPendingUserAction: "must be restarted",
	HostReclaiming:                 "is being reclaimed",
	HostReclaimingRebooting:        "is being reclaimed",
}

var clusterStateWords = map[string]string{
	ClusterReady:             "is ready to be installed",
	ClusterInsufficient:      "is not ready to be installed",
	ClusterPendingForInput:   "waits for input",
	ClusterPreparing:         "is being prepared",
	ClusterInstalling:        "is being installed",
	ClusterPendingUserAction: "needs a person",
	ClusterFinalizing:        "is finishing its installation",
	ClusterInstalled:         "is installed",
	ClusterFailed:            "failed",
	ClusterCancelled:         "is no longer being installed",
	ClusterAddingHosts:       "is installed and takes more hosts",
	ClusterUnmonitored:       "is not watched",
}

// HostStateSentence returns the sentence for the event of a host that entered a state. The
// explanation is the host's status_info.
func HostStateSentence(name, state, explanation string, stage models.HostStage) string {
	if state == HostInstallingInProgress && explanation == string(stage) {
		return "Host " + name + " is being installed (stage: " + string(stage) + ")."
	}
	return stateSentence("host", name, hostStateWords[state], explanation, state == HostFailed)
}

// ClusterStateSentence returns the sentence for the event of a cluster that entered a state.
func ClusterStateSentence(name, state, explanation string) string {
	return stateSentence("cluster", name, clusterStateWords[state], explanation, state == ClusterFailed)
}

// stateSentence puts the name into an explanation that is about the host or cluster itself, such as
// "The host is ready to be installed.", and puts the words for the state before any other.
func stateSentence(kind, name, words, explanation string, failed bool) string {
	subject := kind + " " + name
	for _, thing := range []string{"installation", "preparation"} {
		rest, found := strings.CutPrefix(explanation, "The "+thing+" ")
		if found && !strings.HasPrefix(rest, "of ") {
			return "The " + thing + " of " + subject + " " + rest
		}
	}
	if failed {
		return "The installation of " + subject + " failed: " + explanation
	}
	capital := strings.ToUpper(kind[:1]) + subject[1:]
	rest, found := strings.CutPrefix(explanation, "The "+kind)
	switch {
	case found && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "'s ")):
		return capital + rest
	case explanation == "":
		return capital + " " + words + "."
	}
	return capital + " " + words + ": " + explanation
}
