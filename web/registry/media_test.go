package registry_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/registry/medium"
	simulated "landfall/appliance/simulate/registry"
	"landfall/store"
)

// lookNow makes the registry look at its folder, and waits until the look has ended.
func (s *site) lookNow() {
	s.Helper()
	require.NoError(s, s.registry.Add(s.Context(), s.dir))
}

// copyTo copies a medium with its time to another folder of the site.
func (s *site) copyTo(name, folder string) {
	s.Helper()
	data, err := os.ReadFile(s.path(name))
	require.NoError(s, err)
	info, err := os.Stat(s.path(name))
	require.NoError(s, err)
	to := filepath.Join(s.path(folder), name)
	require.NoError(s, os.MkdirAll(s.path(folder), 0o700))
	require.NoError(s, os.WriteFile(to, data, 0o600))
	require.NoError(s, os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// TestMedia_copiesStayPresent has two copies of an archive: each is a medium, neither takes the
// place of the other at the next look, and one suffices.
func TestMedia_copiesStayPresent(t *testing.T) {
	s := newSite(t)
	a, digest := bigArchive(t)
	s.write(archive1, a)
	s.copyTo(archive1, "copy")
	s.start()
	first := s.registry.Status().Media
	require.Len(t, first, 2)
	s.clock.Advance(time.Hour)
	s.lookNow()
	require.Equal(t, first, s.registry.Status().Media, "present since the first look")
	s.remove(archive1)
	require.Equal(t, http.StatusOK, s.get("/v2/team/big/blobs/"+digest).StatusCode)
}

// TestMedia_movedIsOneMedium moves an archive: it is the same medium at another place.
func TestMedia_movedIsOneMedium(t *testing.T) {
	s := newSite(t)
	a, _ := bigArchive(t)
	s.write(archive1, a)
	s.start()
	s.remove(archive1)
	require.NoError(t, os.Mkdir(s.path("elsewhere"), 0o700))
	require.NoError(t, os.Rename(filepath.Join(s.data, archive1), filepath.Join(s.path("elsewhere"), archive1)))
	s.look()
	media := s.registry.Status().Media
	require.Len(t, media, 1)
	require.True(t, media[0].Present)
	require.Equal(t, "elsewhere/"+archive1, media[0].Label)
}

// TestMedia_growingArchiveIsOneMedium has an archive that is being copied to a watched folder. Its
// earlier states are no media, also after a restart.
func TestMedia_growingArchiveIsOneMedium(t *testing.T) {
	s := newSite(t)
	a, _ := newArchive(t)
	s.write(archive1, a)
	whole, err := os.ReadFile(s.path(archive1))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.path(archive1), whole[:len(whole)/2], 0o600))
	s.start()
	for _, size := range []int{len(whole) * 3 / 4, len(whole)} {
		require.NoError(t, os.WriteFile(s.path(archive1), whole[:size], 0o600))
		s.lookNow()
		require.Len(t, s.registry.Status().Media, 1)
	}
	require.Empty(t, s.registry.Status().Media[0].Problems)
	s.remove(archive1)
	s.stop()
	s.start()
	require.Len(t, s.registry.Status().Media, 1)
}

// storage writes the registry's files of an archive as a folder. The layer keeps only its first
// bytes.
func (s *site) storage(a *simulated.Archive, folder, layer string, bytesOfLayer int) {
	s.Helper()
	var archive bytes.Buffer
	require.NoError(s, a.Write(&archive))
	for in := tar.NewReader(&archive); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(s, err)
		data, err := io.ReadAll(in)
		require.NoError(s, err)
		if digestOf(data) == layer {
			data = data[:bytesOfLayer]
		}
		path := filepath.Join(s.path(folder), filepath.FromSlash(header.Name))
		require.NoError(s, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(s, os.WriteFile(path, data, 0o600))
	}
}

// TestMedia_shortCopyOfBlob has a medium with a blob that is too short, and one with the whole. The
// size of the short one must not make the other one damaged.
func TestMedia_shortCopyOfBlob(t *testing.T) {
	s := newSite(t)
	a, digest := bigArchive(t)
	s.storage(a, "a", digest, 1<<20)
	s.write(archive1, a)
	s.start()
	path := "/v2/team/big/blobs/" + digest
	if got := s.get(path); got.err != nil {
		require.ErrorIs(t, got.err, io.ErrUnexpectedEOF, "never whole")
	}
	require.Equal(t, digest, digestOf(s.get(path).body))
}

