package osimage

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/isogen/skeleton"
	"landfall/store"
)

// fleet has libraries with the same rows.
type fleet struct {
	db *store.DB

	mu   sync.Mutex
	from string // directory of the member that gives files; "": none is there
	cut  int64  // a file breaks off after so many bytes; 0: it does not
	sent []int64
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &fleet{db: db}
}

var errGone = errors.New("the member has gone")

// fetch implements Shared.Fetch.
func (f *fleet) fetch(_ context.Context, id string, offset int64) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := OpenFile(f.from, id)
	if err != nil {
		return nil, err
	}
	f.sent = append(f.sent, offset)
	if _, err := file.Seek(offset, io.SeekStart); err != nil || f.cut == 0 {
		return file, err
	}
	return &broken{file, f.cut}, nil
}

// broken is a file that breaks off.
type broken struct {
	*os.File
	left int64
}

func (b *broken) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errGone
	}
	n, err := b.File.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// member returns the site of a member of the fleet.
func (f *fleet) member(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.options.Shared = &Shared{DB: f.db, Fleet: "fleet", Fetch: f.fetch}
	return s
}

// follow opens the library of a member that follows.
func (s *site) follow(t *testing.T) *Library {
	t.Helper()
	options := s.options
	options.Shared = &Shared{DB: s.options.Shared.DB, Fleet: s.options.Shared.Fleet, Fetch: s.options.Shared.Fetch,
		Follows: true}
	l, err := New(options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// mirror tries once to copy what a follower lacks.
func mirror(t *testing.T, l *Library) (missing int) {
	t.Helper()
	_, err := (&Mirror{Library: l, Missing: func(n int) { missing = n }}).copyAll(t.Context())
	if missing == 0 {
		require.NoError(t, err)
	}
	return missing
}

// mirror starts a member that follows, lets it copy what it lacks, and stops it.
func (s *site) mirror(t *testing.T) (missing int) {
	t.Helper()
	l := s.follow(t)
	defer func() { require.NoError(t, l.Close()) }()
	return mirror(t, l)
}

func TestShared_nextLeaderServesImportedImages(t *testing.T) {
	f := newFleet(t)
	first, second := f.member(t), f.member(t)
	content := isoContent(t, iso)
	leader, stop := first.run(t)
	image := upload(t, leader, content)
	f.from = first.options.Dir

	require.Zero(t, second.mirror(t))
	stop()
	f.from = ""
	next, stop := second.open(t)
	found := onlyImage(t, next)
	require.Equal(t, StateReady, found.State, found.Message)
	require.Equal(t, []any{image.ID, image.Name, image.SHA256, image.SizeBytes},
		[]any{found.ID, found.Name, found.SHA256, found.SizeBytes})
	_, err := next.Find("4.18", "x86_64")
	require.NoError(t, err)
	require.NoError(t, next.Remove(image.ID))
	stop()

	again, stop := first.open(t) // the former leader leads again
	require.Empty(t, again.IDs(), "a removed image does not come back")
	require.NoFileExists(t, filepath.Join(first.options.Dir, image.ID+isoEnding))
	stop()
}

func TestShared_leaderCopiesWhatItLacks(t *testing.T) {
	f := newFleet(t)
	first, second := f.member(t), f.member(t)
	leader, stop := first.run(t)
	image := upload(t, leader, isoContent(t, iso))
	stop()

	next, stop := second.run(t) // before it has the file, and while the other member is away
	require.Equal(t, []string{image.ID}, next.IDs())
	require.NoError(t, second.clock.BlockUntilContext(t.Context(), 1))
	waiting := onlyImage(t, next)
	require.Equal(t, StateWaiting, waiting.State)
	requireSentence(t, waiting.Message, "copied from another member")
	f.mu.Lock()
	f.from = first.options.Dir
	f.mu.Unlock()
	second.clock.Advance(firstRetry)
	require.Equal(t, image.SHA256, waitForState(t, next, image.ID, StateReady).SHA256)
	stop()
}

func TestMirror_continuesAndVerifiesCopies(t *testing.T) {
	f := newFleet(t)
	first, second := f.member(t), f.member(t)
	leader, stop := first.run(t)
	image := upload(t, leader, isoContent(t, iso))
	stop()
	path := filepath.Join(second.options.Dir, image.ID+isoEnding)

	require.Equal(t, 1, second.mirror(t), "no member has it")
	f.from, f.cut = first.options.Dir, 1000
	require.Equal(t, 1, second.mirror(t))
	f.cut = 0
	require.NoFileExists(t, path)
	require.Zero(t, second.mirror(t))
	require.Equal(t, []int64{0, 1000}, f.sent)
	require.FileExists(t, path)

	require.NoError(t, os.Remove(path))
	damaged := isoContent(t, iso)
	damaged[len(damaged)/2] ^= 1
	f.from = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(f.from, image.ID+isoEnding), damaged, 0o600))
	require.Equal(t, 1, second.mirror(t))
	require.NoFileExists(t, path, "the digest is compared")
	f.from = first.options.Dir
	require.Zero(t, second.mirror(t))

	leader, stop = first.open(t)
	require.NoError(t, leader.Remove(image.ID))
	stop()
	require.Zero(t, second.mirror(t))
	require.NoFileExists(t, path)
}

