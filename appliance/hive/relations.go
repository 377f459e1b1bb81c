package hive

import (
	"landfall/appliance/objects"
	"landfall/appliance/objects/agentinstall"
	"landfall/store"
)

// Which InfraEnvs and Agents are looked at again when something that they refer to changes.

func (h *Hosts) infraEnvsOfCluster(tx *store.Tx, namespace, name string) ([]key, error) {
	return h.infraEnvsWith(tx, "", func(env *agentinstall.InfraEnv) bool {
		return env.Spec.ClusterRef != nil && *env.Spec.ClusterRef == agentinstall.ClusterReference{Namespace: namespace, Name: name}
	})
}

// infraEnvsOfNamespace is for AgentClusterInstalls: their ClusterDeployments are of the same namespace, and a cluster is registered once
// both are there.
func (h *Hosts) infraEnvsOfNamespace(tx *store.Tx, namespace, _ string) ([]key, error) {
	return h.infraEnvsWith(tx, "", func(env *agentinstall.InfraEnv) bool {
		return env.Spec.ClusterRef != nil && env.Spec.ClusterRef.Namespace == namespace
	})
}

func (h *Hosts) infraEnvsOfSecret(tx *store.Tx, namespace, name string) ([]key, error) {
	return h.infraEnvsWith(tx, namespace, func(env *agentinstall.InfraEnv) bool {
		return env.Spec.PullSecretRef != nil && env.Spec.PullSecretRef.Name == name
	})
}

func (h *Hosts) infraEnvsOfConfigMap(tx *store.Tx, namespace, name string) ([]key, error) {
	return h.infraEnvsWith(tx, "", func(env *agentinstall.InfraEnv) bool {
		return env.Spec.MirrorRegistryRef != nil && *env.Spec.MirrorRegistryRef == agentinstall.MirrorRegistryReference{Namespace: namespace, Name: name}
	})
}

// agentsOfInfraEnv finds the Agents by the engine's rows: Agents are large, and an InfraEnv changes often while its hosts register.
func (h *Hosts) agentsOfInfraEnv(tx *store.Tx, namespace, name string) ([]key, error) {
	rows := h.engine.Rows(tx)
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

// agentsOfNamespace is for AgentClassifications, which look at all Agents of their namespace.
func (h *Hosts) agentsOfNamespace(tx *store.Tx, namespace, _ string) ([]key, error) {
	var keys []key
	err := objects.Names(tx, objects.Agents, namespace, func(namespace, name string) error {
		keys = append(keys, key{Kind: objects.Agents, Namespace: namespace, Name: name})
		return nil
	})
	return keys, err
}
