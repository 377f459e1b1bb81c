package lifecycle

import (
	"strings"

	"github.com/openshift/assisted-service/models"
)

// JoiningFacts are the facts about a host in the installed cluster that it joins.
type JoiningFacts struct {
	Followed        bool   // the appliance watches the host in its cluster
	ClientApproved  bool   // the kubelet's request for a client certificate was approved
	ServingApproved bool   // the kubelet's request for a serving certificate was approved
	Problem         string // why the host can't be watched; a sentence
}

// joinedInfo returns the sentence for a host that has finished joining a cluster.
func joinedInfo(joining JoiningFacts) string {
	switch {
	case !joining.Followed:
		return "The host has restarted to join its cluster. Look at the cluster's console and approve the host's " +
			"certificate requests there."
	case joining.Problem != "":
		return "The host has restarted to join its cluster, where it could not be followed. " +
			strings.TrimSpace(joining.Problem)
	}
	return "The host is a node of its cluster, and ready."
}

// joiningAdvice returns how far a host came that restarted from its disk and is not a ready node,
// and what to check.
func joiningAdvice(s HostSituation) string {
	joining := s.Joining
	if joining.Problem != "" {
		return "In its cluster this was found last: " + strings.TrimSpace(joining.Problem)
	}
	switch {
	case s.Stage == models.HostStageJoined && joining.Followed && !joining.ServingApproved:
		return "It is a node of its cluster that is not ready, and has asked for no serving certificate: look at oc " +
			"describe node, and at its kubelet's journal."
	case s.Stage == models.HostStageJoined:
		return "It is a node of its cluster that is not ready: look at oc describe node, and at its kubelet's journal."
	case joining.ClientApproved:
		return "Its kubelet's request for a client certificate was approved, and it has not become a node: look at " +
			"its kubelet's journal, and whether it reaches the cluster's API on port 6443."
	case s.Stage == models.HostStageConfiguring:
		return "It booted from its disk and has its ignition config, and is no node yet: look at its console for a " +
			"unit that fails, and whether the cluster has requests that wait for approval (oc get csr)."
	case s.Stage == models.HostStageWaitingForIgnition:
		return "It booted from its disk and asks the machine config server for its ignition config, which it does " +
			"not get: look whether port 22623 of api-int answers, and at the MachineConfigPool of its role (oc get " +
			"mcp)."
	}
	where := "has not asked the machine config server for its ignition config"
	if joining.Followed {
		where = "has asked its cluster for no certificate"
	}
	return "It announced its restart and " + where +
		". Check that it boots from its installation disk, correct the boot order if not, and restart it; " +
		"if it does, look at its console whether it reaches port 22623 of api-int."
}
