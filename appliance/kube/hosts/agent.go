package hosts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/engine"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// agents reconciles Agents.
type agents struct{ *Controllers }

// Kind implements controller.Reconciler.
func (agents) Kind() objects.Kind { return objects.Agents }

// Watches implements controller.Reconciler.
func (r agents) Watches() []controller.Watch {
	return []controller.Watch{
		{Kind: objects.InfraEnvs, Map: r.agentsOfInfraEnv},
		{Kind: objects.AgentClassifications, Map: r.agentsOfNamespace},
	}
}

const (
	retryAgent      = 10 * time.Second // after a failed removal from a cluster
	ignitionToken   = "ignition-token" // the key of a token in its Secret
	retryRestore    = time.Minute      // between attempts to restore a host without infra-env or cluster
	secretsInterval = time.Minute      // between checks of the Secrets of an Agent
	keyVerifyCerts  = "certificateVerification"
)

// agentSnapshot is an Agent with the objects it refers to and its host, read in one transaction.
type agentSnapshot struct {
	key             string // <namespace>/<name>
	object          *agentinstall.Agent
	host            *view.Host // nil: there is none
	env             *agentinstall.InfraEnv
	cluster         string // of the spec; "" for none
	foreign         bool   // the host belongs to a cluster without a ClusterDeployment
	token           *string
	fencing         *models.FencingCredentialsParams
	digest          string                             // of the values from Secrets
	classifications []agentinstall.AgentClassification // of the namespace
}

// Reconcile applies the spec of an Agent to its host.
func (r agents) Reconcile(ctx context.Context, namespace, name string) (time.Duration, error) {
	task, fault, err := r.read(namespace, name)
	if err != nil {
		return 0, err
	}
	if task.object == nil || task.object.DeletionTimestamp != nil {
		r.enqueueClassifications(task)
		return r.delete(ctx, task)
	}
	if err := r.classify(ctx, task); err != nil {
		return 0, err
	}
	if task.host == nil {
		return r.restore(ctx, task)
	}
	if changed, err := r.inherit(ctx, task); changed || err != nil {
		return 0, err // the change queues the Agent
	}
	if wait, err := r.removeOldNode(ctx, task); err != nil || wait > 0 {
		return wait, err
	}
	if fault == nil && task.synced() {
		return task.requeueAfter(), nil
	}
	if fault == nil {
		fault = r.sync(ctx, task)
	}
	return r.report(ctx, task, fault)
}

// synced reports whether the host has everything that its Agent specifies, and the Agent's status
// says so.
func (t *agentSnapshot) synced() bool {
	held := t.host.Object
	return held.Generation == t.object.Generation && held.Digest == t.digest &&
		agentConditionOf(t.object.Status.Conditions, conditionSpecSynced).Status == corev1.ConditionTrue
}

// requeueAfter returns when to reconcile an Agent that does not change: its Secrets may change.
func (t *agentSnapshot) requeueAfter() time.Duration {
	if t.object.Spec.IgnitionEndpointTokenReference != nil || t.object.Spec.FencingCredentialsSecretRef != "" {
		return secretsInterval
	}
	return 0
}

// read returns an Agent with what it refers to. refErr is an error in the references.
func (r agents) read(namespace, name string) (task *agentSnapshot, fault, err error) {
	task = &agentSnapshot{key: namespace + "/" + name}
	err = r.DB.View(func(tx *store.Tx) error {
		rows := r.Engine.Rows(tx)
		key, err := rows.HostOf(task.key)
		if err != nil {
			return err
		}
		if key != "" {
			if task.host, err = rows.Host(key); err != nil {
				return err
			}
			if task.foreign, err = foreignCluster(rows, task.host); err != nil {
				return err
			}
		}
		if task.classifications, err = r.classificationsOf(tx, namespace); err != nil {
			return err
		}
		task.object, err = objects.Find[agentinstall.Agent](r.Objects, tx, objects.Agents, namespace, name)
		if err != nil || task.object == nil {
			return err
		}
		task.env, err = objects.Find[agentinstall.InfraEnv](r.Objects, tx, objects.InfraEnvs, namespace,
			task.object.Labels[labelInfraEnv])
		if err != nil {
			return err
		}
		fault = r.readReferences(tx, task)
		return nil
	})
	return task, fault, err
}

