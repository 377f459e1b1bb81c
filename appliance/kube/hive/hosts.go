package hive

import (
	"context"
	"log/slog"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/engine"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/appliance/mirror"
	"landfall/store"
)

type key = controller.Key

// HostsOptions is what [Hosts] work with.
type HostsOptions struct {
	DB       *store.DB
	Objects  *objects.Objects
	Clock    clockwork.Clock
	Logger   *slog.Logger
	URL      string       // of the API and of images, without a trailing slash
	Mirrors  Mirrors      // nil: InfraEnvs and the site have no mirrors of their own
	OSImages OSImages     // nil: nobody knows which base images there are
	Images   ImageFetcher // nil: nobody fetches base images
	Spokes   Spokes       // nil: nobody reaches into clusters
}

// Spokes reaches into clusters that are installed. Its calls take their time beside the caller:
// done is false until they have come to their end, which again tells; the call is made again then,
// and gives what came of it. A task is one call's name.
type Spokes interface {
	// RemoveNode takes a node, and what it comes from, out of the cluster of a ClusterDeployment
	// (<namespace>/<name>). There may be neither any more.
	RemoveNode(task, deployment, node string, again func()) (done bool, err error)
	// PausePool has a MachineConfigPool of such a cluster paused, or not.
	PausePool(task, deployment, pool string, paused bool, again func()) (done bool, err error)
}

// Mirrors keeps mirror rules of the site, of single clusters and of single infra-envs, each set
// under a name.
type Mirrors interface {
	// SetMirror has rules followed at a level from now on; nil takes those of the name away, and
	// there may be none. Rules that can't be used are refused.
	SetMirror(ctx context.Context, level mirror.Level, name string, rules *mirror.Import) error
}

// OSImages is the library of base images.
type OSImages interface {
	// Known tells whether there is an image for a version of OpenShift and an architecture ("" is
	// x86_64), or one is on its way.
	Known(version, architecture string) bool
}

// Hosts are the controllers of what a site's hosts are described by: InfraEnvs with their
// NMStateConfigs, Agents, AgentClassifications and the AgentServiceConfig; and what follows for
// these objects from the engine's changes.
type Hosts struct {
	HostsOptions
	engine    *engine.Engine
	loop      *controller.Loop
	referrers *referrers // InfraEnvs, to what reference makes
}

// NewHosts returns the controllers. [Hosts.Use] must name the engine before they are called.
func NewHosts(options HostsOptions) *Hosts {
	return &Hosts{HostsOptions: options, referrers: newReferrers()}
}

// Use has the controllers work on an engine. It comes after [NewHosts], because the engine is made
// with them as its projector.
func (h *Hosts) Use(e *engine.Engine) { h.engine = e }

// AddTo has a loop call the controllers.
func (h *Hosts) AddTo(loop *controller.Loop) {
	loop.Add(infraEnvs{h},
		controller.Relation{Of: objects.NMStateConfigs, To: h.infraEnvsOfNamespace(objects.NMStateConfigs)},
		controller.Relation{Of: objects.ClusterDeployments, To: h.infraEnvsNaming(objects.ClusterDeployments)},
		controller.Relation{Of: objects.AgentClusterInstalls, To: h.infraEnvsOfNamespace(objects.AgentClusterInstalls)},
		controller.Relation{Of: objects.Secrets, To: h.infraEnvsNaming(objects.Secrets)},
		controller.Relation{Of: objects.ConfigMaps, To: h.infraEnvsNaming(objects.ConfigMaps)},
	)
	h.loop = loop
	loop.Add(agents{h},
		controller.Relation{Of: objects.InfraEnvs, To: h.agentsOfInfraEnv},
		controller.Relation{Of: objects.AgentClassifications, To: h.agentsOfNamespace},
	)
	loop.Add(classifications{h})
	loop.Add(serviceConfigs{h},
		controller.Relation{Of: objects.ConfigMaps, To: h.serviceConfigNaming},
		controller.Relation{Of: objects.Secrets, To: h.serviceConfigNaming},
	)
}
