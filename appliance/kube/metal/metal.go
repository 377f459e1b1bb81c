// Package metal looks after bare-metal servers as Kubernetes objects: it does what the Assisted
// Installer's BareMetal Agent Controller does with a BareMetalHost and its Agent, and what metal3's
// bare-metal operator does with a BareMetalHost and its server, over Redfish and virtual media in
// the place of Ironic.
//
//	metal.go            the objects that are looked after, and what is needed for it
//	names.go            labels, annotations, finalizers
//	links.go            which objects belong to which host, in memory
//	host.go             a BareMetalHost: read, altered, written
//	image.go            which image it boots (BMAC)
//	detach.go           when it is let alone (BMAC), and when it is let go
//	agent.go            what its annotations make of the Agent (BMAC)
//	hardware.go         what the Agent found, as metal3 shows it
//	drive.go            what is wanted of the server's BMC
//	status.go           what is shown of the server
//	credentials.go      the Secrets of BMCs and of fencing
//	preprovisioning.go  PreprovisioningImages and the converged flow
//	machines.go         what is done in the host's cluster
//	clusters.go         ManagedClusters and KlusterletAddonConfigs
//	admission.go        what is refused when it is applied
//	leftovers.go        objects that are being deleted and that nobody lets go
//
// The sources of names and rules are openshift/assisted-service
// (internal/controller/controllers/bmh_agent_controller.go, preprovisioningimage_controller.go) and
// metal3-io/baremetal-operator (docs/api.md, docs/baremetalhost-states.md).
package metal

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/bmc"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// Servers drives servers by their BMCs; it is what *bmc.Manager does.
type Servers interface {
	// Ensure makes what is wanted of a server so, in time. A *bmc.RequestError says what is wrong
	// with it.
	Ensure(ctx context.Context, id string, desired bmc.Desired) (*bmc.Server, error)
	// Find returns a server by its id or its name, a *bmc.NotFoundError if there is none.
	Find(idOrName string) (*bmc.Server, error)
	// Order has something done once that what is wanted of the server does not contradict.
	Order(ctx context.Context, id string, kind bmc.OrderKind) (*bmc.Server, error)
	// Forget ejects what was booted, powers the server off if that is asked for, and then knows it
	// no more.
	Forget(ctx context.Context, id string, powerOff bool) error
}

// Options are what the controllers work with.
type Options struct {
	DB      *store.DB
	Objects *objects.Objects
	Servers Servers
	// InfraEnvID is the engine's id of the infra-env that an InfraEnv object stands for, "" if
	// there is none yet.
	InfraEnvID func(tx *store.Tx, namespace, name string) (string, error)
	// HostKey is the engine's key of the host that an Agent stands for, "" if there is none.
	HostKey func(tx *store.Tx, namespace, name string) (string, error)
	// RestartHost tells the engine that a host's machine is about to be restarted to boot a newer
	// image. Its Agent is shown as disconnected from then on; nothing happens to one that an
	// installation has taken.
	RestartHost func(ctx context.Context, key string) error
	// ImageSettles is how long an image must not have changed before a server boots it: manifests
	// come one after another, and each NMStateConfig makes another image.
	ImageSettles time.Duration
	Loop         *controller.Loop
	Spokes       Spokes          // nil: the appliance does not connect to installed clusters
	Clock        clockwork.Clock // nil is the real one
	Logger       *slog.Logger    // nil discards
}

// Controllers are the reconcilers of this package over what they share.
type Controllers struct {
	Options
	index   index
	started time.Time

	mu         sync.Mutex
	refusals   map[string]string       // by the server's id: why what is wanted of it can't be asked for
	relayed    map[string]time.Time    // likewise: up to when its notes are Events
	drains     map[string]drainOutcome // by the host's UID: what came of draining its node
	lastEvents map[string]string       // likewise: the Event about its cluster that was made last
	// likewise: for which Agent and in which ignition config its cluster's authority is
	trusting map[string]string
}

// New returns the controllers and adds them to the loop of the options.
func New(options Options) *Controllers {
	if options.Clock == nil {
		options.Clock = clockwork.NewRealClock()
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Controllers{
		Options: options, started: options.Clock.Now(),
		refusals: map[string]string{}, relayed: map[string]time.Time{}, drains: map[string]drainOutcome{},
		lastEvents: map[string]string{}, trusting: map[string]string{},
	}
	loop := options.Loop
	loop.Add(hosts{c},
		controller.Relation{Of: objects.Agents, To: c.hostsOfAgent},
		controller.Relation{Of: objects.InfraEnvs, To: c.hostsOfInfraEnv},
		controller.Relation{Of: objects.Secrets, To: c.hostsOfSecret},
		controller.Relation{Of: objects.PreprovisioningImages, To: c.hostOfImage},
	)
	loop.Add(images{c},
		controller.Relation{Of: objects.InfraEnvs, To: c.imagesOfInfraEnv},
		controller.Relation{Of: objects.BareMetalHosts, To: c.imageOfHost},
	)
	loop.Add(managedClusters{c})
	blockedDeletions{c}.addTo(loop)
	return c
}

// EnqueueServer queues the BareMetalHost of a server, by the server's id. bmc.Manager.Observe calls
// it when the server has changed.
func (c *Controllers) EnqueueServer(id string) {
	if host, ok := c.index.hostOfServer(id); ok {
		c.Loop.Enqueue(controller.Key{Kind: objects.BareMetalHosts, Namespace: host.namespace, Name: host.name})
	}
}

func (c *Controllers) now() time.Time { return c.Clock.Now().UTC() }
