package appliance

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"github.com/jonboulle/clockwork"
	"k8s.io/apiserver/pkg/admission"

	"landfall/appliance/kube/clusters"
	"landfall/appliance/kube/hosts"
	"landfall/appliance/kube/projection"
	"landfall/appliance/mirror"
	"landfall/appliance/osimage"
	"landfall/store"
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
	m := s.a.mirror
	var held *mirror.Import
	if err := s.a.db.View(func(tx *store.Tx) error {
		row, err := mirrorImports.Get(tx, importKey(level, name))
		if err == nil {
			held = &row.Import
		}
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	}); err != nil {
		return err
	}
	switch {
	case held == nil && rules == nil, held != nil && rules != nil && reflect.DeepEqual(held.Files, rules.Files):
		return nil // images are made anew by each change
	case rules == nil:
		return m.Remove(ctx, level, name)
	}
	_, err := m.Import(ctx, level, name, rules)
	return err
}

// Known implements hosts.OSImages.
func (s hiveSite) Known(version, architecture string) bool {
	images, err := s.a.images.List()
	return err == nil && slices.ContainsFunc(images, func(image osimage.Image) bool {
		return osimage.Minor(image.OpenshiftVersion) == osimage.Minor(version) &&
			image.CPUArchitecture == orX86(architecture)
	})
}
