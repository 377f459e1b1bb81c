package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.yaml.in/yaml/v3"

	"github.com/google/go-containerregistry/pkg/authn"
)

// catalogLabel names the label with the directory of the files in a catalog image
// (https://olm.operatorframework.io/docs/reference/file-based-catalogs/).
const catalogLabel = "operators.operatorframework.io.index.configs.v1"

// catalogFileLimit limits the size of one file of a catalog in bytes. The largest files of Red
// Hat's catalogs reach a tenth of the limit.
const catalogFileLimit = 512 << 20

// NotCatalogError reports that an image is not a file-based catalog of operators.
type NotCatalogError struct{ Image string }

func (e *NotCatalogError) Error() string {
	return fmt.Sprintf("the image %s is not a catalog of operators: it has no label %s", e.Image, catalogLabel)
}

// Catalog holds the requested packages of a catalog of operators. Packages that the catalog does
// not contain are absent.
type Catalog struct {
	ServedBy string // the image from which the catalog was read
	Packages map[string]*CatalogPackage
}

// CatalogPackage is one package of a catalog.
type CatalogPackage struct {
	DefaultChannel string
	channels       map[string][]catalogEntry
	bundles        map[string][]string // images by the bundle's name
}

type catalogEntry struct {
	Name     string   `json:"name" yaml:"name"`
	Replaces string   `json:"replaces" yaml:"replaces"`
	Skips    []string `json:"skips" yaml:"skips"`
}

// catalogBlob is one object in a catalog's files: a package, a channel or a bundle.
type catalogBlob struct {
	Schema         string         `json:"schema" yaml:"schema"`
	Name           string         `json:"name" yaml:"name"`
	Package        string         `json:"package" yaml:"package"`
	DefaultChannel string         `json:"defaultChannel" yaml:"defaultChannel"`
	Entries        []catalogEntry `json:"entries" yaml:"entries"`
	Image          string         `json:"image" yaml:"image"`
	RelatedImages  []struct {
		Image string `json:"image" yaml:"image"`
	} `json:"relatedImages" yaml:"relatedImages"`
}

// Channels returns the names of the package's channels.
func (p *CatalogPackage) Channels() []string {
	names := []string{}
	for name := range p.channels {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Head returns the newest bundle of a channel and all its images. "" means the default channel. The
// last result is false if the channel does not exist.
func (p *CatalogPackage) Head(channel string) (bundle string, images []string, ok bool) {
	if channel == "" {
		channel = p.DefaultChannel
	}
	entries, ok := p.channels[channel]
	if !ok || len(entries) == 0 {
		return "", nil, false
	}
	older := make(map[string]bool)
	for _, e := range entries {
		older[e.Replaces] = true
		for _, name := range e.Skips {
			older[name] = true
		}
	}
	for _, e := range entries {
		if !older[e.Name] {
			bundle = e.Name
		}
	}
	return bundle, p.bundles[bundle], true
}

// Catalog reads a catalog of operators through the mirror. Errors are sentences with the image: a
// *mirror.ImageError if no endpoint provided the image, and a *NotCatalogError if the image is not
// a catalog.
func (l *Library) Catalog(ctx context.Context, image string, secret authn.Keychain,
	packages []string) (*Catalog, error) {
	desc, served, err := l.mirror.Get(ctx, image, secret)
	if err != nil {
		return nil, err
	}
	catalog := &Catalog{ServedBy: served.Ref.Name(), Packages: make(map[string]*CatalogPackage)}
	img, err := imageFor(image, desc, "")
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the catalog %s: %w", image, err)
	}
	root := cleanName(config.Config.Labels[catalogLabel])
	if root == "" {
		return nil, &NotCatalogError{image}
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, fmt.Errorf("read the catalog %s: %w", image, err)
	}
	removed := newWhiteouts()
	read := make(map[string]bool)
	for _, layer := range slices.Backward(layers) {
		if err := catalog.readLayer(layer, root, packages, removed, read); err != nil {
			return nil, fmt.Errorf("read the catalog %s (from %s): %w", image, catalog.ServedBy, err)
		}
		if len(catalog.Packages) == len(packages) {
			break // all files of a catalog are in one layer
		}
	}
	return catalog, nil
}

func (c *Catalog) readLayer(layer v1.Layer, root string, packages []string, removed *whiteouts,
	read map[string]bool) error {
	blob, err := layer.Compressed()
	if err != nil {
		return err
	}
	fresh := newWhiteouts()
	err = scanLayer(blob, func(e entry) error {
		fresh.note(e)
		below, inside := strings.CutPrefix(e.name, root+"/")
		directory, _, nested := strings.Cut(below, "/")
		if !inside || !e.regular() || read[e.name] || removed.hide(e.name) || nested && !slices.Contains(packages,
			directory) {
			return nil
		}
		read[e.name] = true
		if err := c.readFile(e.name, io.LimitReader(e.content, catalogFileLimit), packages); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		return nil
	})
	removed.add(fresh)
	return errors.Join(err, blob.Close())
}

// decoder decodes the objects in a catalog file, which is a sequence of JSON or YAML objects.
type decoder interface{ Decode(any) error }

func (c *Catalog) readFile(name string, content io.Reader, packages []string) error {
	var objects decoder
	switch path.Ext(name) {
	case ".json":
		objects = json.NewDecoder(content)
	case ".yaml", ".yml":
		objects = yaml.NewDecoder(content)
	default:
		return nil
	}
	for {
		var blob catalogBlob
		if err := objects.Decode(&blob); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		c.add(blob, packages)
	}
}

func (c *Catalog) add(blob catalogBlob, packages []string) {
	owner := blob.Package
	if blob.Schema == "olm.package" {
		owner = blob.Name
	}
	if !slices.Contains(packages, owner) {
		return
	}
	p := c.Packages[owner]
	if p == nil {
		p = &CatalogPackage{channels: make(map[string][]catalogEntry), bundles: make(map[string][]string)}
		c.Packages[owner] = p
	}
	switch blob.Schema {
	case "olm.package":
		p.DefaultChannel = blob.DefaultChannel
	case "olm.channel":
		p.channels[blob.Name] = append(p.channels[blob.Name], blob.Entries...)
	case "olm.bundle":
		images := []string{blob.Image}
		for _, related := range blob.RelatedImages {
			if related.Image != "" && !slices.Contains(images, related.Image) {
				images = append(images, related.Image)
			}
		}
		p.bundles[blob.Name] = images
	}
}

// Holds requests an image through the mirror without reading its content. It returns nil if the
// mirror has the image.
func (l *Library) Holds(ctx context.Context, image string, secret authn.Keychain) error {
	_, _, err := l.mirror.Get(ctx, image, secret)
	return err
}
