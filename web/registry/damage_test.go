package registry_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/registry"
	"landfall/appliance/registry/medium"
	simulated "landfall/appliance/simulate/registry"
)

// onDisk returns the file of a blob on the disk of the registry.
func (s *site) onDisk(dir, digest string) string {
	return filepath.Join(s.data, "registry", dir, digest[len("sha256:"):])
}

// randomArchive returns an archive with an image of one layer of 3 MiB.
func randomArchive(t *testing.T) (a *simulated.Archive, digest string, layer []byte) {
	t.Helper()
	layer = make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(layer) // never fails
	a = &simulated.Archive{}
	digest, err := a.AddBlob(t.Context(), "team/image", "v1", layer)
	require.NoError(t, err)
	return a, digest, layer
}

// requireBroken asks for a damaged blob: the client never has all of its bytes.
func (s *site) requireBroken(digest string) {
	s.Helper()
	got := s.get("/v2/team/image/blobs/" + digest)
	require.ErrorIs(s, got.err, io.ErrUnexpectedEOF, "never whole")
}

// A damaged pushed blob is never sent completely, and removed, so that the next push sends it.
func TestDamage_pushedBlob(t *testing.T) {
	s := newSite(t)
	s.start()
	_, digest, layer := randomArchive(t)
	config := s.pushBlob([]byte("{}"))
	s.pushBlob(layer)
	manifest := manifestOf(config, digest)
	require.Equal(t, http.StatusCreated, s.push(http.MethodPut, "/v2/team/image/manifests/v1", manifest).StatusCode)
	used := s.registry.Status().PushedBytes
	s.damage("blobs", digest)
	s.requireBroken(digest)
	require.Equal(t, http.StatusNotFound, s.get("/v2/team/image/blobs/"+digest).StatusCode)
	got := s.get("/v2/team/image/manifests/v1")
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	_, message := got.message(t)
	require.Contains(t, message, "push the image again")
	require.Equal(t, []string{digest + " was damaged on the disk and is removed; push its images again"},
		s.registry.Status().Notes)
	s.pushBlob(layer)
	require.Equal(t, layer, s.get("/v2/team/image/blobs/"+digest).body)
	require.Empty(t, s.registry.Status().Notes)
	require.Equal(t, used, s.registry.Status().PushedBytes)
}

// Nobody has to push a damaged blob again whose image was deleted.
func TestDamage_pushedBlobOfDeletedImage(t *testing.T) {
	s := newSite(t)
	s.start()
	_, digest, layer := randomArchive(t)
	s.pushBlob(layer)
	manifest := manifestOf(s.pushBlob([]byte("{}")), digest)
	require.Equal(t, http.StatusCreated, s.push(http.MethodPut, "/v2/team/image/manifests/v1", manifest).StatusCode)
	s.damage("blobs", digest)
	s.requireBroken(digest)
	require.Len(t, s.registry.Status().Notes, 1)
	require.NoError(t, s.registry.Delete(t.Context(), "team/image", digestOf(manifest)))
	require.Empty(t, s.registry.Status().Notes)
}

// A damaged pushed blob does not hide a medium that has it.
func TestDamage_pushedBlobIsOnMedium(t *testing.T) {
	s := newSite(t)
	a, digest, layer := randomArchive(t)
	s.write(archive1, a)
	s.start()
	s.pushBlob(layer)
	s.damage("blobs", digest)
	s.requireBroken(digest)
	require.Equal(t, layer, s.get("/v2/team/image/blobs/"+digest).body)
}

