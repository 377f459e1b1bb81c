package appliance

import (
	"context"
	"errors"
	"net/netip"

	"github.com/go-openapi/swag/conv"
	"github.com/jonboulle/clockwork"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/engine"
	"landfall/appliance/kube/hive"
	"landfall/appliance/kube/joining"
	"landfall/appliance/kube/metal"
	"landfall/appliance/kube/spoke"
	"landfall/store"
)

// spokes are the clusters that are installed, as the appliance reaches into them.
type spokes struct {
	a     *Appliance
	names map[string]string
	tasks spoke.Tasks
}

func newSpokes(a *Appliance) (*spokes, error) {
	names, err := joining.ParseNames(a.config.Joining.Addresses)
	return &spokes{a: a, names: names}, err
}

// reach is what controllers reach into clusters by; nil if that is switched off.
func (a *Appliance) reach() (forAgents hive.Spokes, forServers metal.Spokes) {
	if !a.config.Joining.Follow {
		return nil, nil
	}
	return a.spokes, a.spokes
}

// follows tells whether hosts are followed into a cluster: one that was described to the Kubernetes
// API, where a kubeconfig may come yet, and any other that there is a kubeconfig of.
func (s *spokes) follows(tx *store.Tx, id string) (bool, error) {
	if !s.a.config.Joining.Follow {
		return false, nil
	}
	found, _, err := s.find(tx, id)
	return found.Described || len(found.Kubeconfig) > 0, err
}

// find looks for a cluster's kubeconfig: in the Secret that its ClusterDeployment names, then among
// the files of its installation.
func (s *spokes) find(tx *store.Tx, id string) (found hive.SpokeKubeconfig, view *engine.ClusterView, err error) {
	rows := s.a.engine.Rows(tx)
	if view, err = rows.Cluster(id); err != nil {
		return found, nil, err
	}
	if k := s.a.kubernetes; k != nil {
		if found, err = k.hive.clusters.SpokeKubeconfig(tx, view); err != nil || found.Kubeconfig != nil {
			return found, view, err
		}
	}
	file := "kubeconfig-noingress"
	if view.Complete {
		file = "kubeconfig"
	}
	content, err := rows.ClusterFile(id, file)
	if engine.KindOf(err) == engine.NotFound {
		return found, view, nil
	}
	if err == nil {
		found.Kubeconfig, found.From = content, "the files of cluster "+view.Name
	}
	return found, view, err
}

// way is how a cluster is reached. It is a *spoke.MissingError if nobody has a kubeconfig of it.
func (s *spokes) way(id string) (way joining.Cluster, err error) {
	err = s.a.db.View(func(tx *store.Tx) error {
		found, view, err := s.find(tx, id)
		if err != nil {
			return err
		}
		way.Lenient = !found.Described
		if found.Kubeconfig == nil && found.From != "" {
			return &spoke.MissingError{Where: found.From + " is not there, or has no key kubeconfig"}
		}
		if found.Kubeconfig == nil {
			return &spoke.MissingError{Where: "cluster " + view.Name + " was not installed from here"}
		}
		way.Access = spoke.Access{Kubeconfig: found.Kubeconfig, From: found.From, Names: s.names}
		for _, vip := range view.APIVips {
			way.Addresses = append(way.Addresses, string(vip.IP))
		}
		if address := conv.Value(view.APIVipDNSName); isAddress(address) && len(way.Addresses) == 0 {
			way.Addresses = append(way.Addresses, address)
		}
		return nil
	})
	return way, err
}

// with opens the way to the cluster of a ClusterDeployment, by its key. there is false if no
// cluster is known by it any more.
func (s *spokes) with(ctx context.Context, deployment string, call func(context.Context,
	*spoke.Client) error) (there bool, err error) {
	id := ""
	if err := s.a.db.View(func(tx *store.Tx) (err error) {
		id, err = s.a.engine.Rows(tx).ClusterOf(deployment)
		return err
	}); err != nil || id == "" {
		return false, err
	}
	way, err := s.way(id)
	if err != nil {
		return true, err
	}
	client, err := spoke.Open(way.Access, clockwork.NewRealClock())
	if err != nil {
		return true, err
	}
	defer client.Close()
	return true, explained(call(ctx, client), client.Server())
}

