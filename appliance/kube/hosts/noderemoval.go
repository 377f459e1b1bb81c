package hosts

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"

	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// A host that leaves an installed cluster leaves a node there. Where the appliance reaches into the
// cluster, it removes the node, when the host has come back from its restart, or before its Agent
// goes. An annotation of the Agent's keeps it from that.

const messageRemovedLater = "The node is still in its former cluster, and removed from it when the host has booted " +
	"the discovery image"

// forgetCluster has the node removed from a host's former cluster, once the host is on its way back
// no more, and drops what was noted of it then, or when a person says that nothing is left to be
// done. It returns when to look again while something is.
func (r agents) removeOldNode(ctx context.Context, task *agentSnapshot) (time.Duration, error) {
	info := task.object.Status.DeprovisionInfo
	_, skip := task.object.Annotations[annotationSkipSpokeCleanup]
	leaving := slices.Contains([]string{
		models.HostStatusUnbinding, models.HostStatusUnbindingPendingUserAction, models.HostStatusReclaiming,
		models.HostStatusReclaimingRebooting,
	}, conv.Value(task.host.Status))
	if info == nil || leaving || r.Spokes == nil && !skip {
		return 0, nil
	}
	if !skip {
		done, fault := r.Spokes.RemoveNode(task.key, info.ClusterNamespace+"/"+info.ClusterName, info.NodeName,
			r.requeue(task))
		switch {
		case !done:
			return 0, nil // it goes on beside; what else the Agent wants waits for nothing
		case fault != nil:
			return retryAgent, r.updateDeprovisionInfo(ctx, task,
				func(agent *agentinstall.Agent) { agent.Status.DeprovisionInfo.Message = fault.Error() })
		}
	}
	return 0, r.updateDeprovisionInfo(ctx, task, func(agent *agentinstall.Agent) { agent.Status.DeprovisionInfo = nil })
}

// alterAgent changes an Agent's status that still has the note of a former cluster.
func (r agents) updateDeprovisionInfo(ctx context.Context, task *agentSnapshot, fn func(*agentinstall.Agent)) error {
	namespace, name := objects.SplitKey(task.key)
	err := r.DB.Update(ctx, func(tx *store.Tx) error {
		return r.updateAgentStatus(tx, namespace, name, func(agent *agentinstall.Agent) {
			if agent.Status.DeprovisionInfo != nil {
				fn(agent)
			}
		})
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// leaveCluster has the node removed of a host that joined an installed cluster, before its Agent
// and the host go. There is nothing to do for others, where cluster or InfraEnv go too, and where a
// person says so.
func (r agents) removeNode(task *agentSnapshot) (done bool, err error) {
	if r.Spokes == nil || task.object == nil || task.host == nil || task.host.ClusterID == nil ||
		conv.Value(task.host.Kind) != models.HostKindAddToExistingClusterHost {
		return true, nil
	}
	joined := *task.host.Status == models.HostStatusAddedToExistingCluster ||
		len(task.object.Status.CSRStatus.ApprovedCSRs) > 0
	_, skip := task.object.Annotations[annotationSkipSpokeCleanup]
	ref := task.object.Spec.ClusterDeploymentName
	if !joined || skip || ref == nil || task.env == nil || task.env.DeletionTimestamp != nil {
		return true, nil
	}
	stays, err := r.clusterStays(ref)
	if err != nil || !stays {
		return err == nil, err
	}
	return r.Spokes.RemoveNode(task.key, ref.Namespace+"/"+ref.Name, task.host.RequestedHostname, r.requeue(task))
}

// clusterStays tells whether a ClusterDeployment is there and not being deleted.
func (r agents) clusterStays(ref *agentinstall.ClusterReference) (stays bool, err error) {
	err = r.DB.View(func(tx *store.Tx) error {
		cd := &hivev1.ClusterDeployment{}
		err := r.Objects.Get(tx, objects.ClusterDeployments, ref.Namespace, ref.Name, cd)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		stays = err == nil && cd.DeletionTimestamp == nil
		return err
	})
	return stays, err
}

// again has an Agent reconciled.
func (r agents) requeue(task *agentSnapshot) func() {
	namespace, name := objects.SplitKey(task.key)
	return func() { r.Loop.Enqueue(controller.Key{Kind: objects.Agents, Namespace: namespace, Name: name}) }
}
