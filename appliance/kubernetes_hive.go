package appliance

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"github.com/jonboulle/clockwork"
	"k8s.io/apiserver/pkg/admission"

	"landfall/appliance/engine"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/hive"
	"landfall/appliance/kube/objects"
	"landfall/appliance/mirror"
	"landfall/appliance/osimage"
	"landfall/store"
)

// hiveControllers are the controllers of Hive's and the Assisted Installer's kinds.
type hiveControllers struct {
	clusters *hive.Clusters
	hosts    *hive.Hosts
	catchUp  hive.CatchUp
}

func (a *Appliance) newHiveControllers(o *objects.Objects) *hiveControllers {
	clock, site := clockwork.NewRealClock(), hiveSite{a}
	reach, _ := a.reach()
	h := &hiveControllers{
		clusters: hive.NewClusters(hive.ClustersOptions{Spokes: reach, DB: a.db, Objects: o, Mirrors: site,
			URL: a.urls[0], Clock: clock, Logger: a.log}),
		hosts: hive.NewHosts(hive.HostsOptions{Spokes: reach, DB: a.db, Objects: o, Mirrors: site, OSImages: site,
			Images: site, URL: a.urls[0], Clock: clock, Logger: a.log}),
	}
	h.catchUp = hive.CatchUp{DB: a.db, Clusters: h.clusters, Hosts: h.hosts, Program: a.version, Clock: clock}
	return h
}

// projectors are both: what clusters show depends on the Agents of their hosts.
func (h *hiveControllers) projectors() engine.Projector {
	return hive.Projectors{h.hosts, h.clusters, hive.EventsOf(h.clusters.Objects)}
}

// addTo has a loop call the controllers, and returns the rules by which their kinds are admitted.
func (h *hiveControllers) addTo(loop *controller.Loop, e *engine.Engine) []admission.Interface {
	h.clusters.Use(e)
	h.hosts.Use(e)
	h.catchUp.Engine = e
	h.clusters.AddTo(loop)
	h.hosts.AddTo(loop)
	return []admission.Interface{hive.ClustersAdmission{}, hive.HostsAdmission{Hosts: h.hosts}}
}

// thenRun shows what there is in objects before the controllers run.
func (h *hiveControllers) thenRun(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := h.catchUp.Run(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		return run(ctx)
	}
}

// hiveSite is what the controllers ask of the site.
type hiveSite struct{ a *Appliance }

// SetMirror implements hive.Mirrors.
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

// Known implements hive.OSImages.
func (s hiveSite) Known(version, architecture string) bool {
	images, err := s.a.images.List()
	return err == nil && slices.ContainsFunc(images, func(image osimage.Image) bool {
		return osimage.Minor(image.OpenshiftVersion) == osimage.Minor(version) &&
			image.CPUArchitecture == orX86(architecture)
	})
}
