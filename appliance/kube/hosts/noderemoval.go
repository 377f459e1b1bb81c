package hosts

import (
	"context"
	"slices"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"

	"landfall/appliance/engine/view"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// A host that leaves an installed cluster still has a node in that cluster. If the appliance
// connects to installed clusters, it removes the node after the host has restarted, or before the
// Agent is deleted. An annotation of the Agent prevents the removal.

const messageRemovedLater = "The node is still in its former cluster. It is removed when the host has booted " +
	"the discovery image"

// removeOldNode removes the node of a host from its former cluster once the host has booted the
// discovery image, and then clears the record of that cluster. An annotation skips the removal, and
// so does a host that has taken the place of the node. After a failed removal, the returned
// duration is the delay of the next attempt.
func (r agents) removeOldNode(ctx context.Context, s *agentSnapshot) (time.Duration, error) {
	info := s.object.Status.DeprovisionInfo
	_, skip := s.object.Annotations[annotationSkipSpokeCleanup]
	leaving := slices.Contains([]string{
		models.HostStatusUnbinding, models.HostStatusUnbindingPendingUserAction, models.HostStatusReclaiming,
		models.HostStatusReclaimingRebooting,
	}, conv.Value(s.host.Status))
	if info == nil || leaving || r.Spokes == nil && !skip {
		return 0, nil
	}
	if !skip {
		var err error
		if skip, err = r.replaced(info); err != nil {
			return 0, err
		}
	}
	if !skip {
		done, failure := r.Spokes.RemoveNode(s.key, info.ClusterNamespace+"/"+info.ClusterName, info.NodeName,
			r.requeue(s))
		switch {
		case !done:
			// the removal runs in the background, and the Agent's spec is applied in the meantime
			r.Loop.RepeatAtStart(s.agentKey())
			return 0, nil
		case failure != nil:
			return retryAgent, r.updateDeprovisionInfo(ctx, s,
				func(agent *agentinstall.Agent) { agent.Status.DeprovisionInfo.Message = failure.Error() })
		}
	}
	return 0, r.updateDeprovisionInfo(ctx, s, func(agent *agentinstall.Agent) { agent.Status.DeprovisionInfo = nil })
}

// replaced reports whether a host with the name of a former node is part of the cluster now: the
// same machine, or another. The removal would remove its node.
func (r agents) replaced(former *agentinstall.DeprovisionInfo) (is bool, err error) {
	err = r.DB.View(func(tx *store.Tx) error {
		rows := r.Engine.Rows(tx)
		id, err := rows.ClusterOf(former.ClusterNamespace + "/" + former.ClusterName)
		if err != nil || id == "" {
			return err
		}
		hosts, err := rows.ClusterHosts(id)
		is = slices.ContainsFunc(hosts, func(host *view.Host) bool {
			return host.RequestedHostname == former.NodeName &&
				(slices.Contains(statesInstalling, *host.Status) || slices.Contains(statesInstalled, *host.Status))
		})
		return err
	})
	return is, err
}

// updateDeprovisionInfo changes the status of an Agent that still records a former cluster.
func (r agents) updateDeprovisionInfo(ctx context.Context, s *agentSnapshot, fn func(*agentinstall.Agent)) error {
	namespace, name := objects.SplitKey(s.key)
	err := r.DB.Update(ctx, func(tx *store.Tx) error {
		return r.updateAgentStatus(tx, namespace, name, func(agent *agentinstall.Agent) {
			if agent.Status.DeprovisionInfo != nil {
				fn(agent)
			}
		})
	})
	return objects.IgnoreNotFound(err)
}

// removeNode removes the node of a host that joined an installed cluster, before its Agent and the
// host are deleted. It does nothing for other hosts, for a host whose cluster or InfraEnv is also
// being deleted, or if an annotation skips the removal.
func (r agents) removeNode(s *agentSnapshot) (done bool, err error) {
	if r.Spokes == nil || s.object == nil || s.host == nil || s.host.ClusterID == nil ||
		conv.Value(s.host.Kind) != models.HostKindAddToExistingClusterHost {
		return true, nil
	}
	joined := *s.host.Status == models.HostStatusAddedToExistingCluster ||
		len(s.object.Status.CSRStatus.ApprovedCSRs) > 0
	_, skip := s.object.Annotations[annotationSkipSpokeCleanup]
	ref := s.object.Spec.ClusterDeploymentName
	if !joined || skip || ref == nil || s.env == nil || s.env.DeletionTimestamp != nil {
		return true, nil
	}
	stays, err := r.clusterStays(ref)
	if err != nil || !stays {
		return err == nil, err
	}
	done, err = r.Spokes.RemoveNode(s.key, ref.Namespace+"/"+ref.Name, s.host.RequestedHostname, r.requeue(s))
	if !done {
		r.Loop.RepeatAtStart(s.agentKey())
	}
	return done, err
}

// clusterStays reports whether a ClusterDeployment exists and is not being deleted.
func (r agents) clusterStays(ref *agentinstall.ClusterReference) (stays bool, err error) {
	err = r.DB.View(func(tx *store.Tx) error {
		cd, err := objects.Find[hivev1.ClusterDeployment](r.Objects, tx, objects.ClusterDeployments, ref.Namespace,
			ref.Name)
		stays = err == nil && cd != nil && cd.DeletionTimestamp == nil
		return err
	})
	return stays, err
}

// requeue returns a function that queues an Agent.
func (r agents) requeue(s *agentSnapshot) func() { return func() { r.Loop.Enqueue(s.agentKey()) } }

func (t *agentSnapshot) agentKey() controller.Key {
	namespace, name := objects.SplitKey(t.key)
	return controller.Key{Kind: objects.Agents, Namespace: namespace, Name: name}
}
