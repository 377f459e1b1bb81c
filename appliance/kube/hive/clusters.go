// Package hive makes clusters, infra-envs and hosts of the engine out of the objects of Hive and of
// the Assisted Installer, and shows in the objects what the engine does: the work of the
// controllers that a hub runs (openshift/assisted-service, internal/controller/controllers;
// openshift/hive, pkg/controller/clusterdeployment).
//
// It goes both ways by different means. What people write into objects is reconciled: an engine
// call whose transaction notes on the engine's row which object it is for, so that a crash between
// makes nothing twice. What the engine does is projected: the objects are written in the engine's
// own transaction, so that the two can't disagree.
package hive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/engine"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
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
	retryBehind    = time.Second // hosts are told by the Agents' own reconciler
	retryManifests = time.Minute
	// retryPreparation is when an installation begins again by itself whose preparation failed: for
	// the same reason most often.
	retryPreparation = time.Minute
)

// ClustersOptions is what [Clusters] needs.
type ClustersOptions struct {
	DB      *store.DB
	Objects *objects.Objects
	Mirrors Mirrors // nil: a spec.mirrorRegistryRef is refused
	Spokes  Spokes  // nil: nobody reaches into clusters
	URL     string  // of the appliance, as hosts and people reach it, without a trailing slash
	Clock   clockwork.Clock
	Logger  *slog.Logger
}

// Clusters reconciles ClusterDeployments with their AgentClusterInstalls, and projects the engine's
// clusters into them.
type Clusters struct {
	ClustersOptions
	engine *engine.Engine
	loop   *controller.Loop

	mu        sync.Mutex
	pools     map[string]*pool // of clusters that hosts join, by the ClusterDeployment's key
	referrers *referrers       // to Secrets and ConfigMaps, by namespace/name
}

// NewClusters returns the clusters' half of the package. [Clusters.Use] must name the engine before
// it is called by anybody but the engine itself.
func NewClusters(options ClustersOptions) *Clusters {
	return &Clusters{ClustersOptions: options, pools: map[string]*pool{}, referrers: newReferrers()}
}

// Use has the controller work on an engine. It comes after [NewClusters], because the engine is
// made with it as its projector.
func (c *Clusters) Use(e *engine.Engine) { c.engine = e }

// AddTo has a loop call the controller.
func (c *Clusters) AddTo(loop *controller.Loop) {
	c.loop = loop
	loop.Add(c, c.relations()...)
}

// Kind implements controller.Reconciler.
func (c *Clusters) Kind() objects.Kind { return objects.ClusterDeployments }

// relations lists what else a ClusterDeployment depends on.
func (c *Clusters) relations() []controller.Relation {
	return []controller.Relation{
		{Of: objects.AgentClusterInstalls, To: c.deploymentsOfInstall, Missing: true},
		{Of: objects.Secrets, To: c.deploymentsNaming},
		{Of: objects.ConfigMaps, To: c.deploymentsNaming},
		{Of: objects.ClusterImageSets, To: func(tx *store.Tx, _, _ string) ([]controller.Key,
			error) {
			return c.unregistered(tx)
		}},
		{Of: objects.Agents, To: c.deploymentOfAgent},
	}
}

// Reconcile implements controller.Reconciler: it brings about what a ClusterDeployment and its
// AgentClusterInstall ask for.
func (c *Clusters) Reconcile(ctx context.Context, namespace, name string) (time.Duration, error) {
	s, err := c.look(namespace, name)
	switch {
	case err != nil:
		return 0, err
	case s.cd == nil:
		return 0, c.withoutDeployment(ctx, s)
	case !s.ours():
		return 0, c.refuseInstall(ctx, s)
	case s.aci == nil:
		return 0, c.withoutInstall(ctx, s)
	case s.aci.DeletionTimestamp != nil:
		return 0, c.tearDown(ctx, s)
	case s.cd.DeletionTimestamp != nil:
		return 0, c.update(ctx, func(tx *store.Tx) error {
			return c.Objects.Delete(tx, objects.AgentClusterInstalls, namespace, s.aci.Name, c.Clock.Now())
		})
	}
	if err := c.prepareObjects(ctx, s); err != nil {
		return 0, err
	}
	fault := c.follow(ctx, s)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := c.tellFault(ctx, s, fault); err != nil {
		return 0, err
	}
	var manifests *manifestsError
	switch {
	case errors.As(fault, &manifests):
		return retryManifests, nil
	case fault != nil && !isInput(fault):
		return 0, &controller.Told{Err: fault}
	case s.behind:
		return retryBehind, nil
	}
	return s.rests, nil
}

