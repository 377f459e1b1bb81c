package staging

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/durable"
	"landfall/appliance/registry/quota"
)

// content is a blob, the same in each process.
func content() (digest string, data []byte) {
	data = make([]byte, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(data) // never fails
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), data
}

func unlimited(dir string) *quota.Quota {
	return quota.New(dir, 0, func(string) (int64, error) { return math.MaxInt64, nil })
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, unlimited(dir))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// source is a blob in memory. Its reads end after some bytes with an error, unless limit is 0.
type source struct {
	data  []byte
	limit int
	hang  bool // after limit
	from  int64
}

var errGone = errors.New("the stick is gone")

// Read implements Source.
func (s *source) Read(ctx context.Context, w io.Writer, offset int64) error {
	s.from = offset
	for at := int(offset); at < len(s.data); at += 64 << 10 {
		if s.limit > 0 && at >= s.limit {
			if s.hang {
				<-ctx.Done()
			}
			return errGone
		}
		if _, err := w.Write(s.data[at:min(len(s.data), at+64<<10)]); err != nil {
			return err
		}
	}
	return nil
}

var errChanged = errors.New("the bytes are wrong")

// Changed implements Source.
func (s *source) Changed(bool) error { return errChanged }

// killedVariable names the directory in which this program copies a blob instead of running tests,
// until TestFault20_killedWhileStaging kills it.
const killedVariable = "LANDFALL_TEST_STAGING"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedVariable); dir != "" {
		fmt.Fprintln(os.Stderr, copyForever(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// copyForever copies three of the eight MiB of a blob, and then waits for its medium.
func copyForever(dir string) error {
	digest, data := content()
	s, err := Open(dir, unlimited(dir))
	if err != nil {
		return err
	}
	return s.Stage(context.Background(), digest, int64(len(data)), &source{data: data, limit: 3 << 20, hang: true})
}

// A copy whose process was killed continues where it stopped, and is compared as a whole.
func TestFault20_killedWhileStaging(t *testing.T) {
	dir := t.TempDir()
	digest, data := content()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env, child.Stderr = append(os.Environ(), killedVariable+"="+dir), os.Stderr
	require.NoError(t, child.Start())
	part := filepath.Join(dir, digest[len("sha256:"):]+partSuffix)
	for {
		if info, err := os.Stat(part); err == nil && info.Size() >= 3<<20 {
			break
		}
	}
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	s := open(t, dir)
	_, ok := s.Size(digest)
	require.False(t, ok)
	require.EqualValues(t, 3<<20, s.Written(digest))
	from := &source{data: data}
	require.NoError(t, s.Stage(t.Context(), digest, int64(len(data)), from))
	require.EqualValues(t, 3<<20, from.from)
	requireWhole(t, s, digest, data)
}

func requireWhole(t *testing.T, s *Store, digest string, data []byte) {
	t.Helper()
	file, err := s.Blob(digest)
	require.NoError(t, err)
	defer file.Close()
	got, err := io.ReadAll(file)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
	require.EqualValues(t, len(data), s.Used())
}

// Bytes that a crash of the machine left wrong are found, and the copy is made again.
func TestStage_wrongPartIsDropped(t *testing.T) {
	dir := t.TempDir()
	digest, data := content()
	part := filepath.Join(dir, digest[len("sha256:"):]+partSuffix)
	require.NoError(t, os.WriteFile(part, make([]byte, 1<<20), 0o600))
	s := open(t, dir)
	require.ErrorIs(t, s.Stage(t.Context(), digest, int64(len(data)), &source{data: data}), errChanged)
	require.Zero(t, s.Used())
	require.NoFileExists(t, part)
	from := &source{data: data}
	require.NoError(t, s.Stage(t.Context(), digest, int64(len(data)), from))
	require.Zero(t, from.from)
	requireWhole(t, s, digest, data)
}

// A copy whose bytes may not be on the disk is made again, although the next sync succeeds.
func TestStage_failedSync(t *testing.T) {
	failed := errors.New("input/output error")
	for name, fail := range map[string]func(s *Store) (restore func()){
		"of the file": func(s *Store) func() {
			s.syncFile = func(*os.File) error { return failed }
			return func() { s.syncFile = (*os.File).Sync }
		},
		"of the directory": func(s *Store) func() {
			s.syncDir = func(string) error { return failed }
			return func() { s.syncDir = durable.SyncDir }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			digest, data := content()
			restore := fail(s)
			require.ErrorIs(t, s.Stage(t.Context(), digest, int64(len(data)), &source{data: data}), failed)
			require.Zero(t, s.Used())
			_, ok := s.Size(digest)
			require.False(t, ok)
			restore()
			from := &source{data: data, from: -1}
			require.NoError(t, s.Stage(t.Context(), digest, int64(len(data)), from))
			require.Zero(t, from.from, "read again from its beginning")
			requireWhole(t, s, digest, data)
		})
	}
}

// A part with a damaged sector is made again.
func TestStage_unreadablePart(t *testing.T) {
	dir := t.TempDir()
	digest, data := content()
	require.NoError(t, os.WriteFile(filepath.Join(dir, digest[len("sha256:"):]+partSuffix), data[:1<<20], 0o600))
	s := open(t, dir)
	s.hash = func(io.Writer, *os.File, int64) error { return errors.New("input/output error") }
	from := &source{data: data, from: -1}
	require.NoError(t, s.Stage(t.Context(), digest, int64(len(data)), from))
	require.Zero(t, from.from)
	requireWhole(t, s, digest, data)
}

// A part that somebody removed is not continued behind zeros.
func TestStage_removedPart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	digest, data := content()
	require.ErrorIs(t, s.Stage(t.Context(), digest, int64(len(data)), &source{data: data, limit: 1 << 20}), errGone)
	require.NoError(t, os.Remove(s.path(digest)+partSuffix))
	require.NoError(t, s.Stage(t.Context(), digest, int64(len(data)), &source{data: data}))
	requireWhole(t, s, digest, data)
}

// A copy that breaks continues in the same process without reading its part again. A client reads
// as far as it got.
func TestJoin_brokenCopyContinues(t *testing.T) {
	s := open(t, t.TempDir())
	digest, data := content()
	busy := func(<-chan struct{}) error { return errChanged }
	reader, err := s.Join(digest, int64(len(data)), &source{data: data, limit: 1 << 20}, busy)
	require.NoError(t, err)
	var got bytes.Buffer
	n, err := reader.Copy(t.Context(), &got, 0, int64(len(data)))
	require.ErrorIs(t, err, errGone)
	require.EqualValues(t, 1<<20, n)
	reader.Close()
	from := &source{data: data}
	reader, err = s.Join(digest, int64(len(data)), from, busy)
	require.NoError(t, err)
	_, err = reader.Copy(t.Context(), &got, n, int64(len(data))-n)
	require.NoError(t, err)
	reader.Close()
	require.True(t, bytes.Equal(data, got.Bytes()))
	require.EqualValues(t, 1<<20, from.from)
	reader, err = s.Join(digest, int64(len(data)), from, busy)
	require.NoError(t, err)
	if reader != nil { // the copy is compared, and is being synced
		reader.Close()
	}
}

// Case 24: a client that leaves frees its reader, and the copy goes on for the others.
func TestFault24_clientLeaves(t *testing.T) {
	s := open(t, t.TempDir())
	digest, data := content()
	gate := &gated{source: source{data: data}, open: make(chan struct{})}
	busy := func(<-chan struct{}) error { return errChanged }
	leaving, err := s.Join(digest, int64(len(data)), gate, busy)
	require.NoError(t, err)
	staying, err := s.Join(digest, int64(len(data)), gate, busy)
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, err = leaving.Copy(ctx, io.Discard, 0, int64(len(data)))
	require.ErrorIs(t, err, context.Canceled)
	leaving.Close()
	close(gate.open)
	var got bytes.Buffer
	_, err = staying.Copy(t.Context(), &got, 0, int64(len(data)))
	require.NoError(t, err)
	staying.Close()
	require.True(t, bytes.Equal(data, got.Bytes()))
}

// A client that does not read what was copied for it keeps neither the copies in the background nor
// those for other clients waiting.
func TestJoin_slowClientKeepsNobodyWaiting(t *testing.T) {
	s := open(t, t.TempDir())
	digest, data := content()
	slow, err := s.Join(digest, int64(len(data)), &source{data: data}, nil)
	require.NoError(t, err)
	require.NoError(t, s.Stage(t.Context(), digest, int64(len(data)), nil))
	other := sha256.Sum256(data[1:])
	require.NoError(t, s.Stage(t.Context(), "sha256:"+hex.EncodeToString(other[:]), int64(len(data)-1),
		&source{data: data[1:]}))
	var got bytes.Buffer
	_, err = slow.Copy(t.Context(), &got, 0, int64(len(data)))
	require.NoError(t, err)
	slow.Close()
	require.True(t, bytes.Equal(data, got.Bytes()))
	require.Zero(t, s.demanded)
}

// A copy that has read all its bytes does not keep the copies in the background from the medium
// while it is compared and synced.
func TestStage_readsWhileAnotherCopyEnds(t *testing.T) {
	s := open(t, t.TempDir())
	digest, data := content()
	ending := &endless{source: source{data: make([]byte, len(data))}, end: make(chan struct{})}
	waiting, err := s.Join(digest, int64(len(data)), ending, nil)
	require.NoError(t, err)
	other := sha256.Sum256(data[1:])
	require.NoError(t, s.Stage(t.Context(), "sha256:"+hex.EncodeToString(other[:]), int64(len(data)-1),
		&source{data: data[1:]}))
	close(ending.end)
	_, err = waiting.Copy(t.Context(), io.Discard, 0, int64(len(data)))
	require.ErrorIs(t, err, errChanged)
	waiting.Close()
	require.Zero(t, s.demanded)
}

// endless is a source with wrong bytes, whose copy does not end until a channel is closed.
type endless struct {
	source
	end chan struct{}
}

// Changed implements Source.
func (e *endless) Changed(whole bool) error {
	<-e.end
	return e.source.Changed(whole)
}

// gated is a source that waits before its first byte.
type gated struct {
	source
	open chan struct{}
}

// Read implements Source.
func (g *gated) Read(ctx context.Context, w io.Writer, offset int64) error {
	<-g.open
	return g.source.Read(ctx, w, offset)
}
