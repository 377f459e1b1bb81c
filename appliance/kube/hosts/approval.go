package hosts

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-openapi/swag/conv"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// Approvals approves hosts for the Kubernetes API, which installs a host only if spec.approved of
// its Agent is true. Hosts of the other APIs also have Agents, but need no approval.
type Approvals struct {
	db      *store.DB
	objects *objects.Objects
	current func(context.Context) error
}

// NewApprovals returns the approvals of a store. objects is nil if the Kubernetes API is disabled;
// then no host needs an approval. current returns when the objects show all earlier changes; nil if
// each change writes its objects.
func NewApprovals(db *store.DB, objects *objects.Objects, current func(context.Context) error) *Approvals {
	return &Approvals{db, objects, current}
}

// Approve approves a host. It does nothing if the host is approved. The host may have just
// registered, so Approve first waits for its Agent. A dry run writes nothing. It assumes that the
// Agent would be written.
func (a *Approvals) Approve(ctx context.Context, infraEnvID, hostID string) error {
	dry := store.IsDryRun(ctx)
	if a.current != nil && !dry {
		if err := a.current(ctx); err != nil {
			return err
		}
	}
	return a.db.Update(ctx, func(tx *store.Tx) error {
		host, err := record.Hosts.Get(tx, infraEnvID+"/"+hostID)
		if errors.Is(err, store.ErrNotFound) {
			return fault.New(fault.NotFound, "There is no host %s in infra-env %s.", hostID, infraEnvID)
		}
		if err != nil {
			return err
		}
		if host.Object.Key == "" && a.current != nil && dry {
			return nil
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

// Approved returns for each host with an Agent, by the host's ID, whether the Agent is approved.
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

// Needed returns for each host that manifests of the Kubernetes API install, by the host's ID,
// whether it is approved. Hosts of clusters and infra-envs of the other APIs also have Agents, but
// they are installed without an approval.
func (a *Approvals) Needed() (map[string]bool, error) {
	needed := map[string]bool{}
	if a.objects == nil {
		return needed, nil
	}
	return needed, a.db.View(func(tx *store.Tx) error {
		owners := map[string]bool{}
		return objects.Names(tx, objects.Agents, "", func(namespace, name string) error {
			agent, err := a.objects.Fields(tx, objects.Agents, namespace, name)
			if err != nil {
				return err
			}
			described, err := a.describedByManifests(tx, namespace, agent, owners)
			if described {
				needed[name] = string(agent("spec", "approved")) == "true"
			}
			return err
		})
	})
}

// Waiting returns the hosts that the Kubernetes API installs only after an approval. It also makes
// Agents for hosts of the other APIs, which install them without one; these Agents are not read,
// because there can be thousands.
func (a *Approvals) Waiting() (waiting []*record.Host, err error) {
	if a.objects == nil {
		return nil, nil
	}
	err = a.db.View(func(tx *store.Tx) error {
		described := map[string]bool{} // the results of hostDescribed by clusters and infra-envs
		owners := map[string]bool{}
		return record.HostSummaries.Each(tx, "", func(key string, row *record.HostSummary) error {
			if row.Object.Key == "" || !slices.Contains(lifecycle.HostOpenStates, row.API.Status) &&
				!slices.Contains(lifecycle.HostOpenUnboundStates, row.API.Status) {
				return nil
			}
			owner := cmp.Or(conv.Value(row.API.ClusterID), row.API.InfraEnvID).String()
			by, known := described[owner]
			if !known {
				var err error
				if by, err = a.hostDescribed(tx, row, owners); err != nil {
					return err
				}
				described[owner] = by
			}
			if !by {
				return nil
			}
			namespace, name := objects.SplitKey(row.Object.Key)
			approved, err := a.objects.Field(tx, objects.Agents, namespace, name, "spec", "approved")
			if err != nil || string(approved) == "true" {
				return err
			}
			host, err := record.Hosts.Get(tx, key)
			if err == nil {
				waiting = append(waiting, host)
			}
			return store.SkipDamaged(err)
		})
	})
	return waiting, errors.Join(err, a.db.ReleasePages())
}

// hostDescribed reports whether people described the cluster of a host, or else its infra-env, with
// objects of the Kubernetes API.
func (a *Approvals) hostDescribed(tx *store.Tx, row *record.HostSummary, known map[string]bool) (bool, error) {
	if row.API.ClusterID != nil {
		cluster, err := record.ClusterSummaries.Get(tx, row.API.ClusterID.String())
		if err != nil || cluster.Object.Key == "" {
			return false, objects.IgnoreNotFound(err)
		}
		namespace, name := objects.SplitKey(cluster.Object.Key)
		return a.madeByPerson(tx, objects.ClusterDeployments, namespace, name, objects.MadeForCluster, known)
	}
	env, err := record.InfraEnvs.Get(tx, row.API.InfraEnvID.String())
	if err != nil || env.Object.Key == "" {
		return false, objects.IgnoreNotFound(err)
	}
	namespace, name := objects.SplitKey(env.Object.Key)
	return a.madeByPerson(tx, objects.InfraEnvs, namespace, name, labelGenerated, known)
}

// describedByManifests reports whether people described the cluster of an Agent, or else its
// infra-env, with objects of the Kubernetes API. agent returns the Agent's fields. known has the
// answers of earlier calls.
func (a *Approvals) describedByManifests(tx *store.Tx, namespace string, agent func(path ...string) []byte,
	known map[string]bool) (bool, error) {
	text := func(path ...string) string { return strings.Trim(string(agent(path...)), `"`) }
	if cluster := text("spec", "clusterDeploymentName", "name"); cluster != "" {
		of := text("spec", "clusterDeploymentName", "namespace")
		return a.madeByPerson(tx, objects.ClusterDeployments, of, cluster, objects.MadeForCluster, known)
	}
	env := text("metadata", "labels", labelInfraEnv)
	return a.madeByPerson(tx, objects.InfraEnvs, namespace, env, labelGenerated, known)
}

// madeByPerson reports whether an object lacks the label of objects that the appliance makes.
func (a *Approvals) madeByPerson(tx *store.Tx, kind objects.Kind, namespace, name, label string,
	known map[string]bool) (bool, error) {
	key := kind.Key(namespace, name)
	if by, found := known[key]; found {
		return by, nil
	}
	made, err := a.objects.Field(tx, kind, namespace, name, "metadata", "labels", label)
	known[key] = string(made) != `"true"`
	return known[key], err
}
