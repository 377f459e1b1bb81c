package registry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"landfall/appliance/registry/medium"
	simulated "landfall/appliance/simulate/registry"
	"landfall/logtest"
	"landfall/store"
)

// shelf is a registry with compressed archives in a folder. It looks and unpacks when a test says.
type shelf struct {
	testing.TB
	*Registry
	clock     *clockwork.FakeClock
	dir, data string
	left      int64 // bytes until reads of media fail; negative for never
	stop      func()
}

func newShelf(t testing.TB) *shelf {
	t.Helper()
	// The times of new files are after the clock, so they count as those of another clock.
	s := &shelf{TB: t, clock: clockwork.NewFakeClockAt(time.Now().Add(-time.Hour)), dir: t.TempDir(), data: t.TempDir(),
		left: -1}
	s.open()
	return s
}

// open opens the registry, as after a start.
func (s *shelf) open() {
	s.Helper()
	db, err := store.Open(s.Context(), s.data, store.Options{NoSync: true})
	require.NoError(s, err)
	s.Registry, err = Open(s.Context(), Options{DB: db, Media: []string{s.dir}, Dir: filepath.Join(s.data, "registry"),
		Open: func(path string) (medium.File, error) {
			file, err := os.Open(path)
			return limited{file, s}, err
		}, Clock: s.clock, Logger: logtest.New(s, slog.LevelInfo)})
	require.NoError(s, err)
	stopped := false
	s.stop = func() {
		if !stopped {
			stopped = true
			require.NoError(s, s.Registry.Close())
			require.NoError(s, db.Close())
		}
	}
	s.Cleanup(s.stop)
}

type limited struct {
	*os.File
	s *shelf
}

// ReadAt implements io.ReaderAt.
func (f limited) ReadAt(p []byte, offset int64) (int, error) {
	if f.s.left == 0 {
		return 0, &fs.PathError{Op: "read", Path: "stick", Err: errors.New("input/output error")}
	}
	if f.s.left > 0 {
		f.s.left = max(0, f.s.left-int64(len(p)))
	}
	return f.File.ReadAt(p, offset)
}

// pack returns a compressed archive with layers of random bytes, and their digests.
func (s *shelf) pack(count int, seed byte, compress func(io.Writer) io.WriteCloser) (packed []byte, digests []string) {
	s.Helper()
	a, random := &simulated.Archive{}, rand.NewChaCha8([32]byte{seed})
	for i := range count {
		layer := make([]byte, 1<<20+i)
		_, _ = random.Read(layer) // never fails
		digest, err := a.AddBlob(s.Context(), "team/image", fmt.Sprint("v", i), layer)
		require.NoError(s, err)
		digests = append(digests, digest)
	}
	var plain, out bytes.Buffer
	require.NoError(s, a.Write(&plain))
	w := compress(&out)
	_, err := w.Write(plain.Bytes())
	require.NoError(s, errors.Join(err, w.Close()))
	return out.Bytes(), digests
}

func gzipped(out io.Writer) io.WriteCloser { return gzip.NewWriter(out) }

// write writes a file of an age.
func (s *shelf) write(name string, data []byte, age time.Duration) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	require.NoError(s, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(s, os.WriteFile(path, data, 0o600))
	modified := s.clock.Now().Add(-age)
	require.NoError(s, os.Chtimes(path, modified, modified))
}

func (s *shelf) see() { s.look(s.Context(), s.path()) }

// path returns the watched folder.
func (s *shelf) path() *mediaPath {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch(s.dir)
}

// only returns the only archive.
func (s *shelf) only() *packed {
	s.Helper()
	require.Len(s, s.allPacked(), 1)
	return s.allPacked()[0]
}

// copied orders the copy of an archive and unpacks it.
func (s *shelf) copied(name string, data []byte) *packed {
	s.Helper()
	s.write(name, data, time.Hour)
	s.see()
	_, err := s.Stage(s.Context(), "all")
	require.NoError(s, err)
	require.False(s, s.unpackWanted(s.Context()))
	s.see()
	require.Equal(s, StageWhole, s.stagingOf(s.tarOf(s.only())).State)
	return s.only()
}

// flip changes a bit of blobs in the tar archive of an archive, as a disk that decays does, and
// returns what the file had and has. The registry has found the damage.
func (s *shelf) flip(p *packed, digests ...string) (before, after []byte) {
	s.Helper()
	m := s.tarOf(p)
	before, err := os.ReadFile(m.location.Path)
	require.NoError(s, err)
	info, err := os.Stat(m.location.Path)
	require.NoError(s, err)
	after = bytes.Clone(before)
	for _, digest := range digests {
		after[m.index.Blobs[digest][0].Offset+1000] ^= 1
		m.setDamaged(digest)
	}
	require.NoError(s, os.WriteFile(m.location.Path, after, 0o600))
	require.NoError(s, os.Chtimes(m.location.Path, info.ModTime(), info.ModTime()))
	return before, after
}

func (s *shelf) requireTar(p *packed, want []byte) {
	s.Helper()
	got, err := os.ReadFile(s.unpacked.Path(p.key, s.rowOf(p).Name))
	require.NoError(s, err)
	require.True(s, bytes.Equal(want, got))
}