func TestMirror_followsTheRows(t *testing.T) {
	f := newFleet(t)
	first, second := f.member(t), f.member(t)
	following := second.follow(t)
	counts := make(chan int, 10)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		(&Mirror{Library: following, Missing: func(n int) { counts <- n }}).Run(ctx)
	})
	require.Zero(t, <-counts)
	f.from = first.options.Dir
	leader, stop := first.run(t)
	image := upload(t, leader, isoContent(t, iso))
	require.Equal(t, []int{1, 0}, []int{<-counts, <-counts})
	stop()
	cancel()
	running.Wait()
	require.FileExists(t, filepath.Join(second.options.Dir, image.ID+isoEnding))
}

// A follower makes images from live ISOs that come and go while it follows. It uses the same one as
// the leader: an image of another one would be another file.
func TestMirror_libraryFollowsTheLeader(t *testing.T) {
	f := newFleet(t)
	first, second := f.member(t), f.member(t)
	f.from = first.options.Dir
	leader, _ := first.run(t)
	following := second.follow(t)
	find := func(version string) string {
		base, err := following.Find(version, "x86_64")
		if err != nil {
			requireSentence(t, err.Error(), "")
			return err.Error()
		}
		want, err := leader.Find(version, "x86_64")
		require.NoError(t, err)
		require.Equal(t, want.Info(), base.Info())
		return base.Info().VolumeID
	}
	require.Contains(t, find("4.18"), "no OS image matches")

	older := upload(t, leader, isoContent(t, iso))
	require.Zero(t, mirror(t, following))
	require.Equal(t, iso.VolumeID, find("4.18"))

	first.clock.Advance(time.Minute)
	newer := upload(t, leader, isoContent(t, skeleton.ISO{VolumeID: "rhcos-418.94.202512010000-0"}))
	first.clock.Advance(time.Minute)
	other := upload(t, leader, isoContent(t, skeleton.ISO{VolumeID: "rhcos-419.94.202512010000-0"}))
	f.from = t.TempDir()
	require.Equal(t, 2, mirror(t, following))
	require.Contains(t, find("4.18"), "not available yet")
	f.from = first.options.Dir
	require.Zero(t, mirror(t, following))
	require.Equal(t, "rhcos-418.94.202512010000-0", find("4.18"))
	require.Equal(t, "rhcos-419.94.202512010000-0", find("4.19"))

	require.NoError(t, leader.Remove(newer.ID))
	require.Zero(t, mirror(t, following))
	require.Equal(t, iso.VolumeID, find("4.18"))
	require.Equal(t, leader.IDs(), following.IDs())
	require.ElementsMatch(t, []string{older.ID, other.ID}, second.follow(t).IDs(), "after a restart")
}

func TestOpenFile_opensImagesOnly(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.iso"), nil, 0o600))
	for _, id := range []string{"x", "../x", "", "0011223344556677"} {
		_, err := OpenFile(dir, id)
		require.ErrorIs(t, err, fs.ErrNotExist, id)
	}
}

func TestShared_damagedImageIsCopiedFromMember(t *testing.T) {
	f := newFleet(t)
	first, second := f.member(t), f.member(t)
	content := isoContent(t, iso)
	from := newServer(t, content)
	leader, stop := first.run(t)
	image, err := leader.Fetch(Request{URL: from.URL + "/live.iso"})
	require.NoError(t, err)
	image = waitForState(t, leader, image.ID, StateReady)
	require.Eventually(t, func() bool {
		rows, err := leader.options.Shared.rows()
		return err == nil && len(rows) == 1
	}, waitLimit, tick)
	f.mu.Lock()
	f.from = first.options.Dir
	f.mu.Unlock()
	require.Zero(t, second.mirror(t))
	f.mu.Lock()
	f.from = second.options.Dir
	f.mu.Unlock()

	damageFile(t, image.Path)
	for _, state := range []State{StateBad, StateReady} {
		_, err := leader.Verify(image.ID)
		require.NoError(t, err)
		waitForState(t, leader, image.ID, state)
	}
	copied, err := os.ReadFile(image.Path)
	require.NoError(t, err)
	require.Equal(t, sumOf(content), sumOf(copied))
	require.EqualValues(t, 1, from.requests.Load())
	stop()
}
