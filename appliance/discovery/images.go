package discovery

import (
	"context"
	"strings"
	"sync"
	"time"

	"landfall/appliance/engine"
	"landfall/appliance/engine/recipe"
	"landfall/appliance/fault"
	"landfall/appliance/osimage"
	"landfall/isogen"
)

// keptImages is the maximum number of images and recipes in memory. An image takes little more
// memory than its discovery config.
const keptImages = 64

// Images builds the images of infra-envs and caches the latest ones.
type Images struct {
	engine   *engine.Engine
	bases    *osimage.Library
	networks Networks
	digests  *digests

	mu      sync.Mutex
	recipes map[string]*recipe.Recipe // by infra-env id
	kept    map[imageKey]*Image
	order   []imageKey // keys of kept, the oldest first
}

// imageKey identifies an image by its inputs.
type imageKey struct {
	base          *isogen.Base
	version, arch string // with which the base ISO was selected
	infraEnvID    string
	recipe        string // digest; "" for a boot file
	kind          Kind
	boot          string // prefix of the URLs in the image
}

// NewImages returns an Images for the infra-envs of the engine. networks are the site's networks,
// the preferred one first.
func NewImages(e *engine.Engine, bases *osimage.Library, networks Networks) *Images {
	return &Images{
		engine: e, bases: bases, networks: networks, digests: newDigests(),
		recipes: make(map[string]*recipe.Recipe), kept: make(map[imageKey]*Image),
	}
}

// Run computes digests in the background until the context ends.
func (i *Images) Run(ctx context.Context) error { return i.digests.run(ctx) }

// recipe returns the current recipe of an infra-env.
func (i *Images) recipe(ctx context.Context, infraEnvID string) (*recipe.Recipe, error) {
	digest, err := i.engine.RecipeDigest(infraEnvID)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	known := i.recipes[infraEnvID]
	i.mu.Unlock()
	if known != nil && known.Digest == digest {
		return known, nil
	}
	recipe, err := i.engine.Recipe(ctx, infraEnvID)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.recipes) >= keptImages {
		clear(i.recipes)
	}
	i.recipes[infraEnvID] = recipe
	return recipe, nil
}

// Image returns the current image of an infra-env, with URLs in the given network. The kind ""
// means the infra-env's own image type.
func (i *Images) Image(ctx context.Context, infraEnvID string, kind Kind, network Network) (*Image, error) {
	recipe, err := i.recipe(ctx, infraEnvID)
	if err != nil {
		return nil, err
	}
	if kind == "" {
		kind = kindOf(recipe.Type)
	}
	base, err := i.bases.Find(recipe.OpenshiftVersion, recipe.CPUArchitecture)
	if err != nil {
		return nil, err
	}
	k := imageKey{base, recipe.OpenshiftVersion, recipe.CPUArchitecture, infraEnvID, recipe.Digest, kind, ""}
	if kind == Minimal {
		k.boot = network.Boot
	}
	if image := i.find(k); image != nil {
		return image, nil
	}
	content, err := build(base, kind, recipe, network.Boot+imagePath(recipe)+"rootfs.img")
	if err != nil {
		return nil, classify(err)
	}
	return i.keep(k, content, fileName(kind, recipe.Name, infraEnvID), recipe.Modified), nil
}

// BootFile returns a Kernel, RootFS or InsFile for an OpenShift version and an architecture.
func (i *Images) BootFile(_ context.Context, version, arch string, kind Kind) (*Image, error) {
	base, err := i.bases.Find(version, arch)
	if err != nil {
		return nil, err
	}
	k := imageKey{base: base, version: version, arch: arch, kind: kind}
	if file := i.find(k); file != nil {
		return file, nil
	}
	content, err := buildBootFile(base, kind)
	if err != nil {
		return nil, classify(err)
	}
	return i.keep(k, content, string(kind), time.Time{}), nil
}

