package registry_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/registry"
	"landfall/appliance/registry/medium"
	simulated "landfall/appliance/simulate/registry"
)

// The tests of this file are the cases of faults of media. Each has the number of its case.

const archive1 = "mirror_000001.tar"

// layerPath returns the path of a layer of the release and its size.
func (s *site) layerPath() (string, int64) {
	s.Helper()
	parsed, _ := s.releaseOf()
	return "/v2/openshift/release-images/blobs/" + parsed.Layers[1].Digest, parsed.Layers[1].Size
}

// Case 1: a removed medium is answered with 503 and a sentence, and served again when it is back.
func TestFault01_mediumRemovedAndBack(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	s.write(archive1, a)
	s.start()
	layer, _ := s.layerPath()
	s.remove(archive1)
	for _, path := range []string{layer, "/v2/openshift/release-images/manifests/" + pushed.Digest} {
		got := s.get(path)
		require.Equal(t, http.StatusServiceUnavailable, got.StatusCode, path)
		require.NotEmpty(t, got.Header.Get("Retry-After"))
		_, message := got.message(t)
		require.Contains(t, message, "mirror_000001.tar is missing since")
	}
	require.False(t, s.registry.Status().Media[0].Present)
	s.put(archive1)
	require.Equal(t, http.StatusOK, s.get(layer).StatusCode)
	require.True(t, s.registry.Status().Media[0].Present)
}

// brokenFile fails after some bytes of reads, as a stick that is pulled out.
type brokenFile struct {
	medium.File
	faults *faults
}

// faults decides which reads of a medium fail.
type faults struct {
	mu   sync.Mutex
	left int64 // bytes until reads fail; negative for never
	hang chan struct{}
}

func (f *faults) set(left int64, hang chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.hang = left, hang
}

func (f *faults) open(path string) (medium.File, error) {
	file, err := os.Open(path)
	return brokenFile{file, f}, err
}

// ReadAt implements io.ReaderAt.
func (f brokenFile) ReadAt(p []byte, offset int64) (int, error) {
	f.faults.mu.Lock()
	hang, left := f.faults.hang, f.faults.left
	if left > 0 {
		f.faults.left = max(0, left-int64(len(p)))
	}
	f.faults.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if left == 0 {
		return 0, &fs.PathError{Op: "read", Path: "stick", Err: errors.New("input/output error")}
	}
	return f.File.ReadAt(p, offset)
}

// bigArchive returns an archive with an image of a layer of some MiB.
func bigArchive(t testing.TB) (a *simulated.Archive, digest string) {
	t.Helper()
	a = &simulated.Archive{}
	digest, err := a.AddBlob(t.Context(), "team/big", "1", bytes.Repeat([]byte("0123456789abcdef"), 256<<10))
	require.NoError(t, err)
	return a, digest
}

// Case 1: the connection breaks in the middle of a pull, and never ends cleanly.
func TestFault01_connectionBreaks(t *testing.T) {
	s := newSite(t)
	f := &faults{left: -1}
	s.open = f.open
	a, digest := bigArchive(t)
	s.write(archive1, a)
	s.start()
	f.set(1<<20, nil)
	path := "/v2/team/big/blobs/" + digest
	got := s.get(path)
	require.ErrorIs(t, got.err, io.ErrUnexpectedEOF)
	require.Equal(t, http.StatusServiceUnavailable, s.get(path, "Range", "bytes=1048576-").StatusCode)
	f.set(-1, nil)
	s.look()
	rest := s.get(path, "Range", "bytes=1048576-")
	require.Equal(t, http.StatusPartialContent, rest.StatusCode)
	require.Equal(t, digest, digestOf(append(got.body[:1<<20:1<<20], rest.body...)))
}

// Case 2: a medium is recognized without a scan by its content, and another one with its name is
// not taken for it.
func TestFault02_recognizedByContent(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	s.write(archive1, a)
	s.start()
	s.remove(archive1)
	other, digest := bigArchive(t)
	s.write(archive1, other)
	s.look()
	require.Equal(t, http.StatusOK, s.get("/v2/team/big/blobs/"+digest).StatusCode)
	require.Equal(t, http.StatusServiceUnavailable, s.get("/v2/openshift/release-images/manifests/"+
		pushed.Digest).StatusCode)
	require.NoError(t, os.MkdirAll(s.path("elsewhere"), 0o700))
	require.NoError(t, os.Rename(filepath.Join(s.data, archive1), filepath.Join(s.path("elsewhere"), archive1)))
	s.look()
	require.Equal(t, http.StatusOK, s.get("/v2/openshift/release-images/manifests/"+pushed.Digest).StatusCode)
}