// TestMedia_absentFileOfBlob removes the file of one blob from a folder. The medium stays present.
func TestMedia_absentFileOfBlob(t *testing.T) {
	s := newSite(t)
	a, digest := bigArchive(t)
	s.storage(a, "a", "", 0)
	s.start()
	hex := digest[len("sha256:"):]
	require.NoError(t, os.Remove(filepath.Join(s.path("a"), "docker/registry/v2/blobs/sha256", hex[:2], hex, "data")))
	require.Equal(t, http.StatusServiceUnavailable, s.get("/v2/team/big/blobs/"+digest).StatusCode)
	got := s.get("/v2/team/big/blobs/" + digest)
	require.Equal(t, http.StatusInternalServerError, got.StatusCode)
	_, message := got.message(t)
	require.Contains(t, message, hex+"/data is damaged")
	require.True(t, s.registry.Status().Media[0].Present)
}

// TestMedia_refusedFileIsReadOnce has a tar archive without images. It is not scanned at each look.
func TestMedia_refusedFileIsReadOnce(t *testing.T) {
	s := newSite(t)
	var mu sync.Mutex
	opened := 0
	s.open = func(path string) (medium.File, error) {
		mu.Lock()
		defer mu.Unlock()
		opened++
		return medium.OpenFile(path)
	}
	var backup bytes.Buffer
	w := tar.NewWriter(&backup)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "home/letter", Mode: 0o600}))
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(s.path("backup.tar"), backup.Bytes(), 0o600))
	s.start()
	before := opened
	require.NotZero(t, before)
	s.lookNow()
	require.Equal(t, before, opened)
	require.Len(t, s.registry.Status().Unusable, 1)
}

// archiveOf returns an archive with a release.
func archiveOf(t *testing.T, version string) (a *simulated.Archive, digest string) {
	t.Helper()
	a = &simulated.Archive{}
	pushed, err := a.AddPayload(t.Context(), simulated.Payload{Version: version})
	require.NoError(t, err)
	return a, pushed.Digest
}

// TestReleases_trust covers the releases that an administrator trusts: those of the first medium at
// a path, and those that lie there when the path is added. Nobody sees the content of an absent
// medium, so it is not included.
func TestReleases_trust(t *testing.T) {
	s := newSite(t)
	named := func() map[string]bool {
		rows, err := s.registry.Named()
		require.NoError(t, err)
		digests := map[string]bool{}
		for digest := range rows {
			digests[digest] = true
		}
		return digests
	}
	first, firstDigest := archiveOf(t, "4.20.8")
	other, otherDigest := archiveOf(t, "4.20.9")
	third, thirdDigest := archiveOf(t, "4.20.10")
	s.write(archive1, first)
	s.start()
	require.Equal(t, map[string]bool{firstDigest: true}, named())
	s.write("other.tar", other)
	s.look()
	require.Equal(t, map[string]bool{firstDigest: true}, named(), "came later")
	s.remove("other.tar")
	s.write("third.tar", third)
	s.lookNow()
	require.Equal(t, map[string]bool{firstDigest: true, thirdDigest: true}, named(), "lies there now")
	require.NotContains(t, named(), otherDigest)
}

// settled is the age of a file that nobody writes any more.
const settled = 5 * time.Second

// quiet is how long a folder is unchanged that nobody writes any more.
const quiet = time.Minute

// writePart writes the first bytes of an archive, as a program that copies it does, at an age.
func (s *site) writePart(name string, data []byte, age time.Duration) {
	s.Helper()
	written := filepath.Join(s.data, "part") // a look never sees it with another time
	require.NoError(s, os.WriteFile(written, data, 0o600))
	modified := s.clock.Now().Add(-age)
	require.NoError(s, os.Chtimes(written, modified, modified))
	require.NoError(s, os.Rename(written, s.path(name)))
}

// bytesOf returns the bytes of an archive.
func bytesOf(t testing.TB, a *simulated.Archive) []byte {
	t.Helper()
	var data bytes.Buffer
	require.NoError(t, a.Write(&data))
	return data.Bytes()
}

// TestReleases_archiveIsBeingCopied has an archive that is copied to a watched folder, with and
// without a pause of the copy. It is the first medium there when it is whole.
func TestReleases_archiveIsBeingCopied(t *testing.T) {
	for name, age := range map[string]time.Duration{"without a pause": time.Second, "with a pause": settled} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.start()
			first, digest := archiveOf(t, "4.20.8")
			later, _ := archiveOf(t, "4.20.9")
			other, _ := bigArchive(t)
			whole := bytesOf(t, first)
			s.writePart(archive1, whole[:len(whole)/2], age)
			s.write("other.tar", other)
			s.look()
			s.writePart(archive1, whole, settled)
			s.look()
			s.write("later.tar", later)
			s.look()
			named, err := s.registry.Named()
			require.NoError(t, err)
			require.Equal(t, []string{digest}, slices.Collect(maps.Keys(named)))
		})
	}
}

