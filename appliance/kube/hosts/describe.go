package hosts

import (
	"errors"
	"slices"
	"time"

	"landfall/appliance/engine/view"
	"landfall/appliance/kube/objects/agentinstall"
)

// Describe writes a host into the status and the labels of an Agent in the API of another cluster.
// problem is a sentence about a spec that can't be followed; "" for none. The annotations stay,
// because those of the appliance's own Agents serve only to restore hosts.
func Describe(a *agentinstall.Agent, host *view.Host, problem, serviceURL string, now time.Time) error {
	a.Status.Conditions = slices.Clone(a.Status.Conditions)
	var failure error
	if problem != "" {
		failure = errors.New(problem)
	}
	a.Status.Conditions = setAgentCondition(a.Status.Conditions, now, agentSynced(failure, true))
	annotations := a.Annotations
	if err := setAgentStatus(a, host.Host, serviceURL, now); err != nil {
		return err
	}
	a.Annotations = annotations
	setJoining(a, host.Joining, now)
	return nil
}
