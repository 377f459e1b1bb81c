package registry_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/appliance/registry"
)

// A path that was added is removed with its media, also if these are present, and may be added
// again.
func TestRemove_addedPath(t *testing.T) {
	s := newSite(t)
	s.start()
	path := t.TempDir()
	a, digest, layer := randomArchive(t)
	require.NoError(t, a.WriteFile(filepath.Join(path, archive1)))
	blob := "/v2/team/image/blobs/" + digest
	for range 2 {
		require.NoError(t, s.registry.Add(t.Context(), path))
		require.Equal(t, layer, s.get(blob).body)
		require.Equal(t, []string{path}, s.registry.Status().Added, "without the path of the configuration")
		require.NoError(t, s.registry.Remove(t.Context(), path+"/"))
		require.Equal(t, http.StatusNotFound, s.get(blob).StatusCode)
		require.Empty(t, s.registry.Status().Media)
		require.Empty(t, s.registry.Status().Added)
		for _, unusable := range s.registry.Status().Unusable {
			require.NotEqual(t, path, unusable.Path)
		}
	}
	s.stop()
	s.start()
	require.Empty(t, s.registry.Status().Media)
	require.FileExists(t, filepath.Join(path, archive1))
	require.Equal(t, fault.NotFound, fault.KindOf(s.registry.Remove(t.Context(), path)))
}

// A lost medium is forgotten, so that its images are unknown and not waited for.
func TestRemove_lostMedium(t *testing.T) {
	s := newSite(t)
	a, digest, _ := randomArchive(t)
	s.write(archive1, a)
	s.start()
	label := s.registry.Status().Media[0].Label
	blob := "/v2/team/image/blobs/" + digest
	require.ErrorContains(t, s.registry.Remove(t.Context(), label), "unplug it first")
	require.ErrorContains(t, s.registry.Remove(t.Context(), s.dir), "is in registry.media")
	require.ErrorContains(t, s.registry.Remove(t.Context(), "all"), "Name one medium")
	s.remove(archive1)
	require.Equal(t, http.StatusServiceUnavailable, s.get(blob).StatusCode)
	require.NoError(t, s.registry.Remove(t.Context(), label))
	require.Equal(t, http.StatusNotFound, s.get(blob).StatusCode)
	s.stop()
	s.start()
	require.Empty(t, s.registry.Status().Media)
	s.put(archive1)
	require.Equal(t, http.StatusOK, s.get(blob).StatusCode)
}

// A medium whose copy is ordered can't be forgotten by mistake.
func TestRemove_orderedCopy(t *testing.T) {
	s := newSite(t)
	a, digest, layer := randomArchive(t)
	s.write(archive1, a)
	s.start()
	s.stage()
	label := s.awaitCopy(registry.StageWhole).Label
	s.remove(archive1)
	require.ErrorContains(t, s.registry.Remove(t.Context(), label), "--cancel first")
	require.NoError(t, s.registry.CancelStage(t.Context(), label))
	require.NoError(t, s.registry.Remove(t.Context(), label))
	require.Equal(t, layer, s.get("/v2/team/image/blobs/"+digest).body, "the copy stays until a collection")
	_, err := s.registry.Collect(t.Context())
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, s.get("/v2/team/image/blobs/"+digest).StatusCode)
	_, err = os.Stat(s.onDisk("staged", digest))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Folders with the appliance's own images, and those of the kernel, are not searched for media
// every two seconds.
func TestAdd_placesWithoutMedia(t *testing.T) {
	s := newSite(t)
	s.start()
	a, _, _ := randomArchive(t)
	require.NoError(t, a.WriteFile(filepath.Join(s.data, archive1)))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(s.data, link))
	own := filepath.Join(s.data, "registry")
	for place, reason := range map[string]string{"/": "all file systems", own: own,
		filepath.Join(own, "uploads"): own, filepath.Join(link, "registry"): own, "/proc": "files in /proc",
		"/sys/": "files in /sys", "/dev": "files in /dev"} {
		err := s.registry.Add(t.Context(), place)
		require.ErrorContains(t, err, reason, place)
		require.Equal(t, fault.Invalid, fault.KindOf(err), place)
	}
	require.NoError(t, a.WriteFile(filepath.Join(own, "uploads", "own.tar")))
	require.NoError(t, s.registry.Add(t.Context(), link), "a stick with the data directory and an archive")
	status := s.registry.Status()
	require.Len(t, status.Media, 1)
	require.Equal(t, "link/"+archive1, status.Media[0].Label)
}

// A wrong name gets the names that are right.
func TestRemove_unknownName(t *testing.T) {
	s := newSite(t)
	s.start()
	require.EqualError(t, s.registry.Remove(t.Context(), "stick"), `The registry does not know "stick", and nothing `+
		`can be removed: no path was added with landfall registry add, and no medium is missing.`)
	a, _, _ := randomArchive(t)
	s.write(archive1, a)
	s.look()
	label := s.registry.Status().Media[0].Label
	s.remove(archive1)
	added := t.TempDir()
	a, _ = newArchive(t)
	require.NoError(t, a.WriteFile(filepath.Join(added, "other.tar")))
	require.NoError(t, s.registry.Add(t.Context(), added))
	err := s.registry.Remove(t.Context(), "stick")
	require.EqualError(t, err, `The registry does not know "stick". The paths that were added and the missing media `+
		`can be removed: `+added+", "+label+".")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

// A path whose archive was unpacked does not come back with the next start.
func TestRemove_pathOfUnpackedArchive(t *testing.T) {
	s := newSite(t)
	s.start()
	path := t.TempDir()
	a, layers := layered(t, 1, 1<<20)
	data, _ := packedBytes(t, packed1, a)
	require.NoError(t, os.WriteFile(filepath.Join(path, packed1), data, 0o600))
	require.NoError(t, s.registry.Add(t.Context(), path))
	s.stage()
	label := s.awaitUnpacked().Label
	s.pullAll(1, layers)
	require.NoError(t, s.registry.CancelStage(t.Context(), label))
	require.NoError(t, s.registry.Remove(t.Context(), path))
	require.Empty(t, s.registry.Status().Media)
	s.stop()
	s.start()
	require.Empty(t, s.registry.Status().Media)
	for _, unusable := range s.registry.Status().Unusable {
		require.NotEqual(t, path, unusable.Path)
	}
	require.Zero(t, s.registry.Status().StagedBytes, "the tar archive is removed")
}

// A copy that is no longer wanted is removed by a collection. To say so is better than to do
// nothing.
func TestRemove_copyOfLostArchive(t *testing.T) {
	s := newSite(t)
	a, _ := layered(t, 1, 1<<20)
	s.writePacked(packed1, a)
	s.start()
	s.awaitPacked("")
	s.stage()
	label := s.awaitUnpacked().Label
	s.remove(packed1)
	require.NoError(t, s.registry.CancelStage(t.Context(), label))
	require.ErrorContains(t, s.registry.Remove(t.Context(), label), "landfall registry gc removes it")
}