// If nothing was sent yet, the next place is used for the same answer.
func TestDamage_nextPlaceInTheSameAnswer(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, path string){
		"bytes": func(t *testing.T, path string) { // the last ones are withheld
			require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{1}, 5000), 0o600))
		},
		"sector": func(t *testing.T, path string) {
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Symlink("/proc/self/mem", path)) // a read is an I/O error
		},
		"no bytes": func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			layer, a := bytes.Repeat([]byte{7}, 5000), &simulated.Archive{}
			digest, err := a.AddBlob(t.Context(), "team/image", "v1", layer)
			require.NoError(t, err)
			s.write(archive1, a)
			s.start()
			s.pushBlob(layer)
			harm(t, s.onDisk("blobs", digest))
			got := s.get("/v2/team/image/blobs/" + digest)
			require.NoError(t, got.err)
			require.Equal(t, layer, got.body)
		})
	}
}

// newCopied returns a site with a whole copy of a medium, and a blob of it.
func newCopied(t *testing.T) (s *site, digest string, layer []byte) {
	t.Helper()
	s = newSite(t)
	a, digest, layer := randomArchive(t)
	s.write(archive1, a)
	s.start()
	s.stage()
	s.awaitCopy(registry.StageWhole)
	return s, digest, layer
}

// A damaged copy of a medium is never sent completely, also after a restart. It is made again.
func TestDamage_copyOnTheDisk(t *testing.T) {
	s, digest, layer := newCopied(t)
	s.stop()
	s.damage("staged", digest)
	s.start()
	s.requireBroken(digest)
	require.Equal(t, layer, s.get("/v2/team/image/blobs/"+digest).body)
	s.awaitCopy(registry.StageWhole)
	whole, err := os.ReadFile(s.onDisk("staged", digest))
	require.NoError(t, err)
	require.Equal(t, layer, whole)
}

// A damaged copy whose medium is not plugged in tells clients to wait for the medium.
func TestDamage_copyWithoutMedium(t *testing.T) {
	s, digest, _ := newCopied(t)
	s.damage("staged", digest)
	s.remove(archive1)
	s.requireBroken(digest)
	got := s.get("/v2/team/image/blobs/" + digest)
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	_, message := got.message(t)
	require.Contains(t, message, "plug it in again")
	require.Equal(t, registry.StageWaiting, s.registry.Status().Media[0].Staging.State)
}

// A copy that lacks bytes is found at the start: the status would say that it is whole.
func TestDamage_cutCopyIsFoundAtTheStart(t *testing.T) {
	s, digest, layer := newCopied(t)
	s.remove(archive1)
	s.stop()
	require.NoError(t, os.Truncate(s.onDisk("staged", digest), 1<<20))
	s.start()
	require.Equal(t, registry.StageWaiting, s.registry.Status().Media[0].Staging.State)
	require.Equal(t, http.StatusServiceUnavailable, s.get("/v2/team/image/blobs/"+digest).StatusCode)
	s.put(archive1)
	s.awaitCopy(registry.StageWhole)
	require.Equal(t, layer, s.get("/v2/team/image/blobs/"+digest).body)
}

// Damaged bytes of one medium and sound ones of another do not become a whole answer. Nobody knows
// which of them is damaged until the next pull.
func TestDamage_bytesOfTwoMedia(t *testing.T) {
	s := newSite(t)
	f := &faults{left: -1}
	s.open = func(path string) (medium.File, error) {
		if filepath.Base(path) == archive1 {
			return f.open(path)
		}
		return os.Open(path)
	}
	a, digest, layer := randomArchive(t)
	s.write(archive1, a)
	s.write("mirror_000002.tar", a)
	data, err := os.ReadFile(s.path(archive1))
	require.NoError(t, err)
	at := bytes.Index(data, layer)
	require.Positive(t, at)
	data[at+1000] ^= 1
	require.NoError(t, os.WriteFile(s.path(archive1), data, 0o600))
	s.start()
	f.set(1<<20, nil)
	got := s.get("/v2/team/image/blobs/" + digest)
	require.ErrorIs(t, got.err, io.ErrUnexpectedEOF, "never whole")
	require.Greater(t, len(got.body), 1<<20, "the other medium went on")
	require.Equal(t, layer, s.get("/v2/team/image/blobs/"+digest).body)
	for _, m := range s.registry.Status().Media {
		require.Empty(t, m.Damaged)
	}
}