// explained makes an error of a cluster's API a sentence; others stay.
func explained(err error, server string) error {
	if err == nil || errors.Is(err, spoke.ErrNoMachines) {
		return err
	}
	_, message := spoke.Explain(err, server)
	return errors.New(message)
}

// RemoveNode implements hive.Spokes.
func (s *spokes) RemoveNode(task, deployment, node string, again func()) (done bool, err error) {
	return s.tasks.Do("remove "+task, func(ctx context.Context) error {
		_, err := s.with(ctx, deployment, func(ctx context.Context, c *spoke.Client) error {
			return c.RemoveNode(ctx,
				node)
		})
		return err
	}, again)
}

// EnsureMachine implements metal.Spokes.
func (s *spokes) EnsureMachine(task, deployment string, server spoke.Server, again func()) (done bool, err error) {
	return s.tasks.Do("machine "+task, func(ctx context.Context) error {
		_, err := s.with(ctx, deployment, func(ctx context.Context, c *spoke.Client) error {
			return c.EnsureMachine(ctx,
				server)
		})
		return err
	}, again)
}

// ServerCA implements metal.Spokes.
func (s *spokes) ServerCA(task, deployment string, again func()) (bundle string, done bool, err error) {
	return s.tasks.Ask("authority "+task, func(ctx context.Context) (bundle string, err error) {
		_, err = s.with(ctx, deployment, func(ctx context.Context, c *spoke.Client) (err error) {
			bundle, err = c.ServerCA(ctx)
			return err
		})
		return bundle, err
	}, again)
}

// PausePool implements hive.Spokes.
func (s *spokes) PausePool(task, deployment, pool string, paused bool, again func()) (done bool, err error) {
	return s.tasks.Do("pool "+task, func(ctx context.Context) error {
		_, err := s.with(ctx, deployment, func(ctx context.Context, c *spoke.Client) error {
			return c.PausePool(ctx,
				pool, paused)
		})
		return err
	}, again)
}

// errDraining is of a node that still has pods.
var errDraining = errors.New("the node is being drained")

// DrainNode implements metal.Spokes.
func (s *spokes) DrainNode(task, deployment, node string, again func()) (drained, done bool, err error) {
	done, err = s.tasks.Do("drain "+task, func(ctx context.Context) error {
		left := false
		_, err := s.with(ctx, deployment, func(ctx context.Context, c *spoke.Client) error {
			drained, err := c.DrainNode(ctx, node)
			left = !drained
			return err
		})
		if err == nil && left {
			return errDraining
		}
		return err
	}, again)
	if errors.Is(err, errDraining) {
		return false, done, nil
	}
	return err == nil, done, err
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// approvedThere tells whether a host's cluster approves what its kubelet asks for: that is so where
// a Machine stands for it there.
func (s *spokes) approvedThere(host engine.AwaitedHost) (there bool, err error) {
	if s.a.kubernetes == nil {
		return false, nil
	}
	err = s.a.db.View(func(tx *store.Tx) error {
		view, err := s.a.engine.Rows(tx).Host(host.Key)
		if err != nil || view.Object.Key == "" {
			return err
		}
		there, err = metal.HasMachine(tx, s.a.kubernetes.objects, view.Object.Key)
		return err
	})
	if engine.KindOf(err) == engine.NotFound {
		err = nil // it was deleted a moment ago
	}
	return there, err
}

// run follows hosts into their clusters until the context ends.
func (s *spokes) run(ctx context.Context) error {
	if !s.a.config.Joining.Follow {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.tasks.Run(ctx) })
	group.Go(func() error {
		return joining.New(joining.Options{
			Engine: s.a.engine, Cluster: s.way, GiveUp: s.a.config.Joining.GiveUp,
			Interval:      s.a.config.Joining.Interval,
			ApprovedThere: s.approvedThere, Clock: clockwork.NewRealClock(), Logger: s.a.log,
		}).Run(ctx)
	})
	return group.Wait()
}
