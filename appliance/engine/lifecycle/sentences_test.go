package lifecycle

import (
	"regexp"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func TestStateSentence_cases(t *testing.T) {
	for want, sentence := range map[string]string{
		"Cluster a waits for input: Waiting for the first host.": ClusterStateSentence("a", ClusterPendingForInput,
			"The cluster waits for input: Waiting for the first host."),
		"The installation of cluster a was cancelled.": ClusterStateSentence("a", ClusterCancelled,
			"The installation was cancelled."),
		"The installation of cluster a failed: no etcd": ClusterStateSentence("a", ClusterFailed,
			"The installation failed: no etcd"),
		"The installation of cluster a failed: The cluster did not finish in time.": ClusterStateSentence("a",
			ClusterFailed, "The cluster did not finish in time."),
		"Cluster a needs a person: A host boots from the wrong device.": ClusterStateSentence("a",
			ClusterPendingUserAction, "A host boots from the wrong device."),
		"Host h is being installed (stage: Writing image to disk).": HostStateSentence("h", HostInstallingInProgress,
			string(models.HostStageWritingImageToDisk), models.HostStageWritingImageToDisk),
		"The installation of host h failed: " + InfoClusterFailed: HostStateSentence("h", HostFailed,
			InfoClusterFailed, ""),
		"The installation of host h is starting.": HostStateSentence("h", HostInstalling,
			"The installation is starting.", ""),
		"Host h's preparation took too long.": HostStateSentence("h", HostPreparingFailed,
			"The host's preparation took too long.", ""),
		"Host h is being discovered: " + infoWaiting: HostStateSentence("h", HostDiscovering, infoWaiting, ""),
		"Host h is disabled.":                        HostStateSentence("h", HostDisabled, "", ""),
	} {
		require.Equal(t, want, sentence)
	}
}

// stateID matches the API's names of states, which no sentence for a person contains.
var stateID = regexp.MustCompile(`->|\w+-(unbound|input|installation|progress|action|hosts|cluster)\b`)

func TestStateSentence_everyTransition(t *testing.T) {
	host := HostSituation{Stage: models.HostStageConfiguring, Failing: "Why.", Reason: "Why.", DiskError: "Why.",
		ImagesError: "Why.", Limit: time.Hour}
	for _, r := range HostMachine().Rows() {
		if r.Info != nil && r.To != Same {
			require.Contains(t, hostStateWords, r.To)
			sentence := HostStateSentence("node-1", r.To, r.Info(host), host.Stage)
			require.Regexp(t, `^(Host|The (installation|preparation) of host) node-1\b.*[.]$`, sentence)
			require.NotRegexp(t, stateID, sentence)
		}
	}
	cluster := ClusterSituation{Failing: "Why.", PreparationFailed: "Why.", CompletionError: "Why.",
		HostNotPrepared: "Why.", HostNotPreparable: "Why.", HostFailed: "Why."}
	for _, r := range ClusterMachine().Rows() {
		if r.Info != nil && r.To != Same {
			require.Contains(t, clusterStateWords, r.To)
			sentence := ClusterStateSentence("east", r.To, r.Info(cluster))
			require.Regexp(t, `^(Cluster|The (installation|preparation) of cluster) east\b.*[.]$`, sentence)
			require.NotRegexp(t, stateID, sentence)
		}
	}
}
