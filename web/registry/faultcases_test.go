package registry_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/registry"
	"landfall/appliance/registry/medium"
	simulated "landfall/appliance/simulate/registry"
)

// Case 3: a medium that comes back with other files is scanned again. What has vanished is named,
// and images that lack it are not served.
func TestFault03_changedFiles(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	s.write(archive1, a)
	s.start()
	layer := a.Layers(pushed.Digest)[1]
	a.Omit = []string{layer}
	s.write(archive1, a)
	s.look()
	status := s.registry.Status()
	require.Len(t, status.Media, 1, "the former content is not another medium")
	require.Len(t, status.Gaps, 1)
	require.Equal(t, []string{layer}, status.Gaps[0].Missing)
	got := s.get("/v2/openshift/release-images/manifests/" + pushed.Digest)
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	_, message := got.message(t)
	require.Contains(t, message, layer)
}

// Case 12: images of two hosts with one path are served by their digests, and a note names both
// hosts.
func TestFault12_twoHostsOnePath(t *testing.T) {
	s := newSite(t)
	a := &simulated.Archive{}
	require.NoError(t, a.AddCatalog(t.Context(), simulated.Catalog{Index: "redhat-operator-index", Version: "4.20",
		Packages: []simulated.CatalogPackage{{Name: "app", Held: true,
			Images: []string{"quay.io/team", "registry.redhat.io/team"}}}}))
	_, err := a.AddBlob(t.Context(), "team/app", "v1", []byte("of one host"))
	require.NoError(t, err)
	s.write(archive1, a)
	s.start()
	digest := a.Tagged("team/app", "v1")
	require.Contains(t, strings.Join(s.registry.Status().Notes, "\n"),
		"team/app holds images of quay.io and registry.redhat.io")
	for _, repository := range []string{"team/app", "quay.io/team/app", "registry.redhat.io/team/app"} {
		require.Equal(t, http.StatusOK, s.get("/v2/"+repository+"/manifests/"+digest).StatusCode, repository)
	}
}

// Case 14: a list without the image of an architecture is served whole, and the absent image is
// unknown, so that a client can say which architecture it lacks.
func TestFault14_sparseList(t *testing.T) {
	s := newSite(t)
	dir := s.path("layout")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "blobs/sha256"), 0o700))
	put := func(data []byte) string {
		digest := digestOf(data)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "blobs/sha256", digest[len("sha256:"):]), data, 0o600))
		return digest
	}
	config, layer := put([]byte("{}")), put([]byte("layer"))
	image := manifestOf(config, layer)
	child, absent := put(image), digestOf([]byte("the image for arm64"))
	describe := func(digest string, size int, kind, architecture string) map[string]any {
		return map[string]any{"mediaType": kind, "digest": digest, "size": size,
			"platform": map[string]string{"architecture": architecture, "os": "linux"}}
	}
	encode := func(value any) []byte {
		data, err := json.Marshal(value)
		require.NoError(t, err)
		return data
	}
	list := encode(map[string]any{"schemaVersion": 2, "mediaType": medium.TypeOCIIndex, "manifests": []any{
		describe(child, len(image), medium.TypeOCIManifest, "amd64"),
		describe(absent, 500, medium.TypeOCIManifest, "arm64")}})
	index := map[string]any{"schemaVersion": 2, "manifests": []any{map[string]any{"mediaType": medium.TypeOCIIndex,
		"digest": put(list), "size": len(list),
		"annotations": map[string]string{"org.opencontainers.image.ref.name": "quay.io/team/app:v1"}}}}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "index.json"), encode(index), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o600))
	var client string
	var left *registry.LeftOutError
	s.leftOut = func(by string, image *registry.LeftOutError) { client, left = by, image }
	s.start()
	require.Equal(t, list, s.get("/v2/quay.io/team/app/manifests/v1").body)
	require.Equal(t, image, s.get("/v2/quay.io/team/app/manifests/"+child).body)
	got := s.get("/v2/quay.io/team/app/manifests/" + absent)
	require.Equal(t, http.StatusNotFound, got.StatusCode)
	code, message := got.message(t)
	require.Equal(t, "MANIFEST_UNKNOWN", code)
	require.Contains(t, message, "for arm64 is on none of the media; mirror this architecture too")
	require.Equal(t, "127.0.0.1", client)
	require.Equal(t, &registry.LeftOutError{List: digestOf(list), Digest: absent, Architecture: "arm64"}, left)
	require.Empty(t, s.registry.Status().Gaps)
}

// Case 18: an upload for which there is no room gets an error, and continues when there is room.
func TestFault18_noRoomDuringUpload(t *testing.T) {
	s := newSite(t)
	s.bytes = 900 << 10
	s.start()
	other := s.pushBlob(bytes.Repeat([]byte("o"), 300<<10))
	blob := bytes.Repeat([]byte("b"), 800<<10)
	at := s.startUpload()
	got := s.push(http.MethodPatch, at, blob)
	require.Equal(t, http.StatusInsufficientStorage, got.StatusCode, "%s", got.body)
	_, message := got.message(t)
	require.Contains(t, message, "there is no room for it")
	progress := s.push(http.MethodGet, at, nil)
	_, last, ok := strings.Cut(progress.Header.Get("Range"), "-")
	require.True(t, ok)
	end, err := strconv.Atoi(last)
	require.NoError(t, err)
	require.Greater(t, end, 100<<10, "what arrived is kept")
	require.NoError(t, s.registry.DeleteBlob(other))
	rest := s.push(http.MethodPut, at+"?digest="+digestOf(blob), blob[end+1:])
	require.Equal(t, http.StatusCreated, rest.StatusCode, "%s", rest.body)
	require.True(t, bytes.Equal(blob, s.get("/v2/team/image/blobs/"+digestOf(blob)).body))
}

// Case 8: flipped bits in a header end the scan there with a sentence. Another medium's copies are
// used for the rest.
func TestFault08_flippedBitsInHeader(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	s.write(archive1, a)
	content, err := os.ReadFile(s.path(archive1))
	require.NoError(t, err)
	at := bytes.LastIndex(content, []byte("docker/registry/v2/blobs/"))
	content[at+len("docker/registry/v2/blobs/")] ^= 1
	require.NoError(t, os.WriteFile(s.path(archive1), content, 0o600))
	s.start()
	status := s.registry.Status()
	require.Len(t, status.Media, 1)
	require.Contains(t, strings.Join(status.Media[0].Problems, "\n"), "header")
	s.write("copy.tar", a)
	s.look()
	require.Equal(t, http.StatusOK, s.get("/v2/openshift/release-images/manifests/"+pushed.Digest).StatusCode)
	require.Empty(t, s.registry.Status().Gaps)
}
