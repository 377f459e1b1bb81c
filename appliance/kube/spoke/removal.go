package spoke

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Annotations of OpenShift's Machine API.
const (
	nodeMachine      = "machine.openshift.io/machine" // on a node: <namespace>/<name> of its Machine
	deleteMachine    = "machine.openshift.io/delete-machine"
	excludeDraining  = "machine.openshift.io/exclude-node-draining"
	machineSetLabel  = "machine.openshift.io/cluster-api-machineset"
	autoscaleToHosts = "metal3.io/autoscale-to-hosts"
	mirrorPod        = "kubernetes.io/config.mirror"
	// after this time, terminating pods of an unreachable node are ignored
	unreachablePeriod = 5 * time.Minute
)

// RemoveNode removes a node from a cluster, with its Machine and BareMetalHost. If the Machine
// belongs to a MachineSet, RemoveNode annotates the Machine for deletion and deletes the
// BareMetalHost; the cluster then scales down the MachineSet. Missing objects are not an error.
func (c *Client) RemoveNode(ctx context.Context, name string) error {
	node, err := c.node(ctx, strings.ToLower(name))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the node %s: %w", name, err)
	}
	namespace, machineName, ok := strings.Cut(node.Annotations[nodeMachine], "/")
	if !ok {
		return c.deleteNode(ctx, node.Name)
	}
	machineAt := place{kind: machineKind, namespace: namespace, name: machineName}
	machine := &unstructured.Unstructured{}
	err = c.objects.get(ctx, machineAt, &machine.Object)
	if apierrors.IsNotFound(err) {
		return c.deleteNode(ctx, node.Name)
	}
	if err != nil {
		return fmt.Errorf("find the Machine %s/%s: %w", namespace, machineName, err)
	}
	// The node is already drained, or can't be drained.
	if err := c.annotate(ctx, machineAt, map[string]string{deleteMachine: "true",
		excludeDraining: "true"}); err != nil {
		return err
	}
	inSet := false
	if set := machine.GetLabels()[machineSetLabel]; set != "" {
		setAt := place{kind: machineSetKind, namespace: namespace, name: set}
		err := c.objects.get(ctx, setAt, &map[string]any{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("find the MachineSet %s/%s: %w", namespace, set, err)
		}
		if inSet = err == nil; inSet {
			if err := c.annotate(ctx, setAt, map[string]string{autoscaleToHosts: "true"}); err != nil {
				return err
			}
		}
	}
	if hostNamespace, host, ok := strings.Cut(machine.GetAnnotations()[machineHost], "/"); ok {
		if err := c.objects.delete(ctx, place{kind: hostKind, namespace: hostNamespace, name: host}); err != nil &&
			!apierrors.IsNotFound(err) {
			return fmt.Errorf("delete the BareMetalHost %s/%s: %w", hostNamespace, host, err)
		}
	}
	if inSet {
		return nil
	}
	if err := c.objects.delete(ctx, machineAt); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the Machine %s/%s: %w", namespace, machineName, err)
	}
	return nil
}

func (c *Client) deleteNode(ctx context.Context, name string) error {
	if err := c.objects.delete(ctx, place{kind: nodeKind, name: name}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the node %s: %w", name, err)
	}
	return nil
}

func (c *Client) annotate(ctx context.Context, at place, annotations map[string]string) error {
	if err := c.objects.merge(ctx, at,
		map[string]any{"metadata": map[string]any{"annotations": annotations}}); err != nil {
		return fmt.Errorf("annotate %s %s/%s: %w", at.kind.Resource, at.namespace, at.name, err)
	}
	return nil
}

// DrainNode cordons a node and evicts its pods, except pods of DaemonSets and static pods. drained
// reports whether no pod is left that must be evicted. Pods that a disruption budget protects stay
// until a later call. A node that does not exist is drained.
func (c *Client) DrainNode(ctx context.Context, name string) (drained bool, err error) {
	node, err := c.node(ctx, strings.ToLower(name))
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("find the node %s: %w", name, err)
	}
	if !node.Spec.Unschedulable {
		if err := c.objects.merge(ctx, place{kind: nodeKind, name: node.Name},
			map[string]any{"spec": map[string]any{"unschedulable": true}}); err != nil {
			return false, fmt.Errorf("cordon the node %s: %w", node.Name, err)
		}
	}
	var pods core.PodList
	if err := c.objects.list(ctx, place{kind: podKind}, url.Values{"fieldSelector": {"spec.nodeName=" + node.Name}},
		&pods); err != nil {
		return false, fmt.Errorf("list the pods of the node %s: %w", node.Name, err)
	}
	left := false
	for i := range pods.Items {
		pod := &pods.Items[i]
		if stays(pod) || unreachableNode(node) && pod.DeletionTimestamp != nil &&
			c.clusterTime(c.clock.Now()).Sub(pod.DeletionTimestamp.Time) > unreachablePeriod {
			continue
		}
		left = true
		if pod.DeletionTimestamp != nil {
			continue // the pod is being deleted
		}
		err := c.objects.create(ctx, place{kind: podKind, namespace: pod.Namespace, name: pod.Name, sub: "eviction"},
			map[string]any{
				"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"namespace": pod.Namespace,
					"name": pod.Name},
			})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) {
			return false, fmt.Errorf("evict the pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return !left, nil
}

// stays reports whether a pod may remain on a drained node.
func stays(pod *core.Pod) bool {
	if pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed {
		return false
	}
	_, static := pod.Annotations[mirrorPod]
	return static || slices.ContainsFunc(pod.OwnerReferences,
		func(o meta.OwnerReference) bool { return o.Kind == "DaemonSet" })
}

func unreachableNode(node *core.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == core.NodeReady {
			return c.Status == core.ConditionUnknown
		}
	}
	return false
}
