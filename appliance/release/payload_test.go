package release

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/mirror"
	"landfall/appliance/simulate/registry"
)

const (
	goodReferences = `{"kind":"ImageStream","metadata":{"name":"4.20.1"},"spec":{"tags":[
		{"name":"installer","from":{"kind":"DockerImage","name":"quay.io/x/y@sha256:1111111111111111111111111111111111111111111111111111111111111111"}},
		{"name":"alias","from":{"kind":"ImageStreamTag","name":"installer"}}]}}`
	goodMetadata = `{"kind":"cincinnati-metadata-v0","version":"4.20.8"}`
)

func TestPayload_readThroughTheMirror(t *testing.T) {
	l, pushed := standIn(t, registry.Payload{})
	p, err := l.Payload(context.Background(), pushed.Release, "amd64", nil)
	require.NoError(t, err)
	require.Equal(t, pushed.Release, p.PullSpec)
	require.Equal(t, pushed.Release, p.Image)
	require.Equal(t, pushed.Digest, p.Digest)
	require.Equal(t, "4.20.8-standin", p.Version)
	require.Equal(t, "x86_64", p.Architecture)
	require.False(t, p.Multi)
	require.Equal(t, "9.6.20251023-0", p.OSVersion)
	require.Equal(t, pushed.Images, p.Images)
	require.Contains(t, p.ServedBy, "/openshift/release-images@")
	agent, err := p.Agent()
	require.NoError(t, err)
	require.Equal(t, pushed.Images["agent-installer-node-agent"], agent)
}

func TestPayload_missingImage(t *testing.T) {
	l, pushed := standIn(t, registry.Payload{Faults: registry.PayloadFaults{Omit: []string{TagController}}})
	p, err := l.Payload(context.Background(), pushed.Release, "x86_64", nil)
	require.NoError(t, err)
	_, err = p.Controller()
	var missing *MissingImageError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, TagController, missing.Tag)
	require.ErrorContains(t, err, `release 4.20.8-standin (quay.io/openshift-release-dev/ocp-release@sha256:`)
	require.ErrorContains(t, err, `has no image "agent-installer-csr-approver"`)
}

func TestPayload_noRelease(t *testing.T) {
	release := func(references, metadata string) v1.Layer {
		return layer(t, file("release-manifests/image-references", references),
			file("release-manifests/release-metadata", metadata))
	}
	for name, c := range map[string]struct {
		layer   v1.Layer
		message string
	}{
		"ordinary image": {layer(t, file("usr/bin/cat", "meow")),
			"it has no file release-manifests/image-references"},
		"references with invalid JSON": {release("<html>", goodMetadata),
			"its release-manifests/image-references cannot be read"},
		"object of another kind": {release(`{"kind":"List"}`, goodMetadata), `is of kind "List", not ImageStream`},
		"no images": {release(`{"kind":"ImageStream","metadata":{"name":"4.20.8"}}`, goodMetadata),
			"names no image"},
		"an image that is not a pull spec": {release(strings.Replace(goodReferences, "quay.io/x/y@", "quay.io/X Y@", 1),
			goodMetadata),
			`its image "installer" is not a pull spec`},
		"metadata with invalid JSON": {release(goodReferences, "version: 4"),
			"its release-manifests/release-metadata cannot be read"},
		"invalid version": {release(goodReferences, `{"version":"latest"}`),
			`its version "latest" is not of the form 4.20.8`},
		"missing version": {release(strings.Replace(goodReferences, "4.20.1", "", 1), `{}`),
			`its version "" is not of the form`},
		"references that were removed": {layer(t, file("release-manifests/.wh.image-references", "")),
			"it has no file release-manifests/image-references"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			spec := s.push(image(t, "amd64", layer(t, file("etc/x", "y")), c.layer))
			_, err := s.library().Payload(context.Background(), spec, "x86_64", nil)
			var none *NotReleaseError
			require.ErrorAs(t, err, &none)
			require.ErrorContains(t, err, c.message)
			require.ErrorContains(t, err, spec)
			require.ErrorContains(t, err, "give the pull spec of a release image")
		})
	}
}

