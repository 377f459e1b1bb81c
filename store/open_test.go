package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/store"
)

// filled creates a database with several hundred rows and returns the path of its file.
func filled(t *testing.T, dir string) string {
	t.Helper()
	db, err := store.Open(t.Context(), dir, store.Options{})
	require.NoError(t, err)
	for i := range 300 {
		if i%100 > 0 {
			continue
		}
		update(t, db, func(tx *store.Tx) error {
			for j := range 100 {
				if err := documents.Put(tx, fmt.Sprintf("%06d", i+j),
					&document{j, strings.Repeat("x", 300)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, db.Close())
	return filepath.Join(dir, "landfall.db")
}

func TestOpen_damagedDatabase(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, path string){
		"truncated": func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 40<<10)) },
		"one page":  func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 4<<10)) },
		"empty":     func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) },
		"garbage":   func(t *testing.T, path string) { overwrite(t, path, 0, garbage(256<<10)) },
		"text file": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte("hello\n"),
				0o600))
		},
		"zeroed":         func(t *testing.T, path string) { overwrite(t, path, 0, make([]byte, 4<<20)) },
		"no meta pages":  func(t *testing.T, path string) { overwrite(t, path, 0, make([]byte, 8<<10)) },
		"no data pages":  func(t *testing.T, path string) { overwrite(t, path, 8<<10, make([]byte, 256<<10)) },
		"garbage inside": func(t *testing.T, path string) { overwrite(t, path, 8<<10, garbage(256<<10)) },
		"file of another program": func(t *testing.T, path string) {
			require.NoError(t, os.Remove(path))
			require.NoError(t, boltUpdate(path, func(*bolt.Tx) error { return nil }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filled(t, dir)
			damage(t, path)
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			_, err = store.Open(t.Context(), dir, store.Options{})
			var corrupt *store.CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.Equal(t, path, corrupt.Path)
			require.ErrorContains(t, err, "restore it from a backup")
			require.NotContains(t, err.Error(), "\n")
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(before, after), "the damaged file is not changed")
		})
	}
}

// TestOpen_damagedPageIsLeftBehind clears each page. The database opens with all rows of the other
// pages and names the damage, or refuses to open because too much is lost.
func TestOpen_damagedPageIsLeftBehind(t *testing.T) {
	dir := t.TempDir()
	path := filled(t, dir)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	met := 0
	for page := 2; page < 64; page++ {
		copied := bytes.Clone(whole)
		clear(copied[page*4096 : (page+1)*4096])
		inUse := !bytes.Equal(copied, whole)
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, store.FileName), copied, 0o600))
		noticed, err := useAll(t.Context(), dir)
		if noticed {
			met++
			require.True(t, inUse)
		}
		if err != nil {
			met++
			var corrupt *store.CorruptError
			require.ErrorAs(t, err, &corrupt, "page %d", page)
		}
	}
	require.Greater(t, met, 20)
}

// useAll opens the database, reads all rows and writes them again. noticed reports whether the
// database names damage.
func useAll(ctx context.Context, dir string) (noticed bool, err error) {
	db, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		return false, err
	}
	noticed = len(db.Damage()) > 0
	read := db.View(func(tx *store.Tx) error {
		return documents.Each(tx, "", func(string, *document) error { return nil })
	})
	written := db.Update(ctx, func(tx *store.Tx) error {
		for i := range 300 {
			if err := documents.Delete(tx, fmt.Sprintf("%06d", i)); err != nil {
				return err
			}
		}
		return nil
	})
	return noticed, errors.Join(read, written, db.Close())
}

func overwrite(t *testing.T, path string, at int64, with []byte) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	info, err := file.Stat()
	require.NoError(t, err)
	_, err = file.WriteAt(with[:min(int64(len(with)), info.Size()-at)], at)
	require.NoError(t, errors.Join(err, file.Close()))
}

func garbage(size int) []byte {
	random := rand.NewChaCha8([32]byte{1})
	b := make([]byte, size)
	for i := 0; i+8 <= size; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], random.Uint64())
	}
	return b
}

func boltUpdate(path string, fn func(*bolt.Tx) error) error {
	b, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	return errors.Join(b.Update(fn), b.Close())
}

