package appliance

import (
	"context"

	"golang.org/x/sync/errgroup"

	"landfall/appliance/engine/view"
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

// followHosts observes hosts as they join their clusters, until the context ends.
func (a *Appliance) followHosts(ctx context.Context) error {
	if a.spokes == nil {
		return nil
	}
	var approvedThere func(hostKey string) (bool, error)
	if k := a.kubernetes; k != nil {
		approvedThere = metal.Machines{DB: a.db, Objects: k.objects}.Has
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.spokes.Run(ctx) })
	group.Go(func() error {
		return joining.New(joining.Options{
			Engine: a.engine, Cluster: a.spokes.Cluster, GiveUp: a.config.Joining.GiveUp,
			Interval:      a.config.Joining.Interval,
			ApprovedThere: approvedThere, Clock: a.clock, Logger: a.log,
		}).Run(ctx)
	})
	return group.Wait()
}