func TestPayload_readErrors(t *testing.T) {
	boot := func(data string) v1.Layer {
		return layer(t, file("release-manifests/image-references", goodReferences), file(coreOSBootImagesFile, data))
	}
	for name, c := range map[string]struct {
		image   v1.Image
		arch    string
		message string
	}{
		"another architecture": {image(t, "arm64", boot("")), "x86_64",
			"is for aarch64, not for x86_64; choose a release image for this architecture"},
		"boot images with invalid YAML": {image(t, "amd64", boot("a: b: c")), "x86_64",
			"read " + coreOSBootImagesFile},
		"boot images with an invalid stream": {image(t, "amd64", boot("data:\n  stream: '{'")), "x86_64",
			"read the stream metadata in " + coreOSBootImagesFile},
		"truncated gzip layer": {image(t, "amd64",
			cut(t, gzipped(t, file("release-manifests/image-references", strings.Repeat(goodReferences, 100))))),
			"x86_64", "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			_, err := s.library().Payload(context.Background(), s.push(c.image), c.arch, nil)
			require.ErrorContains(t, err, c.message)
		})
	}
	t.Run("invalid pull spec", func(t *testing.T) {
		_, err := newSite(t).library().Payload(context.Background(), "https://quay.io/x", "", nil)
		require.ErrorContains(t, err, `release image "https://quay.io/x" is not a pull spec`)
	})
	t.Run("mirror without the release", func(t *testing.T) {
		s := newSite(t)
		_, err := s.library().Payload(context.Background(), s.host+"/ocp/release:4.20", "", nil)
		var image *mirror.ImageError
		require.ErrorAs(t, err, &image)
		require.Equal(t, mirror.ReasonNotFound, image.Reason())
	})
}

func TestPayload_topmostLayerWins(t *testing.T) {
	references := file("release-manifests/image-references", goodReferences)
	for name, c := range map[string]struct {
		layers  []v1.Layer
		version string // "" if it must not be accepted as a release
	}{
		"in the last layer": {[]v1.Layer{layer(t, file("release-manifests/release-metadata",
			`{"version":"4.1.1"}`)), layer(t, references)}, "4.20.1"},
		"below a layer with other files": {[]v1.Layer{layer(t, references,
			file("release-manifests/release-metadata", goodMetadata)), layer(t, file("etc/x", ""))}, "4.20.8"},
		"metadata above references": {[]v1.Layer{layer(t, references),
			layer(t, file("release-manifests/release-metadata", goodMetadata))}, "4.20.8"},
		"names with a leading dot and slash": {[]v1.Layer{layer(t, file("./release-manifests/image-references",
			goodReferences))}, "4.20.1"},
		"gzip": {[]v1.Layer{gzipped(t, references)}, "4.20.1"},
		"zstd": {[]v1.Layer{zstded(t, references)}, "4.20.1"},
		"file removed by an upper layer": {[]v1.Layer{layer(t, references),
			layer(t, file("release-manifests/.wh.image-references", ""))}, ""},
		"directory removed by an upper layer": {[]v1.Layer{layer(t, references),
			layer(t, file(".wh.release-manifests", ""))}, ""},
		"directory made opaque by an upper layer": {[]v1.Layer{layer(t, references),
			layer(t, file("release-manifests/.wh..wh..opq", ""))}, ""},
		"directory replaced by a file": {[]v1.Layer{layer(t, references),
			layer(t, file("release-manifests", ""))}, ""},
		"opaque in its own layer": {[]v1.Layer{layer(t, file("release-manifests/.wh..wh..opq", ""),
			references)}, "4.20.1"},
		"other file removed by an upper layer": {[]v1.Layer{layer(t, references),
			layer(t, file("release-manifests/.wh.image", ""))}, "4.20.1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			p, err := s.library().Payload(context.Background(), s.push(image(t, "amd64", c.layers...)), "x86_64", nil)
			if c.version == "" {
				var none *NotReleaseError
				require.ErrorAs(t, err, &none)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.version, p.Version)
			require.Len(t, p.Images, 1, "only tags of kind DockerImage are images")
		})
	}
}

func TestPayload_severalArchitectures(t *testing.T) {
	s := newSite(t)
	child := func(arch, version string) mutate.IndexAddendum {
		img := image(t, arch, layer(t, file("release-manifests/image-references",
			strings.Replace(goodReferences, "4.20.1", version, 1))))
		return mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux",
			Architecture: arch}}}
	}
	index := mutate.AppendManifests(empty.Index, child("arm64", "4.20.2"), child("amd64", "4.20.3"))
	digest, err := index.Digest()
	require.NoError(t, err)
	tag, err := name.ParseReference(s.host + "/ocp/release:4.20-multi")
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(tag, index))
	l := s.library()
	for arch, version := range map[string]string{"": "4.20.3", "multi": "4.20.3", "amd64": "4.20.3", "x86_64": "4.20.3",
		"arm64": "4.20.2", "aarch64": "4.20.2"} {
		p, err := l.Payload(context.Background(), tag.String(), arch, nil)
		require.NoError(t, err, arch)
		require.Equal(t, version, p.Version, arch)
		require.True(t, p.Multi)
		require.Equal(t, s.host+"/ocp/release@"+digest.String(), p.Image)
	}
	_, err = l.Payload(context.Background(), tag.String(), "s390x", nil)
	var wrong *ArchitectureError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, []string{"aarch64", "x86_64"}, wrong.Have)
}

