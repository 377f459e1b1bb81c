package apply

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"landfall/appliance/kube/objects"
)

// ClusterName is the name of a cluster's ClusterDeployment.
type ClusterName struct{ Namespace, Name string }

// String returns the name in its namespace, because clusters in several namespaces may share it.
func (n ClusterName) String() string { return n.Namespace + "/" + n.Name }

// ClustersToRemove returns the clusters on the appliance that the deletion of the objects removes.
// A cluster goes with its ClusterDeployment, its AgentClusterInstall, the namespace of both, and
// the definition of either kind.
func ClustersToRemove(ctx context.Context, server *Server, list []*Object, options Options) ([]ClusterName, error) {
	l := &lookup{server: server, list: list, options: options}
	namespaces := map[string]bool{}
	for _, o := range list {
		switch {
		case o.Is(objects.Namespaces):
			namespaces[o.Name] = true
		case o.Is(objects.ClusterDeployments), o.Is(objects.AgentClusterInstalls):
			namespaces[l.namespace(o)] = true
		case o.definesClusters():
			namespaces = map[string]bool{"": true} // all namespaces
		}
		if namespaces[""] {
			break
		}
	}
	var names []ClusterName
	for namespace := range maps.Keys(namespaces) {
		deployments, err := server.List(ctx, objects.ClusterDeployments, namespace)
		if isNotFound(err) {
			continue // the appliance has no such kind
		}
		if err != nil {
			return nil, fmt.Errorf("list the clusters that the deletion removes: %w", err)
		}
		for _, deployment := range deployments {
			if slices.ContainsFunc(list, func(o *Object) bool { return l.removes(o, deployment) }) {
				names = append(names, ClusterName{textAt(deployment, "metadata", "namespace"),
					textAt(deployment, "metadata", "name")})
			}
		}
	}
	slices.SortFunc(names, func(a, b ClusterName) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	return names, nil
}

// definesClusters reports whether the object defines a kind without which there are no clusters.
func (o *Object) definesClusters() bool {
	return o.Kind == "CustomResourceDefinition" && o.group() == "apiextensions.k8s.io" &&
		(o.Name == objects.ClusterDeployments.String() || o.Name == objects.AgentClusterInstalls.String())
}

// removes reports whether the deletion of an object removes the cluster of a ClusterDeployment.
func (l *lookup) removes(o *Object, deployment map[string]any) bool {
	namespace := textAt(deployment, "metadata", "namespace")
	switch {
	case o.definesClusters():
		return true
	case o.Is(objects.Namespaces):
		return o.Name == namespace
	case o.Is(objects.ClusterDeployments):
		return l.namespace(o) == namespace && o.Name == textAt(deployment, "metadata", "name")
	case o.Is(objects.AgentClusterInstalls):
		return l.namespace(o) == namespace && o.Name == textAt(deployment, "spec", "clusterInstallRef", "name")
	}
	return false
}
