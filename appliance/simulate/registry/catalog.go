package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/simulate/installer"
)

// Catalog describes a small operator catalog in the format of a real catalog: an image with a
// file-based catalog (https://olm.operatorframework.io/docs/reference/file-based-catalogs/).
type Catalog struct {
	Index    string // last part of the repository, such as redhat-operator-index
	Version  string // version of OpenShift: "4.20"
	Packages []CatalogPackage
}

// CatalogPackage is an operator in a catalog.
type CatalogPackage struct {
	Name    string
	Channel string   // the default channel; "" for stable
	Images  []string // repositories of its images
	Held    bool     // the registry contains its images
}

// catalogRoot is the directory of the packages in the catalog's image. The image's label contains
// it.
const (
	catalogRoot  = "configs"
	catalogLabel = "operators.operatorframework.io.index.configs.v1"
)

// PushCatalog pushes a catalog to the registry at host. It returns the files that oc-mirror writes
// to cluster-resources: the CatalogSource and the mirror rules for its images.
func PushCatalog(ctx context.Context, host string, c Catalog) ([]byte, error) {
	if _, err := c.pushTo(ctx, remoteRegistry(host)); err != nil {
		return nil, err
	}
	return c.resources(host, fmt.Sprintf("%s/redhat/%s:v%s", host, c.Index, c.Version))
}

// pushTo builds the catalog with the images of its packages and pushes them. It returns the
// catalog.
func (c Catalog) pushTo(ctx context.Context, to destination) (v1.Image, error) {
	var files []layerFile
	for _, p := range c.Packages {
		text, err := p.declare(ctx, to)
		if err != nil {
			return nil, fmt.Errorf("create the catalog %s: %w", c.Index, err)
		}
		files = append(files, textFile(catalogRoot+"/"+p.Name+"/catalog.json", text))
	}
	slices.SortFunc(files, func(a, b layerFile) int { return strings.Compare(a.name, b.name) })
	layer, err := newFileLayer(files...)
	if err != nil {
		return nil, err
	}
	img, err := Payload{}.withDefaults().image("Stand-in for the catalog "+c.Index, layer)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Config.Labels[catalogLabel] = "/" + catalogRoot
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, err
	}
	return img, to.push(ctx, img, "redhat/"+c.Index, "v"+c.Version)
}

// bundleRepository is the repository of the packages' bundles.
const bundleRepository = "registry.redhat.io/stand-in"

// declare returns the declaration of a package with one channel and one bundle. It pushes the
// package's images.
func (p CatalogPackage) declare(ctx context.Context, to destination) (string, error) {
	channel := p.Channel
	if channel == "" {
		channel = "stable"
	}
	bundle := p.Name + ".v1.0.0"
	bundleImage, err := p.image(ctx, to, bundleRepository)
	if err != nil {
		return "", err
	}
	images := []map[string]string{}
	for i, repository := range p.Images {
		image, err := p.image(ctx, to, repository)
		if err != nil {
			return "", err
		}
		images = append(images, map[string]string{"name": fmt.Sprintf("image-%d", i+1), "image": image})
	}
	var text strings.Builder
	for _, blob := range []map[string]any{
		{"schema": "olm.package", "name": p.Name, "defaultChannel": channel},
		{"schema": "olm.channel", "package": p.Name, "name": channel,
			"entries": []map[string]any{{"name": bundle, "replaces": p.Name + ".v0.9.0"},
				{"name": p.Name + ".v0.9.0"}}},
		{"schema": "olm.bundle", "package": p.Name, "name": bundle, "image": bundleImage, "relatedImages": images},
	} {
		line, err := json.Marshal(blob)
		if err != nil {
			return "", err
		}
		text.Write(line)
		text.WriteByte('\n')
	}
	return text.String(), nil
}

// image creates an image of the package in a repository and returns its pull spec. It pushes the
// image if Held is set.
func (p CatalogPackage) image(ctx context.Context, to destination, repository string) (string, error) {
	layer, err := newFileLayer(textFile("README", "A stand-in for the image "+p.Name+" of "+repository+".\n"))
	if err != nil {
		return "", err
	}
	img, err := Payload{}.withDefaults().image("Stand-in for "+p.Name, layer)
	if err != nil {
		return "", err
	}
	digest, err := img.Digest()
	if err != nil {
		return "", err
	}
	if p.Held {
		if err := to.push(ctx, img, mirrorPath(repository)+"/"+p.Name, "1"); err != nil {
			return "", err
		}
	}
	return repository + "/" + p.Name + "@" + digest.String(), nil
}

// mirrorPath returns the path of a repository on a mirror, as oc-mirror chooses it.
func mirrorPath(repository string) string {
	_, path, _ := strings.Cut(repository, "/")
	return path
}

func (c Catalog) resources(host, place string) ([]byte, error) {
	name := fmt.Sprintf("cs-%s-v%s", c.Index, strings.ReplaceAll(c.Version, ".", "-"))
	source := installer.Object("operators.coreos.com/v1alpha1", "CatalogSource", "openshift-marketplace",
		name, map[string]any{"spec": map[string]any{"image": place, "sourceType": "grpc"}})
	repositories := []string{bundleRepository}
	for _, p := range c.Packages {
		for _, repository := range p.Images {
			if !slices.Contains(repositories, repository) {
				repositories = append(repositories, repository)
			}
		}
	}
	slices.Sort(repositories)
	var mirrors []map[string]any
	for _, repository := range repositories {
		mirrors = append(mirrors, map[string]any{"source": repository, "mirrors": []string{host + "/" +
			mirrorPath(repository)}})
	}
	set := installer.Object("config.openshift.io/v1", "ImageDigestMirrorSet", "", "idms-"+c.Index,
		map[string]any{"spec": map[string]any{"imageDigestMirrors": mirrors}})
	var text []byte
	for _, made := range []map[string]any{source, set} {
		data, err := yaml.Marshal(made)
		if err != nil {
			return nil, err
		}
		text = append(append(text, "---\n"...), data...)
	}
	return text, nil
}
