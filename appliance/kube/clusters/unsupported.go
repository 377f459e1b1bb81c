package clusters

import (
	"context"
	"fmt"

	"landfall/appliance/kube/objects"
	"landfall/store"
)

// reportUnsupportedInstall writes an Event about a ClusterDeployment whose clusterInstallRef names
// a kind that the appliance does not install. In most cases the user has made a mistake.
func (c *Controller) reportUnsupportedInstall(ctx context.Context, s *snapshot) error {
	ref := s.cd.Spec.ClusterInstallRef
	if ref == nil || s.cd.DeletionTimestamp != nil {
		return nil
	}
	return c.update(ctx, func(tx *store.Tx) error {
		return c.Objects.EventOnce(tx, objects.ClusterDeployments, s.namespace, s.name, objects.EventContent{
			Component: objects.AgentController, Warning: true, Reason: "UnsupportedClusterInstall",
			Message: fmt.Sprintf(
				"The clusterInstallRef names the kind %s of %s, but this appliance installs only clusters of the "+
					"kind %s of %s. "+
					"The reference can't be changed: delete the ClusterDeployment and apply it with the correct "+
					"reference.",
				ref.Kind, ref.Group, clusterInstallKind, clusterInstallGroup),
		}, c.Clock.Now().UTC())
	})
}
