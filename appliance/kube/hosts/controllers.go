// Package hosts creates the engine's infra-envs and updates its hosts from InfraEnvs,
// NMStateConfigs and Agents, and writes the state of the engine into these objects. It evaluates
// AgentClassifications and applies the AgentServiceConfig. It does the work of the controllers of a
// hub (openshift/assisted-service, internal/controller/controllers).
//
// Design: docs/design.md#infraenvs-and-agents.
package hosts

import (
	"context"
	"errors"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/engine"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/query"
	"landfall/appliance/mirror"
	"landfall/store"
)

type key = controller.Key

// Options configures [New].
type Options struct {
	Projector Projector // the projector that the engine was created with
	DB        *store.DB
	Engine    *engine.Engine
	Loop      *controller.Loop
	Clock     clockwork.Clock
	Mirrors   Mirrors      // nil: mirrorRegistryRefs have no effect
	OSImages  OSImages     // nil: spec.osImageVersion is not checked
	Images    ImageFetcher // nil: the images of an AgentServiceConfig are not downloaded
	Spokes    Spokes       // nil: the appliance does not connect to installed clusters
}

// Spokes connects to installed clusters. A call starts a task in the background, and returns done =
// false until the task has finished. Then requeue is called, and the next call with the same task
// name returns the result.
type Spokes interface {
	// RemoveNode removes a node, with its Machine and BareMetalHost, from the cluster of a
	// ClusterDeployment (<namespace>/<name>). Missing objects are not an error.
	RemoveNode(task, deployment, node string, requeue func()) (done bool, err error)
}

// Mirrors stores mirror rules of the site and of single infra-envs, each set under a name.
type Mirrors interface {
	// SetMirror sets the rules of a name at a level; nil removes them. It returns an error for
	// invalid rules.
	SetMirror(ctx context.Context, level mirror.Level, name string, rules *mirror.Import) error
}

// OSImages is the library of base images.
type OSImages interface {
	// Known reports whether an image for a version of OpenShift and an architecture ("" is x86_64)
	// exists or is being downloaded.
	Known(version, architecture string) bool
}

// Controllers reconciles InfraEnvs with their NMStateConfigs, Agents, AgentClassifications and the
// AgentServiceConfig.
type Controllers struct {
	Projector
	Options
	references *controller.References // the objects that InfraEnvs refer to; see reference
	queries    query.Evaluator        // of AgentClassifications
}

// New returns the controllers. Their [Controllers.Reconcilers] run in the loop of the options.
func New(options Options) *Controllers {
	return &Controllers{Projector: options.Projector, Options: options,
		references: controller.NewReferences(listReferences)}
}

// Reconcilers returns the reconcilers of the package.
func (h *Controllers) Reconcilers() []controller.Reconciler {
	return []controller.Reconciler{infraEnvs{h}, agents{h}, classifications{h}, serviceConfigs{h}}
}

// update runs a transaction. Most reconciles change nothing. A read-only transaction finds that out
// without keeping other updates waiting, so it runs first. fn can be repeated.
func (h *Controllers) update(ctx context.Context, fn func(*store.Tx) error) error {
	if err := h.DB.View(fn); !errors.Is(err, store.ErrReadOnly) {
		return err
	}
	return h.DB.Update(ctx, fn)
}
