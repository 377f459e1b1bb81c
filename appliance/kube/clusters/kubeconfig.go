package clusters

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"landfall/appliance/engine/view"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// Kubeconfig is a cluster's kubeconfig and its source.
type Kubeconfig struct {
	// Applied reports whether a user applied the ClusterDeployment. It is false if the appliance
	// created the ClusterDeployment, or if the cluster has none.
	Applied bool
	From    string // names the Secret in messages; "" without a ClusterDeployment
	Content []byte // nil if the Secret or its key does not exist
}

// Kubeconfig reads the kubeconfig of a cluster from the Secret that its ClusterDeployment names.
func (c Projector) Kubeconfig(tx *store.Tx, view *view.Cluster) (Kubeconfig, error) {
	var found Kubeconfig
	if view.Object.Key == "" {
		return found, nil
	}
	namespace, name := objects.SplitKey(view.Object.Key)
	cd, err := c.deployment(tx, namespace, name)
	if err != nil || cd == nil {
		return found, err
	}
	ref := kubeconfigSecret(cd)
	found.Applied, found.From = cd.Labels[labelGenerated] != "true", fmt.Sprintf("the Secret %s/%s", namespace, ref)
	secret := &corev1.Secret{}
	err = c.Objects.Get(tx, objects.Secrets, namespace, ref, secret)
	if errors.Is(err, store.ErrNotFound) {
		return found, nil
	}
	if content := secret.Data[secretKubeconfig]; len(content) > 0 {
		found.Content = content
	}
	return found, err
}
