package registry_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror"
	"landfall/appliance/mirror/prover"
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

// writeParts writes an archive in three parts, as oc-mirror does for its archiveSize: the links and
// some blobs, the given blobs, and the working directory.
func (s *site) writeParts(a *simulated.Archive, second []string) {
	s.Helper()
	var whole bytes.Buffer
	require.NoError(s, a.Write(&whole))
	var parts [3]bytes.Buffer
	var writers [3]*tar.Writer
	for i := range parts {
		writers[i] = tar.NewWriter(&parts[i])
	}
	for in := tar.NewReader(&whole); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(s, err)
		to := writers[0]
		switch {
		case slices.ContainsFunc(second, func(digest string) bool {
			return strings.HasSuffix(header.Name, "/"+strings.TrimPrefix(digest, "sha256:")+"/data")
		}):
			to = writers[1]
		case !strings.HasPrefix(header.Name, "docker/"):
			to = writers[2]
		}
		require.NoError(s, to.WriteHeader(header))
		_, err = io.Copy(to, in)
		require.NoError(s, err)
	}
	for i := range parts {
		require.NoError(s, writers[i].Close())
		require.NoError(s, os.WriteFile(s.path(fmt.Sprintf("mirror_%06d.tar", i+1)), parts[i].Bytes(), 0o600))
	}
}

// Case 4: of three archives, the second is missing. What is there is served. The gap is named by
// the number of the archive and by the digests, and the prover shows the image.
func TestFault04_archiveOfSeveralMissing(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	layer := a.Layers(pushed.Digest)[1]
	s.writeParts(a, []string{layer})
	second := filepath.Join(s.data, "mirror_000002.tar")
	require.NoError(t, os.Rename(s.path("mirror_000002.tar"), second))
	s.start()
	status := s.registry.Status()
	require.Len(t, status.Media, 2)
	require.Equal(t, []string{"the archive mirror_000002.tar is on none of the known media, although one with a " +
		"higher number is; plug it in"}, status.Notes)
	require.Equal(t, []registry.Gap{{Image: "openshift/release-images:" + releaseTag, Missing: []string{layer}}},
		status.Gaps)
	require.Equal(t, http.StatusOK, s.get("/v2/openshift/release-images/blobs/"+a.Layers(pushed.Digest)[0]).StatusCode)
	sources, err := s.registry.Rules(registry.Place{Host: s.host(), Plain: true})
	require.NoError(t, err)
	rules, err := mirror.Parse(sources)
	require.NoError(t, err)
	client := mirror.NewClient(rules, mirror.ClientOptions{Backoff: remote.Backoff{Steps: 1}})
	t.Cleanup(client.CloseIdleConnections)
	proves := func() prover.Result {
		report, err := prover.New(prover.Options{Client: client}).Prove(t.Context(), prover.Request{
			Images: []prover.Image{{Ref: "quay.io/openshift-release-dev/ocp-release@" + pushed.Digest}}}, nil)
		require.NoError(t, err)
		require.Len(t, report.Results, 1)
		return report.Results[0]
	}
	shown := proves()
	require.Equal(t, prover.MissingLayer, shown.Status)
	require.Equal(t, []prover.Part{{Kind: "layer", Digest: layer}}, shown.Missing)
	require.Contains(t, shown.Text, "lacks parts of")
	require.Contains(t, shown.Text, layer+" of this image is on none of the media that are known; plug in the archive")
	require.NoError(t, os.Rename(second, s.path("mirror_000002.tar")))
	s.look()
	require.Empty(t, s.registry.Status().Notes)
	require.Empty(t, s.registry.Status().Gaps)
	require.Equal(t, prover.Held, proves().Status)
}

