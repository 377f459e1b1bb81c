package joining

import (
	"context"
	"errors"
	"net/netip"

	"github.com/go-openapi/swag/conv"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/egress"
	"landfall/appliance/engine"
	"landfall/appliance/fault"
	"landfall/appliance/kube/clusters"
	"landfall/appliance/kube/hosts"
	"landfall/appliance/kube/metal"
	"landfall/appliance/kube/spoke"
	"landfall/store"
)

// Spokes connects to installed clusters for the controllers of clusters, hosts and servers.
type Spokes struct {
	db          *store.DB
	engine      *engine.Engine
	kubeconfigs Kubeconfigs
	names       map[string]string
	egress      *egress.Rules
	clock       clockwork.Clock
	tasks       spoke.Tasks
}

var (
	_ clusters.Spokes = (*Spokes)(nil)
	_ hosts.Spokes    = (*Spokes)(nil)
	_ metal.Spokes    = (*Spokes)(nil)
)

// NewSpokes returns a Spokes whose calls run after Run is called. names maps host names that the
// site's DNS does not resolve to addresses; see [ParseNames]. The rules decide which other
// addresses may be reached.
func NewSpokes(db *store.DB, e *engine.Engine, kubeconfigs Kubeconfigs, names map[string]string,
	rules *egress.Rules, clock clockwork.Clock) *Spokes {
	return &Spokes{db: db, engine: e, kubeconfigs: kubeconfigs, names: names, egress: rules, clock: clock}
}

// Run waits for the context to end, then cancels the calls that still run and waits for them.
func (s *Spokes) Run(ctx context.Context) error { return s.tasks.Run(ctx) }

// Cluster returns the access to a cluster. The error is a *spoke.MissingError if the appliance has
// no kubeconfig of the cluster.
func (s *Spokes) Cluster(id string) (cluster Cluster, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		found, view, err := s.kubeconfigs.Find(tx, s.engine.Rows(tx), id)
		if err != nil {
			return err
		}
		cluster.Lenient = !found.Applied
		if found.Content == nil && found.From != "" {
			return &spoke.MissingError{Where: found.From + " does not exist, or has no key kubeconfig"}
		}
		if found.Content == nil {
			return &spoke.MissingError{Where: "cluster " + view.Name + " was not installed by this appliance"}
		}
		cluster.Access = spoke.Access{Kubeconfig: found.Content, From: found.From, Names: s.names, Egress: s.egress}
		for _, vip := range view.APIVips {
			cluster.Addresses = append(cluster.Addresses, string(vip.IP))
		}
		if address := conv.Value(view.APIVipDNSName); isAddress(address) && len(cluster.Addresses) == 0 {
			cluster.Addresses = append(cluster.Addresses, address)
		}
		return nil
	})
	return cluster, err
}

// Open connects to the API of a cluster with the appliance's kubeconfig of it. The caller must
// close the client.
func (s *Spokes) Open(id string) (*spoke.Client, error) {
	if s == nil {
		return nil, fault.New(fault.Conflict, "The appliance does not connect to installed clusters, because its "+
			"configuration has joining.follow: false.")
	}
	cluster, err := s.Cluster(id)
	if missing, ok := errors.AsType[*spoke.MissingError](err); ok {
		return nil, fault.New(fault.Conflict, "The appliance has no kubeconfig of the cluster: %s.", missing.Where)
	}
	if err != nil {
		return nil, err
	}
	return spoke.Open(cluster.Access, s.clock)
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// with runs call with a client for the cluster of a ClusterDeployment. It does nothing if the
// engine has no such cluster.
func (s *Spokes) with(ctx context.Context, deployment string, call func(*spoke.Client) error) error {
	id := ""
	if err := s.db.View(func(tx *store.Tx) (err error) {
		id, err = s.engine.Rows(tx).ClusterOf(deployment)
		return err
	}); err != nil || id == "" {
		return err
	}
	cluster, err := s.Cluster(id)
	if err != nil {
		return err
	}
	client, err := spoke.Open(cluster.Access, s.clock)
	if err != nil {
		return err
	}
	defer client.Close()
	return explained(call(client), client.Server())
}

// explained converts an error of a cluster's API to a sentence for users. [spoke.ErrNoMachines] is
// returned unchanged.
func explained(err error, server string) error {
	if err == nil || errors.Is(err, spoke.ErrNoMachines) {
		return err
	}
	_, message := spoke.Explain(err, server)
	return errors.New(message)
}

// RemoveNode implements hosts.Spokes.
func (s *Spokes) RemoveNode(task, deployment, node string, requeue func()) (done bool, err error) {
	return s.tasks.Do("remove "+task, func(ctx context.Context) error {
		return s.with(ctx, deployment, func(c *spoke.Client) error { return c.RemoveNode(ctx, node) })
	}, requeue)
}

// PausePool implements clusters.Spokes.
func (s *Spokes) PausePool(task, deployment, pool string, paused bool, requeue func()) (done bool, err error) {
	return s.tasks.Do("pool "+task, func(ctx context.Context) error {
		return s.with(ctx, deployment, func(c *spoke.Client) error { return c.PausePool(ctx, pool, paused) })
	}, requeue)
}

// EnsureMachine implements metal.Spokes.
func (s *Spokes) EnsureMachine(task, deployment string, server spoke.Server, requeue func()) (done bool, err error) {
	return s.tasks.Do("machine "+task, func(ctx context.Context) error {
		return s.with(ctx, deployment, func(c *spoke.Client) error { return c.EnsureMachine(ctx, server) })
	}, requeue)
}

// ServerCA implements metal.Spokes.
func (s *Spokes) ServerCA(task, deployment string, requeue func()) (bundle string, done bool, err error) {
	return s.tasks.Ask("authority "+task, func(ctx context.Context) (bundle string, err error) {
		err = s.with(ctx, deployment, func(c *spoke.Client) (err error) {
			bundle, err = c.ServerCA(ctx)
			return err
		})
		return bundle, err
	}, requeue)
}

// errDraining reports that a node still has pods.
var errDraining = errors.New("the node is being drained")

// DrainNode implements metal.Spokes.
func (s *Spokes) DrainNode(task, deployment, node string, requeue func()) (drained, done bool, err error) {
	done, err = s.tasks.Do("drain "+task, func(ctx context.Context) error {
		empty := true
		err := s.with(ctx, deployment, func(c *spoke.Client) (err error) {
			empty, err = c.DrainNode(ctx, node)
			return err
		})
		if err == nil && !empty {
			return errDraining
		}
		return err
	}, requeue)
	if errors.Is(err, errDraining) {
		return false, done, nil
	}
	return err == nil, done, err
}
