package apply

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"landfall/appliance/kube/objects"
)

// This file finds mistakes that the API accepts and does not warn about, because it does not know
// which objects are applied next.

// warnings returns a warning about an object that can be applied but has no effect; "" for none.
func (l *lookup) warnings(ctx context.Context, o *Object) (string, error) {
	switch {
	case o.Is(objects.NMStateConfigs):
		return l.unselectedConfig(ctx, o)
	case o.Is(objects.AgentClusterInstalls):
		return l.wrongHostCount(o), nil
	}
	return "", nil
}

// unselectedConfig warns if no InfraEnv selects an NMStateConfig: its host would boot without that
// configuration.
func (l *lookup) unselectedConfig(ctx context.Context, o *Object) (string, error) {
	namespace, own := l.namespace(o), stringsOf(o.at("metadata", "labels"))
	selects := func(infraEnv any) bool {
		required, _ := valueAt(infraEnv, "spec", "nmStateConfigLabelSelector", "matchLabels").(map[string]any)
		expressions := list(valueAt(infraEnv, "spec", "nmStateConfigLabelSelector", "matchExpressions"))
		return len(expressions) > 0 || len(required) > 0 && labels.SelectorFromSet(stringsOf(required)).Matches(own)
	}
	for _, other := range l.of(objects.InfraEnvs) {
		if l.namespace(other) == namespace && selects(other.Content) {
			return "", nil
		}
	}
	known, err := l.server.List(ctx, objects.InfraEnvs, namespace)
	if fatal(err) != nil {
		return "", err
	}
	for _, content := range known {
		if selects(content) {
			return "", nil
		}
	}
	return fmt.Sprintf("%s is selected by no InfraEnv of the namespace %s; give it the labels of an InfraEnv's "+
		"spec.nmStateConfigLabelSelector", o, namespace), nil
}

// wrongHostCount warns if the number of BareMetalHosts differs from the number of hosts of the
// cluster: the installation starts with exactly that number. Without BareMetalHosts, users boot the
// machines themselves.
func (l *lookup) wrongHostCount(o *Object) string {
	required := int64(0)
	for _, field := range []string{"controlPlaneAgents", "workerAgents", "arbiterAgents"} {
		if number, ok := o.at("spec", "provisionRequirements", field).(json.Number); ok {
			if n, err := number.Int64(); err == nil {
				required += n
			}
		}
	}
	namespace, cluster := l.namespace(o), o.text("spec", "clusterDeploymentRef", "name")
	var servers int64
	for _, infraEnv := range l.of(objects.InfraEnvs) {
		if infraEnv.text("spec", "clusterRef", "name") != cluster || infraEnv.text("spec", "clusterRef",
			"namespace") != namespace {
			continue
		}
		for _, host := range l.of(objects.BareMetalHosts) {
			if host.text("metadata", "labels", infraEnvLabel) == infraEnv.Name &&
				l.namespace(host) == l.namespace(infraEnv) {
				servers++
			}
		}
	}
	if servers == 0 || servers == required {
		return ""
	}
	return fmt.Sprintf("%s requires %d hosts in spec.provisionRequirements, but %d BareMetalHosts boot the image of "+
		"its "+
		"InfraEnvs; the installation starts automatically with exactly the required number", o, required, servers)
}
