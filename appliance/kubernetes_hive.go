package appliance

import (
	"context"
	"slices"

	"github.com/jonboulle/clockwork"
	"k8s.io/apiserver/pkg/admission"

	"landfall/appliance/kube/clusters"
	"landfall/appliance/kube/hosts"
	"landfall/appliance/kube/projection"
	"landfall/appliance/mirror"
	"landfall/appliance/osimage"
)

// addControllers adds the controllers of clusters and hosts to the loop, and returns the admission
// rules of their kinds.
func (a *Appliance) addControllers(k *kubernetesAPI) []admission.Interface {
	clock, site := clockwork.NewRealClock(), hiveSite{a}
	clustersOptions := clusters.Options{Projector: k.clusters, DB: a.db, Engine: a.engine, Loop: k.loop, Mirrors: site,
		Clock: clock}
	hostsOptions := hosts.Options{Projector: k.hosts, DB: a.db, Engine: a.engine, Loop: k.loop, Mirrors: site,
		OSImages: site, Images: site, Clock: clock}
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

// hiveSite is what the controllers ask of the site.
type hiveSite struct{ a *Appliance }

// SetMirror implements hosts.Mirrors.
func (s hiveSite) SetMirror(ctx context.Context, level mirror.Level, name string, rules *mirror.Import) error {
	return s.a.mirror.SetMirror(ctx, level, name, rules)
}

// Known implements hosts.OSImages.
func (s hiveSite) Known(version, architecture string) bool {
	images, err := s.a.images.List()
	return err == nil && slices.ContainsFunc(images, func(image osimage.Image) bool {
		return osimage.Minor(image.OpenshiftVersion) == osimage.Minor(version) &&
			image.CPUArchitecture == orX86(architecture)
	})
}
