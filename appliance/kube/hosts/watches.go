package hosts

import (
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// This file determines which InfraEnvs and Agents are queued when another object changes.

// reference returns the key of a referenced object in the index. An empty name refers to all
// objects of a namespace: the AgentClusterInstalls in the namespace of an InfraEnv's
// ClusterDeployment, the NMStateConfigs that the InfraEnv may select, and the Agents that may block
// its deletion.
func reference(kind objects.Kind, namespace, name string) string {
	return kind.Resource + "/" + namespace + "/" + name
}

// referencesOf lists the references of an InfraEnv.
func referencesOf(env *agentinstall.InfraEnv) (refs []string) {
	if ref := env.Spec.ClusterRef; ref != nil {
		refs = append(refs, reference(objects.ClusterDeployments, ref.Namespace, ref.Name),
			reference(objects.AgentClusterInstalls, ref.Namespace, ""))
	}
	if ref := env.Spec.PullSecretRef; ref != nil {
		refs = append(refs, reference(objects.Secrets, env.Namespace, ref.Name))
	}
	if ref := env.Spec.MirrorRegistryRef; ref != nil {
		refs = append(refs, reference(objects.ConfigMaps, ref.Namespace, ref.Name))
	}
	if selector := env.Spec.NMStateConfigLabelSelector; len(selector.MatchLabels)+len(selector.MatchExpressions) > 0 {
		refs = append(refs, reference(objects.NMStateConfigs, env.Namespace, ""))
	}
	if env.DeletionTimestamp != nil {
		refs = append(refs, reference(objects.Agents, env.Namespace, ""))
	}
	return refs
}

// updateReferences stores the references of an InfraEnv in the index, and reports whether they
// changed. env is nil if the InfraEnv does not exist.
func (h *Controllers) updateReferences(namespace, name string, env *agentinstall.InfraEnv) (changed bool) {
	var refs []string
	if env != nil {
		refs = referencesOf(env)
	}
	return h.references.Set(key{Kind: objects.InfraEnvs, Namespace: namespace, Name: name}, refs)
}

// listReferences lists the references of all InfraEnvs.
func listReferences(tx *store.Tx, add func(key, []string)) error {
	return objects.EachStored(tx, objects.InfraEnvs, func(env *agentinstall.InfraEnv) error {
		add(key{Kind: objects.InfraEnvs, Namespace: env.Namespace, Name: env.Name}, referencesOf(env))
		return nil
	})
}

// infraEnvsReferringTo finds the InfraEnvs that refer to an object of a kind.
func (h *Controllers) infraEnvsReferringTo(kind objects.Kind) func(*store.Tx, string, string) ([]key, error) {
	return func(tx *store.Tx, namespace, name string) ([]key, error) {
		return h.references.To(tx, reference(kind, namespace, name))
	}
}

// infraEnvsOfNamespace finds the InfraEnvs that may refer to an object of a kind in its namespace.
// An AgentClusterInstall is in the namespace of its ClusterDeployment, and the cluster is
// registered once both exist. A change that removes an NMStateConfig's label also affects an
// InfraEnv.
func (h *Controllers) infraEnvsOfNamespace(kind objects.Kind) func(*store.Tx, string, string) ([]key, error) {
	return func(tx *store.Tx, namespace, _ string) ([]key, error) {
		return h.references.To(tx, reference(kind, namespace, ""))
	}
}

// agentsOfInfraEnv finds the Agents of an InfraEnv by the engine's hosts. It does not read the
// Agents, because they are large, and an InfraEnv changes often while its hosts register.
func (h *Controllers) agentsOfInfraEnv(tx *store.Tx, namespace, name string) ([]key, error) {
	rows := h.Engine.Rows(tx)
	id, err := rows.InfraEnvOf(namespace + "/" + name)
	if err != nil || id == "" {
		return nil, err
	}
	ids, err := rows.InfraEnvHostIDs(id)
	if err != nil {
		return nil, err
	}
	keys := make([]key, 0, len(ids))
	for _, id := range ids {
		keys = append(keys, key{Kind: objects.Agents, Namespace: namespace, Name: id})
	}
	return keys, nil
}

// agentsOfNamespace finds the Agents of a namespace, because an AgentClassification applies to all
// of them.
func (h *Controllers) agentsOfNamespace(tx *store.Tx, namespace, _ string) ([]key, error) {
	var keys []key
	err := objects.Names(tx, objects.Agents, namespace, func(namespace, name string) error {
		keys = append(keys, key{Kind: objects.Agents, Namespace: namespace, Name: name})
		return nil
	})
	return keys, err
}
