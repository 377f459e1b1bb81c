package unpacked

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"landfall/appliance/registry/quota"
)

const key, name = "key", "stick/mirror_000001.tar"

func open(t *testing.T, dir string, limit int64) *Store {
	t.Helper()
	s, err := Open(dir, quota.New(dir, limit, func(string) (int64, error) { return math.MaxInt64, nil }),
		func(k string) bool { return k == key })
	require.NoError(t, err)
	return s
}

// A write keeps the bytes of an earlier one up to the first wrong byte.
func TestWrite_continues(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 300_000)
	for title, left := range map[string][]byte{
		"nothing":            {},
		"the beginning":      content[:2_000_000],
		"other bytes":        append(bytes.Clone(content[:1_500_000]), make([]byte, 500_000)...),
		"more than it needs": append(bytes.Clone(content), 1),
	} {
		t.Run(title, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, key, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
			require.NoError(t, os.WriteFile(file+partSuffix, left, 0o600))
			s := open(t, dir, 0)
			require.EqualValues(t, len(left), s.Used())
			require.NoError(t, s.Write(key, name, bytes.NewReader(content)))
			got, err := os.ReadFile(s.Path(key, name))
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, got))
			require.EqualValues(t, len(content), s.Used())
			of, ok := s.KeyOf(s.Path(key, name))
			require.True(t, ok)
			require.Equal(t, key, of)

			freed, err := s.Remove(key)
			require.NoError(t, err)
			require.EqualValues(t, len(content), freed)
			require.Zero(t, s.Used())
		})
	}
}

// A write that fails leaves what it has written, and the errors of the reader can be told from
// those of the disk.
func TestWrite_failures(t *testing.T) {
	s := open(t, t.TempDir(), 100)
	broken := errors.New("broken")
	err := s.Write(key, name, io.MultiReader(strings.NewReader("0123456789"), iotest.ErrReader(broken)))
	_, isInput := errors.AsType[*InputError](err)
	require.True(t, isInput)
	require.ErrorIs(t, err, broken)
	written, whole := s.Written(key, name)
	require.EqualValues(t, 10, written)
	require.False(t, whole)

	err = s.Write(key, name, iotest.OneByteReader(strings.NewReader(strings.Repeat("0123456789", 20))))
	require.ErrorIs(t, err, quota.ErrFull)
	require.EqualValues(t, 100, s.Used())
}

// An archive whose bytes may not be on the disk is written again.
func TestWrite_failedSync(t *testing.T) {
	s := open(t, t.TempDir(), 0)
	failed := errors.New("input/output error")
	s.syncFile = func(*os.File) error { return failed }
	require.ErrorIs(t, s.Write(key, name, strings.NewReader("0123456789")), failed)
	written, whole := s.Written(key, name)
	require.Zero(t, written)
	require.False(t, whole)
	require.Zero(t, s.Used())
}

// The files of an archive that nobody wants any more are removed at the start.
func TestOpen_removesUnwanted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 0)
	require.NoError(t, s.Write("other", name, strings.NewReader("content")))
	require.NoError(t, s.Write(key, name, strings.NewReader("wanted")))
	s = open(t, dir, 0)
	require.EqualValues(t, len("wanted"), s.Used())
	require.NoDirExists(t, filepath.Join(dir, "other"))
}

// A repair writes only what differs, and extends or cuts the file.
func TestRepair_writesWhatDiffers(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 3*repairSize/16)
	for name, c := range map[string]struct {
		damage  func([]byte) []byte
		differs int64
	}{
		"sound":    {func(b []byte) []byte { return b }, 0},
		"one bit":  {func(b []byte) []byte { b[repairSize+5] ^= 1; return b }, repairSize},
		"cut":      {func(b []byte) []byte { return b[:2*repairSize+7] }, repairSize},
		"too long": {func(b []byte) []byte { return append(b, "end"...) }, 3},
		"empty":    {func([]byte) []byte { return nil }, 3 * repairSize},
	} {
		t.Run(name, func(t *testing.T) {
			s, damaged := damagedStore(t, content, c.damage(bytes.Clone(content)))
			d, err := s.Compare(key, "name", bytes.NewReader(content))
			require.NoError(t, err)
			require.Equal(t, c.differs, d.Bytes)
			require.Equal(t, damaged, fileOf(t, s))
			require.NoError(t, s.Repair(key, "name", bytes.NewReader(content), d))
			require.True(t, bytes.Equal(content, fileOf(t, s)))
			require.EqualValues(t, len(content), s.Used())
		})
	}
}

// A repair writes nothing that was not compared, and a comparison fails with its source.
func TestRepair_otherContent(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 3*repairSize/16)
	damaged := bytes.Clone(content)
	damaged[repairSize+5] ^= 1
	s, _ := damagedStore(t, content, damaged)
	d, err := s.Compare(key, "name", bytes.NewReader(content))
	require.NoError(t, err)
	for name, in := range map[string]io.Reader{
		"other bytes": bytes.NewReader(make([]byte, len(content))),
		"early end":   bytes.NewReader(content[:repairSize]),
		"failure":     io.MultiReader(bytes.NewReader(content[:repairSize+9]), iotest.ErrReader(errors.New("broken"))),
	} {
		t.Run(name, func(t *testing.T) {
			_, isInput := errors.AsType[*InputError](s.Repair(key, "name", in, d))
			require.True(t, isInput)
			require.True(t, bytes.Equal(damaged, fileOf(t, s)))
		})
	}
	_, err = s.Compare(key, "name", io.MultiReader(bytes.NewReader(content), iotest.ErrReader(errors.New("broken"))))
	_, isInput := errors.AsType[*InputError](err)
	require.True(t, isInput)
}

// damagedStore returns a store with an archive that is damaged.
func damagedStore(t *testing.T, content, damaged []byte) (*Store, []byte) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, 0)
	require.NoError(t, s.Write(key, "name", bytes.NewReader(content)))
	require.NoError(t, os.WriteFile(s.Path(key, "name"), damaged, 0o600))
	return open(t, dir, 0), append([]byte{}, damaged...)
}

func fileOf(t *testing.T, s *Store) []byte {
	t.Helper()
	data, err := os.ReadFile(s.Path(key, "name"))
	require.NoError(t, err)
	return data
}