// Case 5: a differential archive names what it presumes, and its incomplete images.
func TestFault05_differentialWithoutPredecessor(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	s.write("first.tar", a)
	require.NoError(t, os.Rename(s.path("first.tar"), filepath.Join(s.data, "first.tar")))
	layer := a.Layers(pushed.Digest)[1]
	a.Omit = []string{layer}
	s.write("mirror_000002.tar", a)
	s.start()
	status := s.registry.Status()
	require.Equal(t, 2, status.Media[0].Number)
	require.Equal(t, 1, status.Media[0].Absent)
	require.Len(t, status.Gaps, 1)
	require.Equal(t, registry.Gap{Image: "openshift/release-images:" + releaseTag, Missing: []string{layer}},
		status.Gaps[0])
	got := s.get("/v2/openshift/release-images/manifests/" + pushed.Digest)
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	_, message := got.message(t)
	require.Contains(t, message, layer)
	s.put("first.tar")
	require.Equal(t, http.StatusOK, s.get("/v2/openshift/release-images/manifests/"+pushed.Digest).StatusCode)
	require.Empty(t, s.registry.Status().Gaps)
}

// Case 6: a cut archive is served up to the cut, which is named.
func TestFault06_truncatedArchive(t *testing.T) {
	s := newSite(t)
	a, _ := newArchive(t)
	s.write(archive1, a)
	info, err := os.Stat(s.path(archive1))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(s.path(archive1), info.Size()*3/4))
	s.start()
	status := s.registry.Status()
	require.Len(t, status.Media, 1)
	require.Contains(t, strings.Join(status.Media[0].Problems, "\n"), "is cut off at byte")
	require.NotZero(t, status.Media[0].Images)
}

// Case 7: flipped bits are found by the first pull; another medium is used, or the place is named.
func TestFault07_flippedBits(t *testing.T) {
	s := newSite(t)
	a, _ := newArchive(t)
	s.write(archive1, a)
	data, err := os.ReadFile(s.path(archive1))
	require.NoError(t, err)
	s.start()
	layer, size := s.layerPath()
	whole := s.get(layer).body
	s.stop()
	at := bytes.Index(data, whole)
	require.Positive(t, at)
	data[at+int(size)/2] ^= 1
	require.NoError(t, os.WriteFile(s.path(archive1), data, 0o600))
	s.data = t.TempDir()
	s.start()
	got := s.get(layer)
	require.Equal(t, http.StatusInternalServerError, got.StatusCode)
	_, message := got.message(t)
	require.Contains(t, message, "mirror_000001.tar at byte")
	s.write("mirror_000002.tar", a)
	s.look()
	require.Equal(t, whole, s.get(layer).body)
}

// Case 9: archives with other compressions are refused with the reason.
func TestFault09_otherCompression(t *testing.T) {
	s := newSite(t)
	require.NoError(t, os.WriteFile(s.path("mirror_000001.tar.xz"), []byte("\xfd7zXZ\x00rest"), 0o600))
	s.start()
	require.Len(t, s.registry.Status().Unusable, 1)
	require.Contains(t, s.registry.Status().Unusable[0].Problem, "is compressed (xz)")
}

// Case 10: a docker-archive is refused, because it has lost the digests.
func TestFault10_dockerArchive(t *testing.T) {
	s := newSite(t)
	var docker bytes.Buffer
	w := tar.NewWriter(&docker)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "manifest.json", Size: 2, Mode: 0o600}))
	_, err := w.Write([]byte("[]"))
	require.NoError(t, errors.Join(err, w.Close()))
	require.NoError(t, os.WriteFile(s.path("image.tar"), docker.Bytes(), 0o600))
	s.start()
	require.Len(t, s.registry.Status().Unusable, 1)
	require.Contains(t, s.registry.Status().Unusable[0].Problem, "is a docker-archive")
}

// Case 11: of two archives with one tag, the newer run wins, and both are served by digest.
func TestFault11_twoArchivesOneTag(t *testing.T) {
	s := newSite(t)
	digests := map[string]string{}
	for name, at := range map[string]time.Time{"old.tar": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"new.tar": time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)} {
		a := &simulated.Archive{Written: at}
		_, err := a.AddBlob(t.Context(), "openshift/graph-image", "latest", []byte(name))
		require.NoError(t, err)
		digests[name] = a.Tagged("openshift/graph-image", "latest")
		s.write(name, a)
	}
	s.start()
	got := s.get("/v2/openshift/graph-image/manifests/latest")
	require.Equal(t, digests["new.tar"], got.Header.Get("Docker-Content-Digest"))
	require.Equal(t, http.StatusOK, s.get("/v2/openshift/graph-image/manifests/"+digests["old.tar"]).StatusCode)
	require.Contains(t, strings.Join(s.registry.Status().Notes, "\n"), "which is newer")
}

// Case 13: the filtered catalog is served under the tag of the source.
func TestFault13_filteredCatalog(t *testing.T) {
	s := newSite(t)
	a := &simulated.Archive{}
	require.NoError(t, a.AddCatalog(t.Context(), simulated.Catalog{Index: "redhat-operator-index", Version: "4.20",
		Packages: []simulated.CatalogPackage{{Name: "odf", Images: []string{"registry.redhat.io/odf4"}, Held: true}}}))
	s.write(archive1, a)
	s.start()
	repository := "redhat/redhat-operator-index"
	filtered := a.Tagged(repository, "64b50ef276d4c646cebfc294f3da25f4")
	require.NotEqual(t, filtered, a.Tagged(repository, "v4.20"))
	require.Equal(t, filtered, s.get("/v2/"+repository+"/manifests/v4.20").Header.Get("Docker-Content-Digest"))
}

