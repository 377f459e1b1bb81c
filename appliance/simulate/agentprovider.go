package simulate

import (
	"encoding/base64"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"landfall/appliance/simulate/pki"
)

// The collections with which an AgentProvider works.
const (
	AgentsPath   = "apis/agent-install.openshift.io/v1beta1/agents"
	installsPath = "apis/extensions.hive.openshift.io/v1beta1/agentclusterinstalls"
)

// AgentProvider is a stand-in for HyperShift on the Agent platform: for the provider of node pools
// (openshift/cluster-api-provider-agent), which chooses Agents and releases them. It has neither
// Machines nor nodes: an Agent whose host was added counts as a node.
type AgentProvider struct {
	cluster   *Spoke
	agents    string // namespace of the Agents
	authority []byte // the CA of the ignition server, in PEM
}

// NewAgentProvider returns a provider on a management cluster. The cluster then has the kinds of
// the multicluster engine operator, without an assisted service.
func NewAgentProvider(cluster *Spoke, agents string) *AgentProvider {
	cluster.Serve(AgentsPath, "Agent")
	cluster.Serve("apis/agent-install.openshift.io/v1beta1/agentserviceconfigs", "AgentServiceConfig")
	cluster.Serve(installsPath, "AgentClusterInstall")
	return &AgentProvider{cluster: cluster, agents: agents}
}

// Reconcile lets a node pool have as many Agents as it wants, if there are enough. It returns the
// number of its nodes.
func (p *AgentProvider) Reconcile(controlPlane string, nodePool map[string]any) (nodes int, err error) {
	pool := &unstructured.Unstructured{Object: nodePool}
	wanted, _, err := unstructured.NestedFieldNoCopy(nodePool, "spec", "replicas")
	if err != nil {
		return 0, err
	}
	matching, _, err := unstructured.NestedStringMap(nodePool, "spec", "platform", "agent", "agentLabelSelector",
		"matchLabels")
	if err != nil {
		return 0, err
	}
	if p.authority == nil {
		ca, err := pki.NewCA("ignition", "simulation", pki.TenYears)
		if err != nil {
			return 0, err
		}
		p.authority = ca.Cert
	}
	p.publish(controlPlane, pool.GetName())
	var free, used []*unstructured.Unstructured
	for _, agent := range p.cluster.Objects(AgentsPath, p.agents) {
		machine := agent.GetLabels()["agentMachineRef"]
		switch {
		case agent.GetAnnotations()["agentMachineRefNamespace"] == controlPlane &&
			strings.HasPrefix(machine, pool.GetName()+"-"):
			used = append(used, agent)
		case machine == "" && isValidAgent(agent) && labels.SelectorFromSet(matching).Matches(labels.Set(agent.GetLabels())):
			free = append(free, agent)
		}
	}
	count := int(number(wanted))
	for len(used) < count && len(free) > 0 {
		p.choose(free[0].GetName(), controlPlane, pool.GetName())
		used, free = append(used, free[0]), free[1:]
	}
	for len(used) > count {
		p.release(used[len(used)-1].GetName())
		used = used[:len(used)-1]
	}
	for _, agent := range used {
		if state, _, _ := unstructured.NestedString(agent.Object, "status", "debugInfo", "state"); state ==
			"added-to-existing-cluster" {
			nodes++
		}
	}
	return nodes, nil
}

// publish writes what HyperShift and the provider write for a hosted cluster with a node pool.
func (p *AgentProvider) publish(controlPlane, pool string) {
	secret := func(name, key, value string) {
		p.cluster.Put("api/v1/secrets", map[string]any{"metadata": map[string]any{"namespace": controlPlane,
			"name": name}, "data": map[string]any{key: base64.StdEncoding.EncodeToString([]byte(value))}})
	}
	secret("ignition-server-ca-cert", "tls.crt", string(p.authority))
	secret("agent-user-data-"+pool, "ignition-token", "token of "+pool)
	p.cluster.Put(installsPath, map[string]any{"metadata": map[string]any{"namespace": controlPlane, "name": "hosted"},
		"spec": map[string]any{"ignitionEndpoint": map[string]any{
			"url":                    "https://ignition." + controlPlane + ".test:443",
			"caCertificateReference": map[string]any{"namespace": controlPlane, "name": "ignition-server-ca-cert"}}}})
}

// choose writes the choice of a node pool into an Agent.
func (p *AgentProvider) choose(agent, controlPlane, pool string) {
	p.cluster.Change(AgentsPath, p.agents, agent, func(u *unstructured.Unstructured) {
		all := u.GetLabels()
		all["agentMachineRef"] = fmt.Sprintf("%s-%.8s", pool, u.GetUID())
		u.SetLabels(all)
		all = u.GetAnnotations()
		all["agentMachineRefNamespace"] = controlPlane
		u.SetAnnotations(all)
		spec := u.Object["spec"].(map[string]any)
		spec["clusterDeploymentName"] = map[string]any{"namespace": controlPlane, "name": "hosted"}
		spec["machineConfigPool"] = "ignition"
		spec["ignitionEndpointTokenReference"] = map[string]any{"namespace": controlPlane,
			"name": "agent-user-data-" + pool}
		spec["ignitionEndpointHTTPHeaders"] = map[string]any{"NodePool": "clusters/" + pool}
	})
}

// release takes an Agent out of its node pool.
func (p *AgentProvider) release(agent string) {
	p.cluster.Change(AgentsPath, p.agents, agent, func(u *unstructured.Unstructured) {
		all := u.GetLabels()
		delete(all, "agentMachineRef")
		u.SetLabels(all)
		all = u.GetAnnotations()
		delete(all, "agentMachineRefNamespace")
		u.SetAnnotations(all)
		spec := u.Object["spec"].(map[string]any)
		for _, name := range []string{"clusterDeploymentName", "ignitionEndpointTokenReference",
			"ignitionEndpointHTTPHeaders", "machineConfigPool"} {
			delete(spec, name)
		}
	})
}

// isValidAgent reports whether the provider can choose an Agent.
func isValidAgent(agent *unstructured.Unstructured) bool {
	approved, _, _ := unstructured.NestedBool(agent.Object, "spec", "approved")
	conditions, _, _ := unstructured.NestedSlice(agent.Object, "status", "conditions")
	status := map[any]any{}
	for _, c := range conditions {
		condition := c.(map[string]any)
		status[condition["type"]] = condition["status"]
	}
	return approved && status["Bound"] == "False" && status["Connected"] == "True" && status["Validated"] == "True"
}

func number(value any) int64 {
	switch v := value.(type) {
	case int64:
		return v
	case float64:
		return int64(v)
	}
	return 0
}