func TestOpen_newerSchema(t *testing.T) {
	dir := t.TempDir()
	path := filled(t, dir)
	require.NoError(t, boltUpdate(path, func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("schema"), binary.BigEndian.AppendUint64(nil, 9))
	}))
	_, err := store.Open(t.Context(), dir, store.Options{})
	var newer *store.NewerSchemaError
	require.ErrorAs(t, err, &newer)
	require.Equal(t, 9, newer.Version)
	require.EqualError(t, err, "the database "+path+
		" was written by a newer Landfall (schema 9, this program supports 4): "+
		"use the newer Landfall, or restore a backup made before the upgrade")
}

func TestOpen_dataDirectoryIsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	for _, dir := range []string{path, filepath.Join(path, "below")} {
		_, err := store.Open(t.Context(), dir, store.Options{})
		var bad *store.DirError
		require.ErrorAs(t, err, &bad)
		require.ErrorContains(t, err, "the data directory "+dir+" is not a directory: move that file away")
	}
}

func TestOpen_linkToUnmountedDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Symlink(filepath.Join(t.TempDir(), "away"), dir))
	_, err := store.Open(t.Context(), dir, store.Options{})
	require.EqualError(t, err, "the path of the data directory "+dir+" has a symbolic link to a place that does not "+
		"exist: mount its disk, or choose another data directory")
}

func TestOpen_otherKindOfFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "landfall.db"), 0o700))
	_, err := store.Open(t.Context(), dir, store.Options{})
	var corrupt *store.CorruptError
	require.ErrorAs(t, err, &corrupt)
}

func TestOpen_directoryIsForOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "var", "landfall")
	open(t, dir)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	info, err = os.Stat(filepath.Join(dir, "landfall.db"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestOpen_interruptedCreationIsReplaced(t *testing.T) {
	dir := t.TempDir()
	temporary := filepath.Join(dir, "landfall.db.new")
	require.NoError(t, os.WriteFile(temporary, garbage(5000), 0o600))
	db := open(t, dir)
	update(t, db, put("a", cluster{}))
	require.NoFileExists(t, temporary)

	require.NoError(t, db.Close())
	require.NoError(t, os.WriteFile(temporary, garbage(5000), 0o600))
	require.Equal(t, []string{"a"}, keys(t, open(t, dir), ""))
	require.NoFileExists(t, temporary)
}

// TestOpen_interruptedRepair starts as after a kill between the renames of a repair of an earlier
// program. No empty database is made, and nothing is removed.
func TestOpen_interruptedRepair(t *testing.T) {
	dir := t.TempDir()
	clock := clockwork.NewFakeClockAt(now)
	db := openWith(t, dir, store.Options{Clock: clock})
	keep(t, db, "a", garbage(70<<10))
	require.NoError(t, db.Close())
	path := filepath.Join(dir, store.FileName)
	require.NoError(t, os.Link(path, path+".new"))
	require.NoError(t, os.Rename(path, path+".damaged-20260101T000000Z"))
	_, err := store.Open(t.Context(), dir, store.Options{Clock: clock})
	require.ErrorAs(t, err, new(*store.CorruptError))
	require.ErrorContains(t, err, "landfall.db.damaged-20260101T000000Z")
	require.ErrorContains(t, err, "rename it")
	require.NoFileExists(t, path)

	require.NoError(t, os.Rename(path+".new", path))
	clock.Advance(2 * time.Hour)
	db = openWith(t, dir, store.Options{Clock: clock})
	require.NoError(t, db.CollectBlobs(t.Context()))
	require.Len(t, read(t, db, "a"), 70<<10)
}

func TestOpen_twiceInOneProcess(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	_, err := store.Open(t.Context(), dir, store.Options{})
	var held *store.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, os.Getpid(), held.PID)
}

// A process that was forked, and does not run its program yet, has copies of all descriptors.
func TestOpen_againWhileChildStarts(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	var copies []int
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || !strings.HasPrefix(target, dir) {
			continue
		}
		descriptor, err := strconv.Atoi(filepath.Base(link))
		require.NoError(t, err)
		copied, err := syscall.Dup(descriptor)
		require.NoError(t, err)
		copies = append(copies, copied)
	}
	require.NotEmpty(t, copies)
	require.NoError(t, db.Close())
	open(t, dir)
	for _, copied := range copies {
		require.NoError(t, syscall.Close(copied))
	}
}

func TestOpen_fileLockedByOtherProgram(t *testing.T) {
	dir := t.TempDir()
	path := filled(t, dir)
	other, err := bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	_, err = store.Open(t.Context(), dir, store.Options{})
	require.NoError(t, other.Close())
	var held *store.HeldError
	require.ErrorAs(t, err, &held)
	require.ErrorContains(t, err, "is held by another process")
	open(t, dir)
}
