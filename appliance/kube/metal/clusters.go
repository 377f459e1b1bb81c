package metal

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// managedClusters reconciles ManagedClusters. They are stored for the hub that will import the
// cluster. The only condition reports whether spec.hubAcceptsClient is set: the appliance does not
// check whether an agent has joined a hub. KlusterletAddonConfigs have no status and are stored
// without changes.
type managedClusters struct{ *Controllers }

// Kind implements controller.Reconciler.
func (m managedClusters) Kind() objects.Kind { return objects.ManagedClusters }

// Watches implements controller.Reconciler.
func (m managedClusters) Watches() []controller.Watch { return nil }

// Reconcile implements controller.Reconciler.
func (m managedClusters) Reconcile(ctx context.Context, _, name string) (time.Duration, error) {
	return 0, m.DB.Update(ctx, func(tx *store.Tx) error {
		cluster, err := objects.Find[clusterv1.ManagedCluster](m.Objects, tx, objects.ManagedClusters, "", name)
		if err != nil || cluster == nil {
			return err
		}
		if !describeManagedCluster(cluster, m.now()) {
			return nil
		}
		status, err := general(cluster.Status)
		if err != nil {
			return err
		}
		return m.Objects.Update(tx, objects.ManagedClusters, "", name, func(u *unstructured.Unstructured) error {
			return unstructured.SetNestedField(u.Object, status["conditions"], "status", "conditions")
		})
	})
}

// describeManagedCluster sets the condition of a ManagedCluster with the texts of Open Cluster
// Management's hub.
func describeManagedCluster(cluster *clusterv1.ManagedCluster, now time.Time) (changed bool) {
	condition := metav1.Condition{
		Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue,
		Reason:  "HubClusterAdminAccepted",
		Message: "Accepted by hub cluster admin", LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	if !cluster.Spec.HubAcceptsClient {
		if meta.FindStatusCondition(cluster.Status.Conditions, condition.Type) == nil {
			return false
		}
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "HubClusterAdminDenied",
			"Denied by hub cluster admin"
	}
	return meta.SetStatusCondition(&cluster.Status.Conditions, condition)
}
