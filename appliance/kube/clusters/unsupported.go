package clusters

import (
	"context"
	"fmt"

	hivev1 "github.com/openshift/hive/apis/hive/v1"

	"landfall/appliance/kube/objects"
	"landfall/store"
)

// reportUnsupportedInstall writes an Event about a ClusterDeployment whose clusterInstallRef names
// a kind that the appliance does not install. In most cases the user has made a mistake.
func (c *Controller) reportUnsupportedInstall(ctx context.Context, s *snapshot) error {
	if s.cd.Spec.ClusterInstallRef == nil || s.cd.DeletionTimestamp != nil {
		return nil
	}
	return c.update(ctx, func(tx *store.Tx) error {
		return c.Objects.EventOnce(tx, objects.ClusterDeployments, s.namespace, s.name, objects.EventContent{
			Component: objects.AgentController, Warning: true, Reason: "UnsupportedClusterInstall",
			Message: faultOfInstallRef(s.cd),
		}, c.Clock.Now().UTC())
	})
}

// faultOfInstallRef returns a sentence about a clusterInstallRef of another kind; "" for none.
func faultOfInstallRef(cd *hivev1.ClusterDeployment) string {
	ref := cd.Spec.ClusterInstallRef
	if ref == nil || ref.Kind == clusterInstallKind && ref.Group == clusterInstallGroup {
		return ""
	}
	return fmt.Sprintf("The clusterInstallRef names the kind %s of %s, but this appliance installs only clusters of "+
		"the kind %s of %s. The reference can't be changed: delete the ClusterDeployment and apply it with the "+
		"correct reference.", ref.Kind, ref.Group, clusterInstallKind, clusterInstallGroup)
}
