package registry_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/fault"
	"landfall/appliance/registry"
	"landfall/appliance/registry/medium"
	simulated "landfall/appliance/simulate/registry"
)

// slowFile is a file of a medium whose reads are counted, and wait while the stick is held.
type slowFile struct {
	medium.File
	stick *stick
}

// stick counts the bytes that are read from a medium, and lets reads wait.
type stick struct {
	mu      sync.Mutex
	bytes   int64
	offsets []int64
	held    bool
	waiting int
	changed *sync.Cond
}

func newStick() *stick {
	s := new(stick)
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *stick) open(path string) (medium.File, error) {
	file, err := os.Open(path)
	return slowFile{file, s}, err
}

// ReadAt implements io.ReaderAt.
func (f slowFile) ReadAt(p []byte, offset int64) (int, error) {
	s := f.stick
	s.mu.Lock()
	s.waiting++
	s.changed.Broadcast()
	for s.held {
		s.changed.Wait()
	}
	s.waiting--
	s.bytes += int64(len(p))
	s.offsets = append(s.offsets, offset)
	s.mu.Unlock()
	return f.File.ReadAt(p, offset)
}

// hold makes reads wait, or lets them go on. It forgets what was read before.
func (s *stick) hold(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.bytes, s.offsets = held, 0, nil
	s.changed.Broadcast()
}

// awaitReads waits until a number of reads wait.
func (s *stick) awaitReads(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.waiting < count {
		s.changed.Wait()
	}
}

func (s *stick) read() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// layered returns an archive with images of one layer each, and the bytes of the layers by digest.
func layered(t testing.TB, count, size int) (*simulated.Archive, map[string][]byte) {
	t.Helper()
	a, layers := &simulated.Archive{}, map[string][]byte{}
	random := rand.NewChaCha8([32]byte{1})
	for i := range count {
		layer := make([]byte, size+i)
		_, _ = random.Read(layer) // never fails
		digest, err := a.AddBlob(t.Context(), "team/image", fmt.Sprint("v", i), layer)
		require.NoError(t, err)
		layers[digest] = layer
	}
	return a, layers
}

// stage orders the copy of all media.
func (s *site) stage() {
	s.Helper()
	_, err := s.registry.Stage(s.Context(), "all")
	require.NoError(s, err)
}

// awaitCopy waits until the copy of the first medium has a state.
func (s *site) awaitCopy(state string) registry.MediumStatus {
	s.Helper()
	for {
		changed := s.registry.Changed()
		if m := s.registry.Status().Media[0]; m.Staging.State == state {
			return m
		}
		s.await(changed)
	}
}

// pullAll pulls blobs by a number of clients, each in another order, and compares them.
func (s *site) pullAll(clients int, layers map[string][]byte) {
	s.Helper()
	group := new(errgroup.Group)
	for i := range clients {
		group.Go(func() error {
			digests := make([]string, 0, len(layers))
			for digest := range layers {
				digests = append(digests, digest)
			}
			rand.New(rand.NewPCG(uint64(i), 1)).Shuffle(len(digests), func(a, b int) {
				digests[a], digests[b] = digests[b], digests[a]
			})
			for _, digest := range digests {
				response, err := http.Get(s.server.URL + "/v2/team/image/blobs/" + digest)
				if err != nil {
					return err
				}
				data, err := io.ReadAll(response.Body)
				_ = response.Body.Close() // it was read
				if err != nil || !bytes.Equal(data, layers[digest]) {
					return fmt.Errorf("%s: %s, %d bytes, %w", digest, response.Status, len(data), err)
				}
			}
			return nil
		})
	}
	require.NoError(s, group.Wait())
}

// Each byte is read from the medium once, however many clients ask for it, and the copy in the
// background reads the rest.
func TestStage_eachByteIsReadOnce(t *testing.T) {
	s := newSite(t)
	from := newStick()
	s.open = from.open
	a, layers := layered(t, 8, 3<<20)
	s.write(archive1, a)
	s.start()
	from.hold(true)
	s.stage()
	from.awaitReads(1)
	from.hold(false)
	s.pullAll(20, layers)
	m := s.awaitCopy(registry.StageWhole)
	require.Equal(t, m.Bytes, from.read())
	require.Equal(t, m.Bytes, m.Staging.Done)
	require.Equal(t, m.Bytes, s.registry.Status().StagedBytes)
}

