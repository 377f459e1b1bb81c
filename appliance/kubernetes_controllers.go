package appliance

import (
	"context"

	"github.com/jonboulle/clockwork"
	"k8s.io/apiserver/pkg/admission"

	"landfall/appliance/kube/clusters"
	"landfall/appliance/kube/hosts"
	"landfall/appliance/kube/projection"
)

// newControllers adds the controllers of clusters and hosts to the loop. It returns the admission
// rules of their kinds and the task that runs the loop.
func (a *Appliance) newControllers(k *kubernetesObjects) ([]admission.Interface, task) {
	clock, baseImages := clockwork.NewRealClock(), hosts.BaseImages{Library: a.images}
	clustersOptions := clusters.Options{Projector: k.clusters, DB: a.db, Engine: a.engine, Loop: k.loop,
		Mirrors: a.mirror, Clock: clock}
	hostsOptions := hosts.Options{Projector: k.hosts, DB: a.db, Engine: a.engine, Loop: k.loop, Mirrors: a.mirror,
		OSImages: baseImages, Images: baseImages, Clock: clock}
	if a.spokes != nil {
		clustersOptions.Spokes, hostsOptions.Spokes = a.spokes, a.spokes
	}
	clusters.New(clustersOptions)
	catchUp := projection.CatchUp{DB: a.db, Engine: a.engine, Projector: projection.Chain{k.hosts, k.clusters},
		Program: a.version, URL: a.urls[0], Clock: clock}
	rules := []admission.Interface{clusters.Admission{}, hosts.Admission{Controllers: hosts.New(hostsOptions)}}
	return rules, func(ctx context.Context) error {
		if err := catchUp.Run(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		return k.loop.Run(ctx)
	}
}
