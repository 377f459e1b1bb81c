package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/kube/hosts"
	"landfall/appliance/kube/objects/agentinstall"
)

// Names in the metadata of Agents. The last two are those of the provider.
const (
	annotationOwner    = "landfall.io/appliance"
	annotationSequence = "landfall.io/sequence"
	labelMachine       = "agentMachineRef"
	annotationMachine  = "agentMachineRefNamespace"
)

const agentGroup = "agent-install.openshift.io"

// The collections of a management cluster.
var (
	agentKind   = schema.GroupVersionResource{Group: agentGroup, Version: "v1beta1", Resource: "agents"}
	installKind = schema.GroupVersionResource{Group: "extensions.hive.openshift.io", Version: "v1beta1",
		Resource: "agentclusterinstalls"}
	secretKind    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	namespaceKind = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// isOwn reports whether this appliance has written an Agent.
func (c *comparison) isOwn(agent *agentinstall.Agent) bool {
	return c.owner != "" && agent.Annotations[annotationOwner] == c.owner
}

// createAgent writes the Agent of a host. An Agent that is written again gets the choice back that
// was followed, so that its absence changes nothing.
func (w *worker) createAgent(ctx context.Context) error {
	agent := &agentinstall.Agent{TypeMeta: metav1.TypeMeta{APIVersion: agentGroup + "/v1beta1", Kind: "Agent"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.m.AgentNamespace, Name: w.id}}
	agent.Spec.Approved, agent.Spec.Hostname = true, w.host.RequestedHostname
	agent.Labels, agent.Annotations = map[string]string{}, map[string]string{}
	if c := w.row.Choice; c != nil {
		agent.Spec.ClusterDeploymentName = &agentinstall.ClusterReference{Namespace: c.Namespace, Name: c.Name}
		agent.Spec.MachineConfigPool, agent.Spec.IgnitionEndpointHTTPHeaders = c.MachineConfigPool, c.Headers
		if c.TokenName != "" {
			agent.Spec.IgnitionEndpointTokenReference = &agentinstall.SecretReference{Namespace: c.TokenNamespace,
				Name: c.TokenName}
		}
		agent.Labels[labelMachine], agent.Annotations[annotationMachine] = c.Machine, c.MachineNamespace
	}
	if err := w.describe(agent); err != nil {
		return err
	}
	wanted := agent.Status
	namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": w.m.AgentNamespace}}
	if err := w.client.Apply(ctx, namespaceKind, "", w.m.AgentNamespace, namespace); err != nil {
		return fmt.Errorf("apply the namespace %s: %w", w.m.AgentNamespace, err)
	}
	if err := w.client.Create(ctx, agentKind, w.m.AgentNamespace, agent); err != nil {
		return fmt.Errorf("write the Agent %s: %w", w.id, err)
	}
	if err := w.client.Get(ctx, agentKind, w.m.AgentNamespace, w.id, agent); err != nil {
		return fmt.Errorf("read the Agent %s: %w", w.id, err)
	}
	w.agent = agent
	w.row.UID, w.row.Generation = string(agent.UID), agent.Generation
	if err := w.save(ctx); err != nil {
		return err
	}
	agent.Status = wanted
	return w.client.UpdateStatus(ctx, agentKind, w.m.AgentNamespace, w.id, agent)
}

// describe writes the host into an Agent.
func (w *worker) describe(agent *agentinstall.Agent) error {
	agent.Labels, agent.Annotations = maps.Clone(agent.Labels), maps.Clone(agent.Annotations)
	if err := hosts.Describe(agent, w.host, w.problems[w.id], w.URL, w.Clock.Now()); err != nil {
		return err
	}
	if agent.Annotations == nil {
		agent.Annotations = map[string]string{}
	}
	agent.Annotations[annotationOwner] = w.owner
	agent.Annotations[annotationSequence] = strconv.FormatUint(w.row.Sequence, 10)
	if profile := w.profiles[w.host.InfraEnvID.String()]; profile != "" {
		agent.Labels[controlplane.LabelProfile] = profile
	}
	return nil
}

// report writes the state of the host into its Agent, if it has changed.
func (w *worker) report(ctx context.Context) error {
	next := *w.agent
	if err := w.describe(&next); err != nil {
		return err
	}
	if !maps.Equal(next.Labels, w.agent.Labels) || !maps.Equal(next.Annotations, w.agent.Annotations) {
		patch := map[string]any{"metadata": map[string]any{"resourceVersion": w.agent.ResourceVersion,
			"labels": next.Labels, "annotations": next.Annotations}}
		if err := w.client.Merge(ctx, agentKind, w.agent.Namespace, w.id, patch); err != nil {
			return fmt.Errorf("write the labels of the Agent %s: %w", w.id, err)
		}
		var fresh agentinstall.Agent
		if err := w.client.Get(ctx, agentKind, w.agent.Namespace, w.id, &fresh); err != nil {
			return fmt.Errorf("read the Agent %s: %w", w.id, err)
		}
		next.ObjectMeta, next.Spec = fresh.ObjectMeta, fresh.Spec
	}
	before, err := json.Marshal(w.agent.Status)
	if err != nil {
		return err
	}
	after, err := json.Marshal(next.Status)
	if err != nil || bytes.Equal(before, after) {
		return err
	}
	if err := w.client.UpdateStatus(ctx, agentKind, w.agent.Namespace, w.id, &next); err != nil {
		return fmt.Errorf("write the status of the Agent %s: %w", w.id, err)
	}
	return nil
}

// removeAgent deletes the Agent of a host that is gone or is no longer offered.
func (w *worker) removeAgent(ctx context.Context) error {
	err := w.client.Delete(ctx, agentKind, w.agent.ObjectMeta)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the Agent %s: %w", w.id, err)
	}
	return w.forget(ctx)
}
