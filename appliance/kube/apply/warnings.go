package apply

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"landfall/appliance/kube/objects"
)

// Slips of the pen that nobody refuses, and because of which nothing happens.

// slips says what is wrong with an object although it could be applied, "" for nothing.
func (l *lookup) slips(ctx context.Context, o *Object) (string, error) {
	switch {
	case o.Is(objects.ClusterDeployments):
		return l.installedByNobody(o), nil
	case o.Is(objects.NMStateConfigs):
		return l.unused(ctx, o)
	case o.Is(objects.AgentClusterInstalls):
		return l.miscounted(o), nil
	}
	return "", nil
}

func (l *lookup) installedByNobody(o *Object) string {
	kind, group := o.text("spec", "clusterInstallRef", "kind"), o.text("spec", "clusterInstallRef", "group")
	if kind == "" || kind == objects.AgentClusterInstalls.Kind && group == objects.AgentClusterInstalls.Group {
		return ""
	}
	return fmt.Sprintf("%s names the kind %s of %s in spec.clusterInstallRef, and nobody installs its cluster then; "+
		"it is %s of %s here",
		o, kind, group, objects.AgentClusterInstalls.Kind, objects.AgentClusterInstalls.Group)
}

// unused says that no infra-env selects a network configuration: its host would boot without.
func (l *lookup) unused(ctx context.Context, o *Object) (string, error) {
	namespace, own := l.namespace(o), stringsOf(o.at("metadata", "labels"))
	selects := func(infraEnv any) bool {
		wanted, _ := valueAt(infraEnv, "spec", "nmStateConfigLabelSelector", "matchLabels").(map[string]any)
		expressions := list(valueAt(infraEnv, "spec", "nmStateConfigLabelSelector", "matchExpressions"))
		return len(expressions) > 0 || len(wanted) > 0 && labels.SelectorFromSet(stringsOf(wanted)).Matches(own)
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

// miscounted says that the servers which boot by BareMetalHosts are not as many as the cluster
// wants: it begins with exactly its number. Where there are none the machines are booted by hand.
func (l *lookup) miscounted(o *Object) string {
	wanted := int64(0)
	for _, field := range []string{"controlPlaneAgents", "workerAgents", "arbiterAgents"} {
		if number, ok := o.at("spec", "provisionRequirements", field).(json.Number); ok {
			if n, err := number.Int64(); err == nil {
				wanted += n
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
	if servers == 0 || servers == wanted {
		return ""
	}
	return fmt.Sprintf("%s wants %d hosts in spec.provisionRequirements, and %d BareMetalHosts boot the image of its "+
		"InfraEnvs; the installation begins by itself with exactly as many as are wanted", o, wanted, servers)
}