// A whole copy stands in for the medium: after it was removed, after a restart, and when its path
// is no longer configured.
func TestStage_servedWithoutTheMedium(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	s.write(archive1, a)
	s.start()
	s.stage()
	s.awaitCopy(registry.StageWhole)
	s.remove(archive1)
	layer, _ := s.layerPath()
	requireAll := func() {
		t.Helper()
		for _, digest := range a.Digests() {
			got := s.get("/v2/openshift/release-images/blobs/" + digest)
			require.Equal(t, http.StatusOK, got.StatusCode, "%s", got.body)
			require.Equal(t, digest, digestOf(got.body))
		}
		require.Equal(t, http.StatusOK, s.get("/v2/openshift/release-images/manifests/"+pushed.Digest).StatusCode)
		require.Equal(t, http.StatusPartialContent, s.get(layer, "Range", "bytes=5-").StatusCode)
		require.Equal(t, registry.StageWhole, s.registry.Status().Media[0].Staging.State)
		require.Empty(t, s.registry.Status().Gaps)
	}
	requireAll()
	s.stop()
	s.start()
	requireAll()
	s.stop()
	s.dir = t.TempDir()
	s.start()
	requireAll()
}

// Another archive replaces a copied one between two looks. The copy is served on.
func TestStage_fileIsReplacedByAnother(t *testing.T) {
	s := newSite(t)
	a, pushed := newArchive(t)
	s.write(archive1, a)
	s.start()
	s.stage()
	s.awaitCopy(registry.StageWhole)
	other, digest := bigArchive(t)
	s.write("other", other)
	require.NoError(t, os.Rename(s.path("other"), s.path(archive1)))
	s.look()
	require.Equal(t, http.StatusOK, s.get("/v2/team/big/blobs/"+digest).StatusCode)
	requireCopy := func() {
		for _, layer := range a.Layers(pushed.Digest) {
			require.Equal(t, layer, digestOf(s.get("/v2/openshift/release-images/blobs/"+layer).body))
		}
		require.Equal(t, http.StatusOK, s.get("/v2/openshift/release-images/manifests/"+pushed.Digest).StatusCode)
	}
	requireCopy()
	_, err := s.registry.Collect(t.Context())
	require.NoError(t, err)
	requireCopy()
	s.stop()
	s.start()
	requireCopy()
}

// The files of a copied medium are closed, so that its file system can be unmounted.
func TestStage_closesTheMedium(t *testing.T) {
	s := newSite(t)
	a, _ := newArchive(t)
	s.write(archive1, a)
	s.start()
	open := func() (count int) {
		files, err := filepath.Glob("/proc/self/fd/*")
		require.NoError(t, err)
		for _, file := range files {
			if at, err := os.Readlink(file); err == nil && at == s.path(archive1) {
				count++
			}
		}
		return count
	}
	require.Equal(t, 1, open())
	s.stage()
	s.awaitCopy(registry.StageWhole)
	require.Zero(t, open())
}

// A copy without room is refused with the space that it needs; limits are those of the
// configuration and of the disk.
func TestStage_refusedWithoutRoom(t *testing.T) {
	s := newSite(t)
	s.free = func(string) (int64, error) { return 2<<30 + 1000, nil }
	a, _ := bigArchive(t)
	s.write(archive1, a)
	s.start()
	plan, err := s.registry.PlanStage("all")
	require.NoError(t, err)
	require.False(t, plan.Fits)
	require.EqualValues(t, 1000, plan.Room)
	require.Equal(t, s.registry.Status().Media[0].Bytes, plan.Needed)
	_, err = s.registry.Stage(t.Context(), "all")
	require.ErrorContains(t, err, "limited by the disk of")
	require.Empty(t, s.registry.Status().Media[0].Staging.State)
	_, err = s.registry.Stage(t.Context(), "stick")
	require.ErrorContains(t, err, `"stick" is not a medium of the registry. Its media are`)
}

