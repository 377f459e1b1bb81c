package overlay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/quota"
	"landfall/store"
)

// fleet has overlays with the same rows.
type fleet struct {
	db    *store.DB
	clock *clockwork.FakeClock

	mu    sync.Mutex
	from  string // directory of the member that gives blobs
	cut   int64  // a blob breaks off after so many bytes; 0: it does not
	disk  int64  // bytes that are free; 0: no limit
	asked map[string][]int64
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &fleet{db: db, clock: clockwork.NewFakeClock(), asked: map[string][]int64{}}
}

var errGone = errors.New("the member has gone")

// fetch implements Shared.Fetch.
func (f *fleet) fetch(_ context.Context, sum string, offset int64) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := OpenBlob(f.from, sum)
	if err != nil {
		return nil, err
	}
	f.asked[sum] = append(f.asked[sum], offset)
	if _, err := file.Seek(offset, io.SeekStart); err != nil || f.cut == 0 {
		return file, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(file, f.cut), iotest.ErrReader(errGone)), file}, nil
}

// free implements quota.Quota.free.
func (f *fleet) free(string) (int64, error) {
	if f.disk == 0 {
		return math.MaxInt64, nil
	}
	return f.disk, nil
}

// member is the overlay of a member of the fleet.
type member struct {
	*Overlay
	missing int
}

// open opens the overlay of a member. limit is the largest number of bytes; 0: none.
func (f *fleet) open(t *testing.T, dir string, leads bool, limit int64) *member {
	t.Helper()
	m := new(member)
	var err error
	m.Overlay, err = Open(Options{DB: f.db, Dir: dir, Clock: f.clock, Logger: slog.New(slog.DiscardHandler),
		Quota:  quota.New(dir, limit, f.free),
		Shared: &Shared{Fetch: f.fetch, Leads: leads, Missing: func(n int) { m.missing = n }}})
	require.NoError(t, err)
	return m
}

// copyAll copies what a member lacks.
func (m *member) copyAll(t *testing.T) error {
	t.Helper()
	missing, err := m.copyMissing(t.Context(), nil)
	require.Equal(t, m.missing, missing)
	return err
}

// push pushes a blob.
func (m *member) push(t *testing.T, content string) (digest string) {
	t.Helper()
	id, err := m.Start()
	require.NoError(t, err)
	_, err = m.Append(id, 0, strings.NewReader(content))
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(content))
	digest = "sha256:" + hex.EncodeToString(sum[:])
	require.NoError(t, m.Finish(t.Context(), id, digest))
	return digest
}

// tag pushes the manifest of an image with layers.
func (m *member) tag(t *testing.T, reference string, layers ...string) (digest string) {
	t.Helper()
	manifest := map[string]any{"schemaVersion": 2, "mediaType": medium.TypeOCIManifest}
	var described []map[string]any
	for _, layer := range layers {
		described = append(described, map[string]any{"mediaType": "application/x", "digest": layer, "size": 1})
	}
	manifest["config"], manifest["layers"] = described[0], described[1:]
	data, err := json.Marshal(manifest)
	require.NoError(t, err)
	digest, err = m.PutManifest(t.Context(), "site/app", reference, medium.Manifest{
		MediaType: medium.TypeOCIManifest, Data: data}, func() error { return nil })
	require.NoError(t, err)
	return digest
}

// read returns a blob.
func (m *member) read(t *testing.T, digest string) string {
	t.Helper()
	file, err := m.Blob(digest)
	require.NoError(t, err)
	defer file.Close()
	text, err := io.ReadAll(file)
	require.NoError(t, err)
	return string(text)
}

// discard removes a damaged blob.
func (m *member) discard(t *testing.T, digest string) {
	t.Helper()
	info, err := os.Stat(m.path(digest))
	require.NoError(t, err)
	require.NoError(t, m.Discard(digest, info))
}

