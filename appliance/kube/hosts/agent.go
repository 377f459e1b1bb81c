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
	retryAgent      = 10 * time.Second // delay before the next attempt to remove a node
	ignitionToken   = "ignition-token" // key of the token in its Secret
	retryRestore    = time.Minute      // interval of attempts to restore a host whose infra-env or cluster is missing
	retryUnbinding  = time.Minute      // interval of attempts to unbind a host
	secretsInterval = time.Minute      // interval of checks of the Secrets of an Agent
	keyVerifyCerts  = "certificateVerification"
)

// agentSnapshot is an Agent with the objects it refers to and its host, read in one transaction.
type agentSnapshot struct {
	key             string                 // <namespace>/<name>
	object          *agentinstall.Agent    // shared with other readers
	host            *view.Host             // nil if the host does not exist
	env             *agentinstall.InfraEnv // shared with other readers
	cluster         string                 // id of the cluster that the spec names; "" without a cluster
	foreign         bool                   // the host's cluster has no ClusterDeployment
	token           *string
	fencing         *models.FencingCredentialsParams
	digest          string                             // digest of the values from Secrets
	classifications []agentinstall.AgentClassification // the classifications of the namespace
}

// Reconcile applies the spec of an Agent to its host.
func (r agents) Reconcile(ctx context.Context, namespace, name string) (time.Duration, error) {
	s, failure, err := r.read(namespace, name)
	if err != nil {
		return 0, err
	}
	if s.object == nil || s.object.DeletionTimestamp != nil {
		r.enqueueClassifications(s)
		return r.delete(ctx, s)
	}
	if err := r.classify(ctx, s); err != nil {
		return 0, err
	}
	if s.host == nil {
		return r.restore(ctx, s, failure)
	}
	if changed, err := r.inherit(ctx, s); changed || err != nil {
		return 0, err // the changed Agent is queued
	}
	if wait, err := r.removeOldNode(ctx, s); err != nil || wait > 0 {
		return wait, err
	}
	if failure == nil && s.synced() {
		return s.requeueAfter(), nil
	}
	if failure == nil {
		failure = r.sync(ctx, s)
	}
	return r.report(ctx, s, failure)
}

// synced reports whether the host has all values of its Agent's spec, and the Agent's status
// already reports that. An Agent without the label of its InfraEnv is written again.
func (t *agentSnapshot) synced() bool {
	held := t.host.Object
	return held.Generation == t.object.Generation && held.Digest == t.digest && t.object.Labels[labelInfraEnv] != "" &&
		agentConditionOf(t.object.Status.Conditions, conditionSpecSynced).Status == corev1.ConditionTrue
}

// requeueAfter returns the delay before the next reconcile of an unchanged Agent. It is 0 unless
// the Agent refers to Secrets, which may change, or its host could not be unbound: the end of an
// installation does not change the Agent of an installed host.
func (t *agentSnapshot) requeueAfter() time.Duration {
	if t.mustUnbind() {
		return retryUnbinding
	}
	if t.object.Spec.IgnitionEndpointTokenReference != nil || t.object.Spec.FencingCredentialsSecretRef != "" {
		return secretsInterval
	}
	return 0
}

// read reads an Agent with the objects that it refers to. failure is an error in the references.
func (r agents) read(namespace, name string) (s *agentSnapshot, failure, err error) {
	s = &agentSnapshot{key: namespace + "/" + name}
	err = r.DB.View(func(tx *store.Tx) error {
		rows := r.Engine.Rows(tx)
		key, err := rows.HostOf(s.key)
		if err != nil {
			return err
		}
		if key != "" {
			if s.host, err = rows.Host(key); err != nil {
				return err
			}
			if s.foreign, err = foreignCluster(rows, s.host); err != nil {
				return err
			}
		}
		if s.classifications, err = r.classificationsOf(tx, namespace); err != nil {
			return err
		}
		s.object, err = objects.SharedAs[agentinstall.Agent](r.Objects, tx, objects.Agents, namespace, name)
		if err != nil || s.object == nil {
			return err
		}
		s.env, err = objects.SharedAs[agentinstall.InfraEnv](r.Objects, tx, objects.InfraEnvs, namespace,
			s.object.Labels[labelInfraEnv])
		if err != nil {
			return err
		}
		failure = r.readReferences(tx, s)
		return nil
	})
	return s, failure, err
}

