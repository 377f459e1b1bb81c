package hive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-openapi/swag/conv"

	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// refuseInstall says of a ClusterDeployment that nobody here installs it, which is a slip of the
// pen more often than intent.
func (c *Clusters) refuseInstall(ctx context.Context, s *situation) error {
	ref := s.cd.Spec.ClusterInstallRef
	if ref == nil || s.cd.DeletionTimestamp != nil {
		return nil
	}
	return c.update(ctx, func(tx *store.Tx) error {
		return tellOnce(tx, c.Objects, objects.ClusterDeployments, s.namespace, s.name, objects.Notice{
			Component: componentHosts, Warning: true, Reason: "UnsupportedClusterInstall", Message: fmt.Sprintf(
				"The clusterInstallRef names the kind %s of %s, and clusters are installed here by %s of %s alone. "+
					"The reference can't be changed: delete the ClusterDeployment and apply it with the right one.",
				ref.Kind, ref.Group, clusterInstallKind, clusterInstallGroup),
		}, c.Clock.Now().UTC())
	})
}

// noDelay is what an InfraEnv hears that asks for a delay. Upstream's script looks for the cards
// once, and is delayed for those that come late.
func noDelay(spec *agentinstall.InfraEnvSpec) (objects.Notice, bool) {
	if conv.Value(spec.NetworkDiscoveryDelaySeconds) == 0 {
		return objects.Notice{}, false
	}
	return objects.Notice{
		Component: componentHosts, Reason: "NetworkDiscoveryDelayLeftOut",
		Message: "networkDiscoveryDelaySeconds has no effect: hosts look for the network cards that " +
			"NMStateConfigs name " +
			"until all are there, for up to 30 seconds, and go on at once then.",
	}, true
}

// tellOnce writes an Event about an object, unless it is there from before.
func tellOnce(tx *store.Tx, o *objects.Objects, kind objects.Kind, namespace, name string, notice objects.Notice,
	now time.Time) error {
	about, err := o.Metadata(tx, kind, namespace, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || o.Exists(tx, objects.Events, namespace, objects.EventName(about, notice)) {
		return err
	}
	return o.Event(tx, about, notice, now)
}
