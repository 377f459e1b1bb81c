package appliance

import (
	"context"

	"golang.org/x/sync/errgroup"

	"landfall/appliance/engine"
	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/appliance/kube/joining"
	"landfall/appliance/kube/metal"
	"landfall/store"
)

// kubeconfigs finds the kubeconfigs of installed clusters.
func (a *Appliance) kubeconfigs() joining.Kubeconfigs {
	if a.kubernetes == nil {
		return joining.Kubeconfigs{}
	}
	return joining.Kubeconfigs{Objects: &a.kubernetes.clusters}
}

// followed returns the engine's hook that reports whether the appliance observes hosts as they join
// a cluster. It returns nil if the configuration disables this.
func (a *Appliance) followed() func(*store.Tx, view.Rows, string) (bool, error) {
	if !a.config.Joining.Follow {
		return nil
	}
	return a.kubeconfigs().Followed
}

// newSpokes returns the connections to installed clusters, or nil if the configuration disables
// them.
func (a *Appliance) newSpokes(names map[string]string) *joining.Spokes {
	if !a.config.Joining.Follow {
		return nil
	}
	return joining.NewSpokes(a.db, a.engine, a.kubeconfigs(), names, a.egress, a.clock)
}

// approvedThere reports whether a host's cluster itself approves the certificate requests of the
// host's kubelet. It does if it has a Machine for the host.
func (a *Appliance) approvedThere(host engine.AwaitedHost) (there bool, err error) {
	if a.kubernetes == nil {
		return false, nil
	}
	err = a.db.View(func(tx *store.Tx) error {
		view, err := a.engine.Rows(tx).Host(host.Key)
		if err != nil || view.Object.Key == "" {
			return err
		}
		there, err = metal.HasMachine(tx, a.kubernetes.objects, view.Object.Key)
		return err
	})
	if fault.KindOf(err) == fault.NotFound {
		err = nil // the host was deleted in the meantime
	}
	return there, err
}

// followHosts observes hosts as they join their clusters, until the context ends.
func (a *Appliance) followHosts(ctx context.Context) error {
	if a.spokes == nil {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.spokes.Run(ctx) })
	group.Go(func() error {
		return joining.New(joining.Options{
			Engine: a.engine, Cluster: a.spokes.Cluster, GiveUp: a.config.Joining.GiveUp,
			Interval:      a.config.Joining.Interval,
			ApprovedThere: a.approvedThere, Clock: a.clock, Logger: a.log,
		}).Run(ctx)
	})
	return group.Wait()
}
