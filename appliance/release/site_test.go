package release

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror"
	"landfall/appliance/simulate/installer"
	"landfall/appliance/simulate/registry"
)

func TestMain(m *testing.M) {
	installer.Main()
	os.Exit(m.Run())
}

// site is a registry. Tests can replace its answers.
type site struct {
	t    *testing.T
	host string

	mu        sync.Mutex
	intercept func(next http.Handler, w http.ResponseWriter, r *http.Request) // nil: no change
	blobs     map[string]int                                                  // digest -> number of requests
}

func newSite(t *testing.T) *site {
	s := &site{t: t, blobs: map[string]int{}}
	handler := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		intercept := s.intercept
		if _, digest, ok := strings.Cut(r.URL.Path, "/blobs/sha256:"); ok && r.Method == http.MethodGet {
			s.blobs[digest]++
		}
		s.mu.Unlock()
		if intercept == nil {
			handler.ServeHTTP(w, r)
			return
		}
		intercept(handler, w, r)
	}))
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	return s
}

func (s *site) serve(intercept func(next http.Handler, w http.ResponseWriter, r *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = intercept
}

func (s *site) fetched(digest v1.Hash) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blobs[digest.Hex]
}

// library returns a library that reads from this site without mirror rules.
func (s *site) library(change ...func(*Options)) *Library {
	return newLibrary(s.t, nil, change...)
}

func newLibrary(t *testing.T, rules *mirror.Rules, change ...func(*Options)) *Library {
	o := Options{Mirror: mirror.NewClient(rules, mirror.ClientOptions{}), CacheDir: t.TempDir(),
		Logger: slog.New(slog.DiscardHandler), Policy: anyRelease{}}
	for _, c := range change {
		c(&o)
	}
	l, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// anyRelease allows all releases.
type anyRelease struct{}

func (anyRelease) Check(context.Context, string, string, authn.Keychain) error { return nil }

// onlyRelease allows the release with a digest.
type onlyRelease string

var errNotAllowed = errors.New("not allowed")

func (o onlyRelease) Check(_ context.Context, _, digest string, _ authn.Keychain) error {
	if digest != string(o) {
		return errNotAllowed
	}
	return nil
}

func (s *site) push(img v1.Image) string {
	digest, err := img.Digest()
	require.NoError(s.t, err)
	spec := s.host + "/ocp/image@" + digest.String()
	ref, err := name.ParseReference(spec)
	require.NoError(s.t, err)
	require.NoError(s.t, remote.Write(ref, img))
	return spec
}

// installerPayload returns a payload whose installer image has the given layers.
func (s *site) installerPayload(layers ...v1.Layer) *Payload {
	spec := s.push(image(s.t, "amd64", layers...))
	_, digest, _ := strings.Cut(spec, "@")
	return &Payload{
		Image: "quay.io/openshift-release-dev/ocp-release@" + digest, Digest: digest, Version: "4.20.8",
		Architecture: "x86_64", Multi: true,
		Images: map[string]string{TagInstaller: spec},
	}
}

func image(t *testing.T, arch string, layers ...v1.Layer) v1.Image {
	img, err := mutate.AppendLayers(empty.Image, layers...)
	require.NoError(t, err)
	config, err := img.ConfigFile()
	require.NoError(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	img, err = mutate.ConfigFile(img, config)
	require.NoError(t, err)
	return img
}

type tarEntry struct {
	name, content, link string
	kind                byte // 0 means a regular file
}

func file(name, content string) tarEntry {
	return tarEntry{name: name, content: content, kind: tar.TypeReg}
}
func dir(name string) tarEntry { return tarEntry{name: name, kind: tar.TypeDir} }
func symlink(name, target string) tarEntry {
	return tarEntry{name: name, link: target, kind: tar.TypeSymlink}
}
func hardlink(name, target string) tarEntry {
	return tarEntry{name: name, link: target, kind: tar.TypeLink}
}

func tarOf(t *testing.T, entries ...tarEntry) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: 0o755,
			Size: int64(len(e.content))}))
		_, err := w.Write([]byte(e.content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func layer(t *testing.T, entries ...tarEntry) v1.Layer {
	return static.NewLayer(tarOf(t, entries...), types.DockerUncompressedLayer)
}

func gzipped(t *testing.T, entries ...tarEntry) v1.Layer {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(tarOf(t, entries...))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return static.NewLayer(b.Bytes(), types.DockerLayer)
}

func zstded(t *testing.T, entries ...tarEntry) v1.Layer {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return static.NewLayer(w.EncodeAll(tarOf(t, entries...), nil), types.OCILayerZStd)
}

func digestOf(t *testing.T, l v1.Layer) v1.Hash {
	h, err := l.Digest()
	require.NoError(t, err)
	return h
}

// standIn returns a library and a simulated payload, which is in a mirror registry.
func standIn(t *testing.T, p registry.Payload) (*Library, *registry.Pushed) {
	reg, err := registry.New(context.Background(), "127.0.0.1:0", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reg.Close()) })
	pushed, err := registry.PushPayload(context.Background(), reg.Addr, p)
	require.NoError(t, err)
	rules, err := mirror.Parse(mirror.Sources{RegistriesConf: []mirror.Document{{Name: "registries.conf",
		Data: pushed.RegistriesConf}}})
	require.NoError(t, err)
	return newLibrary(t, rules), pushed
}

// cut returns a layer that has the digest of l but contains only the first half of its bytes.
func cut(t *testing.T, l v1.Layer) v1.Layer {
	blob, err := l.Compressed()
	require.NoError(t, err)
	data, err := io.ReadAll(blob)
	require.NoError(t, err)
	media, err := l.MediaType()
	require.NoError(t, err)
	return static.NewLayer(data[:len(data)/2], media)
}