// Case 17: a full disk stops the copy, and the medium is served. The copy continues when there is
// room.
func TestFault17_diskFullWhileStaging(t *testing.T) {
	s := newSite(t)
	var free sync.Map
	free.Store("free", int64(1)<<40)
	s.free = func(string) (int64, error) {
		bytes, _ := free.Load("free")
		return bytes.(int64), nil
	}
	from := newStick()
	s.open = from.open
	a, layers := layered(t, 4, 2<<20)
	s.write(archive1, a)
	s.start()
	from.hold(true)
	s.stage()
	from.awaitReads(1)
	free.Store("free", int64(2)<<30)
	from.hold(false)
	m := s.awaitCopy(registry.StageFull)
	require.Less(t, m.Staging.Done, m.Staging.Total)
	require.Contains(t, m.Staging.Message, "there is no room")
	s.pullAll(3, layers)
	free.Store("free", int64(1)<<40)
	s.clock.Advance(2e9)
	s.awaitCopy(registry.StageWhole)
	s.pullAll(1, layers)
}

// The copy in the background waits while clients pull.
func TestStage_yieldsToPulls(t *testing.T) {
	s := newSite(t)
	from := newStick()
	s.open = from.open
	a, layers := layered(t, 4, 4<<20)
	s.write(archive1, a)
	s.start()
	from.hold(true)
	s.stage()
	from.awaitReads(1)
	// The last one of the medium.
	digests := a.Digests()
	slices.Reverse(digests)
	last := digests[slices.IndexFunc(digests, func(digest string) bool { return layers[digest] != nil })]
	pulled := make(chan answer)
	go func() { pulled <- s.get("/v2/team/image/blobs/" + last) }()
	from.awaitReads(2)
	from.hold(false)
	got := <-pulled
	require.Equal(t, layers[last], got.body)
	s.awaitCopy(registry.StageWhole)
	from.mu.Lock()
	defer from.mu.Unlock()
	// The reads of the client are those of the highest offsets. Between them is at most one read of
	// the background, which had begun before, and one that began before the client had joined.
	var others, reads int
	lowest := slices.Max(from.offsets) - 4<<20
	for _, offset := range from.offsets {
		if offset >= lowest {
			if reads++; reads == 16 {
				break
			}
		} else {
			others++
		}
	}
	require.LessOrEqual(t, others, 2)
}

// Case 7 for copies: damaged bytes are never kept, and the copy names them.
func TestStage_damagedBlobIsNotKept(t *testing.T) {
	s := newSite(t)
	a, layers := layered(t, 2, 1<<20)
	s.write(archive1, a)
	data, err := os.ReadFile(s.path(archive1))
	require.NoError(t, err)
	var digest string
	for digest = range layers {
		break
	}
	at := bytes.Index(data, layers[digest])
	data[at+100] ^= 1
	require.NoError(t, os.WriteFile(s.path(archive1), data, 0o600))
	s.start()
	s.stage()
	m := s.awaitCopy(registry.StageDamaged)
	require.Equal(t, []string{digest}, m.Damaged)
	require.Equal(t, m.Staging.Total-int64(len(layers[digest])), m.Staging.Done)
	require.Equal(t, http.StatusInternalServerError, s.get("/v2/team/image/blobs/"+digest).StatusCode)
}

// A medium that is removed while it is copied, and a restart, lose nothing that was copied.
func TestStage_continuesAfterRemovalAndRestart(t *testing.T) {
	s := newSite(t)
	f := &faults{left: -1}
	s.open = f.open
	a, layers := layered(t, 3, 3<<20)
	s.write(archive1, a)
	s.start()
	f.set(4<<20, nil)
	s.stage()
	m := s.awaitCopy(registry.StageWaiting)
	before := m.Staging.Done
	require.GreaterOrEqual(t, before, int64(4<<20))
	require.Less(t, before, m.Staging.Total)
	s.stop()
	from := newStick()
	s.open = from.open
	from.hold(true)
	from.hold(false)
	s.start()
	s.awaitCopy(registry.StageWhole)
	// The scan is not repeated; the fingerprint reads both ends of the file.
	require.LessOrEqual(t, from.read(), m.Staging.Total-before+128<<10)
	s.pullAll(2, layers)
}

