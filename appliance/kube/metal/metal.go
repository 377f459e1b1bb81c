// Package metal manages bare-metal servers as Kubernetes objects. It does the work of two
// controllers: of the Assisted Installer's BareMetal Agent Controller (BMAC) for a BareMetalHost
// and its Agent, and of metal3's bare-metal operator for a BareMetalHost and its server. It uses
// Redfish and virtual media instead of Ironic.
//
//	metal.go             the controllers and their options
//	names.go             labels, annotations, finalizers
//	index.go             index in memory of the objects of each host
//	host.go              a pass over a BareMetalHost: read, change, write
//	image.go             the image that a host boots (BMAC)
//	detach.go            detaching, pausing and deleting a host (BMAC)
//	agent.go             writes the annotations of a host into its Agent (BMAC)
//	hardware.go          an Agent's inventory in metal3's form
//	desired.go           the desired state of the server
//	status.go            the status of a host
//	credentials.go       Secrets of BMCs and of fencing
//	preprovisioning.go   PreprovisioningImages and the converged flow
//	machines.go          Machines and draining in the host's cluster
//	serverca.go          the certificate authority of the machine config server
//	clusters.go          ManagedClusters and KlusterletAddonConfigs
//	admission.go         validation of BareMetalHosts
//	blockeddeletions.go  Events about finalizers that block a deletion
//
// The names and rules come from openshift/assisted-service
// (internal/controller/controllers/bmh_agent_controller.go, preprovisioningimage_controller.go) and
// metal3-io/baremetal-operator (docs/api.md, docs/baremetalhost-states.md).
//
// Design: docs/design.md#baremetalhosts.
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

// Servers manages servers by their BMCs; *bmc.Manager implements it.
type Servers interface {
	// Ensure sets the desired state of a server. An invalid state is a *bmc.RequestError.
	Ensure(ctx context.Context, id string, desired bmc.Desired) (*bmc.Server, error)
	// Find returns a server by its id or its name. The error is a *bmc.NotFoundError if it does not
	// exist.
	Find(idOrName string) (*bmc.Server, error)
	// RequestAction queues a one-time action. It is rejected if it contradicts the desired state.
	RequestAction(ctx context.Context, id string, kind bmc.ActionKind) (*bmc.Server, error)
	// Remove ejects the image, powers the server off if requested, and removes the server.
	Remove(ctx context.Context, id string, powerOff bool) error
}

// Options configures [New].
type Options struct {
	DB      *store.DB
	Objects *objects.Objects
	Servers Servers
	// InfraEnvID returns the engine's id of an InfraEnv's infra-env; "" if it does not exist.
	InfraEnvID func(tx *store.Tx, namespace, name string) (string, error)
	// HostKey returns the engine's key of an Agent's host; "" if it does not exist.
	HostKey func(tx *store.Tx, namespace, name string) (string, error)
	// RestartHost notifies the engine that a host's machine is about to be restarted to boot a
	// newer image. The engine then sets the host to disconnected. It does nothing if the
	// installation of the host has started.
	RestartHost func(ctx context.Context, infraEnvID, hostID string) error
	// ImageSettles is the minimum age of an image before a server boots it: manifests are applied
	// one after another, and each NMStateConfig changes the image.
	ImageSettles time.Duration
	Loop         *controller.Loop
	Spokes       Spokes          // nil: the appliance does not connect to installed clusters
	Clock        clockwork.Clock // nil: the real clock
	Logger       *slog.Logger    // nil: no log
}

// Controllers holds the reconcilers of this package and their shared state.
type Controllers struct {
	Options
	index   index
	started time.Time

	mu       sync.Mutex
	refusals map[string]string // error of the last request, by the server's id
	// time of the last history entry that was written as an Event, by the server's id
	relayed    map[string]time.Time
	drains     map[string]drainOutcome // result of draining the host's node, by the host's UID
	lastEvents map[string]string       // last Event about the host's cluster, by the host's UID
	// the Agent and the ignition config to which the cluster's certificate authority was added, by
	// the host's UID
	trusting map[string]string
}

// New returns the controllers. Their [Controllers.Reconcilers] run in the loop of the options.
func New(options Options) *Controllers {
	if options.Clock == nil {
		options.Clock = clockwork.NewRealClock()
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	return &Controllers{
		Options: options, started: options.Clock.Now(),
		refusals: map[string]string{}, relayed: map[string]time.Time{}, drains: map[string]drainOutcome{},
		lastEvents: map[string]string{}, trusting: map[string]string{},
	}
}

// Reconcilers returns the reconcilers of the package.
func (c *Controllers) Reconcilers() []controller.Reconciler {
	return []controller.Reconciler{hosts{c}, images{c}, managedClusters{c}, blockedDeletions{c}}
}

func (c *Controllers) now() time.Time { return c.Clock.Now().UTC() }
