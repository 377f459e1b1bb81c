package appliance

import (
	"context"
	"sync"
	"time"

	"landfall/appliance/engine"
	"landfall/isogen"
	"landfall/web/api"
	"landfall/web/image"
)

// heldImages bounds how many images are kept made; one takes little more than its ignition config.
const heldImages = 64

// discoveryImages makes the images of infra-envs and keeps those asked for last.
type discoveryImages struct {
	engine  *engine.Engine
	bases   *osImages
	digests *digests

	mu    sync.Mutex
	held  map[string]*heldImage // by infra-env id
	order []string              // of held, the one asked for longest ago first
}

type heldImage struct {
	changed time.Time // of the infra-env
	base    *isogen.Base
	image   *image.Image
}

// Image returns the image of an infra-env as it is now.
func (d *discoveryImages) Image(ctx context.Context, id, _ string) (*image.Image, error) {
	env, err := d.engine.InfraEnv(id)
	if err != nil {
		return nil, api.Problem(err)
	}
	base, err := d.bases.find(env.OpenshiftVersion, env.CPUArchitecture)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	held, ok := d.held[id]
	d.mu.Unlock()
	if ok && held.changed.Equal(*env.UpdatedAt) && held.base == base && held.image.Intact() == nil {
		return held.image, nil
	}
	discovery, err := d.engine.Discovery(ctx, id)
	if err != nil {
		return nil, api.Problem(err)
	}
	full, err := base.Full(isogen.Payload{Ignition: discovery.Ignition})
	if err != nil {
		return nil, err
	}
	made := &image.Image{Image: full, Name: discovery.Name, Modified: discovery.Modified}
	d.keep(id, &heldImage{discovery.Modified, base, made})
	return made, nil
}

func (d *discoveryImages) keep(id string, made *heldImage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.held[id]; !ok {
		d.order = append(d.order, id)
	}
	d.held[id] = made
	if len(d.order) > heldImages {
		delete(d.held, d.order[0])
		d.order = d.order[1:]
	}
}