func TestShared_copiesGoOnAndAreVerified(t *testing.T) {
	f := newFleet(t)
	leaderDir, followerDir := t.TempDir(), t.TempDir()
	leader, follower := f.open(t, leaderDir, true, 0), f.open(t, followerDir, false, 0)
	layer := strings.Repeat("layer", 1000)
	config, large := leader.push(t, "config"), leader.push(t, layer)
	onMedium := "sha256:" + strings.Repeat("0", 64)
	leader.tag(t, "v1", config, large, onMedium)

	f.from = t.TempDir()
	require.Error(t, follower.copyAll(t), "no member has them")
	require.Equal(t, 2, follower.missing, "what lies on a medium is not copied")
	require.True(t, follower.Lacks(large))
	require.False(t, follower.Lacks(onMedium))

	f.from, f.cut = leaderDir, 100
	require.ErrorIs(t, follower.copyAll(t), errGone)
	require.Equal(t, 1, follower.missing)
	require.EqualValues(t, 106, follower.Used())
	again := f.open(t, followerDir, false, 0) // after a restart
	require.EqualValues(t, 106, again.Used())
	f.cut = 0
	require.NoError(t, again.copyAll(t))
	require.Zero(t, again.missing)
	require.Equal(t, []int64{0, 100}, f.asked[strings.TrimPrefix(large, "sha256:")])
	require.Equal(t, layer, again.read(t, large))
	require.EqualValues(t, 5006, again.Used())

	require.NoError(t, os.WriteFile(leader.path(large), []byte(strings.ToUpper(layer)), 0o600))
	again.discard(t, large)
	err := again.copyAll(t)
	require.ErrorContains(t, err, "instead of")
	require.NoFileExists(t, again.path(large), "the digest is compared")
	require.EqualValues(t, 6, again.Used())

	leader.push(t, layer)
	require.NoError(t, again.copyAll(t))
	require.Equal(t, layer, again.read(t, large))
}

// Another member has a blob before the client learns that it is stored, and all blobs of an image
// before its manifest.
func TestShared_leaderSendsWhatIsPushed(t *testing.T) {
	f := newFleet(t)
	leader, follower := f.open(t, t.TempDir(), true, 0), f.open(t, t.TempDir(), false, 0)
	away := true
	leader.options.Shared.Send = func(ctx context.Context, sum string, open func() (*os.File, error)) {
		if away {
			return
		}
		file, err := open()
		require.NoError(t, err)
		defer file.Close()
		require.NoError(t, follower.Take(ctx, sum, file))
	}
	config := leader.push(t, "config")
	away = false
	layer := leader.push(t, "layer")
	require.Equal(t, "layer", follower.read(t, layer))
	_, err := follower.Stat(config)
	require.ErrorIs(t, err, ErrUnknown)
	leader.tag(t, "v1", config, layer, "sha256:"+strings.Repeat("0", 64))
	require.Equal(t, "config", follower.read(t, config))
	require.EqualValues(t, len("config")+len("layer"), follower.Used(), "a blob that is sent twice is stored once")
}

