package appliance

import (
	"context"

	"k8s.io/apiserver/pkg/admission"

	"landfall/appliance/hosted/provider"
	"landfall/appliance/kube/clusters"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/hosts"
	"landfall/appliance/kube/metal"
	"landfall/store"
)

// newControllers adds all reconcilers to the reconcile loop. It returns the admission rules of
// their kinds, and the tasks that project recorded changes and run the loop.
func (a *Appliance) newControllers(k *kubernetesObjects) ([]admission.Interface, []task) {
	clock, baseImages := a.clock, hosts.BaseImages{Library: a.images}
	clustersOptions := clusters.Options{Projector: k.clusters, DB: a.db, Engine: a.engine, Loop: k.loop,
		Mirrors: a.mirror, KeepCluster: provider.KeepCluster, Clock: clock}
	hostsOptions := hosts.Options{Projector: k.hosts, DB: a.db, Engine: a.engine, Loop: k.loop, Mirrors: a.mirror,
		OSImages: baseImages, Images: baseImages, Clock: clock}
	metalOptions := a.metalOptions(k)
	if a.spokes != nil {
		clustersOptions.Spokes, hostsOptions.Spokes, metalOptions.Spokes = a.spokes, a.spokes, a.spokes
	}
	ofClusters, ofHosts, ofMetal := clusters.New(clustersOptions), hosts.New(hostsOptions), metal.New(metalOptions)
	k.loop.Add(ofClusters)
	k.loop.Add(ofHosts.Reconcilers()...)
	k.loop.Add(ofMetal.Reconcilers()...)

	reconcile := func(ctx context.Context) error {
		if err := a.catchUp.Start(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		inputs, err := controller.Inputs(a.version, a.urls, a.config, a.images.IDs())
		if err != nil {
			return err
		}
		return k.loop.Resume(ctx, inputs)
	}
	rules := []admission.Interface{clusters.Admission{}, hosts.Admission{Controllers: ofHosts}, metal.NewAdmission()}
	return rules, []task{reconcile, a.catchUp.Follow}
}

// metalOptions returns the options of the controllers of BareMetalHosts, without the connections to
// installed clusters.
func (a *Appliance) metalOptions(k *kubernetesObjects) metal.Options {
	return metal.Options{
		Loop: k.loop, DB: a.db, Objects: k.objects, Servers: a.bmcs, ImageSettles: a.config.Kubernetes.ImageSettles,
		Logger: a.log,
		InfraEnvID: func(tx *store.Tx, namespace, name string) (string, error) {
			return a.engine.Rows(tx).InfraEnvOf(namespace + "/" + name)
		},
		HostKey: func(tx *store.Tx, namespace, name string) (string, error) {
			return a.engine.Rows(tx).HostOf(namespace + "/" + name)
		},
		RestartHost: a.engine.RestartHost,
	}
}
