package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"landfall/appliance/keyring"
	"landfall/store"
)

type item struct {
	Text string `json:"text"`
}

var items = store.NewBucket[item]("items", 1)

func open(t *testing.T, dir string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), dir, store.Options{Keys: keyring.New(dir, keyring.Options{}).Open})
	require.NoError(t, err)
	return db
}

// newDir makes a data directory with a row.
func newDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	db := open(t, dir)
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error { return items.Put(tx, "1", &item{"one"}) }))
	require.NoError(t, db.Close())
	return dir
}

// The configuration of an appliance may name the key file, and the command does not read it.
func TestCheck_keyFileElsewhereIsNoDamage(t *testing.T) {
	dir, elsewhere := newDir(t), filepath.Join(t.TempDir(), "seal.key")
	content, err := os.ReadFile(filepath.Join(dir, keyring.DefaultKeyFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(elsewhere, content, 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, keyring.DefaultKeyFile)))
	_, err = offline(t.Context(), dir)
	require.ErrorContains(t, err, "name it with seal.key_file or LANDFALL_SEAL_KEY_FILE")
	t.Setenv("LANDFALL_SEAL_KEY_FILE", elsewhere)
	report, err := offline(t.Context(), dir)
	require.NoError(t, err)
	require.True(t, report.Whole)
	t.Setenv("LANDFALL_SEAL_KEY_FILE", "")
	require.NoError(t, os.WriteFile(filepath.Join(dir, keyring.FileName), []byte("{}"), 0o600))
	report, err = offline(t.Context(), dir)
	require.NoError(t, err)
	require.False(t, report.Whole, "a damaged data.key is damage")
}

func TestSalvage_leavesOutWhatIsNoData(t *testing.T) {
	dir, to := newDir(t), filepath.Join(t.TempDir(), "new")
	t.Chdir(dir) // the paths of sockets are short
	socket, err := net.Listen("unix", "profiling.socket")
	require.NoError(t, err)
	defer socket.Close()
	require.NoError(t, os.Mkdir("os-images", 0o755))
	require.NoError(t, os.WriteFile("os-images/1.iso", []byte("image"), 0o644))
	report, err := salvage(t.Context(), ".", to)
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.NoFileExists(t, filepath.Join(to, "profiling.socket"))
	info, err := os.Stat(filepath.Join(to, "os-images", "1.iso"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	db := open(t, to)
	require.NoError(t, db.View(func(tx *store.Tx) error { _, err := items.Get(tx, "1"); return err }))
	require.NoError(t, db.Close())
}

func TestSalvage_failureLeavesNothing(t *testing.T) {
	dir := newDir(t)
	_, err := salvage(t.Context(), dir, filepath.Join(dir, "new"))
	require.ErrorContains(t, err, "name a directory outside of it")
	require.NoDirExists(t, filepath.Join(dir, "new"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "version.json"), []byte(`{"version":9,"program":"9.0"}`), 0o600))
	to := filepath.Join(t.TempDir(), "new")
	_, err = salvage(t.Context(), dir, to)
	require.ErrorContains(t, err, "use Landfall 9.0")
	require.NoDirExists(t, to)
}

// badSectors has files with a sector that can't be read, at an offset by the name of the file.
type badSectors struct {
	fs.FS
	at map[string]int64

	read func(name string) // called before each read of such a file; nil: nothing
}

func (b badSectors) Open(name string) (fs.File, error) {
	file, err := b.FS.Open(name)
	if at, ok := b.at[name]; ok && err == nil {
		return badFile{file, at, func() {
			if b.read != nil {
				b.read(name)
			}
		}}, nil
	}
	return file, err
}

type badFile struct {
	fs.File
	at   int64
	read func()
}

func (f badFile) ReadAt(p []byte, off int64) (int, error) {
	f.read()
	if off <= f.at && f.at < off+int64(len(p)) {
		n, err := f.File.(io.ReaderAt).ReadAt(p[:f.at-off], off)
		return n, errors.Join(err, &fs.PathError{Op: "read", Path: "file", Err: syscall.EIO})
	}
	return f.File.(io.ReaderAt).ReadAt(p, off)
}

func TestCopyReadable_goesOnAfterBadSectors(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 3*unreadBlock)
	files := fstest.MapFS{}
	for _, name := range []string{"landfall.db", "landfall-1.wal", "os-images/1.iso", "os-images/2.iso", "site.key"} {
		files[name] = &fstest.MapFile{Data: content}
	}
	to := filepath.Join(t.TempDir(), "new")
	unread, err := copyReadable(t.Context(), badSectors{FS: files, at: map[string]int64{
		"landfall.db": unreadBlock, "landfall-1.wal": unreadBlock + 7, "os-images/1.iso": 0}}, to)
	require.NoError(t, err)
	var told []string
	for _, problem := range unread {
		told = append(told, fmt.Sprintf("%s: %s: %s", problem.Where, problem.Reason, problem.Meaning))
	}
	require.Equal(t, []string{
		"landfall-1.wal: read file: input/output error: the copy has zeros in place of the bytes that can't be read",
		"landfall.db: read file: input/output error: the copy has zeros in place of the bytes that can't be read",
		"os-images/1.iso: read file: input/output error: the copy lacks it"}, told)
	require.NoFileExists(t, filepath.Join(to, "os-images", "1.iso"))
	for name, readable := range map[string]int{"landfall.db": unreadBlock, "landfall-1.wal": unreadBlock + 7,
		"os-images/2.iso": len(content), "site.key": len(content)} {
		copied, err := os.ReadFile(filepath.Join(to, name))
		require.NoError(t, err)
		want := strings.Repeat("x", readable)
		if readable < len(content) {
			want += strings.Repeat("\x00", 2*unreadBlock-readable) + strings.Repeat("x", unreadBlock)
		}
		require.Equal(t, want, string(copied), name)
	}
}

func TestCopyReadable_endsAnImageAtItsFirstBadSector(t *testing.T) {
	reads := map[string]int{}
	content := &fstest.MapFile{Data: make([]byte, 8*unreadBlock)}
	unread, err := copyReadable(t.Context(), badSectors{FS: fstest.MapFS{"landfall.db": content, "1.iso": content},
		at:   map[string]int64{"landfall.db": 0, "1.iso": 0},
		read: func(name string) { reads[name]++ }}, filepath.Join(t.TempDir(), "new"))
	require.NoError(t, err)
	require.Len(t, unread, 2)
	require.Equal(t, map[string]int{"landfall.db": 2, "1.iso": 1}, reads)
}

func TestCopyReadable_endsWithinAFileAfterCancellation(t *testing.T) {
	reads := 0
	ctx, cancel := context.WithCancel(t.Context())
	_, err := copyReadable(ctx, badSectors{FS: fstest.MapFS{"landfall.db": {Data: make([]byte, 8*unreadBlock)}},
		at: map[string]int64{"landfall.db": 0},
		read: func(string) {
			reads++
			cancel()
		}}, filepath.Join(t.TempDir(), "new"))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, reads)
}
