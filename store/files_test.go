package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/store"
)

var logs = store.NewFiles("logs")

func stage(t *testing.T, db *store.DB, content []byte) *store.Staged {
	t.Helper()
	staged, err := db.Stage(t.Context(), bytes.NewReader(content))
	require.NoError(t, err)
	sum := sha256.Sum256(content)
	require.Equal(t, hex.EncodeToString(sum[:]), staged.SHA256())
	require.EqualValues(t, len(content), staged.Size())
	return staged
}

func keep(t *testing.T, db *store.DB, key string, content []byte) {
	t.Helper()
	staged := stage(t, db, content)
	update(t, db, func(tx *store.Tx) error { return logs.Put(tx, key, staged, now) })
}

func read(t *testing.T, db *store.DB, key string) []byte {
	t.Helper()
	file, info, err := logs.Open(db, key)
	require.NoError(t, err)
	content, err := io.ReadAll(file)
	require.NoError(t, errors.Join(err, file.Close()))
	require.EqualValues(t, len(content), info.Size)
	require.Equal(t, now, info.Modified)
	return content
}

// blobFiles returns the names of all files below blobs/.
func blobFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "blobs"), func(path string, entry fs.DirEntry,
		err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, entry.Name())
		}
		return err
	}))
	return names
}

func TestFiles_sizes(t *testing.T) {
	for name, size := range map[string]int{"empty": 0, "small": 10, "at the limit": 64 << 10,
		"above the limit": 64<<10 + 1,
		"big":             3 << 20} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db := open(t, dir)
			content := garbage((size + 7) &^ 7)[:size]
			keep(t, db, "a", content)
			require.True(t, bytes.Equal(content, read(t, db, "a")))
			require.EqualValues(t, 1, db.Revision())
			keep(t, db, "a", content)
			require.EqualValues(t, 1, db.Revision(), "writing the same content again is not a change")
			if size <= 64<<10 {
				require.NoDirExists(t, filepath.Join(dir, "blobs"))
				return
			}
			sum := stage(t, db, content).SHA256()
			require.FileExists(t, filepath.Join(dir, "blobs", sum[:2], sum))
			require.Equal(t, []string{sum}, blobFiles(t, dir))
			file, _, err := logs.Open(db, "a")
			require.NoError(t, err)
			_, err = file.Seek(-4, io.SeekEnd)
			require.NoError(t, err)
			tail, err := io.ReadAll(file)
			require.NoError(t, errors.Join(err, file.Close()))
			require.Equal(t, content[size-4:], tail)
		})
	}
}

func TestFiles_missingFileIsNotFound(t *testing.T) {
	db := open(t, t.TempDir())
	_, _, err := logs.Open(db, "a")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.ErrorIs(t, db.View(func(tx *store.Tx) error {
		_, err := logs.Stat(tx, "a")
		return err
	}), store.ErrNotFound)
	update(t, db, func(tx *store.Tx) error { return logs.Delete(tx, "a") })
	require.Zero(t, db.Revision())
}

func TestCollectBlobs_unreferencedAfterGrace(t *testing.T) {
	dir := t.TempDir()
	clock := clockwork.NewFakeClockAt(now)
	db := openWith(t, dir, store.Options{Clock: clock, BlobGrace: time.Minute})
	collect := func() { require.NoError(t, db.CollectBlobs(t.Context())) }
	big, other := garbage(70<<10), garbage(80<<10)
	keep(t, db, "a", big)
	keep(t, db, "b", big)
	staged := stage(t, db, other)
	collect()
	require.Len(t, blobFiles(t, dir), 2, "staged content is kept for BlobGrace")
	clock.Advance(time.Minute + 1)
	collect()
	require.Equal(t, []string{stage(t, db, big).SHA256()}, blobFiles(t, dir))
	require.ErrorIs(t, db.Update(t.Context(), func(tx *store.Tx) error { return logs.Put(tx, "c", staged, now) }),
		store.ErrStagedGone)
	require.ErrorIs(t, db.View(func(tx *store.Tx) error { _, err := logs.Stat(tx, "c"); return err }),
		store.ErrNotFound)

	clock.Advance(time.Hour)
	update(t, db, func(tx *store.Tx) error { return logs.Delete(tx, "a") })
	collect()
	require.Len(t, blobFiles(t, dir), 1, "b still refers to the blob")
	file, _, err := logs.Open(db, "b")
	require.NoError(t, err)
	keep(t, db, "b", []byte("small"))
	collect()
	require.Empty(t, blobFiles(t, dir))
	content, err := io.ReadAll(file)
	require.NoError(t, errors.Join(err, file.Close()))
	require.True(t, bytes.Equal(big, content), "an open file stays readable")
	require.Equal(t, []byte("small"), read(t, db, "b"))
}