func TestPayload_cachedWithoutRegistry(t *testing.T) {
	s := newSite(t)
	spec := s.push(image(t, "amd64", layer(t, file("release-manifests/image-references", goodReferences))))
	l := s.library()
	first, err := l.Payload(context.Background(), spec, "x86_64", nil)
	require.NoError(t, err)
	s.serve(func(_ http.Handler, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	again, err := l.Payload(context.Background(), spec, "amd64", nil)
	require.NoError(t, err)
	require.Same(t, first, again)
	other, err := l.Payload(context.Background(), strings.Replace(spec, "/ocp/image", "/ocp/copy", 1), "amd64", nil)
	require.NoError(t, err)
	require.Equal(t, s.host+"/ocp/copy@"+first.Digest, other.Image)
	_, err = l.Payload(context.Background(), s.host+"/ocp/image:latest", "amd64", nil)
	require.Error(t, err, "a tag was not resolved again")
}

func TestPayload_realReleases(t *testing.T) {
	data := os.Getenv("LANDFALL_REALDATA")
	if data == "" {
		t.Skip("LANDFALL_REALDATA is not set")
	}
	read := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join(data, "release", name))
		require.NoError(t, err)
		return content
	}
	for version, architectures := range map[string][]string{"4.8": {"ppc64le", "s390x", "x86_64"},
		"4.10": {"aarch64", "ppc64le", "s390x", "x86_64"}} {
		references, boot := read(version+"-image-references.json"), read(version+"-installer-coreos-bootimages.yaml")
		tags, metal := readWithoutTypes(t, references, boot)
		require.Equal(t, architectures, slices.Sorted(maps.Keys(metal)))
		for arch, released := range metal {
			p := &Payload{Architecture: arch}
			require.NoError(t, p.readReferences(references))
			require.NoError(t, p.readMetadata(nil))
			require.NoError(t, p.readBootImages(boot))
			require.Equal(t, tags, p.Images, "a tag or a digest differs")
			require.True(t, strings.HasPrefix(p.Version, version+"."), p.Version)
			require.Equal(t, released, p.OSVersion, arch)
		}
	}
	for _, arch := range []string{"aarch64", "ppc64le", "x86_64"} {
		p := &Payload{Architecture: arch}
		require.NoError(t, p.readBootImages(read("5.0-installer-coreos-bootimages.yaml")))
		require.Empty(t, p.OSVersion, "the test data contains no metal artifacts")
		require.ElementsMatch(t, []string{"rhel-9", "rhel-10"}, slices.Collect(maps.Keys(p.OSStreams)),
			"the streams of the payload differ")
	}
}

// readWithoutTypes reads the images and the boot images of a release without the types of this
// package: the pull spec of each tag, which must be by digest, and the OS version for each
// architecture.
func readWithoutTypes(t *testing.T, references, boot []byte) (tags, metal map[string]string) {
	t.Helper()
	tags, metal = map[string]string{}, map[string]string{}
	var list map[string]any
	require.NoError(t, json.Unmarshal(references, &list))
	for _, tag := range list["spec"].(map[string]any)["tags"].([]any) {
		tag := tag.(map[string]any)
		spec := tag["from"].(map[string]any)["name"].(string)
		require.Regexp(t, `^[^@]+@sha256:[0-9a-f]{64}$`, spec)
		tags[tag["name"].(string)] = spec
	}
	require.Greater(t, len(tags), 100)
	var config map[string]any
	require.NoError(t, yaml.Unmarshal(boot, &config))
	var stream map[string]any
	require.NoError(t, json.Unmarshal([]byte(config["data"].(map[string]any)["stream"].(string)), &stream))
	for arch, of := range stream["architectures"].(map[string]any) {
		metal[arch] = of.(map[string]any)["artifacts"].(map[string]any)["metal"].(map[string]any)["release"].(string)
	}
	return tags, metal
}

func FuzzImageReferences(f *testing.F) {
	f.Add([]byte(goodReferences))
	f.Add([]byte(`{"kind":"ImageStream","spec":{"tags":[{"name":"x"}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &Payload{}
		if err := p.readReferences(data); err == nil {
			require.True(t, json.Valid(data))
			require.NotEmpty(t, p.Images)
		}
	})
}
