package appliance

import (
	"context"

	"github.com/jonboulle/clockwork"
	"k8s.io/apiserver/pkg/admission"

	"landfall/appliance/kube/clusters"
	"landfall/appliance/kube/hosts"
	"landfall/appliance/kube/projection"
)

// addControllers adds the controllers of clusters and hosts to the loop, and returns the admission
// rules of their kinds.
func (a *Appliance) addControllers(k *kubernetesAPI) []admission.Interface {
	clock, baseImages := clockwork.NewRealClock(), hosts.BaseImages{Library: a.images}
	clustersOptions := clusters.Options{Projector: k.clusters, DB: a.db, Engine: a.engine, Loop: k.loop,
		Mirrors: a.mirror,
		Clock:   clock}
	hostsOptions := hosts.Options{Projector: k.hosts, DB: a.db, Engine: a.engine, Loop: k.loop, Mirrors: a.mirror,
		OSImages: baseImages, Images: baseImages, Clock: clock}
	if a.spokes != nil {
		clustersOptions.Spokes, hostsOptions.Spokes = a.spokes, a.spokes
	}
	clusters.New(clustersOptions)
	catchUp := projection.CatchUp{DB: a.db, Engine: a.engine, Projector: projection.Chain{k.hosts, k.clusters},
		Program: a.version, URL: a.urls[0], Clock: clock}
	k.runs = append(k.runs, func(ctx context.Context) error {
		if err := catchUp.Run(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		return k.loop.Run(ctx)
	})
	return []admission.Interface{clusters.Admission{}, hosts.Admission{Controllers: hosts.New(hostsOptions)}}
}
