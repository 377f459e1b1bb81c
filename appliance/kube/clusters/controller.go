// Package clusters registers clusters in the engine from ClusterDeployments and
// AgentClusterInstalls, and writes the state of the engine's clusters into these objects. It does
// the work of the controllers of a hub (openshift/assisted-service,
// internal/controller/controllers; openshift/hive, pkg/controller/clusterdeployment).
//
// The two directions differ. Changes of objects are reconciled by calls of the engine. The
// transaction of such a call records the object on the engine's row, so that no cluster is created
// twice after a crash. Changes of the engine are projected: the objects are written in the engine's
// own transaction, so that engine and objects never disagree.
//
// Design: docs/design.md#clusterdeployments-and-agentclusterinstalls.
package clusters

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	corev1 "k8s.io/api/core/v1"

	"landfall/appliance/engine"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/appliance/mirror"
	"landfall/appliance/siteservice"
	"landfall/store"
)

// Names in the clusters' objects that users and other programs rely on.
const (
	clusterDeploymentFinalizer = "clusterdeployments.agent-install.openshift.io/ai-deprovision"
	clusterInstallFinalizer    = "agentclusterinstall.agent-install.openshift.io/ai-deprovision"

	annotationInstallConfigOverrides    = "agent-install.openshift.io/install-config-overrides"
	annotationIgnoredClusterValidations = "agent-install.openshift.io/ignored-cluster-validations"
	annotationIgnoredHostValidations    = "agent-install.openshift.io/ignored-host-validations"
	annotationReconcilePause            = "hive.openshift.io/reconcile-pause"

	labelBackup            = "cluster.open-cluster-management.io/backup"
	labelClusterPlatform   = "hive.openshift.io/cluster-platform"
	labelClusterVersion    = "hive.openshift.io/version"
	labelDeploymentName    = "hive.openshift.io/cluster-deployment-name"
	labelSecretType        = "hive.openshift.io/secret-type"
	clusterInstallGroup    = "extensions.hive.openshift.io"
	clusterInstallKind     = "AgentClusterInstall"
	platformAgentBareMetal = "agent-baremetal"
)

// Delays before the next reconcile, for problems that may end without a change of an object.
const (
	retryPendingAgents = time.Second // the reconciler of Agents has to apply their specs first
	retryManifests     = time.Minute
	retryName          = time.Minute // the other cluster may be deleted
	// retryPreparation is the delay after a failed preparation. It is long because most retries
	// fail for the same reason.
	retryPreparation = time.Minute
)

// Options configures [New].
type Options struct {
	Projector Projector // the projector that the engine was created with
	DB        *store.DB
	Engine    *engine.Engine
	Loop      *controller.Loop
	Mirrors   Mirrors // nil: a spec.mirrorRegistryRef is an error
	Spokes    Spokes  // nil: the appliance does not connect to installed clusters
	// KeepCluster returns an error if a cluster must not be deleted; nil: all may be.
	KeepCluster func(tx *store.Tx, id string) error
	Clock       clockwork.Clock
}

// Spokes connects to installed clusters. A call starts a task in the background, and returns done =
// false until the task has finished. Then requeue is called, and the next call with the same task
// name returns the result.
type Spokes interface {
	// PausePool sets whether a MachineConfigPool is paused in the cluster of a ClusterDeployment
	// (<namespace>/<name>).
	PausePool(task, deployment, pool string, paused bool, requeue func()) (done bool, err error)
}

// Mirrors stores the mirror rules of single clusters, each set under a name.
type Mirrors interface {
	// SetMirror sets the rules of a name at a level; nil removes them. It returns an error for
	// invalid rules.
	SetMirror(ctx context.Context, level mirror.Level, name string, rules *mirror.Import) error
}

// Controller reconciles ClusterDeployments with their AgentClusterInstalls.
type Controller struct {
	Projector
	Options

	mu         sync.Mutex
	pools      map[string]*pool       // worker pools of clusters that hosts join, by the ClusterDeployment's key
	references *controller.References // references to Secrets and ConfigMaps, by <namespace>/<name>
}

// New returns the controller. It runs in the loop of the options.
func New(options Options) *Controller {
	return &Controller{Projector: options.Projector, Options: options, pools: map[string]*pool{},
		references: controller.NewReferences(listReferences)}
}

// Kind implements controller.Reconciler.
func (c *Controller) Kind() objects.Kind { return objects.ClusterDeployments }

// Watches implements controller.Reconciler.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Kind: objects.AgentClusterInstalls, Map: c.deploymentsOfInstall, EnqueueAll: true},
		{Kind: objects.Secrets, Map: c.deploymentsReferringTo},
		{Kind: objects.ConfigMaps, Map: c.deploymentsReferringTo},
		{Kind: objects.ClusterImageSets, Map: func(tx *store.Tx, _, _ string) ([]controller.Key, error) {
			return c.unregistered(tx)
		}},
		{Kind: objects.Agents, Map: c.deploymentOfAgent},
	}
}

