package registry_test

import (
	"bytes"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/registry"
)

// verify compares all blobs, and returns the result.
func (s *site) verify() registry.Verify {
	s.Helper()
	result := s.compare()
	require.Empty(s, result.Message)
	require.Equal(s, result.Total, result.Done)
	return result
}

// compare compares all blobs, and returns the result, also if some can't be read.
func (s *site) compare() registry.Verify {
	s.Helper()
	require.NoError(s, s.registry.StartVerify())
	var result registry.Verify
	require.Eventually(s, func() bool {
		result = s.registry.Status().Verify
		return !result.Running
	}, time.Minute, time.Millisecond)
	return result
}

// damage changes a byte of a file of the registry.
func (s *site) damage(dir, digest string) {
	s.Helper()
	path := filepath.Join(s.data, "registry", dir, digest[len("sha256:"):])
	data, err := os.ReadFile(path)
	require.NoError(s, err)
	data[len(data)/2] ^= 1
	require.NoError(s, os.WriteFile(path, data, 0o600))
}

// A copy on the disk whose bytes have changed is found, and made again from its medium.
func TestVerify_copiesOnTheDisk(t *testing.T) {
	s := newSite(t)
	a, layers := layered(t, 2, 1<<20)
	s.write(archive1, a)
	s.start()
	s.stage()
	whole := s.awaitCopy(registry.StageWhole)
	require.Empty(t, s.verify().Damaged)
	digest := slices.Sorted(maps.Keys(layers))[0]
	s.damage("staged", digest)
	result := s.verify()
	require.Equal(t, []string{digest + " in the copy on the disk, which is made again"}, result.Damaged)
	s.awaitCopy(registry.StageWhole)
	require.Equal(t, whole.Bytes, s.registry.Status().StagedBytes)
	require.Equal(t, layers[digest], s.get("/v2/team/image/blobs/"+digest).body)
	require.Empty(t, s.verify().Damaged)
}

// A pushed blob whose bytes have changed is found. Its images are unavailable until somebody pushes
// it again.
func TestVerify_pushedBlobs(t *testing.T) {
	s := newSite(t)
	s.start()
	config, layer := s.pushBlob([]byte("{}")), s.pushBlob([]byte("layer"))
	manifest := manifestOf(config, layer)
	require.Equal(t, http.StatusCreated, s.push(http.MethodPut, "/v2/team/image/manifests/v1", manifest).StatusCode)
	used := s.registry.Status().PushedBytes
	s.damage("blobs", layer)
	result := s.verify()
	require.Equal(t, []string{layer + " among the pushed images; push the image again"}, result.Damaged)
	require.Equal(t, http.StatusNotFound, s.send(http.MethodHead, "/v2/team/image/blobs/"+layer, nil).StatusCode)
	require.Equal(t, http.StatusServiceUnavailable, s.get("/v2/team/image/manifests/v1").StatusCode)
	s.pushBlob([]byte("layer"))
	require.Equal(t, manifest, s.get("/v2/team/image/manifests/v1").body)
	require.Equal(t, used, s.registry.Status().PushedBytes)
}

// A part of the disk that can't be read damages one blob, and the others are compared too.
func TestVerify_unreadableFiles(t *testing.T) {
	s := newSite(t)
	a, layers := layered(t, 3, 1<<20)
	s.write(archive1, a)
	s.start()
	s.stage()
	s.awaitCopy(registry.StageWhole)
	digests := slices.Sorted(maps.Keys(layers))
	staged := func(digest string) string {
		path := filepath.Join(s.data, "registry", "staged", digest[len("sha256:"):])
		require.NoError(t, os.Remove(path))
		return path
	}
	require.NoError(t, os.Symlink("/proc/self/mem", staged(digests[0]))) // a read is an I/O error
	require.NoError(t, os.Mkdir(staged(digests[1]), 0o700))
	s.damage("staged", digests[2])
	pushed := s.pushBlob([]byte("pushed"))
	s.damage("blobs", pushed)
	result := s.compare()
	require.Equal(t, []string{digests[0] + " in the copy on the disk, which is made again",
		digests[2] + " in the copy on the disk, which is made again",
		pushed + " among the pushed images; push the image again"}, result.Damaged)
	require.Contains(t, result.Message, digests[1]+": read ")
}

// A medium that can't be read does not keep what lies on the disk from being compared.
func TestVerify_unreadableMedium(t *testing.T) {
	s := newSite(t)
	f := &faults{left: -1}
	s.open = f.open
	a, _ := bigArchive(t)
	s.write(archive1, a)
	s.start()
	pushed := s.pushBlob([]byte("pushed"))
	s.damage("blobs", pushed)
	f.set(0, nil)
	result := s.compare()
	require.Equal(t, []string{pushed + " among the pushed images; push the image again"}, result.Damaged)
	require.Contains(t, result.Message, "input/output error; the rest of it was not compared")
}

// A blob that is pushed again replaces bytes that were damaged since.
func TestPush_replacesDamagedBlob(t *testing.T) {
	s := newSite(t)
	s.start()
	data := bytes.Repeat([]byte("layer"), 1000)
	digest := s.pushBlob(data)
	used := s.registry.Status().PushedBytes
	s.damage("blobs", digest)
	s.pushBlob(data)
	require.Equal(t, data, s.get("/v2/team/image/blobs/"+digest).body)
	require.Equal(t, used, s.registry.Status().PushedBytes)
}