// foreignCluster reports whether a host belongs to a cluster without a ClusterDeployment, which no
// Agent can name.
func foreignCluster(rows view.Rows, host *view.Host) (bool, error) {
	if host.ClusterID == nil {
		return false, nil
	}
	cluster, err := rows.Cluster(host.ClusterID.String())
	if err != nil {
		return false, err
	}
	return cluster.Object.Key == "", nil
}

// readReferences reads the objects that an Agent's spec refers to.
func (r agents) readReferences(tx *store.Tx, task *agentSnapshot) (err error) {
	spec := &task.object.Spec
	if task.cluster, err = r.clusterNamed(tx, spec.ClusterDeploymentName); err != nil {
		return err
	}
	if ref := spec.IgnitionEndpointTokenReference; ref != nil {
		data, err := r.secretData(tx, ref.Namespace, ref.Name)
		if err != nil {
			return err
		}
		token, ok := data[ignitionToken]
		if !ok {
			return invalid("secret %s did not contain key %s", ref.Name, ignitionToken)
		}
		task.token = conv.Pointer(string(token))
	}
	if name := spec.FencingCredentialsSecretRef; name != "" {
		data, err := r.secretData(tx, task.object.Namespace, name)
		if err != nil {
			return err
		}
		task.fencing = &models.FencingCredentialsParams{
			Address: conv.Pointer(string(data["address"])), Username: conv.Pointer(string(data["username"])),
			Password: conv.Pointer(string(data["password"])),
		}
		if verify, ok := data[keyVerifyCerts]; ok {
			task.fencing.CertificateVerification = conv.Pointer(string(verify))
		}
	}
	if task.token == nil && task.fencing == nil && (task.host == nil || task.host.Object.Digest == "") {
		return nil
	}
	text, err := json.Marshal([]any{task.token, task.fencing})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	task.digest = hex.EncodeToString(sum[:])
	return nil
}

// backendError is an error that has its cause outside the Agent. The Agent is reconciled again.
type backendError struct{ reason string }

func (e *backendError) Error() string { return e.reason }

// clusterNamed returns the id of a ClusterDeployment's cluster.
func (h *Controllers) clusterNamed(tx *store.Tx, ref *agentinstall.ClusterReference) (string, error) {
	if ref == nil || ref.Name == "" {
		return "", nil
	}
	if !h.Objects.Exists(tx, objects.ClusterDeployments, ref.Namespace, ref.Name) {
		return "",
			&backendError{fmt.Sprintf("failed to get clusterDeployment with name %s in namespace %s: there is none",
				ref.Name, ref.Namespace)}
	}
	id, err := h.Engine.Rows(tx).ClusterOf(ref.Namespace + "/" + ref.Name)
	if err == nil && id == "" {
		err = &backendError{fmt.Sprintf("the cluster of clusterDeployment %s in namespace %s is not registered yet; "+
			"look at the conditions of its AgentClusterInstall", ref.Name, ref.Namespace)}
	}
	return id, err
}

// inherit gives an Agent its finalizer and what its InfraEnv specifies for it. changed reports
// whether that changed the Agent.
func (r agents) inherit(ctx context.Context, task *agentSnapshot) (changed bool, err error) {
	wanted := *task.object
	if task.env != nil {
		wanted.Spec.Approved = wanted.Spec.Approved || approvesAll(task.env)
		inheritNodeLabels(&wanted, task.env)
	}
	final := slices.Contains(wanted.Finalizers, agentFinalizer)
	if final && wanted.Spec.Approved == task.object.Spec.Approved && maps.Equal(wanted.Spec.NodeLabels,
		task.object.Spec.NodeLabels) &&
		wanted.Annotations[annotationInheritedLabels] == task.object.Annotations[annotationInheritedLabels] {
		return false, nil
	}
	namespace, name := objects.SplitKey(task.key)
	err = r.DB.Update(ctx, func(tx *store.Tx) error {
		return r.Objects.Update(tx, objects.Agents, namespace, name, func(u *unstructured.Unstructured) error {
			var agent agentinstall.Agent
			if err := objects.Into(u, &agent); err != nil {
				return err
			}
			before, err := objects.Fields(&agent.Spec)
			if err != nil {
				return err
			}
			objects.AddFinalizer(u, agentFinalizer)
			if task.env != nil {
				agent.Spec.Approved = agent.Spec.Approved || approvesAll(task.env)
				inheritNodeLabels(&agent, task.env)
			}
			u.SetAnnotations(agent.Annotations)
			return objects.SetSpec(u, before, &agent.Spec)
		})
	})
	err = objects.IgnoreNotFound(err)
	return true, err
}

