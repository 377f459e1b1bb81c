package clusters

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// Order of deletion: the deletion of a ClusterDeployment deletes its AgentClusterInstall and waits
// for it. The deletion of the AgentClusterInstall deletes the engine's cluster. The transaction of
// that deletion removes the finalizers of both.

// cancellable are the states in which the installation must be cancelled before the cluster can be
// deleted.
var cancellable = []string{
	models.ClusterStatusPreparingForInstallation, models.ClusterStatusInstalling,
	models.ClusterStatusInstallingPendingUserAction,
	models.ClusterStatusFinalizing, models.ClusterStatusError,
}

// reconcileMissingDeployment deletes the cluster of a ClusterDeployment that does not exist, and
// reports the missing ClusterDeployment in the AgentClusterInstalls that name it.
func (c *Controller) reconcileMissingDeployment(ctx context.Context, s *snapshot) error {
	if err := c.removeCluster(ctx, s, false); err != nil {
		return err
	}
	return c.update(ctx, func(tx *store.Tx) error {
		now := c.Clock.Now()
		if c.Objects.Exists(tx, objects.ClusterDeployments, s.namespace, s.name) {
			return nil
		}
		return c.Objects.Each(tx, objects.AgentClusterInstalls, s.namespace, func(u *unstructured.Unstructured) error {
			if ref, _, err := unstructured.NestedString(u.Object, "spec", "clusterDeploymentRef", "name"); err != nil ||
				ref != s.name {
				return err
			}
			return objects.IgnoreNotFound(c.updateInstall(tx, s.namespace, u.GetName(),
				func(aci *hiveext.AgentClusterInstall) error {
					if aci.DeletionTimestamp != nil {
						aci.Finalizers = without(aci.Finalizers, clusterInstallFinalizer)
						return nil
					}
					failure := inputError("ClusterDeployment with name '%s' in namespace '%s' not found. Ensure that "+
						"it is "+
						"applied", s.name, s.namespace)
					setInstallConditions(aci, now, append(conditionsWithoutCluster(), clusterSynced(failure))...)
					aci.Status.DebugInfo = hiveext.DebugInfo{}
					return nil
				}))
		})
	})
}

// reconcileMissingInstall deletes the cluster of a ClusterDeployment whose AgentClusterInstall
// does not exist.
func (c *Controller) reconcileMissingInstall(ctx context.Context, s *snapshot) error {
	if err := c.removeCluster(ctx, s, s.cd.Spec.PreserveOnDelete); err != nil {
		return err
	}
	if s.cd.DeletionTimestamp == nil {
		return nil
	}
	return c.update(ctx, func(tx *store.Tx) error {
		return c.removeDeploymentFinalizer(tx, s.namespace, s.name,
			c.Clock.Now())
	})
}

// finalizeInstall deletes the cluster of an AgentClusterInstall that is being deleted.
func (c *Controller) finalizeInstall(ctx context.Context, s *snapshot) error {
	if err := c.removeCluster(ctx, s, s.cd.Spec.PreserveOnDelete); err != nil {
		return err
	}
	// necessary for a cluster that was never registered: its objects are not projected
	return c.update(ctx, func(tx *store.Tx) error {
		if err := c.removeInstallFinalizer(tx, s.namespace, s.aci.Name); err != nil {
			return err
		}
		cd, err := c.deployment(tx, s.namespace, s.name)
		if err != nil || cd == nil || cd.DeletionTimestamp == nil {
			return err
		}
		return c.removeDeploymentFinalizer(tx, s.namespace, s.name, c.Clock.Now())
	})
}