func TestShared_takesWholeBlobsOnly(t *testing.T) {
	f := newFleet(t)
	follower := f.open(t, t.TempDir(), false, 10)
	sum := sha256.Sum256([]byte("content"))
	for _, c := range []struct {
		content io.Reader
		err     error
	}{
		{strings.NewReader("CONTENT"), ErrDigest},
		{io.MultiReader(strings.NewReader("cont"), iotest.ErrReader(errGone)), errGone},
		{strings.NewReader("content that is too large"), ErrFull},
	} {
		require.ErrorIs(t, follower.Take(t.Context(), hex.EncodeToString(sum[:]), c.content), c.err)
		require.Zero(t, follower.Used())
		entries, err := os.ReadDir(follower.dir(uploads))
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	require.NoError(t, follower.Take(t.Context(), hex.EncodeToString(sum[:]), strings.NewReader("content")))
	require.Equal(t, "content", follower.read(t, "sha256:"+hex.EncodeToString(sum[:])))
}

func TestShared_removedImagesGoEverywhere(t *testing.T) {
	f := newFleet(t)
	leaderDir := t.TempDir()
	leader, follower := f.open(t, leaderDir, true, 0), f.open(t, t.TempDir(), false, 0)
	f.from = leaderDir
	shared, own := leader.push(t, "shared"), leader.push(t, "own")
	leader.tag(t, "v1", shared)
	removed := leader.tag(t, "v2", shared, own)
	require.NoError(t, follower.copyAll(t))

	require.NoError(t, leader.Delete(t.Context(), "site/app", removed))
	require.NoError(t, follower.copyAll(t))
	require.Equal(t, "own", follower.read(t, own), "a push of the image may go on for a day")
	f.clock.Advance(grace + time.Second)
	require.NoError(t, follower.copyAll(t))
	_, err := follower.Stat(own)
	require.ErrorIs(t, err, ErrUnknown)
	require.Equal(t, "shared", follower.read(t, shared))
	require.EqualValues(t, len("shared"), follower.Used())
	require.Equal(t, "own", leader.read(t, own), "a person orders the collection of the leader")
}

func TestShared_dropsUnfinishedCopiesOfRemovedImages(t *testing.T) {
	f := newFleet(t)
	leaderDir := t.TempDir()
	leader, follower := f.open(t, leaderDir, true, 0), f.open(t, t.TempDir(), false, 0)
	f.from, f.cut = leaderDir, 3
	removed := leader.tag(t, "v1", leader.push(t, "content"))
	require.Error(t, follower.copyAll(t))
	require.EqualValues(t, 3, follower.Used())
	single := t.TempDir()
	require.NoError(t, os.CopyFS(single, os.DirFS(follower.options.Dir)))
	left, err := Open(Options{DB: f.db, Dir: single, Clock: f.clock, Quota: follower.options.Quota})
	require.NoError(t, err)
	require.Zero(t, left.Used(), "this member has left the fleet")
	require.NoError(t, leader.Delete(t.Context(), "site/app", removed))
	require.NoError(t, follower.copyAll(t))
	require.Zero(t, follower.Used())
	entries, err := os.ReadDir(follower.dir(copies))
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestShared_waitsForRoom(t *testing.T) {
	f := newFleet(t)
	leaderDir, dir := t.TempDir(), t.TempDir()
	leader := f.open(t, leaderDir, true, 0)
	f.from = leaderDir
	leader.tag(t, "v1", leader.push(t, "content"))
	full := f.open(t, dir, false, 6)
	require.ErrorIs(t, full.copyAll(t), ErrFull)
	require.Equal(t, 1, full.missing)
	require.Zero(t, full.Used())
	require.NoError(t, f.open(t, dir, false, 7).copyAll(t))
}

// The database lies on the same disk and must be able to grow.
func TestShared_copiesLeaveRoomOnTheDisk(t *testing.T) {
	f := newFleet(t)
	leaderDir := t.TempDir()
	leader, follower := f.open(t, leaderDir, true, 0), f.open(t, t.TempDir(), false, 0)
	f.from = leaderDir
	leader.tag(t, "v1", leader.push(t, "content"))
	f.disk = 2<<30 + 6
	require.ErrorIs(t, follower.copyAll(t), ErrFull)
	require.Zero(t, follower.Used())
	require.Empty(t, f.asked)
	f.disk = 2<<30 + 7
	require.NoError(t, follower.copyAll(t))
}

func TestShared_followsTheRows(t *testing.T) {
	f := newFleet(t)
	leaderDir := t.TempDir()
	leader, follower := f.open(t, leaderDir, true, 0), f.open(t, t.TempDir(), false, 0)
	f.from = leaderDir
	counts := make(chan int, 10)
	follower.options.Shared.Missing = func(n int) { counts <- n }
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { require.NoError(t, follower.Run(ctx)) })
	require.Zero(t, <-counts)
	pushed := leader.push(t, "content")
	leader.tag(t, "v1", pushed)
	require.Equal(t, []int{1, 0}, []int{<-counts, <-counts})

	follower.discard(t, pushed) // it is copied again
	require.Equal(t, []int{1, 0}, []int{<-counts, <-counts})
	cancel()
	running.Wait()
	require.Equal(t, "content", follower.read(t, pushed))
}

// An older version of Landfall did not note which parts of an image were pushed.
func TestShared_leaderCompletesOlderRows(t *testing.T) {
	f := newFleet(t)
	leaderDir := t.TempDir()
	leader, follower := f.open(t, leaderDir, true, 0), f.open(t, t.TempDir(), false, 0)
	f.from = leaderDir
	pushed := leader.push(t, "content")
	key := "site/app@" + leader.tag(t, "v1", pushed, "sha256:"+strings.Repeat("0", 64))
	require.NoError(t, f.db.Update(t.Context(), func(tx *store.Tx) error {
		row, err := manifestRows.Get(tx, key)
		require.NoError(t, err)
		row.Blobs = nil
		return manifestRows.Put(tx, key, row)
	}))
	require.NoError(t, follower.copyAll(t))
	_, err := follower.Stat(pushed)
	require.ErrorIs(t, err, ErrUnknown)
	require.NoError(t, leader.noteBlobs(t.Context()))
	require.NoError(t, follower.copyAll(t))
	require.Equal(t, "content", follower.read(t, pushed))
}

func TestOpenBlob_opensBlobsOnly(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(BlobsDir(dir), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600))
	for _, sum := range []string{"", "../secret", "x", strings.Repeat("0", 64)} {
		_, err := OpenBlob(dir, sum)
		require.ErrorIs(t, err, os.ErrNotExist, sum)
	}
}