// sync applies those parts of an Agent's spec to its host that have not been applied yet.
func (r agents) sync(ctx context.Context, task *agentSnapshot) error {
	bound := ""
	if task.host.ClusterID != nil {
		bound = task.host.ClusterID.String()
	}
	env, id := task.host.InfraEnvID.String(), task.host.ID.String()
	switch {
	case bound != "" && bound != task.cluster && !task.foreign:
		return r.unbind(ctx, task)
	case bound == "" && task.cluster != "":
		if slices.Contains([]string{models.HostStatusUnbinding, models.HostStatusUnbindingPendingUserAction,
			models.HostStatusDiscoveringUnbound}, *task.host.Status) {
			return nil // it is bound after it has left its former cluster
		}
		host, err := r.Engine.BindHost(ctx, env, id, task.cluster)
		if err != nil {
			return err
		}
		task.host.Host = host
	}
	return r.apply(ctx, task)
}

// unbind removes a host from its cluster and records the cluster in the Agent's status.
func (r agents) unbind(ctx context.Context, task *agentSnapshot) error {
	host := task.host
	if slices.Contains(statesInstalling, *host.Status) &&
		conv.Value(host.Kind) != models.HostKindAddToExistingClusterHost {
		return invalid("cancelling non-day-2 host [%s] in the middle of installation is not allowed", host.ID)
	}
	if slices.Contains(statesInstalling, *host.Status) {
		if _, err := r.Engine.ResetHost(ctx, host.InfraEnvID.String(), host.ID.String()); err != nil {
			return err
		}
	}
	note := record.Object{Key: task.key}
	if task.cluster == "" {
		note.Generation = task.object.Generation // a host that moves to another cluster has not applied its Agent yet
	}
	if err := r.rememberCluster(ctx, task); err != nil {
		return err
	}
	_, err := r.Engine.UnbindHost(ctx, host.InfraEnvID.String(), host.ID.String(), note)
	return err
}

// rememberCluster records the node of an installed host and its cluster in the Agent's status,
// before the host is unbound.
func (r agents) rememberCluster(ctx context.Context, task *agentSnapshot) error {
	if !slices.Contains(statesInstalled, *task.host.Status) {
		return nil
	}
	namespace, name := objects.SplitKey(task.key)
	return r.DB.Update(ctx, func(tx *store.Tx) error {
		cluster, err := r.Engine.Rows(tx).Cluster(task.host.ClusterID.String())
		if err != nil {
			return err
		}
		info := agentinstall.DeprovisionInfo{NodeName: task.host.RequestedHostname,
			Message: messageWaitingForTheUnbound}
		if r.Spokes != nil {
			info.Message = messageRemovedLater
		}
		info.ClusterNamespace, info.ClusterName = objects.SplitKey(cluster.Object.Key)
		return r.updateAgentStatus(tx, namespace, name,
			func(agent *agentinstall.Agent) { agent.Status.DeprovisionInfo = &info })
	})
}

// updateAgentStatus changes the status of an Agent.
func (h *Controllers) updateAgentStatus(tx *store.Tx, namespace, name string, fn func(*agentinstall.Agent)) error {
	return h.Objects.Update(tx, objects.Agents, namespace, name, func(u *unstructured.Unstructured) error {
		var agent agentinstall.Agent
		if err := objects.Into(u, &agent); err != nil {
			return err
		}
		fn(&agent)
		return objects.SetStatus(u, &agent.Status)
	})
}

// report writes the status of an Agent, with the result of applying its spec.
func (r agents) report(ctx context.Context, task *agentSnapshot, failure error) (time.Duration, error) {
	backend := failure != nil && !isInputError(failure)
	outcome := agentSynced(failure, !backend)
	err := r.DB.Update(ctx, func(tx *store.Tx) error {
		p := r.writer(tx)
		return p.projectHost(task.host.Key(), &outcome)
	})
	switch {
	case fault.KindOf(err) == fault.NotFound || errors.Is(err, store.ErrNotFound):
		return 0, nil // deleted in the meantime
	case err != nil:
		return 0, err
	case backend:
		return 0, &controller.ReportedError{Err: failure}
	}
	return task.requeueAfter(), nil
}