// TestStage_cancelAndCollect cancels a copy. The copied blobs are served until a collection removes
// them.
func TestStage_cancelAndCollect(t *testing.T) {
	s := newSite(t)
	a, layers := layered(t, 2, 1<<20)
	s.write(archive1, a)
	s.start()
	s.stage()
	whole := s.awaitCopy(registry.StageWhole)
	done, err := s.registry.Collect(t.Context())
	require.NoError(t, err)
	require.Zero(t, done.Files, "the copy is wanted")
	require.NoError(t, s.registry.CancelStage(t.Context(), archive1path(s)))
	require.ErrorContains(t, s.registry.CancelStage(t.Context(), "all"), "No copy of all was ordered.")
	done, err = s.registry.Collect(t.Context())
	require.NoError(t, err)
	require.Equal(t, whole.Blobs, done.Files)
	require.Equal(t, whole.Bytes, done.Bytes)
	require.Zero(t, s.registry.Status().StagedBytes)
	s.pullAll(1, layers)
}

// A collection can remove the copy of a blob after a client has asked for it. The client then gets
// the blob from its medium, or hears that the medium is missing.
func TestStage_collectedDuringPull(t *testing.T) {
	s := newSite(t)
	a, layers := layered(t, 1, 1<<20)
	s.write(archive1, a)
	s.start()
	s.stage()
	s.awaitCopy(registry.StageWhole)
	s.remove(archive1)
	digest := slices.Collect(maps.Keys(layers))[0]
	pull := func() *registry.Blob {
		t.Helper()
		blob, err := s.registry.Blob(digest)
		require.NoError(t, err)
		end, err := blob.Start(t.Context())
		require.NoError(t, err)
		t.Cleanup(end)
		return blob
	}
	early, late := pull(), pull()
	require.NoError(t, s.registry.CancelStage(t.Context(), "all"))
	_, err := s.registry.Collect(t.Context())
	require.NoError(t, err)
	var got bytes.Buffer
	err = early.Copy(t.Context(), &got, 0, early.Size)
	require.ErrorAs(t, err, new(*registry.UnavailableError))
	require.ErrorContains(t, err, "plug it in again")
	require.Empty(t, got.Bytes())
	s.put(archive1)
	require.NoError(t, late.Copy(t.Context(), &got, 0, late.Size))
	require.Equal(t, layers[digest], got.Bytes())
}

func archive1path(s *site) string { return s.path(archive1) }

// Case 21: of 20 clients that ask for one cold blob at once, all get bytes of one read.
func TestFault21_manyClientsOneColdBlob(t *testing.T) {
	s := newSite(t)
	from := newStick()
	s.open = from.open
	a, digest := bigArchive(t)
	s.write(archive1, a)
	s.start()
	from.hold(true)
	s.stage()
	from.awaitReads(1)
	var first, rest sync.WaitGroup
	first.Add(20)
	release := make(chan struct{})
	group := new(errgroup.Group)
	for range 20 {
		group.Go(func() error {
			response, err := http.Get(s.server.URL + "/v2/team/big/blobs/" + digest)
			if err != nil {
				first.Done()
				return err
			}
			defer func() { _ = response.Body.Close() }() // it was read
			_, err = io.ReadFull(response.Body, make([]byte, 1000))
			first.Done()
			<-release
			data, _ := io.ReadAll(response.Body)
			if err == nil && len(data) != 4<<20-1000 {
				err = fmt.Errorf("%d bytes", len(data))
			}
			return err
		})
	}
	from.hold(false)
	first.Wait() // all have bytes before one continues
	close(release)
	rest.Wait()
	require.NoError(t, group.Wait())
	m := s.awaitCopy(registry.StageWhole)
	require.Equal(t, m.Bytes, from.read())
}

