package engine

import (
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"
)

// onItsWay says how far a host came that has restarted from its disk and is no ready node, and what
// to look at: the stages behind the restart are reported by those who saw it at its cluster, and of
// one that joins a cluster it is known what was seen there.
func onItsWay(s hostSituation) string {
	joining := s.host.Joining
	if joining != nil && joining.Problem.Message != "" {
		return "In its cluster this was found last: " + strings.TrimSpace(joining.Problem.Message)
	}
	approved := func(serving bool) bool {
		return joining != nil && slices.ContainsFunc(joining.Approved,
			func(r CertificateRequest) bool { return r.Serving == serving })
	}
	switch {
	case s.stage == models.HostStageJoined && joining != nil && !approved(true):
		return "It is a node of its cluster that is not ready, and has asked for no serving certificate: look at oc " +
			"describe node, and at its kubelet's journal."
	case s.stage == models.HostStageJoined:
		return "It is a node of its cluster that is not ready: look at oc describe node, and at its kubelet's journal."
	case approved(false):
		return "Its kubelet's request for a client certificate was approved, and it has not become a node: look at " +
			"its kubelet's journal, and whether it reaches the cluster's API on port 6443."
	case s.stage == models.HostStageConfiguring:
		return "It booted from its disk and has its ignition config, and is no node yet: look at its console for a " +
			"unit that fails, and whether the cluster has requests that wait for approval (oc get csr)."
	case s.stage == models.HostStageWaitingForIgnition:
		return "It booted from its disk and asks the machine config server for its ignition config, which it does " +
			"not get: look whether port 22623 of api-int answers, and at the MachineConfigPool of its role (oc get " +
			"mcp)."
	}
	where := "has not asked the machine config server for its ignition config"
	if joining != nil {
		where = "has asked its cluster for no certificate"
	}
	return "It announced its restart and " + where +
		". Check that it boots from its installation disk, correct the boot order if not, and restart it; " +
		"if it does, look at its console whether it reaches port 22623 of api-int."
}
