package hosts

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/engine"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// Projector writes the InfraEnvs and Agents of the engine's infra-envs and hosts.
type Projector struct {
	Objects *objects.Objects
	URL     string // the base URL of the API and of images, without a trailing slash
	// BootURL is the base URL of boot files for boot loaders, which do not trust the appliance's
	// certificate authority; "" means URL.
	BootURL string
}

// bootsApart reports whether boot loaders use another base URL. The URLs of their scripts then
// contain the code of a short URL, which may expire.
func (h Projector) bootsApart() bool { return h.BootURL != "" && h.BootURL != h.URL }

// Project implements engine.Projector: it writes InfraEnvs and Agents in the transaction of the
// engine's change.
func (h Projector) Project(tx *store.Tx, touched engine.Touched) error {
	p := writer{Projector: h, tx: tx, rows: touched.Rows, now: touched.Now}
	for _, row := range touched.InfraEnvs {
		if row.Deleted {
			continue
		}
		if err := p.projectInfraEnv(row); err != nil {
			return fmt.Errorf("project infra-env %s: %w", row.ID, err)
		}
	}
	// A host that moves to another infra-env has a new row, a deleted row, and one Agent.
	for _, row := range touched.Hosts {
		if row.Deleted {
			continue
		}
		if err := p.projectHost(row.ID, nil); err != nil {
			return fmt.Errorf("project host %s: %w", row.ID, err)
		}
	}
	for _, row := range touched.Hosts {
		if !row.Deleted {
			continue
		}
		if err := p.projectDeletedHost(row.Object); err != nil {
			return fmt.Errorf("remove the Agent of host %s: %w", row.ID, err)
		}
	}
	for _, row := range touched.InfraEnvs {
		if !row.Deleted {
			continue
		}
		if err := p.projectInfraEnv(row); err != nil {
			return fmt.Errorf("remove the InfraEnv of infra-env %s: %w", row.ID, err)
		}
	}
	return nil
}

// writer writes objects in one transaction.
type writer struct {
	Projector
	tx   *store.Tx
	rows view.Rows
	now  time.Time
}

func (h *Controllers) writer(tx *store.Tx) writer {
	return writer{Projector: h.Projector, tx: tx, rows: h.Engine.Rows(tx), now: h.Clock.Now().UTC()}
}

// projectInfraEnv writes an infra-env that was changed or deleted into its InfraEnv.
func (p writer) projectInfraEnv(row engine.TouchedRow) error {
	switch {
	case row.Deleted && row.Object.Key == "":
		return nil
	case row.Deleted:
		return p.projectDeletedInfraEnv(row.Object)
	case row.Object.Key != "":
		return p.updateInfraEnv(row.ID, nil)
	}
	env, err := p.rows.InfraEnv(row.ID)
	if err != nil {
		return err
	}
	return p.generateInfraEnv(env)
}

// updateInfraEnv writes an infra-env into its InfraEnv. outcome is the condition with the result of
// applying the InfraEnv's spec; nil keeps the existing condition.
func (p writer) updateInfraEnv(id string, outcome *agentinstall.Condition) error {
	env, err := p.rows.InfraEnv(id)
	if err != nil {
		return err
	}
	namespace, name := objects.SplitKey(env.Object.Key)
	edit, err := objects.Edit[agentinstall.InfraEnv](p.Objects, p.tx, objects.InfraEnvs, namespace, name)
	if err != nil {
		return objects.IgnoreNotFound(err) // the InfraEnv was just deleted; its reconciler deregisters the infra-env
	}
	object, changed := edit.Object, false
	keepInfraEnv(object) // with the URL of the image, after which clients change the InfraEnv
	if outcome != nil {
		object.Status.Conditions = setAgentCondition(object.Status.Conditions, p.now, *outcome)
	}
	if object.Generation == env.Object.Generation {
		changed = writeBackInfraEnv(&object.Spec, env)
	}
	if err := setInfraEnvStatus(object, env, p.Projector, p.now); err != nil {
		return err
	}
	generation, err := edit.Save(p.Objects, p.tx, p.now)
	if err != nil || !changed {
		return err
	}
	return record.NoteInfraEnvObject(p.tx, id, record.Object{Key: env.Object.Key, Generation: generation})
}