// Case 22: of 200 clients that ask for cold blobs, some are served and the others are told when to
// come back; none waits in silence.
func TestFault22_tooManyColdBlobs(t *testing.T) {
	s := newSite(t)
	from := newStick()
	s.open = from.open
	a, layers := layered(t, 200, 20_000)
	s.write(archive1, a)
	s.start()
	from.hold(true)
	s.stage()
	from.awaitReads(1)
	answers := make(chan *http.Response, len(layers))
	group := new(errgroup.Group)
	for digest := range layers {
		group.Go(func() error {
			response, err := http.Get(s.server.URL + "/v2/team/image/blobs/" + digest)
			if err != nil {
				return err
			}
			defer func() { _ = response.Body.Close() }() // it was read
			answers <- response
			data, err := io.ReadAll(response.Body)
			if response.StatusCode == http.StatusOK && !bytes.Equal(data, layers[digest]) {
				return fmt.Errorf("%s has other bytes", digest)
			}
			return err
		})
	}
	refused := 0
	require.NoError(t, s.clock.BlockUntilContext(t.Context(), 200-16))
	s.clock.Advance(5e9)
	for range 200 - 16 - 1 {
		if got := <-answers; got.StatusCode == http.StatusTooManyRequests {
			require.NotEmpty(t, got.Header.Get("Retry-After"))
			refused++
		}
	}
	require.GreaterOrEqual(t, refused, 200-16-2)
	from.hold(false)
	require.NoError(t, group.Wait())
	s.awaitCopy(registry.StageWhole)
	s.pullAll(2, layers)
}

// Another archive replaces one whose copy is not complete. Nobody can plug in the rest any more.
func TestStage_unfinishedCopyOfReplacedFile(t *testing.T) {
	s, stick := newSite(t), newStick()
	s.open = stick.open
	a, _ := layered(t, 3, 1<<20)
	s.write(archive1, a)
	s.start()
	stick.hold(true)
	s.stage()
	stick.awaitReads(1)
	other, digest := bigArchive(t)
	s.write("other", other)
	require.NoError(t, os.Rename(s.path("other"), s.path(archive1)))
	stick.hold(false)
	s.look()
	require.Equal(t, http.StatusOK, s.get("/v2/team/big/blobs/"+digest).StatusCode)
	require.Len(t, s.registry.Status().Media, 1)
}

// TestStage_orderOfGrowingMedium has a copy to the disk that is ordered while an archive is still
// being copied to its folder. In the end, it is the copy of the whole archive.
func TestStage_orderOfGrowingMedium(t *testing.T) {
	s := newSite(t)
	a, layers := layered(t, 3, 1<<20)
	whole := bytesOf(t, a)
	s.writePart(archive1, whole[:len(whole)/2], settled)
	s.start()
	s.stage()
	s.writePart(archive1, whole, settled)
	s.look()
	s.awaitMedium("the whole archive is copied", func(m registry.MediumStatus) bool {
		return m.Staging.State == registry.StageWhole && len(m.Problems) == 0
	})
	s.remove(archive1)
	s.pullAll(1, layers)
	s.stop()
	s.start()
	require.Equal(t, registry.StageWhole, s.registry.Status().Media[0].Staging.State)
}