// imagePath returns the prefix of the paths of an infra-env's images. It contains the version and
// the architecture, for users to read. They also select the correct rootfs for an older image after
// the version of the infra-env has changed. Only a kernel and a rootfs are open to all machines at
// this path; see securedPath.
func imagePath(recipe *recipe.Recipe) string {
	return "/byid/" + recipe.InfraEnvID + "/" + recipe.OpenshiftVersion + "/" + recipe.CPUArchitecture + "/"
}

// securedPath is like imagePath, but contains a token if the appliance authenticates machines.
func (i *Images) securedPath(recipe *recipe.Recipe) (string, error) {
	path, err := i.engine.ImagePath(recipe.InfraEnvID)
	return path + "/" + recipe.OpenshiftVersion + "/" + recipe.CPUArchitecture + "/", err
}

// ResolveCode returns the infra-env of the code in a short URL, and the time at which the code
// expires; zero means never.
func (i *Images) ResolveCode(ctx context.Context, code string) (infraEnvID string, expires time.Time, err error) {
	if infraEnvID, err = i.engine.ImageCode(ctx, code); err != nil {
		return "", time.Time{}, err
	}
	_, expires, err = i.engine.CodeOfImage(infraEnvID)
	return infraEnvID, expires, err
}

// Ready returns nil if at least one base ISO is ready.
func (i *Images) Ready() error {
	bases, err := i.bases.List()
	if err != nil {
		return err
	}
	for _, base := range bases {
		if base.Usable() {
			return nil
		}
	}
	if len(bases) == 0 {
		return fault.New(fault.Unavailable,
			"the appliance has no OS image; add one on the page, with landfall iso import, or to os_images in the "+
				"configuration")
	}
	return fault.New(fault.Unavailable, "no OS image is ready yet; the page and landfall iso list show the reason")
}

// CheckBase checks the base ISO of an image after a read error.
func (i *Images) CheckBase(failed *Image) {
	i.mu.Lock()
	var found []imageKey
	for k, image := range i.kept {
		if image.Image == failed.Image {
			found = append(found, k)
		}
	}
	i.mu.Unlock()
	for _, k := range found {
		if _, err := i.bases.Find(k.version, k.arch); err != nil {
			return // the library has recorded the damage
		}
	}
}

// Registrations returns the time of the last registration of each host of an infra-env.
func (i *Images) Registrations(infraEnvID string) ([]time.Time, error) {
	hosts, err := i.engine.Hosts(infraEnvID)
	if err != nil {
		return nil, err
	}
	times := make([]time.Time, 0, len(hosts))
	for _, host := range hosts {
		at := time.Time(host.CreatedAt)
		if again := time.Time(host.RegisteredAt); again.After(at) {
			at = again
		}
		times = append(times, at)
	}
	return times, nil
}

// find returns a cached image, unless its base ISO has changed.
func (i *Images) find(k imageKey) *Image {
	i.mu.Lock()
	defer i.mu.Unlock()
	if image := i.kept[k]; image != nil && image.Intact() == nil {
		return image
	}
	return nil
}

// keep caches an image. If an equal image was cached in the meantime, it returns that image.
func (i *Images) keep(k imageKey, content *isogen.Image, fileName string, modified time.Time) *Image {
	i.mu.Lock()
	defer i.mu.Unlock()
	known, ok := i.kept[k]
	if ok && known.Intact() == nil {
		return known
	}
	image := &Image{
		Image: content, InfraEnvID: k.infraEnvID, Kind: k.kind, FileName: fileName, Modified: modified,
		Digest: func(compute bool) string { return i.digests.of(content, compute) },
	}
	i.kept[k] = image
	if !ok {
		i.order = append(i.order, k)
	}
	if len(i.order) > keptImages {
		delete(i.kept, i.order[0])
		i.order = i.order[1:]
	}
	return image
}

// fileName returns the name of a download on the client's disk.
func fileName(kind Kind, name, infraEnvID string) string {
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
	case Full:
		return "discovery_image_" + name + ".iso"
	case Minimal, Config:
		return "discovery_image_" + name + "-" + string(kind) + ".iso"
	}
	return name + "-" + string(kind)
}
