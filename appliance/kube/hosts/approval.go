package hosts

import (
	"context"
	"errors"

	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// Approvals approves hosts for the Kubernetes API, which installs a host only if spec.approved of
// its Agent is true. Hosts of infra-envs that were created by other APIs have no Agent and need no
// approval.
type Approvals struct {
	db      *store.DB
	objects *objects.Objects
}

// NewApprovals returns the approvals of a store. objects is nil if the Kubernetes API is disabled;
// then no host needs an approval.
func NewApprovals(db *store.DB, objects *objects.Objects) *Approvals { return &Approvals{db, objects} }

// Approve approves a host. It does nothing if the host is approved.
func (a *Approvals) Approve(ctx context.Context, infraEnvID, hostID string) error {
	return a.db.Update(ctx, func(tx *store.Tx) error {
		host, err := record.Hosts.Get(tx, infraEnvID+"/"+hostID)
		if errors.Is(err, store.ErrNotFound) {
			return fault.New(fault.NotFound, "There is no host %s in infra-env %s.", hostID, infraEnvID)
		}
		if err != nil {
			return err
		}
		if host.Object.Key == "" || a.objects == nil {
			return a.withoutAgent(tx, infraEnvID, hostID)
		}
		namespace, name := objects.SplitKey(host.Object.Key)
		return objects.UpdateAs(a.objects, tx, objects.Agents, namespace, name,
			func(agent *agentinstall.Agent) error {
				agent.Spec.Approved = true
				return nil
			})
	})
}

// withoutAgent returns the error for a host without Agent.
func (a *Approvals) withoutAgent(tx *store.Tx, infraEnvID, hostID string) error {
	if a.objects == nil {
		return fault.New(fault.Conflict, "The host %s needs no approval, because the Kubernetes API of this appliance "+
			"is disabled.", hostID)
	}
	env, err := record.InfraEnvs.Get(tx, infraEnvID)
	if err != nil {
		return err
	}
	if env.Object.Key == "" {
		return fault.New(fault.Conflict, "The host %s needs no approval, because its infra-env is not one of the "+
			"Kubernetes API.", hostID)
	}
	return fault.New(fault.Conflict, "The Agent of the host %s is still being written. Try again in some seconds.",
		hostID)
}

// Approved returns for each host with an Agent, by the host's ID, whether it is approved.
func (a *Approvals) Approved() (map[string]bool, error) {
	approved := map[string]bool{}
	if a.objects == nil {
		return approved, nil
	}
	return approved, a.db.View(func(tx *store.Tx) error {
		return objects.Names(tx, objects.Agents, "", func(namespace, name string) error {
			value, err := a.objects.Field(tx, objects.Agents, namespace, name, "spec", "approved")
			approved[name] = string(value) == "true"
			return err
		})
	})
}