const archive = "stick/mirror_000001.tar.gz"

// A repair writes nothing unless the compressed archive is the one that was unpacked, and sound to
// its end, where its checksum is.
func TestRepair_unprovenSource(t *testing.T) {
	for name, c := range map[string]struct {
		compress func(io.Writer) io.WriteCloser
		spoil    func(s *shelf, packed []byte)
		message  string
		state    string
	}{
		"wrong bytes": {gzipped, func(s *shelf, packed []byte) {
			packed[len(packed)/2] ^= 1
			s.write(archive, packed, time.Hour)
		}, "damaged: the compressed archive is damaged too (gzip: invalid checksum)", StageDamaged},
		"another archive": {gzipped, func(s *shelf, _ []byte) {
			other, _ := s.pack(2, 2, gzipped)
			s.write(archive, other, time.Minute)
		}, "damaged: another file lies in the place of stick/mirror_000001.tar.gz; plug in", StageWaiting},
		"another archive of the same time and size": {gzipped, func(s *shelf, packed []byte) {
			packed[1000] ^= 1
			s.write(archive, packed, time.Hour)
		}, "plug in the medium with it again", StageWaiting},
		"no checksum": {func(out io.Writer) io.WriteCloser {
			w, err := zstd.NewWriter(out, zstd.WithEncoderCRC(false))
			require.NoError(t, err)
			return w
		}, func(*shelf, []byte) {}, "the compressed archive has no checksum", StageDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			packed, digests := s.pack(2, 1, c.compress)
			p := s.copied(archive, packed)
			_, damaged := s.flip(p, digests[0])
			c.spoil(s, packed)
			require.Equal(t, c.state != StageDamaged, s.unpackWanted(t.Context()))
			s.requireTar(p, damaged)
			staging := s.stagingOf(s.tarOf(p))
			require.Equal(t, c.state, staging.State)
			require.Contains(t, staging.Message, c.message)
		})
	}
}

// A stick fails in the middle of a repair. The copy counts as damaged until the repair was
// complete, and its sound blobs are served all the time.
func TestRepair_interrupted(t *testing.T) {
	s := newShelf(t)
	packed, digests := s.pack(8, 1, gzipped)
	p := s.copied(archive, packed)
	before, damaged := s.flip(p, digests...)
	m := s.tarOf(p)
	s.left = int64(len(packed)) * 3 / 2
	require.True(t, s.unpackWanted(t.Context()))
	now, err := os.ReadFile(m.location.Path)
	require.NoError(t, err)
	require.False(t, bytes.Equal(now, damaged))
	require.False(t, bytes.Equal(now, before))
	s.left = -1
	s.see()
	require.Same(t, m, s.tarOf(p))
	require.False(t, m.missing())
	require.Equal(t, Staging{State: StageCopying, Total: s.stagingOf(m).Total,
		Message: "the damaged copy is being made again; leave the medium plugged in"}, s.stagingOf(m))

	require.False(t, s.unpackWanted(t.Context()))
	s.see()
	s.requireTar(p, before)
	require.Empty(t, s.tarOf(p).damaged)
	require.Equal(t, StageWhole, s.stagingOf(s.tarOf(p)).State)
}

// The disk failed to give a blob once, so it counts as damaged. Nothing differs from the compressed
// archive, and the blob has its digest.
func TestRepair_transientError(t *testing.T) {
	s := newShelf(t)
	packed, digests := s.pack(2, 1, gzipped)
	p := s.copied(archive, packed)
	s.tarOf(p).setDamaged(digests[0])
	require.False(t, s.unpackWanted(t.Context()))
	require.Empty(t, s.tarOf(p).damaged)
	require.Equal(t, StageWhole, s.stagingOf(s.tarOf(p)).State)
}

// Nobody makes the damaged copy of an archive again whose order was cancelled.
func TestRemedy_cancelledCopy(t *testing.T) {
	s := newShelf(t)
	packed, digests := s.pack(1, 1, gzipped)
	p := s.copied(archive, packed)
	require.NoError(t, s.CancelStage(t.Context(), "all"))
	s.tarOf(p).setDamaged(digests[0])
	require.ErrorContains(t, s.damagedError(s.tarOf(p), digests[0]),
		`order its copy again with landfall registry stage "stick/mirror_000001.tar"`)
}

// An archive that could not be unpacked is tried again when its medium is back.
func TestPacked_backAfterDamage(t *testing.T) {
	s := newShelf(t)
	packed, _ := s.pack(1, 1, gzipped)
	packed[len(packed)/2] ^= 1
	s.write(archive, packed, time.Hour)
	s.see()
	_, err := s.Stage(t.Context(), "all")
	require.NoError(t, err)
	require.False(t, s.unpackWanted(t.Context()))
	require.Equal(t, StageDamaged, s.only().state)
	require.NoError(t, os.Remove(filepath.Join(s.dir, archive)))
	s.see()
	s.write(archive, packed, time.Hour)
	s.see()
	require.Empty(t, s.only().state)
	require.Empty(t, s.only().message)
}