// foreignCluster reports whether the cluster of a host has no ClusterDeployment. An Agent can't
// name such a cluster.
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
func (r agents) readReferences(tx *store.Tx, s *agentSnapshot) (err error) {
	spec := &s.object.Spec
	if s.cluster, err = r.clusterNamed(tx, spec.ClusterDeploymentName); err != nil {
		return err
	}
	if ref := spec.IgnitionEndpointTokenReference; ref != nil {
		data, err := r.secretData(tx, ref.Namespace, ref.Name)
		if err != nil {
			return err
		}
		if ref.Namespace != s.object.Namespace {
			if err := r.checkForeignToken(tx, ref); err != nil {
				return err
			}
		}
		token, ok := data[ignitionToken]
		if !ok {
			return invalid("secret %s did not contain key %s", ref.Name, ignitionToken)
		}
		s.token = conv.Pointer(string(token))
	}
	if name := spec.FencingCredentialsSecretRef; name != "" {
		data, err := r.secretData(tx, s.object.Namespace, name)
		if err != nil {
			return err
		}
		s.fencing = &models.FencingCredentialsParams{
			Address: conv.Pointer(string(data["address"])), Username: conv.Pointer(string(data["username"])),
			Password: conv.Pointer(string(data["password"])),
		}
		if verify, ok := data[keyVerifyCerts]; ok {
			s.fencing.CertificateVerification = conv.Pointer(string(verify))
		}
	}
	if s.token == nil && s.fencing == nil && (s.host == nil || s.host.Object.Digest == "") {
		return nil
	}
	text, err := json.Marshal([]any{s.token, s.fencing})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	s.digest = hex.EncodeToString(sum[:])
	return nil
}

// checkForeignToken returns an error for a token in another namespace than its Agent, unless
// somebody who may write the Secret has labelled it. Otherwise an operator could have any such
// Secret sent to a host.
func (r agents) checkForeignToken(tx *store.Tx, ref *agentinstall.SecretReference) error {
	secret, err := r.Objects.Metadata(tx, objects.Secrets, ref.Namespace, ref.Name)
	if err != nil {
		return err
	}
	if secret.GetLabels()[objects.LabelWatch] != "true" {
		return invalid("secret %s/%s is in another namespace than the Agent and has no label %s=true; set the label, "+
			"or copy the Secret into the namespace of the Agent", ref.Namespace, ref.Name, objects.LabelWatch)
	}
	return nil
}

// backendError is an error whose cause is outside the Agent. The Agent is reconciled again.
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
			"check the conditions of its AgentClusterInstall", ref.Name, ref.Namespace)}
	}
	return id, err
}

// inherit adds the finalizer, and the approval and node labels of the InfraEnv, to an Agent.
// changed reports whether the Agent changed.
func (r agents) inherit(ctx context.Context, s *agentSnapshot) (changed bool, err error) {
	wanted := *s.object
	if s.env != nil {
		wanted.Spec.Approved = wanted.Spec.Approved || approvesAll(s.env)
		inheritNodeLabels(&wanted, s.env)
	}
	final := slices.Contains(wanted.Finalizers, agentFinalizer)
	if final && wanted.Spec.Approved == s.object.Spec.Approved && maps.Equal(wanted.Spec.NodeLabels,
		s.object.Spec.NodeLabels) &&
		wanted.Annotations[annotationInheritedLabels] == s.object.Annotations[annotationInheritedLabels] {
		return false, nil
	}
	namespace, name := objects.SplitKey(s.key)
	err = r.DB.Update(ctx, func(tx *store.Tx) error {
		return objects.UpdateAs(r.Objects, tx, objects.Agents, namespace, name, func(agent *agentinstall.Agent) error {
			if !slices.Contains(agent.Finalizers, agentFinalizer) {
				agent.Finalizers = append(agent.Finalizers, agentFinalizer)
			}
			if s.env != nil {
				agent.Spec.Approved = agent.Spec.Approved || approvesAll(s.env)
				inheritNodeLabels(agent, s.env)
			}
			return nil
		})
	})
	err = objects.IgnoreNotFound(err)
	return true, err
}

// mustUnbind reports whether the host belongs to another cluster than the spec names.
func (t *agentSnapshot) mustUnbind() bool {
	return t.host.ClusterID != nil && t.host.ClusterID.String() != t.cluster && !t.foreign
}