// The archives of one run are served together: the links are in the first, manifests and blobs in
// any of them, and the working directory with the filters of catalogs in the last.
func TestParts_ofOneRun(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	require.NoError(t, a.AddCatalog(t.Context(), simulated.Catalog{Index: "redhat-operator-index", Version: "4.20",
		Packages: []simulated.CatalogPackage{{Name: "odf", Images: []string{"registry.redhat.io/odf4"}, Held: true}}}))
	const repository = "redhat/redhat-operator-index"
	filtered := a.Tagged(repository, "64b50ef276d4c646cebfc294f3da25f4")
	var second []string
	for i, digest := range a.Digests() {
		if i%2 == 0 && digest != filtered {
			second = append(second, digest)
		}
	}
	s.writeParts(a, append(second, pushed.Digest))
	s.start()
	status := s.registry.Status()
	require.Len(t, status.Media, 3)
	require.Empty(t, status.Gaps)
	require.Len(t, status.Releases, 1)
	for _, reference := range []string{releaseTag, pushed.Digest} {
		got := s.get("/v2/openshift/release-images/manifests/" + reference)
		require.Equal(t, http.StatusOK, got.StatusCode, "%s", got.body)
	}
	require.Equal(t, filtered, s.get("/v2/"+repository+"/manifests/v4.20").Header.Get("Docker-Content-Digest"))
	sources, err := s.registry.Rules(registry.Place{Host: s.host()})
	require.NoError(t, err)
	require.Contains(t, string(sources.MirrorSets[0].Data), "cs-redhat-operator-index-v4-20")
}

// Case 15: the tag of a signature that is not there is 404, because another answer fails the pull.
// The prover warns of missing signatures before an installation.
func TestFault15_noSignature(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	s.write(archive1, a)
	s.start()
	path := "/v2/openshift/release-images/manifests/" + strings.Replace(pushed.Digest, ":", "-", 1) + ".sig"
	requireUnknown := func() {
		got := s.get(path)
		require.Equal(t, http.StatusNotFound, got.StatusCode)
		code, _ := got.message(t)
		require.Equal(t, "MANIFEST_UNKNOWN", code)
	}
	requireUnknown()
	s.remove(archive1)
	requireUnknown()
}

// Case 16: an image with a layer that is nowhere is unavailable as a whole, so that no client
// begins to pull it. Other images are served.
func TestFault16_layerIsNowhere(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	_, err := a.AddBlob(t.Context(), "team/whole", "1", []byte("layer"))
	require.NoError(t, err)
	layer := a.Layers(pushed.Digest)[1]
	a.Omit = []string{layer}
	s.write(archive1, a)
	s.start()
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for _, reference := range []string{pushed.Digest, releaseTag} {
			got := s.send(method, "/v2/openshift/release-images/manifests/"+reference, nil)
			require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
			require.Empty(t, got.Header.Get("Retry-After"), "nobody should wait for it")
		}
	}
	_, message := s.get("/v2/openshift/release-images/manifests/" + pushed.Digest).message(t)
	require.Contains(t, message, layer+" of this image is on none of the media")
	require.Equal(t, http.StatusOK, s.get("/v2/team/whole/manifests/1").StatusCode)
}

// Case 25: a range past the end is 416 with the size. Questions about a blob do not touch the
// medium.
func TestFault25_rangePastTheEnd(t *testing.T) {
	s := newSite(t)
	f := &faults{left: -1}
	s.open = f.open
	a, digest := bigArchive(t)
	s.write(archive1, a)
	s.start()
	f.set(0, nil) // any read fails
	path, size := "/v2/team/big/blobs/"+digest, int64(4<<20)
	for _, asked := range []string{"bytes=4194304-", "bytes=99999999-100000000"} {
		past := s.get(path, "Range", asked)
		require.Equal(t, http.StatusRequestedRangeNotSatisfiable, past.StatusCode)
		require.Equal(t, "bytes */4194304", past.Header.Get("Content-Range"))
	}
	head := s.send(http.MethodHead, path, nil)
	require.Equal(t, http.StatusOK, head.StatusCode)
	require.Equal(t, size, head.ContentLength)
	known := s.get(path, "If-None-Match", head.Header.Get("Etag"))
	require.Equal(t, http.StatusNotModified, known.StatusCode)
	require.True(t, s.registry.Status().Media[0].Present, "the medium was not read")
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
