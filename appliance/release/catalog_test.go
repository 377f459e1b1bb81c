package release

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
)

// catalogLayer returns a layer with the given files, by name.
func catalogLayer(t *testing.T, files map[string]string) *bytes.Buffer {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for name, text := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(text)),
			Mode: 0o644}))
		_, err := io.WriteString(w, text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return &layer
}

func TestCatalogPackage_newestBundleIsTheHead(t *testing.T) {
	catalog := &Catalog{Packages: map[string]*CatalogPackage{}}
	layer := catalogLayer(t, map[string]string{
		"configs/cnv/catalog.json": `{"schema": "olm.package", "name": "cnv", "defaultChannel": "stable"}
			{"schema": "olm.channel", "package": "cnv", "name": "stable", "entries": [{"name": "v1"}, {"name": "v3", "replaces": "v1", "skips": ["v2"]}, {"name": "v2", "replaces": "v1"}]}
			{"schema": "olm.channel", "package": "cnv", "name": "empty"}
			{"schema": "olm.bundle", "package": "cnv", "name": "v3", "image": "a/bundle@sha256:1", "relatedImages": [{"image": "a/b@sha256:2"}, {"image": "a/bundle@sha256:1"}, {"image": ""}]}
			{"schema": "olm.bundle", "package": "cnv", "name": "v2", "image": "a/old@sha256:3"}`,
		"configs/odf/channels.yaml": "---\nschema: olm.package\nname: odf\ndefaultChannel: s\n---\nschema: " +
			"olm.channel\npackage: odf\nname: s\nentries:\n- name: v1\n",
		"configs/other/index.json": "{ not read",
		"configs/index.json":       `{"schema": "olm.package", "name": "nfd", "defaultChannel": "x"}`,
		"configs/cnv/README":       "not read",
		"configs/cnv/gone.json":    `{"schema": "olm.channel", "package": "cnv", "name": "gone", "entries": [{"name": "v1"}]}`,
		"elsewhere/cnv/index.json": "{ not read",
	})
	removed := newWhiteouts()
	removed.names["configs/cnv/gone.json"] = true
	wanted := []string{"cnv", "odf", "nfd"}
	require.NoError(t, catalog.readLayer(static.NewLayer(layer.Bytes(), types.DockerLayer), "configs", wanted,
		removed, map[string]bool{}))

	cnv := catalog.Packages["cnv"]
	require.Equal(t, []string{"empty", "stable"}, cnv.Channels())
	bundle, images, ok := cnv.Head("")
	require.True(t, ok)
	require.Equal(t, "v3", bundle)
	require.Equal(t, []string{"a/bundle@sha256:1", "a/b@sha256:2"}, images)
	for _, channel := range []string{"empty", "gone", "candidate"} {
		_, _, ok = cnv.Head(channel)
		require.False(t, ok, channel)
	}
	bundle, images, ok = catalog.Packages["odf"].Head("s")
	require.True(t, ok)
	require.Equal(t, "v1", bundle)
	require.Empty(t, images)
	require.Equal(t, "x", catalog.Packages["nfd"].DefaultChannel)
	require.Len(t, catalog.Packages, 3)
}

func TestCatalog_damagedFile(t *testing.T) {
	for name, text := range map[string]string{"configs/cnv/catalog.json": `{"schema": `,
		"configs/cnv/catalog.yaml": "a: [", "configs/cnv/index.json": `{"schema": 5}`} {
		catalog := &Catalog{Packages: map[string]*CatalogPackage{}}
		layer := catalogLayer(t, map[string]string{name: text})
		err := catalog.readLayer(static.NewLayer(layer.Bytes(), types.DockerLayer), "configs", []string{"cnv"},
			newWhiteouts(), map[string]bool{})
		require.ErrorContains(t, err, name)
	}
	catalog := &Catalog{Packages: map[string]*CatalogPackage{}}
	require.Error(t, catalog.readFile("a.json", strings.NewReader("{"), nil))
}