// sync applies the parts of an Agent's spec that its host does not have yet.
func (r agents) sync(ctx context.Context, s *agentSnapshot) error {
	env, id := s.host.InfraEnvID.String(), s.host.ID.String()
	switch {
	case s.mustUnbind():
		return r.unbind(ctx, s)
	case s.host.ClusterID == nil && s.cluster != "":
		if slices.Contains([]string{models.HostStatusUnbinding, models.HostStatusUnbindingPendingUserAction,
			models.HostStatusDiscoveringUnbound}, *s.host.Status) {
			return nil // the host can be bound once it has left its former cluster
		}
		host, err := r.Engine.BindHost(ctx, env, id, s.cluster)
		if err != nil {
			return err
		}
		s.host.Host = host
	}
	return r.apply(ctx, s)
}

// unbind removes a host from its cluster and records the cluster in the Agent's status.
func (r agents) unbind(ctx context.Context, s *agentSnapshot) error {
	host := s.host
	if slices.Contains(statesInstalling, *host.Status) &&
		conv.Value(host.Kind) != models.HostKindAddToExistingClusterHost {
		return invalid("cancelling non-day-2 host [%s] in the middle of installation is not allowed", host.ID)
	}
	if slices.Contains(statesInstalling, *host.Status) {
		if _, err := r.Engine.ResetHost(ctx, host.InfraEnvID.String(), host.ID.String()); err != nil {
			return err
		}
	}
	note := record.Object{Key: s.key}
	if s.cluster == "" {
		// If the host moves to another cluster, the spec is not fully applied yet.
		note.Generation = s.object.Generation
	}
	if err := r.recordCluster(ctx, s); err != nil {
		return err
	}
	_, err := r.Engine.UnbindHost(ctx, host.InfraEnvID.String(), host.ID.String(), note)
	return err
}