// delete deregisters the host of an Agent that is being deleted or does not exist. The engine's
// change removes the finalizer of the Agent.
func (r agents) delete(ctx context.Context, task *agentSnapshot) (time.Duration, error) {
	namespace, name := objects.SplitKey(task.key)
	if task.host == nil {
		if task.object == nil {
			return 0, nil
		}
		return 0, r.DB.Update(ctx, func(tx *store.Tx) error {
			p := r.writer(tx)
			return p.deleteAndFinalize(objects.Agents, namespace, name, agentFinalizer)
		})
	}
	if done, err := r.removeNode(task); !done || err != nil {
		return r.reportCleanup(ctx, task, err)
	}
	err := r.Engine.DeregisterHost(ctx, task.host.InfraEnvID.String(), task.host.ID.String())
	if err == nil || fault.KindOf(err) == fault.NotFound {
		return 0, nil
	}
	return r.reportCleanup(ctx, task, err)
}

// reportCleanup writes the error that blocks the deletion of an Agent into its status. There is no
// error while the deletion only takes time.
func (r agents) reportCleanup(ctx context.Context, task *agentSnapshot, fault error) (time.Duration, error) {
	switch {
	case fault == nil:
		return 0, nil
	case task.object == nil:
		return retryDeletion, nil
	}
	namespace, name := objects.SplitKey(task.key)
	reason := fault.Error()
	return retryAgent, r.DB.Update(ctx, func(tx *store.Tx) error {
		return r.updateAgentStatus(tx, namespace, name, func(agent *agentinstall.Agent) {
			agent.Status.Conditions = setAgentCondition(agent.Status.Conditions, r.Clock.Now(), agentinstall.Condition{
				Type: conditionCleanup, Status: corev1.ConditionFalse, Reason: "CleanupFailed", Message: reason,
			})
		})
	})
}

// storeApplied records on a host which generation of its Agent it has applied.
func (r agents) storeApplied(ctx context.Context, key string, note record.Object) error {
	return r.DB.Update(ctx, func(tx *store.Tx) error { return record.NoteHostObject(tx, key, note) })
}

// restore registers the host again that an Agent's annotations describe: after the host's record
// was lost, or if the Agent comes from another appliance. An Agent without such annotations waits
// for its host.
func (r agents) restore(ctx context.Context, task *agentSnapshot) (time.Duration, error) {
	told := task.object.Annotations
	env, err := r.infraEnvID(task)
	if err != nil {
		return 0, err
	}
	waits := task.object.Spec.ClusterDeploymentName != nil && task.cluster == ""
	if told[annotationAgentState] == "" || env == "" || waits {
		return retryRestore, r.reportMissingHost(ctx, task, nil)
	}
	err = r.Engine.RestoreHost(ctx, env, engine.LostHost{
		ID: strfmt.UUID(task.object.Name), ClusterID: task.cluster, Status: told[annotationAgentState],
		Role:      models.HostRole(told[annotationAgentRole]),
		Inventory: told[annotationAgentInventory], Stage: models.HostStage(told[annotationAgentStage]),
		RegisteredAt: task.object.CreationTimestamp.Time,
	}, record.Object{Key: task.key})
	if err == nil {
		return 0, nil
	}
	return retryRestore, r.reportMissingHost(ctx, task, err)
}

// infraEnvID returns the id of the infra-env of an Agent's InfraEnv; "" if there is none.
func (r agents) infraEnvID(task *agentSnapshot) (id string, err error) {
	name := task.object.Labels[labelInfraEnv]
	if name == "" || uuid.Validate(task.object.Name) != nil {
		return "", nil
	}
	err = r.DB.View(func(tx *store.Tx) error {
		id, err = r.Engine.Rows(tx).InfraEnvOf(task.object.Namespace + "/" + name)
		return err
	})
	return id, err
}

// reportMissingHost writes into an Agent's status that it has no host, and the error of restoring
// it if that was tried.
func (r agents) reportMissingHost(ctx context.Context, task *agentSnapshot, fault error) error {
	namespace, name := objects.SplitKey(task.key)
	return r.DB.Update(ctx, func(tx *store.Tx) error {
		return r.updateAgentStatus(tx, namespace, name, func(agent *agentinstall.Agent) {
			agent.Status.DebugInfo.State, agent.Status.DebugInfo.StateInfo = "", ""
			conditions := agentConditions(nil, false)
			if fault != nil {
				conditions = append(conditions, agentSynced(fault, isInputError(fault)))
			}
			for _, c := range conditions {
				agent.Status.Conditions = setAgentCondition(agent.Status.Conditions, r.Clock.Now(), c)
			}
		})
	})
}
