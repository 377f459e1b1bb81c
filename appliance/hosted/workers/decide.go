package workers

import (
	"strconv"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/view"
	"landfall/appliance/kube/objects/agentinstall"
)

// situation is everything that decides what happens to one host.
type situation struct {
	host     *view.Host          // nil: the appliance has no such host
	offered  bool                // the host's infra-env is offered to the management cluster
	approved bool                // the host may be installed
	row      *Offered            // nil: no Agent was written
	agent    *agentinstall.Agent // nil: there is none
	foreign  bool                // the Agent is not one of this appliance
	// known says that the Agent's spec names a hosted cluster of this appliance. wanted is the
	// engine's cluster for it, or "" if there is none yet.
	known  bool
	wanted string
}

// action is what happens to a host.
type action int

const (
	nothing action = iota
	create         // write the Agent
	remove         // delete the Agent, and forget the host
	forget         // forget the host, whose Agent is gone
	adopt          // accept an Agent that a lost state of the store wrote
	bind           // bind the host to the chosen cluster
	follow         // give the host what its Agent's spec says, and install it
	unbind         // take the host out of its cluster
	done           // note that the host has left its cluster
	hold           // touch neither the host nor the Agent's spec
)

// decide returns what happens to a host, and for a hold its reason. A host is only ever bound,
// installed or unbound because of an Agent that this store knows, and whose spec has changed since.
func decide(s situation) (action, string) {
	switch {
	case s.foreign && (s.row != nil || s.offered):
		return hold, "The management cluster has an Agent with this name that this appliance did not write. " +
			"It stays untouched. Delete it there if the host is to be offered."
	case s.foreign:
		return nothing, ""
	case s.agent == nil:
		return s.decideMissing()
	case s.agent.DeletionTimestamp != nil:
		return nothing, ""
	case s.host == nil:
		return s.decideWithoutHost()
	case s.isLost():
		if s.isConsistent() {
			return adopt, ""
		}
		return hold, "The Agent on the management cluster tells more than this appliance knows: the appliance was " +
			"restored from an older backup, or somebody wrote the Agent again. The host stays untouched. Take it out " +
			"of its node pool there, and out of its cluster here."
	case s.chosen() == "":
		return s.decideFree()
	}
	return s.decideChosen()
}

// decideMissing decides about a host without an Agent.
func (s situation) decideMissing() (action, string) {
	switch {
	case s.row == nil && (!s.offered || s.status() != models.HostStatusKnownUnbound):
		return nothing, ""
	case s.row == nil && !s.approved:
		return hold, "The host is ready, but not offered, because nobody has approved it: landfall host approve."
	case s.row != nil && (s.host == nil || s.row.Bound == "" && !s.offered):
		return forget, ""
	}
	return create, ""
}

// decideWithoutHost decides about the Agent of a host that does not exist here.
func (s situation) decideWithoutHost() (action, string) {
	if s.row == nil || s.isLost() {
		return hold, "The Agent on the management cluster is of a host that is unknown here: this appliance was " +
			"restored from an older backup, or was reset. The Agent stays untouched. " +
			"Delete it there if the host is gone."
	}
	return remove, ""
}

// decideFree decides about an Agent that no node pool has chosen.
func (s situation) decideFree() (action, string) {
	switch {
	case s.row.Bound != "" && s.cluster() != s.row.Bound:
		return done, ""
	case s.row.Bound != "" && s.isOlder():
		return hold, olderAgent
	case s.row.Bound != "":
		return unbind, ""
	case !s.offered:
		return remove, ""
	}
	return nothing, ""
}

// decideChosen decides about an Agent that a node pool has chosen.
func (s situation) decideChosen() (action, string) {
	moved := s.row.Bound != "" && s.row.Choice.cluster() != s.chosen()
	switch {
	case moved && s.cluster() != s.row.Bound:
		return done, ""
	case moved && s.isOlder():
		return hold, olderAgent
	case moved:
		return unbind, ""
	case !s.known:
		return hold, "The node pool that has chosen the host belongs to a hosted cluster that this appliance did not " +
			"create. The host is not installed. Take it out of the node pool."
	case s.agrees() && s.row.Bound == "":
		return adopt, ""
	case s.agrees():
		return follow, ""
	case s.cluster() != "":
		return hold, "The node pool has chosen the host, but the host belongs to another cluster here. Unbind it " +
			"here, or take it out of the node pool."
	case s.row.Bound != "":
		return hold, "Somebody unbound the host here while a node pool has it. It is not installed again. Take it " +
			"out of the node pool."
	case !s.offered, !s.approved:
		return hold, "The node pool has chosen the host, but the host is no longer offered or approved. Take it out " +
			"of the node pool, or offer and approve it again."
	case s.status() == models.HostStatusKnownUnbound:
		return bind, ""
	}
	return nothing, ""
}

// isLost reports whether the Agent was written by a state of the store that is lost, or is not the
// Agent that this store has seen.
func (s situation) isLost() bool {
	if s.row == nil || s.row.UID != "" && s.row.UID != string(s.agent.UID) {
		return true
	}
	sequence, err := strconv.ParseUint(s.agent.Annotations[annotationSequence], 10, 64)
	return err != nil || sequence > s.row.Sequence
}

// isConsistent reports whether the host and its Agent agree about the host's cluster, so that
// nothing has to be done to the host.
func (s situation) isConsistent() bool {
	if s.chosen() == "" {
		return s.cluster() == ""
	}
	return s.agrees()
}

// agrees reports whether the host belongs to the cluster that its Agent's spec names.
func (s situation) agrees() bool { return s.known && s.wanted != "" && s.cluster() == s.wanted }

// olderAgent is the reason of a hold: the Agent lacks a choice that was followed.
const olderAgent = "The Agent on the management cluster is older than the choice that was followed: the cluster was " +
	"restored from a backup. The host stays in its cluster. Unbind it here if it is to leave."

// isOlder reports whether the Agent's spec has not changed since its choice was followed.
func (s situation) isOlder() bool { return s.agent.Generation <= s.row.Generation }

// chosen returns the key of the ClusterDeployment that the Agent's spec names, or "".
func (s situation) chosen() string { return choiceOf(s.agent).cluster() }

// cluster returns the host's cluster in the engine, or "".
func (s situation) cluster() string {
	if s.host.ClusterID == nil {
		return ""
	}
	return s.host.ClusterID.String()
}

func (s situation) status() string { return conv.Value(s.host.Status) }

// choiceOf returns the choice in an Agent's spec, or nil.
func choiceOf(a *agentinstall.Agent) *Choice {
	of := a.Spec.ClusterDeploymentName
	if of == nil || of.Name == "" {
		return nil
	}
	c := &Choice{Namespace: of.Namespace, Name: of.Name, MachineConfigPool: a.Spec.MachineConfigPool,
		Headers: a.Spec.IgnitionEndpointHTTPHeaders, Machine: a.Labels[labelMachine],
		MachineNamespace: a.Annotations[annotationMachine]}
	if ref := a.Spec.IgnitionEndpointTokenReference; ref != nil {
		c.TokenNamespace, c.TokenName = ref.Namespace, ref.Name
	}
	return c
}