// removeCluster deletes the engine's cluster in any state. With preserve, its late-bound hosts are
// deregistered instead of unbound, because they keep running this cluster.
func (c *Controller) removeCluster(ctx context.Context, s *snapshot, preserve bool) error {
	if s.view == nil {
		return nil
	}
	id := s.view.ID.String()
	// The engine asks this too, but only after the joining hosts were reset.
	if c.KeepCluster != nil {
		if err := c.DB.View(func(tx *store.Tx) error { return c.KeepCluster(tx, id) }); err != nil {
			return fmt.Errorf("delete cluster %s: %w", id, err)
		}
	}
	if err := c.resetJoiningHosts(ctx, id); err != nil {
		return err
	}
	if slices.Contains(cancellable, *s.view.Status) {
		if _, err := c.Engine.CancelInstallation(ctx, id); err != nil && fault.KindOf(err) != fault.Conflict &&
			fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
	if preserve {
		if err := c.deregisterHosts(ctx, id); err != nil {
			return err
		}
	}
	if err := c.Engine.DeregisterCluster(ctx, id, false); err != nil && fault.KindOf(err) != fault.NotFound {
		return fmt.Errorf("delete cluster %s: %w", id, err)
	}
	return nil
}

// resetJoiningHosts ends the installations of hosts that join the cluster. The engine does not
// delete a cluster with such hosts, and no manifest can reset them.
func (c *Controller) resetJoiningHosts(ctx context.Context, id string) error {
	hosts, err := c.hostsOf(id)
	if err != nil {
		return err
	}
	for _, host := range hosts {
		if conv.Value(host.Kind) != models.HostKindAddToExistingClusterHost ||
			!slices.Contains(lifecycle.HostInstallingStates, *host.Status) {
			continue
		}
		if _, err := c.Engine.ResetHost(ctx, host.InfraEnvID.String(), host.ID.String()); err != nil &&
			fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
	return nil
}

func (c *Controller) hostsOf(id string) (hosts []*view.Host, err error) {
	err = c.DB.View(func(tx *store.Tx) (err error) {
		hosts, err = c.Engine.Rows(tx).ClusterHosts(id)
		return err
	})
	return hosts, err
}

func (c *Controller) deregisterHosts(ctx context.Context, id string) error {
	hosts, err := c.hostsOf(id)
	if err != nil {
		return err
	}
	for _, host := range hosts {
		if err := c.Engine.DeregisterHost(ctx, host.InfraEnvID.String(), host.ID.String()); err != nil &&
			fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
	return nil
}

// projectDeletion removes the finalizers in the transaction that deletes the engine's cluster. If
// no object is being deleted, the cluster was deleted over REST or in the browser; then both
// objects are deleted.
func (c Projector) projectDeletion(tx *store.Tx, object record.Object, now time.Time) error {
	namespace, name, ok := strings.Cut(object.Key, "/")
	if !ok {
		return nil
	}
	cd, err := c.deployment(tx, namespace, name)
	if err != nil || cd == nil || cd.Spec.ClusterInstallRef == nil {
		return err
	}
	aci, err := c.install(tx, namespace, cd.Spec.ClusterInstallRef.Name)
	if err != nil {
		return err
	}
	byObjects := cd.DeletionTimestamp != nil || aci == nil || aci.DeletionTimestamp != nil
	if aci != nil {
		if !byObjects || cd.DeletionTimestamp != nil {
			if err := c.Objects.Delete(tx, objects.AgentClusterInstalls, namespace, aci.Name, now); err != nil {
				return err
			}
		}
		if err := c.removeInstallFinalizer(tx, namespace, aci.Name); err != nil {
			return err
		}
	}
	if !byObjects {
		if err := c.Objects.Delete(tx, objects.ClusterDeployments, namespace, name, now); err != nil {
			return err
		}
	} else if cd.DeletionTimestamp == nil {
		return nil
	}
	if err := c.removeDeploymentFinalizer(tx, namespace, name, now); err != nil || byObjects {
		return err
	}
	imageSet := ""
	if aci != nil {
		imageSet = imageSetName(aci)
	}
	return c.deleteGenerated(tx, cd, imageSet, now)
}

func (c Projector) removeInstallFinalizer(tx *store.Tx, namespace, name string) error {
	return objects.IgnoreNotFound(c.updateInstall(tx, namespace, name, func(aci *hiveext.AgentClusterInstall) error {
		if aci.DeletionTimestamp != nil {
			aci.Finalizers = without(aci.Finalizers, clusterInstallFinalizer)
		}
		return nil
	}))
}

// removeDeploymentFinalizer removes the finalizer of a ClusterDeployment that is being deleted,
// and its Secrets.
func (c Projector) removeDeploymentFinalizer(tx *store.Tx, namespace, name string, now time.Time) error {
	return objects.IgnoreNotFound(c.updateDeployment(tx, namespace, name, func(cd *hivev1.ClusterDeployment) error {
		if cd.DeletionTimestamp == nil {
			return nil
		}
		cd.Finalizers = without(cd.Finalizers, clusterDeploymentFinalizer)
		return c.deleteSecrets(tx, cd, now)
	}))
}

func without(list []string, item string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(held string) bool { return held == item })
}
