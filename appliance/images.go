package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
	"landfall/isogen"
	"landfall/web/api"
	"landfall/web/image"
	"landfall/web/problem"
)

// heldImages bounds how many images are kept made; one takes little more than its ignition config.
const heldImages = 64

// discoveryImages makes the images of infra-envs out of their recipes and the base ISOs, and keeps those asked for last.
type discoveryImages struct {
	engine  *engine.Engine
	bases   *osImages
	digests *digests

	mu    sync.Mutex
	held  map[imageKey]*image.Image
	order []imageKey // of held, the one made longest ago first
}

// imageKey is what an image is made from.
type imageKey struct {
	base   *isogen.Base
	recipe string // digest; "" for an artifact
	kind   image.Kind
	boot   string // what the image's links begin with
}

func newDiscoveryImages(engine *engine.Engine, bases *osImages) *discoveryImages {
	return &discoveryImages{engine: engine, bases: bases, digests: newDigests(), held: make(map[imageKey]*image.Image)}
}

// recipe is what an image of an infra-env is made from.
type recipe struct {
	*engine.Discovery
	digest string
}

func (d *discoveryImages) recipe(ctx context.Context, infraEnvID string) (*recipe, error) {
	discovery, err := d.engine.Discovery(ctx, infraEnvID)
	if err != nil {
		return nil, api.Problem(err)
	}
	sum := sha256.Sum256(discovery.Ignition)
	return &recipe{discovery, hex.EncodeToString(sum[:])}, nil
}

// Image implements image.Source. The kind "" is the infra-env's own.
func (d *discoveryImages) Image(ctx context.Context, infraEnvID string, kind image.Kind, network image.Network) (*image.Image, error) {
	recipe, err := d.recipe(ctx, infraEnvID)
	if err != nil {
		return nil, err
	}
	if kind == "" {
		kind = kindOf(recipe.Type)
	}
	base, err := d.bases.find(recipe.Version, recipe.Arch)
	if err != nil {
		return nil, err
	}
	k := imageKey{base: base, recipe: infraEnvID + recipe.digest, kind: kind}
	if kind == image.Minimal {
		k.boot = network.Boot
	}
	if made := d.find(k); made != nil && made.Intact() == nil {
		return made, nil
	}
	content, err := build(base, kind, isogen.Payload{Ignition: recipe.Ignition})
	if err != nil {
		return nil, err
	}
	return d.keep(k, d.describe(content, infraEnvID, kind, imageFileName(kind, recipe.Name, infraEnvID), recipe.Modified)), nil
}

func kindOf(kind models.ImageType) image.Kind {
	if kind == models.ImageTypeMinimalIso {
		return image.Minimal
	}
	return image.Full
}

// build makes an image.
func build(base *isogen.Base, kind image.Kind, payload isogen.Payload) (*isogen.Image, error) {
	if kind == image.Full {
		return base.Full(payload)
	}
	return nil, problem.New(http.StatusNotImplemented, "images of kind %s are not made yet; download full.iso", kind)
}

// Artifact implements image.Source.
func (d *discoveryImages) Artifact(_ context.Context, version, arch string, kind image.Kind) (*image.Image, error) {
	base, err := d.bases.find(version, arch)
	if err != nil {
		return nil, err
	}
	k := imageKey{base: base, kind: kind}
	if made := d.find(k); made != nil && made.Intact() == nil {
		return made, nil
	}
	content, err := build(base, kind, isogen.Payload{})
	if err != nil {
		return nil, err
	}
	return d.keep(k, d.describe(content, "", kind, string(kind), time.Time{})), nil
}

// Code implements image.Source.
func (d *discoveryImages) Code(context.Context, string) (string, time.Time, error) {
	return "", time.Time{}, problem.NotFound("there is no image at this address; copy the infra-env's short URL anew")
}

// Script implements image.Source.
func (d *discoveryImages) Script(context.Context, image.Script) ([]byte, error) {
	return nil, problem.New(http.StatusNotImplemented, "scripts are not made yet")
}

// Ready implements image.Source.
func (d *discoveryImages) Ready() error { return nil }

// Failed implements image.Source: the base is looked at anew when it is asked for next.
func (d *discoveryImages) Failed(*image.Image, error) {}

func (d *discoveryImages) describe(content *isogen.Image, infraEnvID string, kind image.Kind, fileName string, modified time.Time) *image.Image {
	return &image.Image{
		Image: content, InfraEnvID: infraEnvID, Kind: kind, FileName: fileName, Modified: modified,
		Digest: func(compute bool) string { return d.digests.of(content, compute) },
	}
}

func (d *discoveryImages) find(k imageKey) *image.Image {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held[k]
}

// keep keeps an image, or returns the one that was made of the same meanwhile.
func (d *discoveryImages) keep(k imageKey, made *image.Image) *image.Image {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.held[k]; ok && known.Intact() == nil {
		return known
	} else if !ok {
		d.order = append(d.order, k)
	}
	d.held[k] = made
	if len(d.order) > heldImages {
		delete(d.held, d.order[0])
		d.order = d.order[1:]
	}
	return made
}

// imageFileName is what a download is called on the client's disk.
func imageFileName(kind image.Kind, name, infraEnvID string) string {
	if name == "" {
		name = infraEnvID
	}
	name = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\"`, r) {
			return '_'
		}
		return r
	}, name)
	switch kind {
	case image.Full:
		return "discovery_image_" + name + ".iso"
	case image.Minimal, image.Config:
		return "discovery_image_" + name + "-" + string(kind) + ".iso"
	}
	return name + "-" + string(kind)
}