// projectDeletedInfraEnv deletes the InfraEnv of a deleted infra-env. If the infra-env was deleted
// with its cluster, the InfraEnv stays and waits until the cluster is registered again.
func (p writer) projectDeletedInfraEnv(of record.Object) error {
	namespace, name := objects.SplitKey(of.Key)
	object, err := objects.Find[agentinstall.InfraEnv](p.Objects, p.tx, objects.InfraEnvs, namespace, name)
	if err != nil || object == nil {
		return err
	}
	made := object.Labels[labelGenerated] == "true"
	if ref := object.Spec.ClusterRef; ref != nil && object.DeletionTimestamp == nil && !made {
		cluster, err := p.rows.ClusterOf(ref.Namespace + "/" + ref.Name)
		if err != nil {
			return err
		}
		if cluster == "" {
			return p.Objects.Update(p.tx, objects.InfraEnvs, namespace, name, func(u *unstructured.Unstructured) error {
				lost := clusterMissing(fmt.Sprintf("cluster does not exist: %s, check AgentClusterInstall conditions "+
					"in namespace %s", ref.Name, ref.Namespace))
				object.Status = agentinstall.InfraEnvStatus{Conditions: setAgentCondition(object.Status.Conditions,
					p.now, lost), AgentLabelSelector: object.Status.AgentLabelSelector}
				return objects.SetStatus(u, &object.Status)
			})
		}
	}
	return errors.Join(p.deleteAndFinalize(objects.InfraEnvs, namespace, name, infraEnvFinalizer),
		p.deleteGenerated(object))
}

// deleteAndFinalize deletes an object and removes its finalizer.
func (p writer) deleteAndFinalize(kind objects.Kind, namespace, name, finalizer string) error {
	if err := p.Objects.Delete(p.tx, kind, namespace, name, p.now); err != nil {
		return err
	}
	err := p.Objects.Update(p.tx, kind, namespace, name, func(u *unstructured.Unstructured) error {
		objects.RemoveFinalizer(u, finalizer)
		return nil
	})
	return objects.IgnoreNotFound(err)
}

// projectHost writes a host into its Agent, or creates the Agent. outcome is the condition with the
// result of applying the Agent's spec; nil keeps the existing condition. A host of an infra-env
// without an InfraEnv has no Agent.
func (p writer) projectHost(key string, outcome *agentinstall.Condition) error {
	host, err := p.rows.Host(key)
	if err != nil {
		return err
	}
	env, err := p.rows.InfraEnv(host.InfraEnvID.String())
	if err != nil || env.Object.Key == "" {
		return err
	}
	namespace, _ := objects.SplitKey(env.Object.Key)
	place := namespace + "/" + host.ID.String()
	if p.Objects.Exists(p.tx, objects.Agents, namespace, host.ID.String()) {
		return p.updateAgent(place, host, env, outcome)
	}
	return p.createAgent(place, host, env)
}

// createAgent creates the Agent of a registered host.
func (p writer) createAgent(place string, host *view.Host, env *view.InfraEnv) error {
	namespace, name := objects.SplitKey(place)
	agent := &agentinstall.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		Finalizers: []string{agentFinalizer}}}
	applied, err := p.initAgent(agent, host, env)
	if err != nil {
		return err
	}
	if err := setAgentStatus(agent, host.Host, p.URL, p.now); err != nil {
		return err
	}
	setJoining(agent, host.Joining, p.now)
	if err := p.Objects.Create(p.tx, objects.Agents, agent, p.now); err != nil {
		return err
	}
	note := record.Object{Key: place, Generation: 1}
	if !applied {
		note.Generation = 0 // the spec has not been applied yet
	}
	return record.NoteHostObject(p.tx, host.Key(), note)
}

