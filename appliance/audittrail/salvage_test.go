package audittrail

import (
	"bytes"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// badDisk gives an I/O error for each read that touches a range.
type badDisk struct {
	readFile
	from, to int64
}

func (d badDisk) ReadAt(p []byte, offset int64) (int, error) {
	if offset < d.to && offset+int64(len(p)) > d.from {
		return 0, &os.PathError{Op: "read", Path: "x", Err: syscall.EIO}
	}
	return d.readFile.ReadAt(p, offset)
}

type noFile struct{ io.ReaderAt }

func (noFile) Close() error { return nil }

func TestSalvage_losesOnlyDamagedPages(t *testing.T) {
	content := bytes.Repeat([]byte("0123456\n"), 4096)
	s := &salvage{ReaderAt: badDisk{noFile{bytes.NewReader(content)}, 9000, 13000}, path: "x"}
	read := make([]byte, len(content)-100)
	n, err := s.ReadAt(read, 100)
	require.NoError(t, err)
	require.Equal(t, len(read), n)
	require.Equal(t, content[100:8192], read[:8092])
	require.Equal(t, bytes.Repeat([]byte{'\n'}, 2*pageSize), read[8092:8092+2*pageSize])
	require.Equal(t, content[8192+2*pageSize:], read[8092+2*pageSize:])
	require.Equal(t, []Unread{{"x", 8192, 16384, "input/output error"}}, s.unread)
	require.Equal(t, "the bytes 8192 to 16383 of x can't be read (input/output error)", s.unread[0].String())
}

// An old file has a damaged page: the records before and after it are listed, and it is named.
func TestList_damagedPage(t *testing.T) {
	a := newAppliance(t)
	a.run(t, func(trail *Trail) { changes(t, trail, 200) })
	a.run(t, func(trail *Trail) {
		require.NoError(t, trail.Record(ana(t), Entry{Operation: "marker"}))
		damaged := a.files(t)[0]
		info, err := os.Stat(damaged)
		require.NoError(t, err)
		require.Greater(t, info.Size(), int64(64<<10))
		whole := list(t, trail, Filter{})
		page, err := listContents(t.Context(), func(after uint64) (contents, error) {
			all, err := trail.contents(after)
			all.open = func(path string) (readFile, error) {
				file, err := os.Open(path)
				if path == damaged {
					return badDisk{file, 40 << 10, 41 << 10}, err
				}
				return file, err
			}
			return all, err
		}, Filter{})
		require.NoError(t, err)
		require.Equal(t, []Unread{{damaged, 40 << 10, 44 << 10, "input/output error"}}, page.Unread)
		require.Less(t, len(page.Items), len(whole))
		require.Greater(t, len(page.Items), len(whole)-30)
		require.Equal(t, whole[0].Sequence, page.Items[0].Sequence)
		require.Equal(t, whole[len(whole)-1].Sequence, page.Items[len(page.Items)-1].Sequence)
	})
}

// A damaged file is named, and the others are listed: also by a reader, if it is the newest one.
func TestList_damagedFile(t *testing.T) {
	a := newAppliance(t)
	for range 2 {
		a.run(t, func(trail *Trail) { changes(t, trail, 3) })
	}
	for _, damaged := range a.files(t) {
		before, err := os.ReadFile(damaged)
		require.NoError(t, err)
		damage(t, damaged)
		page, err := a.reader().List(t.Context(), Filter{Operation: "update"})
		require.NoError(t, err)
		require.Len(t, page.Items, 3)
		require.Len(t, page.Unread, 1)
		require.Equal(t, damaged, page.Unread[0].File)
		require.NoError(t, os.WriteFile(damaged, before, 0o600))
	}
}

// A verification goes on after a damaged file.
func TestVerify_damagedFile(t *testing.T) {
	const damaged = "/proc/self/mem" // nothing is at its beginning: EIO
	report, err := contents{sources: []source{{path: damaged, size: 100}, {path: damaged, whole: 100}}}.
		verify(t.Context(), Expect{})
	require.NoError(t, err)
	problems := strings.Join(report.Problems, "\n")
	require.Contains(t, problems, damaged+" can't be read after record 0: input/output error")
	require.Contains(t, problems, damaged+" is damaged: its end can't be read")
}
