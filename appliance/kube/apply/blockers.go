package apply

import (
	"context"
	"fmt"
	"slices"

	"landfall/appliance/kube/objects"
	"landfall/appliance/sentence"
)

// This file finds the reasons why an installation does not start: conditions of the cluster, and
// problems of its Agents.

// The follower polls the Agents once in agentPollRatio polls, because Agents are large objects.
const agentPollRatio = 5

// notStarted returns the reason why the installation of a cluster does not start; "" if it has
// started or the reason is unknown.
func notStarted(content map[string]any) string {
	if failed, why := condition(content, "LastInstallationPreparationFailed"); failed == "True" {
		if met := conditionOf(content, "RequirementsMet"); textAt(met, "reason") != "ClusterAlreadyInstalling" {
			return "the last preparation of the installation failed: " + why
		}
	}
	if c := conditionOf(content, "Completed"); textAt(c, "reason") == "InstallationOnHold" {
		return textAt(c, "message")
	}
	c := conditionOf(content, "RequirementsMet")
	if slices.Contains([]string{"InsufficientAgents", "UnsyncedAgents", "UnapprovedAgents"}, textAt(c, "reason")) {
		return textAt(c, "message")
	}
	return ""
}

// pollAgents reports the problems of the Agents that were booted from the applied infra-envs or
// belong to the clusters.
func (f *follower) pollAgents(ctx context.Context) error {
	var namespaces []string
	infraEnvs, clusters := map[string]bool{}, map[string]bool{}
	note := func(o *Object, names map[string]bool, name string) {
		namespace := f.namespace(o)
		names[namespace+"/"+name] = true
		if !slices.Contains(namespaces, namespace) {
			namespaces = append(namespaces, namespace)
		}
	}
	for _, o := range f.of(objects.InfraEnvs) {
		note(o, infraEnvs, o.Name)
	}
	for _, o := range f.of(objects.AgentClusterInstalls) {
		note(o, clusters, o.text("spec", "clusterDeploymentRef", "name"))
	}
	for _, namespace := range namespaces {
		agents, err := f.server.List(ctx, objects.Agents, namespace)
		if err != nil {
			return err
		}
		for _, agent := range agents {
			bound := textAt(agent, "spec", "clusterDeploymentName", "namespace") + "/" + textAt(agent, "spec",
				"clusterDeploymentName", "name")
			booted := namespace + "/" + textAt(agent, "metadata", "labels", "infraenvs.agent-install.openshift.io")
			if clusters[bound] || bound == "/" && infraEnvs[booted] {
				f.report("agent "+namespace+"/"+textAt(agent, "metadata", "name"), agentProblem(namespace, agent))
			}
		}
	}
	return nil
}

// agentProblem returns the problem of an Agent and what to do about it; "" for none.
func agentProblem(namespace string, agent map[string]any) string {
	id := textAt(agent, "metadata", "name")
	name := "agent.agent-install.openshift.io/" + id
	if hostname := textAt(agent, "status", "inventory", "hostname"); hostname != "" {
		name += " (" + hostname + ")"
	}
	for _, problem := range []struct{ condition, status, reason, advice string }{
		{"SpecSynced", "False", "", "correct the Agent, or the annotations of its BareMetalHost"},
		{"Cleanup", "False", "", adviceOutside},
		{"Connected", "False", "",
			"check on the machine's console that it runs the image and connects to the appliance"},
		{"Installed", "False", "InstallationFailed", "read its logs; the URL is in status.debugInfo.logsURL"},
		{"Joining", "False", "", adviceOutside},
		{"Validated", "False", "ValidationsFailing", "the host is validated again after each change"},
		{"Validated", "False", "ValidationsUserPending", "the host is validated again after each change"},
		{"RequirementsMet", "False", "AgentIsNotApproved",
			fmt.Sprintf("approve it: kubectl -n %s patch agents.agent-install.openshift.io %s --type merge -p "+
				"'{\"spec\":{\"approved\":true}}', "+
				"or set agentApproval.autoApprove in its InfraEnv", namespace, id)},
	} {
		c := conditionOf(agent, problem.condition)
		if textAt(c, "status") == problem.status && (problem.reason == "" || textAt(c, "reason") == problem.reason) {
			return fmt.Sprintf("%s: %s is %s, %s: %s; %s", name, problem.condition, problem.status, textAt(c, "reason"),
				sentence.Clause(textAt(c, "message")), problem.advice)
		}
	}
	return ""
}