// initAgent sets the owner, the labels and the spec of a host's new Agent. The spec contains only
// the cluster, the approval and the node labels. applied reports whether the host already has all
// values of the spec.
func (p writer) initAgent(agent *agentinstall.Agent, host *view.Host,
	env *view.InfraEnv) (applied bool, err error) {
	namespace, name := objects.SplitKey(env.Object.Key)
	var owner agentinstall.InfraEnv
	err = p.Objects.Get(p.tx, objects.InfraEnvs, namespace, name, &owner)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	agent.Spec = agentinstall.AgentSpec{}
	if agent.Spec.ClusterDeploymentName, err = p.clusterOf(host); err != nil {
		return false, err
	}
	agent.Labels = cloned(owner.Spec.AgentLabels)
	agent.Labels[labelInfraEnv] = name
	agent.OwnerReferences = []metav1.OwnerReference{{APIVersion: objects.InfraEnvs.APIVersion(),
		Kind: objects.InfraEnvs.Kind, Name: name, UID: owner.UID}}
	agent.Spec.Approved = approvesAll(&owner)
	inheritNodeLabels(agent, &owner)
	return len(agent.Spec.NodeLabels) == 0, nil
}

// clusterOf returns the ClusterDeployment of a host's cluster; nil if the host has no cluster or
// the cluster has no ClusterDeployment.
func (p writer) clusterOf(host *view.Host) (*agentinstall.ClusterReference, error) {
	if host.ClusterID == nil {
		return nil, nil
	}
	cluster, err := p.rows.Cluster(host.ClusterID.String())
	if err != nil || cluster.Object.Key == "" {
		return nil, err
	}
	namespace, name := objects.SplitKey(cluster.Object.Key)
	return &agentinstall.ClusterReference{Namespace: namespace, Name: name}, nil
}

// updateAgent writes a host into its existing Agent.
func (p writer) updateAgent(place string, host *view.Host, env *view.InfraEnv,
	outcome *agentinstall.Condition) error {
	namespace, name := objects.SplitKey(place)
	_, envName := objects.SplitKey(env.Object.Key)
	bound, err := p.clusterOf(host)
	if err != nil {
		return err
	}
	edit, err := objects.Edit[agentinstall.Agent](p.Objects, p.tx, objects.Agents, namespace, name)
	if err != nil {
		return err
	}
	agent, moved, changed := edit.Object, false, false
	if of := agent.Labels[labelInfraEnv]; of != envName {
		if moved = of != ""; moved {
			if _, err := p.initAgent(agent, host, env); err != nil {
				return err
			}
		}
		agent.Labels = cloned(agent.Labels)
		agent.Labels[labelInfraEnv] = envName
	}
	if !moved && host.Object.Key == place && host.Object.Generation == agent.Generation {
		changed = writeBackHost(&agent.Spec, host, bound)
	}
	if outcome != nil {
		agent.Status.Conditions = setAgentCondition(agent.Status.Conditions, p.now, *outcome)
	}
	if err := setAgentStatus(agent, host.Host, p.URL, p.now); err != nil {
		return err
	}
	setJoining(agent, host.Joining, p.now)
	generation, err := edit.Save(p.Objects, p.tx, p.now)
	if err != nil {
		return err
	}
	note := record.Object{Key: place}
	if changed {
		note.Generation = generation
	}
	return record.NoteHostObject(p.tx, host.Key(), note)
}

// projectDeletedHost deletes the Agent of a deleted host. It keeps the Agent if the machine has
// registered in another infra-env.
func (p writer) projectDeletedHost(of record.Object) error {
	if of.Key == "" {
		return nil
	}
	other, err := p.rows.HostOf(of.Key)
	if err != nil || other != "" {
		return err
	}
	namespace, name := objects.SplitKey(of.Key)
	return p.deleteAndFinalize(objects.Agents, namespace, name, agentFinalizer)
}
