package store_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/store"
)

// damageContent flips a bit in a sealed content and returns its path.
func damageContent(t *testing.T, dir, sum string) string {
	t.Helper()
	path := filepath.Join(dir, "blobs", sum[:2], sum+".sealed")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text[len(text)/2] ^= 1
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// putLarge writes the same large content to files and returns its hash.
func putLarge(t *testing.T, db *store.DB, files ...string) string {
	t.Helper()
	staged, err := db.Stage(t.Context(), strings.NewReader(strings.Repeat(secret, 8000)))
	require.NoError(t, err)
	update(t, db, func(tx *store.Tx) error {
		var errs []error
		for _, key := range files {
			errs = append(errs, sealedFiles.Put(tx, key, staged, now))
		}
		return errors.Join(errs...)
	})
	return staged.SHA256()
}

func TestRepair_removesDamagedContentAndKeepsIt(t *testing.T) {
	dir := t.TempDir()
	db := openWith(t, dir, withKeys(newRing(t)))
	sum := putLarge(t, db, "first", "second")
	path := damageContent(t, dir, sum)
	report, err := db.Check(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Problems, 2, "each file with the content")
	var removed []string
	require.NoError(t, db.Repair(t.Context(), collect(&removed)))
	require.Equal(t, []string{"/sealed/first", "/sealed/second"}, removed)
	require.NoFileExists(t, path)
	require.FileExists(t, filepath.Join(dir, "damaged", sum+".sealed"))
	report, err = db.Check(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Problems)
}

func TestProblem_mayPassUnlessTheContentIsDamaged(t *testing.T) {
	for cause, may := range map[error]bool{syscall.EMFILE: true, syscall.EACCES: true, syscall.EIO: false,
		syscall.ENOENT: false, io.ErrUnexpectedEOF: false} {
		require.Equal(t, may, store.MayPass(&os.PathError{Op: "read", Path: "1", Err: cause}), cause.Error())
	}
	require.False(t, store.Problem{Kind: store.ProblemRow, Where: "/logs/a"}.MayPass())
	require.False(t, store.Problem{Kind: store.ProblemFile, Where: "data.key"}.MayPass())
}

// collect appends the keys of removed rows.
func collect(to *[]string) func(*store.Tx, string) error {
	return func(_ *store.Tx, key string) error {
		*to = append(*to, key)
		return nil
	}
}

func TestRepair_keepsWhatWasWrittenSinceTheCheck(t *testing.T) {
	var removed []string
	damaged := damagedDB(t)
	require.NoError(t, damaged.RemoveDamaged(t.Context(), "/clusters/two", collect(&removed)))
	require.Equal(t, []string{"/clusters/two"}, removed)

	removed = nil
	db := damagedDB(t)
	update(t, db, put("two", cluster{Name: "again"}))
	require.NoError(t, db.RemoveDamaged(t.Context(), "/clusters/two", collect(&removed)))
	require.Empty(t, removed)
	require.Equal(t, []string{"one", "three", "two"}, keys(t, db, ""))

	sum := putLarge(t, db, "file")
	staged, err := db.Stage(t.Context(), strings.NewReader(strings.Repeat("other", 8000)))
	require.NoError(t, err)
	update(t, db, func(tx *store.Tx) error { return sealedFiles.Put(tx, "file", staged, now) })
	require.NoError(t, db.RemoveFile(t.Context(), "/sealed/file", sum, collect(&removed)))
	require.Empty(t, removed)
	file, _, err := sealedFiles.Open(db, "file")
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

func TestRepair_tellsOfARowInItsTransaction(t *testing.T) {
	db := damagedDB(t)
	fail := errors.New("another row can't be written")
	require.ErrorIs(t, db.Repair(t.Context(), func(tx *store.Tx, key string) error {
		return errors.Join(put("instead", cluster{Name: key})(tx), fail)
	}), fail)
	view(t, db, func(tx *store.Tx) error {
		_, err := clusters.Get(tx, "two")
		require.True(t, store.IsDamaged(err), "the row stays")
		require.False(t, clusters.Exists(tx, "instead"))
		return nil
	})
	require.NoError(t, db.Repair(t.Context(), func(tx *store.Tx, key string) error {
		return put("instead of "+key[len("/"):][:1], cluster{Name: key})(tx)
	}))
	require.Equal(t, []string{"instead of c", "instead of o", "one", "three"}, keys(t, db, ""))
}

func TestSnapshot_leavesMissingContentOut(t *testing.T) {
	dir := t.TempDir()
	db := openWith(t, dir, withKeys(newRing(t)))
	require.NoError(t, os.Remove(damageContent(t, dir, putLarge(t, db, "lost"))))
	snapshot, err := db.Snapshot()
	require.NoError(t, err)
	require.NoError(t, snapshot.Contents(t.Context(), func(name string, _ int64, _ io.Reader) error {
		return fmt.Errorf("%s does not exist", name)
	}))
	require.NoError(t, snapshot.Close())
	require.Len(t, db.Damage(), 1)
	require.Equal(t, "/sealed/lost", db.Damage()[0].Key)
}

// TestRecovery_copiesOfIncompleteLogs starts again and again with a log whose last record is
// incomplete, as after power cuts.
func TestRecovery_copiesOfIncompleteLogs(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	for i := range 2 {
		update(t, db, put(fmt.Sprint(i), cluster{Name: strings.Repeat("n", 6000)}))
	}
	dir = killed(t, dir)
	path := filepath.Join(dir, store.LogNames[0])
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	file, err := os.ReadFile(filepath.Join(dir, store.FileName))
	require.NoError(t, err)
	clock := clockwork.NewFakeClockAt(now)
	// start returns the number of copies after a start with a damaged byte.
	start := func(at int) int {
		damaged := append([]byte{}, whole...)
		damaged[8192+at] ^= 1
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, store.FileName), file, 0o600))
		clock.Advance(time.Minute)
		db, err := store.Open(t.Context(), dir, store.Options{Clock: clock})
		require.NoError(t, err)
		require.Equal(t, []string{"0"}, keys(t, db, ""))
		require.NoError(t, db.Close())
		copies, err := filepath.Glob(path + ".incomplete-*")
		require.NoError(t, err)
		return len(copies)
	}
	require.Equal(t, 1, start(100))
	require.Equal(t, 1, start(100), "the same log is kept once")
	for at := range 8 {
		start(200 + at)
	}
	require.Equal(t, 4, start(300))
}
