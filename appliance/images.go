package appliance

import (
	"context"
	"errors"
	"io/fs"
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

// discoveryImages makes the images of infra-envs out of their recipes and the base ISOs, and keeps
// those made last.
type discoveryImages struct {
	engine  *engine.Engine
	bases   *osImages
	digests *digests

	mu      sync.Mutex
	recipes map[string]*engine.Recipe // by infra-env id
	held    map[imageKey]*image.Image
	order   []imageKey // of held, the one made longest ago first
}

// imageKey is what an image is made from.
type imageKey struct {
	base          *isogen.Base
	version, arch string // that the base was found by
	infraEnvID    string
	recipe        string // digest; "" for an artifact
	kind          image.Kind
	boot          string // what the image's links begin with
}

func newDiscoveryImages(e *engine.Engine, bases *osImages) *discoveryImages {
	return &discoveryImages{
		engine: e, bases: bases, digests: newDigests(),
		recipes: make(map[string]*engine.Recipe), held: make(map[imageKey]*image.Image),
	}
}

// recipe returns what an infra-env's images are made from, as it was frozen when the infra-env last
// changed.
func (d *discoveryImages) recipe(ctx context.Context, infraEnvID string) (*engine.Recipe, error) {
	newest, err := d.engine.RecipeDigest(infraEnvID)
	if err != nil {
		return nil, api.Problem(err)
	}
	d.mu.Lock()
	known := d.recipes[infraEnvID]
	d.mu.Unlock()
	if known != nil && known.Digest == newest {
		return known, nil
	}
	recipe, err := d.engine.Recipe(ctx, infraEnvID)
	if err != nil {
		return nil, api.Problem(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.recipes) >= heldImages {
		clear(d.recipes)
	}
	d.recipes[infraEnvID] = recipe
	return recipe, nil
}

// Image implements image.Source. The kind "" is the infra-env's own.
func (d *discoveryImages) Image(ctx context.Context, infraEnvID string, kind image.Kind,
	network image.Network) (*image.Image, error) {
	recipe, err := d.recipe(ctx, infraEnvID)
	if err != nil {
		return nil, err
	}
	if kind == "" {
		kind = kindOf(recipe.Type)
	}
	base, err := d.bases.find(recipe.OpenshiftVersion, recipe.CPUArchitecture)
	if err != nil {
		return nil, err
	}
	k := imageKey{base, recipe.OpenshiftVersion, recipe.CPUArchitecture, infraEnvID, recipe.Digest, kind, ""}
	if kind == image.Minimal {
		k.boot = network.Boot
	}
	if made := d.find(k); made != nil {
		return made, nil
	}
	content, err := build(base, kind, recipe, rootFSURL(network, recipe))
	if err != nil {
		return nil, told(err)
	}
	return d.keep(k, content, imageFileName(kind, recipe.Name, infraEnvID), recipe.Modified), nil
}

func kindOf(kind models.ImageType) image.Kind {
	if kind == models.ImageTypeMinimalIso {
		return image.Minimal
	}
	return image.Full
}

// build makes an image of an infra-env.
func build(base *isogen.Base, kind image.Kind, recipe *engine.Recipe, rootFSURL string) (*isogen.Image, error) {
	config := isogen.Payload{Ignition: recipe.Ignition}
	whole := config
	for _, file := range recipe.Files {
		whole.Files = append(whole.Files, isogen.File{Path: file.Path, Mode: fs.FileMode(file.Mode), Data: file.Data})
	}
	arguments := kernelArguments(recipe)
	switch kind {
	case image.Full:
		return base.Full(config, arguments...)
	case image.Minimal:
		if recipe.WithoutNetwork != "" {
			return nil, problem.Conflict("%s", recipe.WithoutNetwork)
		}
		return base.Minimal(whole, rootFSURL, arguments...)
	case image.Initrd:
		return base.Initrd(whole)
	case image.InitrdAddrSize:
		return base.InitrdAddrSize(whole)
	case image.Config:
		return isogen.ConfigImage(config)
	}
	return nil, problem.NotFound("an infra-env has no %s", kind)
}

func kernelArguments(recipe *engine.Recipe) []isogen.KernelArgument {
	var arguments []isogen.KernelArgument
	for _, a := range recipe.KernelArguments {
		arguments = append(arguments, isogen.KernelArgument{Operation: isogen.Operation(a.Operation), Value: a.Value})
	}
	return arguments
}

// told makes a refusal of isogen's one that HTTP clients are told.
func told(err error) error {
	var minimal *isogen.NoMinimalError
	var tooLarge *isogen.TooLargeError
	var arguments *isogen.KernelArgumentError
	var netboot *isogen.NetworkBootError
	if errors.As(err, &minimal) || errors.As(err, &netboot) || errors.As(err, &tooLarge) || errors.As(err, &arguments) {
		return &problem.Error{Status: http.StatusConflict, Reason: err.Error(), Err: err}
	}
	return err
}

// imagePath begins the paths of an infra-env's images. Version and architecture are in it for
// people, and find the rootfs that belongs to an image when the infra-env has moved on to another
// version.
func imagePath(recipe *engine.Recipe) string {
	return "/byid/" + recipe.InfraEnvID + "/" + recipe.OpenshiftVersion + "/" + recipe.CPUArchitecture + "/"
}

func rootFSURL(network image.Network, recipe *engine.Recipe) string {
	return network.Boot + imagePath(recipe) + "rootfs.img"
}

// baseImages lets the engine ask what the base images can carry. The engine comes first, so what
// answers is not there yet when it is made.
type baseImages struct{ appliance *Appliance }

// Check implements engine.BaseImages.
func (b baseImages) Check(version, arch string, recipe *engine.Recipe) error {
	if b.appliance.discovery == nil {
		return nil
	}
	return b.appliance.discovery.check(version, arch, recipe)
}

// check makes what would be downloaded, which takes milliseconds.
func (d *discoveryImages) check(version, arch string, recipe *engine.Recipe) error {
	base, err := d.bases.Find(version, arch)
	if err != nil {
		return nil // it is not there yet
	}
	if _, err := build(base, image.Full, recipe, ""); err != nil {
		return err
	}
	if kindOf(recipe.Type) == image.Minimal {
		_, err = build(base, image.Minimal, recipe, longestURL)
	}
	return err
}

// longestURL stands for a URL that a rootfs is fetched from, of which the networks' are not known
// when a recipe is checked: of a host name of some length.
const longestURL = "http://landfall.example.example.example.com:65535/byid/00000000-0000-0000-0000-000000000000/4.20.0/x86_64/rootfs.img"

// Artifact implements image.Source.
func (d *discoveryImages) Artifact(_ context.Context, version, arch string, kind image.Kind) (*image.Image, error) {
	base, err := d.bases.find(version, arch)
	if err != nil {
		return nil, err
	}
	k := imageKey{base: base, version: version, arch: arch, kind: kind}
	if made := d.find(k); made != nil {
		return made, nil
	}
	content, err := part(base, kind)
	if err != nil {
		return nil, told(err)
	}
	return d.keep(k, content, string(kind), time.Time{}), nil
}

// part returns a part of a base that depends on nothing else.
func part(base *isogen.Base, kind image.Kind) (*isogen.Image, error) {
	switch kind {
	case image.Kernel:
		return base.Kernel()
	case image.RootFS:
		return base.Rootfs()
	case image.InsFile:
		return base.InsFile()
	}
	return nil, problem.NotFound("a base ISO has no %s", kind)
}

// Code implements image.Source.
func (d *discoveryImages) Code(ctx context.Context, code string) (infraEnvID string, until time.Time, err error) {
	if infraEnvID, err = d.engine.ImageCode(ctx, code); err != nil {
		return "", time.Time{}, api.Problem(err)
	}
	_, until, err = d.engine.CodeOfImage(infraEnvID)
	return infraEnvID, until, api.Problem(err)
}

// Ready implements image.Source.
func (d *discoveryImages) Ready() error {
	images, err := d.bases.states()
	if err != nil {
		return err
	}
	for _, image := range images {
		if image.State == "ready" {
			return nil
		}
	}
	if len(images) == 0 {
		return problem.Unavailable("there is no OS image; add one on the page, with landfall iso import, or under " +
			"os_images in the configuration")
	}
	return problem.Unavailable("no OS image is ready yet; the page and landfall iso list say what stands in the way")
}

// Failed implements image.Source: the base that an image was made from is looked at anew.
func (d *discoveryImages) Failed(failed *image.Image, _ error) {
	d.mu.Lock()
	var found []imageKey
	for k, made := range d.held {
		if made.Image == failed.Image {
			found = append(found, k)
		}
	}
	d.mu.Unlock()
	for _, k := range found {
		if _, err := d.bases.find(k.version, k.arch); err != nil {
			return // it is known to be bad now
		}
	}
}

// find returns an image that was made before, unless its base was changed.
func (d *discoveryImages) find(k imageKey) *image.Image {
	d.mu.Lock()
	defer d.mu.Unlock()
	if made := d.held[k]; made != nil && made.Intact() == nil {
		return made
	}
	return nil
}

// keep keeps an image, or returns the one that was made of the same meanwhile.
func (d *discoveryImages) keep(k imageKey, content *isogen.Image, fileName string, modified time.Time) *image.Image {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.held[k]
	if ok && known.Intact() == nil {
		return known
	}
	made := &image.Image{
		Image: content, InfraEnvID: k.infraEnvID, Kind: k.kind, FileName: fileName, Modified: modified,
		Digest: func(compute bool) string { return d.digests.of(content, compute) },
	}
	d.held[k] = made
	if !ok {
		d.order = append(d.order, k)
	}
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
