package registry

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Archive collects images and writes them as an archive of oc-mirror version 2: the links of a
// registry's storage, its blobs, and the working directory. The zero value is an empty archive.
type Archive struct {
	// Written is the time of the run; zero for the present time.
	Written time.Time
	// Omit are blobs that the archive leaves out, as if an earlier archive had them.
	Omit []string

	blobs     map[string][]byte
	links     map[string]string // by path
	workspace map[string][]byte
	sources   []string // of operators and additional images
}

// AddPayload adds a release payload.
func (a *Archive) AddPayload(ctx context.Context, p Payload) (*Pushed, error) {
	p = p.withDefaults()
	pushed, err := p.pushTo(ctx, a)
	if err != nil {
		return nil, err
	}
	references, err := p.imageReferences(pushed.Images)
	if err != nil {
		return nil, err
	}
	a.keep("hold-release/ocp-release/"+p.Version+"-"+p.Architecture+"/release-manifests/image-references", references)
	return pushed, nil
}

// AddCatalog adds a catalog and the images of its packages. The archive has it as oc-mirror leaves
// a filtered catalog: the complete one, which is empty here, under the tag, and the filtered one
// under the hash of the filter.
func (a *Archive) AddCatalog(ctx context.Context, c Catalog) error {
	filtered := &Archive{}
	img, err := c.pushTo(ctx, filtered)
	if err != nil {
		return err
	}
	for _, p := range c.Packages {
		one := Catalog{Index: c.Index, Version: c.Version, Packages: []CatalogPackage{p}}
		if _, err := one.pushTo(ctx, a); err != nil {
			return err
		}
	}
	whole, err := (Catalog{Index: c.Index, Version: c.Version}).pushTo(ctx, a)
	if err != nil {
		return err
	}
	const filter = "64b50ef276d4c646cebfc294f3da25f4"
	if err := a.push(ctx, img, "redhat/"+c.Index, filter); err != nil {
		return err
	}
	source, err := whole.Digest()
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	dir := fmt.Sprintf("operator-catalogs/%s/%s/filtered-catalogs/%s/", c.Index, source.Hex, filter)
	a.keep(dir+"digest", []byte(digest.Hex))
	for _, p := range c.Packages {
		text, err := p.declare(ctx, filtered)
		if err != nil {
			return err
		}
		a.keep(dir+"catalog-config/"+p.Name+"/catalog.json", []byte(text))
	}
	a.sources = append(a.sources, "registry.redhat.io/redhat/"+c.Index+":v"+c.Version)
	return nil
}

// AddImage adds an image under a repository and a tag.
func (a *Archive) AddImage(ctx context.Context, img v1.Image, repository, tag string) error {
	return a.push(ctx, img, repository, tag)
}

// AddBlob adds an image with one layer of the given bytes. It returns the digest of the layer.
func (a *Archive) AddBlob(ctx context.Context, repository, tag string, layer []byte) (digest string, err error) {
	made := static.NewLayer(layer, types.OCIUncompressedLayer)
	img, err := mutate.AppendLayers(emptyImage(), made)
	if err != nil {
		return "", err
	}
	hash, err := made.Digest()
	if err != nil {
		return "", err
	}
	return hash.String(), a.push(ctx, img, repository, tag)
}

// Tagged returns the digest of the image under a tag, or "".
func (a *Archive) Tagged(repository, tag string) string {
	return a.links["docker/registry/v2/repositories/"+repository+"/_manifests/tags/"+tag+"/current/link"]
}

// Layers returns the digests of the layers of an image.
func (a *Archive) Layers(digest string) (layers []string) {
	manifest, err := v1.ParseManifest(bytes.NewReader(a.blobs[digest]))
	if err != nil {
		return nil
	}
	for _, layer := range manifest.Layers {
		layers = append(layers, layer.Digest.String())
	}
	return layers
}

// AddSignature adds an OpenPGP signature of a release.
func (a *Archive) AddSignature(version, digest string, signature []byte) {
	a.keep("signatures/"+version+"-"+strings.Replace(digest, ":", "-", 1), signature)
}

func (a *Archive) keep(name string, data []byte) {
	if a.workspace == nil {
		a.workspace = map[string][]byte{}
	}
	a.workspace["working-dir/"+name] = data
}

// push implements destination.
func (a *Archive) push(_ context.Context, img v1.Image, repository, tag string) error {
	if a.blobs == nil {
		a.blobs, a.links = map[string][]byte{}, map[string]string{}
	}
	manifest, err := img.RawManifest()
	if err != nil {
		return err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	configDigest, err := img.ConfigName()
	if err != nil {
		return err
	}
	a.blobs[digest.String()], a.blobs[configDigest.String()] = manifest, config
	under := "docker/registry/v2/repositories/" + repository
	link := func(path string, hash v1.Hash) { a.links[under+path] = hash.String() }
	link("/_layers/sha256/"+configDigest.Hex+"/link", configDigest)
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		hash, err := layer.Digest()
		if err != nil {
			return err
		}
		in, err := layer.Compressed()
		if err != nil {
			return err
		}
		data, err := io.ReadAll(in)
		if err = errors.Join(err, in.Close()); err != nil {
			return err
		}
		a.blobs[hash.String()] = data
		link("/_layers/sha256/"+hash.Hex+"/link", hash)
	}
	link("/_manifests/revisions/sha256/"+digest.Hex+"/link", digest)
	link("/_manifests/tags/"+tag+"/current/link", digest)
	link("/_manifests/tags/"+tag+"/index/sha256/"+digest.Hex+"/link", digest)
	return nil
}

// Digests returns the sorted digests of the blobs.
func (a *Archive) Digests() []string { return slices.Sorted(maps.Keys(a.blobs)) }

// Write writes the archive.
func (a *Archive) Write(out io.Writer) error {
	at := a.Written
	if at.IsZero() {
		at = time.Now()
	}
	w := tar.NewWriter(out)
	add := func(name string, data []byte) error {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644,
			ModTime: at.Truncate(time.Second)}); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(a.links)) {
		if err := add(path, []byte(a.links[path])); err != nil {
			return err
		}
	}
	for _, digest := range a.Digests() {
		if slices.Contains(a.Omit, digest) {
			continue
		}
		hex := strings.TrimPrefix(digest, "sha256:")
		if err := add("docker/registry/v2/blobs/sha256/"+hex[:2]+"/"+hex+"/data", a.blobs[digest]); err != nil {
			return err
		}
	}
	if len(a.Omit) > 0 {
		a.keep(".history/.history-"+at.UTC().Add(-time.Hour).Format(time.RFC3339), []byte(strings.Join(a.Omit,
			"\n")+"\n"))
	}
	for _, name := range slices.Sorted(maps.Keys(a.workspace)) {
		if err := add(name, a.workspace[name]); err != nil {
			return err
		}
	}
	if err := add("isc_"+at.UTC().Format(time.RFC3339), a.imageSet()); err != nil {
		return err
	}
	return w.Close()
}

// imageSet returns the image set configuration of the run.
func (a *Archive) imageSet() []byte {
	var text strings.Builder
	text.WriteString("kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n" +
		"  platform:\n    channels:\n      - name: stable-4.20\n")
	if len(a.sources) > 0 {
		text.WriteString("  operators:\n")
	}
	for _, source := range a.sources {
		fmt.Fprintf(&text, "    - catalog: %s\n", source)
	}
	return []byte(text.String())
}

// WriteFile writes the archive to a file.
func (a *Archive) WriteFile(path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := a.Write(file); err != nil {
		return fmt.Errorf("write the archive %s: %w", path, err)
	}
	return nil
}