// TestReleases_copiedJustBeforeTheStart has a medium that may still be written when the registry
// starts. It is served at once, and is the first medium when it has been unchanged.
func TestReleases_copiedJustBeforeTheStart(t *testing.T) {
	s := newSite(t)
	first, digest := archiveOf(t, "4.20.8")
	s.writePart(archive1, bytesOf(t, first), time.Second)
	s.start()
	require.Equal(t, http.StatusOK, s.get("/v2/openshift/release-images/manifests/"+digest).StatusCode)
	changed := s.registry.Changed()
	s.clock.Advance(settled)
	s.await(changed)
	named, err := s.registry.Named()
	require.NoError(t, err)
	require.Equal(t, []string{digest}, slices.Collect(maps.Keys(named)))
}

// TestMedia_writtenAgainInItsPlace has an archive that another one overwrites. It is missing until
// the other one is whole.
func TestMedia_writtenAgainInItsPlace(t *testing.T) {
	s := newSite(t)
	first, digest := archiveOf(t, "4.20.8")
	s.write(archive1, first)
	s.start()
	other, otherDigest := archiveOf(t, "4.20.9")
	whole := bytesOf(t, other)
	s.writePart(archive1, whole[:len(whole)/2], time.Second)
	s.look()
	status := s.registry.Status()
	require.Len(t, status.Media, 1)
	require.False(t, status.Media[0].Present)
	require.Contains(t, status.Unusable[0].Problem, "is still being copied")
	require.Equal(t, http.StatusServiceUnavailable,
		s.get("/v2/openshift/release-images/manifests/"+digest).StatusCode)
	s.writePart(archive1, whole, settled)
	s.look()
	require.Len(t, s.registry.Status().Media, 1)
	require.Equal(t, http.StatusOK, s.get("/v2/openshift/release-images/manifests/"+otherDigest).StatusCode)
}

// TestReleases_sameTagOnTwoMedia has another release under the tag of a first one: it must not hide
// it.
func TestReleases_sameTagOnTwoMedia(t *testing.T) {
	s := newSite(t)
	first, digest := archiveOf(t, "4.20.8")
	first.Written = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s.write(archive1, first)
	s.start()
	other := &simulated.Archive{Written: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)}
	_, err := other.AddBlob(t.Context(), "openshift/release-images", "4.20.8-x86_64", []byte("another release"))
	require.NoError(t, err)
	s.write("other.tar", other)
	s.look()
	digests := map[string]bool{}
	for _, release := range s.registry.Releases() {
		digests[release.Digest] = true
	}
	require.Equal(t, map[string]bool{digest: true, other.Tagged("openshift/release-images", "4.20.8-x86_64"): true},
		digests)
}

// The status counts what each client was sent.
func TestStatus_clients(t *testing.T) {
	s := newSite(t)
	a, layers := layered(t, 1, 1<<20)
	s.write(archive1, a)
	s.start()
	manifest := s.get("/v2/team/image/manifests/v0").body
	digest := slices.Collect(maps.Keys(layers))[0]
	require.Equal(t, layers[digest], s.get("/v2/team/image/blobs/"+digest).body)
	s.get("/v2/team/image/blobs/"+digest, "Range", "bytes=100-199")
	s.send(http.MethodHead, "/v2/team/image/blobs/"+digest, nil) // the connection ends one answer before the next
	status := s.registry.Status()
	require.Len(t, status.Clients, 1)
	client := status.Clients[0]
	require.Equal(t, "127.0.0.1", client.Address)
	require.Equal(t, int64(len(manifest)+1<<20+100), client.Bytes)
	require.Equal(t, client.Bytes, status.SentBytes)
	require.Equal(t, client.Bytes/10, client.Rate)
	require.Zero(t, client.Pulls)
}

// unpack unpacks an archive into a folder whose files have an age.
func (s *site) unpack(name string, a *simulated.Archive, age time.Duration) {
	s.Helper()
	require.NoError(s, os.MkdirAll(s.path(name), 0o700))
	root, err := os.OpenRoot(s.path(name))
	require.NoError(s, err)
	defer func() { require.NoError(s, root.Close()) }()
	for in := tar.NewReader(bytes.NewReader(bytesOf(s, a))); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(s, err)
		if header.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(in)
		require.NoError(s, err)
		require.NoError(s, root.MkdirAll(filepath.Dir(header.Name), 0o700))
		require.NoError(s, root.WriteFile(header.Name, content, 0o600))
	}
	s.age(name, age)
}

