package lifecycle

import (
	"strings"

	"github.com/openshift/assisted-service/models"
)

// JoiningFacts holds facts about a host from the installed cluster that it joins.
type JoiningFacts struct {
	Followed        bool   // the appliance watches the host in its cluster
	ClientApproved  bool   // the kubelet's request for a client certificate was approved
	ServingApproved bool   // the kubelet's request for a serving certificate was approved
	Problem         string // a sentence about why the host can't be watched
}

// joinedInfo returns the sentence for a host that has finished joining a cluster.
func joinedInfo(joining JoiningFacts) string {
	switch {
	case !joining.Followed:
		return "The host has restarted to join its cluster. Open the cluster's console and approve the host's " +
			"certificate requests."
	case joining.Problem != "":
		return "The host has restarted to join its cluster. The appliance could not watch it there. " +
			strings.TrimSpace(joining.Problem)
	}
	return "The host is a ready node of its cluster."
}

// joiningAdvice describes the progress of a host that restarted from its disk but is not a ready
// node yet, and names what to check.
func joiningAdvice(s HostSituation) string {
	joining := s.Joining
	if joining.Problem != "" {
		return "The last problem found in its cluster: " + strings.TrimSpace(joining.Problem)
	}
	switch {
	case s.Stage == models.HostStageJoined && joining.Followed && !joining.ServingApproved:
		return "The host is a node of its cluster, but not ready, and has not requested a serving certificate. " +
			"Check oc describe node and the journal of the host's kubelet."
	case s.Stage == models.HostStageJoined:
		return "The host is a node of its cluster, but not ready. Check oc describe node and the journal of the " +
			"host's kubelet."
	case joining.ClientApproved:
		return "The kubelet's request for a client certificate was approved, but the host is not a node yet. Check " +
			"the kubelet's journal, and that the host can connect to the cluster's API on port 6443."
	case s.Stage == models.HostStageConfiguring:
		return "The host booted from its disk and has its ignition config, but is not a node yet. Check the host's " +
			"console for failed units, and the cluster for pending certificate requests (oc get csr)."
	case s.Stage == models.HostStageWaitingForIgnition:
		return "The host booted from its disk, but gets no ignition config from the machine config server. Check " +
			"that port 22623 of api-int answers, and the MachineConfigPool of the host's role (oc get mcp)."
	}
	missing := "has not requested its ignition config from the machine config server"
	if joining.Followed {
		missing = "has not requested a certificate from its cluster"
	}
	return "The host was about to restart and " + missing + ". Check that the host boots from its installation " +
		"disk. If not, correct the boot order and restart the host. If so, check on its console that it can " +
		"connect to port 22623 of api-int."
}
