// Package hive makes clusters, infra-envs and hosts of the engine out of the objects of Hive and of
// the Assisted Installer, and shows in the objects what the engine does: the work of the
// controllers that a hub runs (openshift/assisted-service, internal/controller/controllers;
// openshift/hive, pkg/controller/clusterdeployment).
//
// It goes both ways by different means. What people write into objects is reconciled: an engine
// call whose transaction notes on the engine's row which object it is for, so that a crash between
// makes nothing twice. What the engine does is projected: the objects are written in the engine's
// own transaction, so that the two can't disagree.
package clusters

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	hivev1 "github.com/openshift/hive/apis/hive/v1"

	"landfall/appliance/engine"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/appliance/mirror"
	"landfall/store"
)

// Names of the clusters' objects that users and other programs rely on.
const (
	clusterDeploymentFinalizer = "clusterdeployments.agent-install.openshift.io/ai-deprovision"
	clusterInstallFinalizer    = "agentclusterinstall.agent-install.openshift.io/ai-deprovision"

	annotationInstallConfigOverrides    = "agent-install.openshift.io/install-config-overrides"
	annotationIgnoredClusterValidations = "agent-install.openshift.io/ignored-cluster-validations"
	annotationIgnoredHostValidations    = "agent-install.openshift.io/ignored-host-validations"
	annotationReconcilePause            = "hive.openshift.io/reconcile-pause"

	labelWatch             = "agent-install.openshift.io/watch"
	labelBackup            = "cluster.open-cluster-management.io/backup"
	labelClusterPlatform   = "hive.openshift.io/cluster-platform"
	labelClusterVersion    = "hive.openshift.io/version"
	labelDeploymentName    = "hive.openshift.io/cluster-deployment-name"
	labelSecretType        = "hive.openshift.io/secret-type"
	clusterInstallGroup    = "extensions.hive.openshift.io"
	clusterInstallKind     = "AgentClusterInstall"
	platformAgentBareMetal = "agent-baremetal"
)

// How soon something is looked at again by itself that did not work for a reason which may pass.
const (
	retryPendingAgents = time.Second // hosts are told by the Agents' own reconciler
	retryManifests     = time.Minute
	// retryPreparation is when an installation begins again by itself whose preparation failed: for
	// the same reason most often.
	retryPreparation = time.Minute
)

// Options configures [New].
type Options struct {
	Projector Projector // the one that the engine was created with
	DB        *store.DB
	Engine    *engine.Engine
	Loop      *controller.Loop
	Mirrors   Mirrors // nil: a spec.mirrorRegistryRef is refused
	Spokes    Spokes  // nil: the appliance does not connect to installed clusters
	Clock     clockwork.Clock
}

// Spokes connects to installed clusters. A call runs in the background: done is false until it has
// finished, then requeue is called, and the next call with the same task name returns the result.
type Spokes interface {
	// PausePool sets whether a MachineConfigPool is paused in the cluster of a ClusterDeployment
	// (<namespace>/<name>).
	PausePool(task, deployment, pool string, paused bool, requeue func()) (done bool, err error)
}

// Mirrors stores the mirror rules of single clusters, each set under a name.
type Mirrors interface {
	// SetMirror applies rules at a level; nil removes the rules of the name, if there are any. It
	// returns an error for rules that can't be used.
	SetMirror(ctx context.Context, level mirror.Level, name string, rules *mirror.Import) error
}

// Controller reconciles ClusterDeployments with their AgentClusterInstalls.
type Controller struct {
	Projector
	Options

	mu         sync.Mutex
	pools      map[string]*pool       // of clusters that hosts join, by the ClusterDeployment's key
	references *controller.References // to Secrets and ConfigMaps, by namespace/name
}

// New returns the controller and adds it to the loop of the options.
func New(options Options) *Controller {
	c := &Controller{Projector: options.Projector, Options: options, pools: map[string]*pool{},
		references: controller.NewReferences()}
	options.Loop.Add(c, c.relations()...)
	return c
}

// Kind implements controller.Reconciler.
func (c *Controller) Kind() objects.Kind { return objects.ClusterDeployments }

// relations lists what else a ClusterDeployment depends on.
func (c *Controller) relations() []controller.Relation {
	return []controller.Relation{
		{Of: objects.AgentClusterInstalls, To: c.deploymentsOfInstall, EnqueueAll: true},
		{Of: objects.Secrets, To: c.deploymentsReferringTo},
		{Of: objects.ConfigMaps, To: c.deploymentsReferringTo},
		{Of: objects.ClusterImageSets, To: func(tx *store.Tx, _, _ string) ([]controller.Key,
			error) {
			return c.unregistered(tx)
		}},
		{Of: objects.Agents, To: c.deploymentOfAgent},
	}
}

// Reconcile implements controller.Reconciler: it brings about what a ClusterDeployment and its
// AgentClusterInstall ask for.
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
	if err := c.prepareObjects(ctx, s); err != nil {
		return 0, err
	}
	fault := c.sync(ctx, s)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := c.reportSync(ctx, s, fault); err != nil {
		return 0, err
	}
	var manifests *manifestsError
	switch {
	case errors.As(fault, &manifests):
		return retryManifests, nil
	case fault != nil && !isInput(fault):
		return 0, &controller.ReportedError{Err: fault}
	case s.pendingAgents:
		return retryPendingAgents, nil
	}
	return s.backoff, nil
}

// follow does what the objects ask for, until they ask for nothing more.
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

// tellFault notes in SpecSynced what came of the objects, and shows the cluster anew.
func (c *Controller) reportSync(ctx context.Context, s *snapshot, fault error) error {
	return c.update(ctx, func(tx *store.Tx) error {
		now := c.Clock.Now()
		conditions := []installCondition{clusterSynced(fault)}
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
		return objects.IgnoreNotFound(c.updateDeployment(tx, s.namespace, s.name, func(cd *hivev1.ClusterDeployment) error {
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

// update runs a transaction of the controller's own.
func (c *Controller) update(ctx context.Context, fn func(*store.Tx) error) error {
	return c.DB.Update(ctx, fn)
}

// deployment and install read an object; nil if there is none.
func (c Projector) deployment(tx *store.Tx, namespace, name string) (*hivev1.ClusterDeployment, error) {
	cd := &hivev1.ClusterDeployment{}
	err := c.Objects.Get(tx, objects.ClusterDeployments, namespace, name, cd)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return cd, err
}

func (c Projector) install(tx *store.Tx, namespace, name string) (*hiveext.AgentClusterInstall, error) {
	aci := &hiveext.AgentClusterInstall{}
	err := c.Objects.Get(tx, objects.AgentClusterInstalls, namespace, name, aci)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return aci, err
}

// alterDeployment and alterInstall let fn alter an object by its Go type. Fields that the type does
// not know stay.
func (c Projector) updateDeployment(tx *store.Tx, namespace, name string,
	fn func(*hivev1.ClusterDeployment) error) error {
	return objects.UpdateAs(c.Objects, tx, objects.ClusterDeployments, namespace, name, fn)
}

func (c Projector) updateInstall(tx *store.Tx, namespace, name string,
	fn func(*hiveext.AgentClusterInstall) error) error {
	return objects.UpdateAs(c.Objects, tx, objects.AgentClusterInstalls, namespace, name, fn)
}