// follow does what the objects ask for, until they ask for nothing more.
func (c *Clusters) follow(ctx context.Context, s *situation) error {
	if s.fault != nil {
		return s.fault
	}
	if s.view == nil {
		if err := c.register(ctx, s); err != nil {
			return err
		}
		if err := c.lookAgain(s); err != nil || s.view == nil {
			return err
		}
	}
	if err := c.push(ctx, s); err != nil {
		return err
	}
	return c.goOn(ctx, s)
}

// tellFault notes in SpecSynced what came of the objects, and shows the cluster anew.
func (c *Clusters) tellFault(ctx context.Context, s *situation, fault error) error {
	return c.update(ctx, func(tx *store.Tx) error {
		now := c.Clock.Now()
		conditions := []installCondition{clusterSynced(fault)}
		rows := c.engine.Rows(tx)
		id, err := rows.ClusterOf(s.key())
		if err != nil {
			return err
		}
		if id == "" {
			conditions = append(conditions, conditionsWithoutCluster()...)
		}
		err = c.alterInstall(tx, s.namespace, s.aci.Name, func(aci *hiveext.AgentClusterInstall) error {
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
			return c.show(tx, rows, id, now)
		}
		return ignoreMissing(c.alterDeployment(tx, s.namespace, s.name, func(cd *hivev1.ClusterDeployment) error {
			aci, err := c.install(tx, s.namespace, s.aci.Name)
			if err != nil || aci == nil {
				return err
			}
			followInstall(cd, aci, now)
			c.showImageSet(cd, s, now)
			return nil
		}))
	})
}

// update runs a transaction of the controller's own.
func (c *Clusters) update(ctx context.Context, fn func(*store.Tx) error) error {
	return c.DB.Update(ctx, fn)
}

func ignoreMissing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// deployment and install read an object; nil if there is none.
func (c *Clusters) deployment(tx *store.Tx, namespace, name string) (*hivev1.ClusterDeployment, error) {
	cd := &hivev1.ClusterDeployment{}
	err := c.Objects.Get(tx, objects.ClusterDeployments, namespace, name, cd)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return cd, err
}

func (c *Clusters) install(tx *store.Tx, namespace, name string) (*hiveext.AgentClusterInstall, error) {
	aci := &hiveext.AgentClusterInstall{}
	err := c.Objects.Get(tx, objects.AgentClusterInstalls, namespace, name, aci)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return aci, err
}

// alterDeployment and alterInstall let fn alter an object by its Go type. Fields that the type does
// not know stay.
func (c *Clusters) alterDeployment(tx *store.Tx, namespace, name string,
	fn func(*hivev1.ClusterDeployment) error) error {
	return alterObject(c.Objects, tx, objects.ClusterDeployments, namespace, name, fn)
}

func (c *Clusters) alterInstall(tx *store.Tx, namespace, name string,
	fn func(*hiveext.AgentClusterInstall) error) error {
	return alterObject(c.Objects, tx, objects.AgentClusterInstalls, namespace, name, fn)
}

// alterObject is objects.Update with the object's Go type. Of spec and metadata only the fields are
// written that fn has altered, for the object may have others that are newer than the type.
func alterObject[T any](o *objects.Objects, tx *store.Tx, kind objects.Kind, namespace, name string,
	fn func(*T) error) error {
	return o.Update(tx, kind, namespace, name, func(u *unstructured.Unstructured) error {
		var before, after T
		if err := errors.Join(objects.Into(u, &before), objects.Into(u, &after)); err != nil {
			return err
		}
		if err := fn(&after); err != nil {
			return err
		}
		was, err := objects.From(kind, &before)
		if err != nil {
			return err
		}
		is, err := objects.From(kind, &after)
		if err != nil {
			return err
		}
		for _, part := range []string{"metadata", "spec", "status"} {
			if err := mergeFields(u, part, was.Object[part], is.Object[part]); err != nil {
				return err
			}
		}
		return nil
	})
}

// mergeFields writes the fields of a part of an object that differ between two states of its Go
// type.
func mergeFields(u *unstructured.Unstructured, part string, was, is any) error {
	before, _ := was.(map[string]any)
	after, ok := is.(map[string]any)
	if !ok {
		return nil
	}
	held, ok := u.Object[part].(map[string]any)
	if !ok {
		if u.Object[part] != nil {
			return fmt.Errorf("%s %s/%s: its %s is no object", u.GetKind(), u.GetNamespace(), u.GetName(), part)
		}
		held = map[string]any{}
	}
	changed := false
	for name, value := range after {
		if !equalValues(before[name], value) {
			held[name], changed = value, true
		}
	}
	for name := range before {
		if _, kept := after[name]; !kept {
			delete(held, name)
			changed = true
		}
	}
	if changed {
		u.Object[part] = held
	}
	return nil
}