// Two copies of an archive lie at a path. The first one is replaced, so the second one counts.
func TestPacked_secondCopyStays(t *testing.T) {
	s := newShelf(t)
	packed, _ := s.pack(1, 1, gzipped)
	s.write("a/mirror_000001.tar.gz", packed, time.Hour)
	s.write("b/mirror_000001.tar.gz", packed, time.Hour)
	s.see()
	p := s.only()
	require.Equal(t, filepath.Join(s.dir, "a", "mirror_000001.tar.gz"), p.row.Location.Path)
	other, _ := s.pack(2, 2, gzipped)
	s.write("a/mirror_000001.tar.gz", other, time.Minute)
	s.see()
	require.Len(t, s.allPacked(), 2)
	require.Equal(t, filepath.Join(s.dir, "b", "mirror_000001.tar.gz"), p.row.Location.Path)
	require.NoError(t, os.Remove(filepath.Join(s.dir, "b", "mirror_000001.tar.gz")))
	s.see()
	require.False(t, p.present)
}

// A whole copy whose order was cancelled, and whose archive was overwritten, stays until a person
// collects it.
func TestReplaced_wholeCopyStays(t *testing.T) {
	s := newShelf(t)
	packed, _ := s.pack(1, 1, gzipped)
	p := s.copied(archive, packed)
	require.NoError(t, s.CancelStage(t.Context(), "all"))
	other, _ := s.pack(2, 2, gzipped)
	s.write(archive, other[:len(other)/2], time.Second)
	s.see()
	s.write(archive, other, time.Minute)
	s.see()
	require.False(t, s.unpackWanted(t.Context()))
	require.True(t, s.isWhole(p))
	done, err := s.Collect(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, done.Files)
}

// The order of a part becomes that of the whole archive, also if it can't be recorded at first.
// After a restart nobody knows that it was a part, and the status says what to do.
func TestInherit_orderOfAPart(t *testing.T) {
	for name, restarts := range map[string]bool{"store fails": false, "restart": true} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			packed, _ := s.pack(2, 1, gzipped)
			s.write(archive, packed[:len(packed)/2], time.Hour)
			s.see()
			_, err := s.Stage(t.Context(), "all")
			require.NoError(t, err)
			require.False(t, s.unpackWanted(t.Context()))
			part := s.only()
			if restarts {
				s.stop()
				s.write(archive, packed, time.Minute)
				s.open()
				part = s.only()
				s.see()
				require.Contains(t, s.packedStatus(part).Staging.Message, `landfall registry stage "`+archive+
					`" copies that one, and landfall registry stage "`+s.labelOfPacked(part)+`" --cancel ends this order`)
				return
			}
			s.clock.Advance(time.Hour)
			s.write(archive, packed, time.Minute)
			failing, cancel := context.WithCancel(t.Context())
			cancel()
			s.look(failing, s.path())
			require.True(t, s.isWanted(part))
			s.see()
			require.False(t, s.isWanted(part))
			require.Len(t, s.allPacked(), 2)
			for _, p := range s.allPacked() {
				require.Equal(t, p != part, s.isWanted(p))
			}
			require.False(t, s.unpackWanted(t.Context()))
			require.True(t, s.isWhole(s.only()))
		})
	}
}

// A medium whose stored index is that of an earlier version is scanned again.
func TestIndex_ofAnEarlierVersion(t *testing.T) {
	s := newShelf(t)
	a := &simulated.Archive{}
	_, err := a.AddBlob(t.Context(), "team/image", "v1", make([]byte, 1<<20))
	require.NoError(t, err)
	var data bytes.Buffer
	require.NoError(t, a.Write(&data))
	copy(data.Bytes()[bytes.LastIndex(data.Bytes(), []byte("ustar"))-100:], "xxxxxxxx") // the checksum of a header
	s.write("mirror_000001.tar", data.Bytes(), time.Hour)
	s.see()
	require.Len(t, s.media, 1)
	m := s.media[0]
	require.True(t, m.index.Damaged())
	m.index.Version = 1
	for i := range m.index.Problems {
		m.index.Problems[i].Damaged = false
	}
	require.NoError(t, s.remember(t.Context(), m, true, nil, nil))
	s.stop()
	s.open()
	s.see()
	require.Len(t, s.media, 1)
	require.True(t, s.media[0].index.Damaged())
	require.Equal(t, medium.Version, s.media[0].index.Version)
}

// Nobody reads a path that was removed, so its addition must not wait for that.
func TestAdd_endsWhenItsPathIsRemoved(t *testing.T) {
	s := newShelf(t)
	other := t.TempDir()
	packed, _ := s.pack(1, 1, gzipped)
	require.NoError(t, os.WriteFile(filepath.Join(other, "mirror_000001.tar.gz"), packed, 0o600))
	added := make(chan error, 1)
	go func() { added <- s.Add(s.Context(), other) }()
	<-s.wake // the addition waits for a look
	require.NoError(t, s.Remove(s.Context(), other))
	require.EqualError(t, <-added, other+" was removed while it was read.")
	require.Empty(t, s.Status().Added)
}