// TestStage_replacedByMore has a medium that is replaced in its place by one with more content. The
// order for its whole copy does not become one for the larger medium. When a person orders that one
// too, the former one is not needed any more.
func TestStage_replacedByMore(t *testing.T) {
	const name = "medium"
	archive := func(s *site, a *simulated.Archive) { s.writePart(name+".tar", bytesOf(t, a), settled) }
	folder := func(s *site, a *simulated.Archive) { s.unpack(name, a, settled) }
	for what, c := range map[string]struct {
		file   string
		write  func(s *site, a *simulated.Archive)
		wait   bool // until the folder is not being copied any more
		isPart bool // of the larger medium
	}{
		"archive":                     {name + ".tar", archive, false, false},
		"folder":                      {name, folder, true, false},
		"folder that is being copied": {name, folder, false, true},
	} {
		t.Run(what, func(t *testing.T) {
			s := newSite(t)
			a, _ := layered(t, 1, 1<<20)
			c.write(s, a)
			s.start()
			s.stage()
			s.awaitCopy(registry.StageWhole)
			if c.wait {
				changed := s.registry.Changed()
				s.clock.Advance(quiet)
				s.await(changed)
			}
			s.clock.Advance(time.Second)
			more, layers := layered(t, 3, 1<<20)
			c.write(s, more)
			s.look()
			label := filepath.Base(s.dir) + "/" + c.file
			if !c.isPart {
				media := s.registry.Status().Media
				require.Len(t, media, 2)
				slices.SortFunc(media, func(a, b registry.MediumStatus) int {
					return strings.Compare(a.Label, b.Label)
				})
				require.Equal(t, label, media[0].Label)
				require.Empty(t, media[0].Staging.State)
				require.Contains(t, media[1].Staging.Message, "this copy is removed when that one is copied")
				_, err := s.registry.Stage(t.Context(), label)
				require.NoError(t, err)
			}
			requireOne := func() {
				t.Helper()
				require.Eventually(t, func() bool {
					media := s.registry.Status().Media
					return len(media) == 1 && media[0].Label == label && media[0].Staging.State == registry.StageWhole
				}, time.Minute, time.Millisecond)
			}
			requireOne()
			s.pullAll(1, layers)
			s.stop()
			s.start()
			requireOne()
		})
	}
}

// TestStage_mediumIsBeingCopied has an archive that is written again, and a folder to which
// somebody copies more. An order for the archive can be cancelled, but not given. One for the
// folder can be given, because the folder is served.
func TestStage_mediumIsBeingCopied(t *testing.T) {
	s := newSite(t)
	a, _ := layered(t, 1, 1<<20)
	s.write(archive1, a)
	s.unpack("folder", a, settled)
	s.start()
	archive, folder := filepath.Base(s.dir)+"/"+archive1, filepath.Base(s.dir)+"/folder"
	_, err := s.registry.Stage(t.Context(), archive)
	require.NoError(t, err)
	more, _ := layered(t, 3, 1<<20)
	s.writePart(archive1, bytesOf(t, more), time.Second)
	require.Eventually(t, func() bool { // the copy that was ordered changes the media, too
		s.registry.Look()
		_, err = s.registry.PlanStage(archive)
		return fault.KindOf(err) == fault.Conflict
	}, time.Minute, time.Millisecond)
	_, err = s.registry.Stage(t.Context(), archive)
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	for _, name := range []string{"all", s.dir} {
		plan, err := s.registry.PlanStage(name)
		require.NoError(t, err)
		require.Equal(t, []string{folder}, plan.Media)
		require.Equal(t, []string{s.path(archive1)}, plan.LeftOut)
	}
	require.NoError(t, s.registry.CancelStage(t.Context(), archive))

	s.unpack("folder", more, time.Second)
	require.Eventually(t, func() bool {
		s.registry.Look()
		return slices.ContainsFunc(s.registry.Status().Unusable, func(u registry.Unusable) bool {
			return strings.Contains(u.Problem, "folder is still being copied")
		})
	}, time.Minute, time.Millisecond)
	_, err = s.registry.Stage(t.Context(), folder)
	require.NoError(t, err)
}

// Media whose labels would be equal are named by their paths.
func TestStage_mediaWithOneLabel(t *testing.T) {
	s := newSite(t)
	paths := []string{s.path("a/stick/" + archive1), s.path("b/stick/" + archive1)}
	for i, path := range paths {
		a := &simulated.Archive{}
		_, err := a.AddBlob(t.Context(), "team/image", fmt.Sprint(i), []byte(path))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, a.WriteFile(path))
	}
	s.start()
	var labels []string
	for _, m := range s.registry.Status().Media {
		labels = append(labels, m.Label)
	}
	require.Equal(t, paths, labels)
	_, err := s.registry.Stage(t.Context(), "stick/"+archive1)
	require.ErrorContains(t, err, "Its media are "+strings.Join(paths, ", "))
	plan, err := s.registry.Stage(t.Context(), paths[1])
	require.NoError(t, err)
	require.Equal(t, paths[1:], plan.Media)
}