// TestCollectBlobs_damagedIndex starts with an index of the contents of which rows are lost and
// others are wrong, as after a damaged page. No content of a file is removed.
func TestCollectBlobs_damagedIndex(t *testing.T) {
	dir := t.TempDir()
	clock := clockwork.NewFakeClockAt(now)
	db := openWith(t, dir, store.Options{Clock: clock})
	big := garbage(70 << 10)
	keep(t, db, "a", big)
	keep(t, db, "b", garbage(80<<10))
	require.NoError(t, db.Close())
	require.NoError(t, boltUpdate(filepath.Join(dir, store.FileName), func(tx *bolt.Tx) error {
		index := tx.Bucket([]byte("index"))
		key, _ := index.Cursor().First()
		wrong := bytes.Clone(key)
		wrong[10] ^= 1
		return errors.Join(index.Delete(key), index.Put(wrong, []byte{}))
	}))
	clock.Advance(2 * time.Hour)
	db = openWith(t, dir, store.Options{Clock: clock})
	require.NoError(t, db.CollectBlobs(t.Context()))
	require.Len(t, blobFiles(t, dir), 2, "nothing is removed before the index is derived again")
	require.NoError(t, db.Relink(t.Context(), logs))
	require.NoError(t, db.CollectBlobs(t.Context()))
	require.Len(t, blobFiles(t, dir), 2)
	require.True(t, bytes.Equal(big, read(t, db, "a")))
	report, err := db.Check(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	update(t, db, func(tx *store.Tx) error { return logs.Delete(tx, "a") })
	require.NoError(t, db.CollectBlobs(t.Context()))
	require.Len(t, blobFiles(t, dir), 1, "what no file refers to is removed again")
}

func TestStage_sameContentRenewsGrace(t *testing.T) {
	dir := t.TempDir()
	clock := clockwork.NewFakeClockAt(now)
	db := openWith(t, dir, store.Options{Clock: clock, BlobGrace: time.Minute})
	big := garbage(70 << 10)
	stage(t, db, big)
	clock.Advance(time.Hour)
	staged := stage(t, db, big)
	require.NoError(t, db.CollectBlobs(t.Context()))
	update(t, db, func(tx *store.Tx) error { return logs.Put(tx, "a", staged, now) })
	require.True(t, bytes.Equal(big, read(t, db, "a")))
}

func TestCollectBlobs_failedTransactionHasNoReference(t *testing.T) {
	dir := t.TempDir()
	clock := clockwork.NewFakeClockAt(now)
	db := openWith(t, dir, store.Options{Clock: clock})
	staged := stage(t, db, garbage(70<<10))
	failure := errors.New("no")
	require.ErrorIs(t, db.Update(t.Context(), func(tx *store.Tx) error {
		return errors.Join(logs.Put(tx, "a", staged, now), failure)
	}), failure)
	clock.Advance(2 * time.Hour)
	require.NoError(t, db.CollectBlobs(t.Context()))
	require.Empty(t, blobFiles(t, dir))
}

func TestStage_readErrorLeavesNothing(t *testing.T) {
	failure := errors.New("the connection broke")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		reader io.Reader
		want   error
	}{
		"read fails": {t.Context(), iotest.ErrReader(failure), failure},
		"read fails after 1 MiB": {t.Context(), io.MultiReader(bytes.NewReader(garbage(1<<20)),
			iotest.ErrReader(failure)),
			failure},
		"cancelled":      {cancelled, bytes.NewReader(garbage(1 << 20)), context.Canceled},
		"read times out": {t.Context(), iotest.TimeoutReader(bytes.NewReader(garbage(1 << 20))), iotest.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db := open(t, dir)
			_, err := db.Stage(c.ctx, c.reader)
			require.ErrorIs(t, err, c.want)
			if _, err := os.Stat(filepath.Join(dir, "blobs")); err == nil {
				require.Empty(t, blobFiles(t, dir))
			}
		})
	}
}

func TestCollectBlobs_interruptedStage(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	stage(t, db, garbage(70<<10))
	leftover := filepath.Join(dir, "blobs", "stage", "123")
	require.NoError(t, os.WriteFile(leftover, garbage(80), 0o600))

	// A staged file that is still being written stays.
	reader, writer := io.Pipe()
	staging := make(chan error)
	go func() {
		_, err := db.Stage(context.Background(), reader)
		staging <- err
	}()
	_, err := writer.Write(garbage(70 << 10))
	require.NoError(t, err)
	_, err = writer.Write(garbage(8)) // returns after the first part was copied to the file
	require.NoError(t, err)
	require.NoError(t, db.CollectBlobs(t.Context()))
	require.NoFileExists(t, leftover)
	require.NoError(t, writer.Close())
	require.NoError(t, <-staging)
	require.Len(t, blobFiles(t, dir), 2)
}

func TestFiles_missingOrTruncatedBlobIsReported(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"gone":    os.Remove,
		"cut off": func(path string) error { return os.Truncate(path, 5) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db := open(t, dir)
			big := garbage(70 << 10)
			keep(t, db, "a", big)
			sum := stage(t, db, big).SHA256()
			require.NoError(t, damage(filepath.Join(dir, "blobs", sum[:2], sum)))
			_, _, err := logs.Open(db, "a")
			require.True(t, store.IsDamaged(err), err)
			require.ErrorContains(t, err, "/logs/a")
			stage(t, db, big) // the same content again replaces the damaged blob
			require.True(t, bytes.Equal(big, read(t, db, "a")))
		})
	}
}

func TestStage_truncatedContentIsRefused(t *testing.T) {
	db := open(t, t.TempDir())
	_, err := db.Stage(t.Context(), io.MultiReader(strings.NewReader("half of"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
