package hosts

import (
	"context"
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

// A host that leaves an installed cluster leaves a node there. If the appliance connects to
// installed clusters, it removes the node: after the host has restarted, or before its Agent is
// deleted. An annotation of the Agent prevents that.

const messageRemovedLater = "The node is still in its former cluster, and removed from it when the host has booted " +
	"the discovery image"

// removeOldNode removes the node of a host from its former cluster once the host has come back,
// and then clears the record of that cluster. An annotation skips the removal. The returned
// duration is not 0 while the removal fails.
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
			return 0, nil // it runs in the background, and the rest of the Agent's spec does not wait
		case fault != nil:
			return retryAgent, r.updateDeprovisionInfo(ctx, task,
				func(agent *agentinstall.Agent) { agent.Status.DeprovisionInfo.Message = fault.Error() })
		}
	}
	return 0, r.updateDeprovisionInfo(ctx, task, func(agent *agentinstall.Agent) { agent.Status.DeprovisionInfo = nil })
}

// updateDeprovisionInfo changes the status of an Agent that still has the record of a former
// cluster.
func (r agents) updateDeprovisionInfo(ctx context.Context, task *agentSnapshot, fn func(*agentinstall.Agent)) error {
	namespace, name := objects.SplitKey(task.key)
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
// host are deleted. It does nothing for other hosts, if the cluster or the InfraEnv is deleted
// too, or if an annotation skips it.
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
func (r agents) requeue(task *agentSnapshot) func() {
	namespace, name := objects.SplitKey(task.key)
	return func() { r.Loop.Enqueue(controller.Key{Kind: objects.Agents, Namespace: namespace, Name: name}) }
}