// age sets the age of all files and folders in a folder.
func (s *site) age(name string, age time.Duration) {
	s.Helper()
	modified := s.clock.Now().Add(-age)
	require.NoError(s, filepath.WalkDir(s.path(name), func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, modified, modified))
	}))
}

// TestMedia_folderIsExtended has a folder to which somebody copies more. What it had is served on.
func TestMedia_folderIsExtended(t *testing.T) {
	s := newSite(t)
	first, digest := archiveOf(t, "4.20.8")
	s.unpack("folder", first, settled)
	s.start()
	manifest := "/v2/openshift/release-images/manifests/"
	require.Equal(t, http.StatusOK, s.get(manifest+digest).StatusCode)
	more, moreDigest := archiveOf(t, "4.20.9")
	s.unpack("folder", more, time.Second)
	s.registry.Look()
	require.Eventually(t, func() bool { return len(s.registry.Status().Unusable) > 0 }, time.Minute, time.Millisecond)
	require.Equal(t, http.StatusOK, s.get(manifest+digest).StatusCode)
	require.Equal(t, http.StatusNotFound, s.get(manifest+moreDigest).StatusCode)
	require.Contains(t, s.registry.Status().Unusable[0].Problem, "is still being copied")
	changed := s.registry.Changed()
	s.clock.Advance(settled)
	s.await(changed)
	require.Len(t, s.registry.Status().Media, 1)
	require.Equal(t, http.StatusOK, s.get(manifest+digest).StatusCode)
	require.Equal(t, http.StatusOK, s.get(manifest+moreDigest).StatusCode)
}

// TestReleases_forgottenStaysForgotten forgets the release of an archive that is cut off, so that
// its path still waits for the first medium.
func TestReleases_forgottenStaysForgotten(t *testing.T) {
	s := newSite(t)
	first, digest := archiveOf(t, "4.20.8")
	other, _ := bigArchive(t)
	cut := bytesOf(t, other)
	s.write(archive1, first)
	s.writePart("other.tar", cut[:len(cut)/2], settled)
	s.start()
	named, err := s.registry.Named()
	require.NoError(t, err)
	require.Contains(t, named, digest)
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		found, err := s.registry.Forget(tx, digest)
		require.True(t, found)
		return err
	}))
	s.stop()
	s.start()
	named, err = s.registry.Named()
	require.NoError(t, err)
	require.Empty(t, named)
}

// TestReleases_folderIsBeingCopied has a folder whose copy pauses before the last files. The copy
// keeps the times of the files, and the upper folders do not change any more. The folder is read
// again, and is the first medium when it has been unchanged for a minute.
func TestReleases_folderIsBeingCopied(t *testing.T) {
	s := newSite(t)
	s.start()
	first, digest := archiveOf(t, "4.20.8")
	written := s.clock.Now().Add(-time.Hour)
	s.unpack("folder", first, s.clock.Since(written))
	require.NoError(t, filepath.WalkDir(s.path("folder"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "tags" {
			return err
		}
		require.NoError(t, os.RemoveAll(path))
		return fs.SkipDir
	}))
	s.age("folder", s.clock.Since(written))
	s.look()
	manifest := "/v2/openshift/release-images/manifests/4.20.8-x86_64"
	require.Equal(t, http.StatusNotFound, s.get(manifest).StatusCode)

	s.unpack("folder", first, s.clock.Since(written)) // no look sees a part of it
	s.clock.Advance(quiet - time.Second)
	require.Eventually(t, func() bool {
		s.registry.Look()
		unusable := s.registry.Status().Unusable
		return len(unusable) > 0 && strings.Contains(unusable[0].Problem, "is still being copied")
	}, time.Minute, time.Millisecond)
	require.Equal(t, http.StatusNotFound, s.get(manifest).StatusCode)
	changed := s.registry.Changed()
	s.clock.Advance(settled)
	s.await(changed)
	require.Equal(t, http.StatusOK, s.get(manifest).StatusCode)
	named := func() []string {
		t.Helper()
		named, err := s.registry.Named()
		require.NoError(t, err)
		return slices.Collect(maps.Keys(named))
	}
	require.Equal(t, []string{digest}, named())

	changed = s.registry.Changed()
	s.clock.Advance(quiet)
	s.await(changed)
	later, _ := archiveOf(t, "4.20.9")
	s.write("later.tar", later)
	s.look()
	require.Equal(t, []string{digest}, named(), "the path had its first medium")

	s.stop()
	s.start()
	require.Equal(t, http.StatusOK, s.get(manifest).StatusCode, "a known folder is served at once")
}