// recordCluster records the node and the cluster of an installed host in the Agent's status, before
// the host is unbound.
func (r agents) recordCluster(ctx context.Context, s *agentSnapshot) error {
	if !slices.Contains(statesInstalled, *s.host.Status) {
		return nil
	}
	namespace, name := objects.SplitKey(s.key)
	return r.DB.Update(ctx, func(tx *store.Tx) error {
		cluster, err := r.Engine.Rows(tx).Cluster(s.host.ClusterID.String())
		if err != nil {
			return err
		}
		info := agentinstall.DeprovisionInfo{NodeName: s.host.RequestedHostname,
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
	return objects.UpdateAs(h.Objects, tx, objects.Agents, namespace, name, func(agent *agentinstall.Agent) error {
		fn(agent)
		return nil
	})
}

// report writes the status of an Agent, with the result of applying its spec.
func (r agents) report(ctx context.Context, s *agentSnapshot, failure error) (time.Duration, error) {
	backend := failure != nil && !isInputError(failure)
	outcome := agentSynced(failure, !backend)
	err := r.DB.Update(ctx, func(tx *store.Tx) error {
		p := r.writer(tx)
		return p.projectHost(s.host.Key(), &outcome)
	})
	switch {
	case fault.KindOf(err) == fault.NotFound || errors.Is(err, store.ErrNotFound):
		return 0, nil // the Agent was deleted in the meantime
	case err != nil:
		return 0, err
	case backend:
		return 0, &controller.ReportedError{Err: failure}
	}
	return s.requeueAfter(), nil
}

// delete deregisters the host of an Agent that is being deleted or does not exist. The projection
// of the deregistration removes the finalizer of the Agent.
func (r agents) delete(ctx context.Context, s *agentSnapshot) (time.Duration, error) {
	namespace, name := objects.SplitKey(s.key)
	if s.host == nil {
		if s.object == nil {
			return 0, nil
		}
		return 0, r.DB.Update(ctx, func(tx *store.Tx) error {
			p := r.writer(tx)
			return p.deleteAndFinalize(objects.Agents, namespace, name, agentFinalizer)
		})
	}
	if done, err := r.removeNode(s); !done || err != nil {
		return r.reportCleanup(ctx, s, err)
	}
	err := r.Engine.DeregisterHost(ctx, s.host.InfraEnvID.String(), s.host.ID.String())
	if err == nil || fault.KindOf(err) == fault.NotFound {
		return 0, nil
	}
	return r.reportCleanup(ctx, s, err)
}

// reportCleanup writes the error that blocks the deletion of an Agent into its status. failure is
// nil while the deletion is in progress.
func (r agents) reportCleanup(ctx context.Context, s *agentSnapshot, failure error) (time.Duration, error) {
	switch {
	case failure == nil:
		return 0, nil
	case s.object == nil:
		return retryDeletion, nil
	}
	namespace, name := objects.SplitKey(s.key)
	reason := failure.Error()
	return retryAgent, r.DB.Update(ctx, func(tx *store.Tx) error {
		return r.updateAgentStatus(tx, namespace, name, func(agent *agentinstall.Agent) {
			agent.Status.Conditions = setAgentCondition(agent.Status.Conditions, r.Clock.Now(), agentinstall.Condition{
				Type: conditionCleanup, Status: corev1.ConditionFalse, Reason: "CleanupFailed", Message: reason,
			})
		})
	})
}

// storeApplied records in the host's row which generation of its Agent is applied.
func (r agents) storeApplied(ctx context.Context, key string, note record.Object) error {
	return r.DB.Update(ctx, func(tx *store.Tx) error { return record.NoteHostObject(tx, key, note) })
}

// restore registers the host that an Agent's annotations describe. It is used if the record of the
// host was lost, or if the Agent was exported from another appliance. An Agent without such
// annotations waits for its host to register. failure is an error in the references of the Agent.
func (r agents) restore(ctx context.Context, s *agentSnapshot, failure error) (time.Duration, error) {
	annotations := s.object.Annotations
	if annotations[annotationAgentState] == "" {
		return retryRestore, r.reportMissingHost(ctx, s, nil)
	}
	env, err := r.infraEnvID(s)
	if isInvalid(err) {
		return retryRestore, r.reportMissingHost(ctx, s, err)
	}
	if err != nil {
		return 0, err
	}
	if ref := s.object.Spec.ClusterDeploymentName; ref != nil && ref.Name != "" && s.cluster == "" {
		return retryRestore, r.reportMissingHost(ctx, s, failure)
	}
	err = r.Engine.RestoreHost(ctx, env, engine.LostHost{
		ID: strfmt.UUID(s.object.Name), ClusterID: s.cluster, Status: annotations[annotationAgentState],
		Role:      models.HostRole(annotations[annotationAgentRole]),
		Inventory: annotations[annotationAgentInventory], Stage: models.HostStage(annotations[annotationAgentStage]),
		RegisteredAt: s.object.CreationTimestamp.Time,
	}, record.Object{Key: s.key})
	if err == nil {
		return 0, nil
	}
	return retryRestore, r.reportMissingHost(ctx, s, err)
}

// infraEnvID returns the id of the infra-env in which the host of an Agent is restored. Without
// one, it returns an input error.
func (r agents) infraEnvID(s *agentSnapshot) (id string, err error) {
	name := s.object.Labels[labelInfraEnv]
	switch {
	case name == "":
		return "", invalid("The host can't be restored, because the Agent has no label %s with the name of its "+
			"InfraEnv.", labelInfraEnv)
	case uuid.Validate(s.object.Name) != nil:
		return "", invalid("The host can't be restored, because the name of the Agent is not a UUID; the name is " +
			"the id of the host.")
	}
	err = r.DB.View(func(tx *store.Tx) error {
		id, err = r.Engine.Rows(tx).InfraEnvOf(s.object.Namespace + "/" + name)
		return err
	})
	if err == nil && id == "" {
		err = invalid("The host can't be restored, because InfraEnv %s/%s does not exist or has no image yet.",
			s.object.Namespace, name)
	}
	return id, err
}

// reportMissingHost reports in an Agent's status that the host does not exist, with the error of an
// attempt to restore the host.
func (r agents) reportMissingHost(ctx context.Context, s *agentSnapshot, failure error) error {
	namespace, name := objects.SplitKey(s.key)
	return r.DB.Update(ctx, func(tx *store.Tx) error {
		return r.updateAgentStatus(tx, namespace, name, func(agent *agentinstall.Agent) {
			agent.Status.DebugInfo.State, agent.Status.DebugInfo.StateInfo = "", ""
			conditions := agentConditions(nil, nil, false)
			if failure != nil {
				conditions = append(conditions, agentSynced(failure, isInputError(failure)))
			}
			for _, c := range conditions {
				agent.Status.Conditions = setAgentCondition(agent.Status.Conditions, r.Clock.Now(), c)
			}
		})
	})
}
