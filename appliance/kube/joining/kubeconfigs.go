package joining

import (
	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/appliance/kube/clusters"
	"landfall/store"
)

// Kubeconfigs finds the kubeconfigs of installed clusters.
type Kubeconfigs struct {
	// Objects reads the Secrets that ClusterDeployments name; nil while the Kubernetes API is
	// disabled.
	Objects *clusters.Projector
}

// Find returns the kubeconfig of a cluster from the Secret that its ClusterDeployment names, else
// from the files of its installation. The content is nil if the cluster has no kubeconfig.
func (k Kubeconfigs) Find(tx *store.Tx, rows view.Rows,
	id string) (found clusters.Kubeconfig, view *view.Cluster, err error) {
	if view, err = rows.Cluster(id); err != nil {
		return found, nil, err
	}
	if k.Objects != nil {
		if found, err = k.Objects.Kubeconfig(tx, view); err != nil || found.Content != nil {
			return found, view, err
		}
	}
	file := "kubeconfig-noingress"
	if view.Complete {
		file = "kubeconfig"
	}
	content, err := rows.ClusterFile(id, file)
	if fault.KindOf(err) == fault.NotFound {
		return found, view, nil
	}
	if err == nil {
		found.Content, found.From = content, "the files of cluster "+view.Name
	}
	return found, view, err
}

// Followed reports whether the joining hosts of a cluster are observed. They are if the cluster has
// a kubeconfig, or if a user applied its ClusterDeployment and may add a kubeconfig later.
func (k Kubeconfigs) Followed(tx *store.Tx, rows view.Rows, id string) (bool, error) {
	found, _, err := k.Find(tx, rows, id)
	return found.Applied || len(found.Content) > 0, err
}