// Reconcile implements controller.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, namespace, name string) (time.Duration, error) {
	s, err := c.read(namespace, name)
	switch {
	case err != nil:
		return 0, err
	case s.cd == nil:
		return 0, c.reconcileMissingDeployment(ctx, s)
	case !s.installedHere():
		return 0, c.reportUnsupportedInstall(ctx, s)
	case s.aci == nil:
		return 0, c.reconcileMissingInstall(ctx, s)
	case s.aci.DeletionTimestamp != nil:
		return 0, c.finalizeInstall(ctx, s)
	case s.cd.DeletionTimestamp != nil:
		return 0, c.update(ctx, func(tx *store.Tx) error {
			return c.Objects.Delete(tx, objects.AgentClusterInstalls, namespace, s.aci.Name, c.Clock.Now())
		})
	}
	if settled, err := c.settled(s); settled || err != nil {
		return 0, err
	}
	if err := c.prepareObjects(ctx, s); err != nil {
		return 0, err
	}
	failure := c.sync(ctx, s)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := c.reportSync(ctx, s, failure); err != nil {
		return 0, err
	}
	var manifests *manifestsError
	var taken *siteservice.NameTakenError
	switch {
	case errors.As(failure, &taken):
		return retryName, nil
	case errors.As(failure, &manifests):
		return retryManifests, nil
	case failure != nil && !isInput(failure):
		return 0, &controller.ReportedError{Err: failure}
	case s.pendingAgents:
		return retryPendingAgents, nil
	}
	return s.backoff, nil
}

// settled reports whether a reconcile would change nothing: the cluster has all values of its
// objects and can't be installed yet, and nobody has changed the objects since they were projected.
// The projector writes both objects in one transaction, which no client does, so that both then
// have the same resource version.
func (c *Controller) settled(s *snapshot) (bool, error) {
	if s.err != nil || s.view == nil || !s.labelled || s.cd.ResourceVersion != s.aci.ResourceVersion ||
		!slices.Contains(s.cd.Finalizers, clusterDeploymentFinalizer) ||
		!slices.Contains(s.aci.Finalizers, clusterInstallFinalizer) ||
		installConditionOf(s.aci, hiveext.ClusterSpecSyncedCondition).Status != corev1.ConditionTrue {
		return false, nil
	}
	switch *s.view.Status {
	case models.ClusterStatusPendingForInput, models.ClusterStatusInsufficient:
	default:
		return false, nil
	}
	c.mu.Lock()
	pool := c.pools[s.key()]
	c.mu.Unlock()
	if pool != nil { // it may have to be resumed
		return false, nil
	}
	w, err := desiredCluster(s.clusterPair, s.view.Cluster)
	if err != nil {
		return false, nil // sync reports it
	}
	_, applied, err := s.unapplied(w)
	return applied, err
}

// sync registers the cluster if necessary, applies the objects to it, and starts installations that
// are ready.
func (c *Controller) sync(ctx context.Context, s *snapshot) error {
	if s.err != nil {
		return s.err
	}
	if s.view == nil {
		if err := c.register(ctx, s); err != nil {
			return err
		}
		if err := c.reread(s); err != nil || s.view == nil {
			return err
		}
	}
	if err := c.apply(ctx, s); err != nil {
		return err
	}
	return c.startInstallations(ctx, s)
}

// reportSync writes the result of sync into the condition SpecSynced, and projects the cluster.
func (c *Controller) reportSync(ctx context.Context, s *snapshot, failure error) error {
	return c.update(ctx, func(tx *store.Tx) error {
		now := c.Clock.Now()
		conditions := []installCondition{clusterSynced(failure)}
		rows := c.Engine.Rows(tx)
		id, err := rows.ClusterOf(s.key())
		if err != nil {
			return err
		}
		if id == "" {
			conditions = append(conditions, conditionsWithoutCluster()...)
		}
		err = c.updateInstall(tx, s.namespace, s.aci.Name, func(aci *hiveext.AgentClusterInstall) error {
			setInstallConditions(aci, now, conditions...)
			if id == "" {
				aci.Status.DebugInfo = hiveext.DebugInfo{}
			}
			return nil
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if id != "" {
			return c.project(tx, rows, id, now)
		}
		return objects.IgnoreNotFound(c.updateDeployment(tx, s.namespace, s.name,
			func(cd *hivev1.ClusterDeployment) error {
				aci, err := c.install(tx, s.namespace, s.aci.Name)
				if err != nil || aci == nil {
					return err
				}
				copyInstall(cd, aci, now)
				c.setImageSetCondition(cd, s, now)
				return nil
			}))
	})
}

// update runs a transaction. Most reconciles change nothing. A read-only transaction finds that out
// without keeping other updates waiting, so it runs first. fn can be repeated.
func (c *Controller) update(ctx context.Context, fn func(*store.Tx) error) error {
	if err := c.DB.View(fn); !errors.Is(err, store.ErrReadOnly) {
		return err
	}
	return c.DB.Update(ctx, fn)
}

// deployment returns a ClusterDeployment; nil if it does not exist.
func (c Projector) deployment(tx *store.Tx, namespace, name string) (*hivev1.ClusterDeployment, error) {
	return objects.Find[hivev1.ClusterDeployment](c.Objects, tx, objects.ClusterDeployments, namespace, name)
}

// install returns an AgentClusterInstall; nil if it does not exist.
func (c Projector) install(tx *store.Tx, namespace, name string) (*hiveext.AgentClusterInstall, error) {
	return objects.Find[hiveext.AgentClusterInstall](c.Objects, tx, objects.AgentClusterInstalls, namespace, name)
}

// updateDeployment changes a ClusterDeployment. It keeps fields that its Go type lacks.
func (c Projector) updateDeployment(tx *store.Tx, namespace, name string,
	fn func(*hivev1.ClusterDeployment) error) error {
	return objects.UpdateAs(c.Objects, tx, objects.ClusterDeployments, namespace, name, fn)
}

// updateInstall changes an AgentClusterInstall. It keeps fields that its Go type lacks.
func (c Projector) updateInstall(tx *store.Tx, namespace, name string,
	fn func(*hiveext.AgentClusterInstall) error) error {
	return objects.UpdateAs(c.Objects, tx, objects.AgentClusterInstalls, namespace, name, fn)
}