// Case 23: a medium that hangs is answered for with 503 or a broken connection, and does not delay
// the shutdown.
func TestFault23_mediumHangs(t *testing.T) {
	s := newSite(t)
	f := &faults{left: -1}
	s.open, s.deadline = f.open, 50*time.Millisecond
	a, digest := bigArchive(t)
	s.write(archive1, a)
	s.start()
	hang := make(chan struct{})
	defer close(hang)
	f.set(-1, hang)
	got := s.get("/v2/team/big/blobs/" + digest)
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	_, message := got.message(t)
	require.Contains(t, message, "does not answer")
	require.Empty(t, got.Header.Get("Cache-Control"), "caches must not keep an error")
	require.Empty(t, got.Header.Get("Etag"))
	s.stop()
}

// Case 23: a path that hangs when it is read for the first time does not keep what is pushed from
// the registry. A long scan is waited for.
func TestFault23_pathHangsAtFirstLook(t *testing.T) {
	for _, c := range []struct {
		reads  int // before the path hangs
		status int
	}{{0, http.StatusNotFound}, {10, http.StatusServiceUnavailable}} {
		s := newSite(t)
		hanging, end := make(chan struct{}), make(chan struct{})
		s.open = func(path string) (medium.File, error) {
			file, err := os.Open(path)
			return &hangingFile{file, s.clock, c.reads, hanging, end}, err
		}
		a, pulled := newArchive(t)
		s.write(archive1, a)
		changed := s.run()
		<-hanging
		config := []byte("{}")
		blob := "/v2/team/image/blobs/" + digestOf(config)
		if c.reads == 0 {
			require.Equal(t, http.StatusServiceUnavailable, s.send(http.MethodHead, blob, nil).StatusCode)
			require.Equal(t, registry.PathReading, s.registry.Status().Unusable[0].State)
			s.clock.Advance(time.Minute)
			require.Contains(t, s.registry.Status().Unusable[0].Problem, "does not answer")
		}
		require.Equal(t, c.status, s.send(http.MethodHead, blob, nil).StatusCode)
		require.Equal(t, digestOf(config), s.pushBlob(config))
		close(end)
		s.await(changed)
		require.Equal(t, http.StatusOK, s.get("/v2/openshift/release-images/manifests/"+pulled.Digest).StatusCode)
		require.Empty(t, s.registry.Status().Unusable)
		s.stop()
	}
}

// hangingFile needs 40 seconds for each of the first reads, and then hangs until an end.
type hangingFile struct {
	medium.File
	clock        *clockwork.FakeClock
	reads        int
	hanging, end chan struct{}
}

// ReadAt implements io.ReaderAt.
func (f *hangingFile) ReadAt(p []byte, offset int64) (int, error) {
	select {
	case <-f.end:
		return f.File.ReadAt(p, offset)
	default:
	}
	if f.reads == 0 {
		close(f.hanging)
		<-f.end
	}
	f.reads--
	f.clock.Advance(40 * time.Second)
	return f.File.ReadAt(p, offset)
}

// Case 26: a known digest is served in any repository.
func TestFault26_knownDigestElsewhere(t *testing.T) {
	s := newSite(t)
	a, digest := bigArchive(t)
	s.write(archive1, a)
	s.start()
	require.Equal(t, http.StatusOK, s.send(http.MethodHead, "/v2/quay.io/other/name/blobs/"+digest, nil).StatusCode)
}

// Case 55: the index of a known medium is used again after a start.
func TestFault55_indexIsUsedAgain(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	s.write(archive1, a)
	s.start()
	s.remove(archive1)
	s.stop()
	s.start()
	require.Equal(t, http.StatusServiceUnavailable, s.get("/v2/openshift/release-images/manifests/"+
		pushed.Digest).StatusCode, "known, but missing")
}

// Since when a medium is missing is kept over restarts, also if it went while the appliance was
// off.
func TestFault55_missingSinceIsKept(t *testing.T) {
	s := newSite(t)
	a, _ := newArchive(t)
	s.write(archive1, a)
	s.start()
	s.remove(archive1)
	gone := s.clock.Now()
	for range 2 {
		s.stop()
		s.clock.Advance(time.Hour)
		s.start()
		require.True(t, gone.Equal(s.registry.Status().Media[0].Since))
	}
	s.put(archive1)
	s.stop()
	require.NoError(t, os.Remove(s.path(archive1)))
	s.clock.Advance(time.Hour)
	s.start()
	require.True(t, s.clock.Now().Equal(s.registry.Status().Media[0].Since))
	s.stop()
	s.clock.Advance(time.Hour)
	s.start()
	require.True(t, s.clock.Now().Add(-time.Hour).Equal(s.registry.Status().Media[0].Since))
}
