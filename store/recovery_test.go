package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/store"
)

func TestLog_closedDatabaseNeedsOnlyFile(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	for i := range 50 {
		update(t, db, put(fmt.Sprint(i), cluster{Hosts: i}))
	}
	require.NoError(t, db.Close())
	require.Equal(t, []string{store.FileName}, names(t, dir))
	require.Len(t, keys(t, open(t, dir), ""), 50)
}

func TestRecovery_damagedRecordIsNamed(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	for i := range 9 {
		update(t, db, put(fmt.Sprint(i), cluster{Name: strings.Repeat("n", 6000)}))
	}
	dir = killed(t, dir)
	whole, err := os.ReadFile(filepath.Join(dir, store.LogNames[0]))
	require.NoError(t, err)
	noticed := 0
	for block := range 9 * 2 {
		dir := copyOf(t, dir)
		damaged := bytes.Clone(whole)
		damaged[block*4096+100] ^= 4
		require.NoError(t, os.WriteFile(filepath.Join(dir, store.LogNames[0]), damaged, 0o600))
		db, err := store.Open(t.Context(), dir, store.Options{})
		require.NoError(t, err)
		require.Len(t, keys(t, db, ""), 8, "all other records are read")
		damage := db.Damage()
		require.NoError(t, db.Close())
		if block >= 16 { // no later record shows that the last one was complete
			break
		}
		noticed++
		require.Len(t, damage, 1)
		require.Contains(t, damage[0].Reason, fmt.Sprintf("the transactions %d to %[1]d are missing", 1+block/2))
	}
	require.Equal(t, 16, noticed)
}

func TestRecovery_logOfOtherDatabaseIsSetAside(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	update(t, db, put("old", cluster{}))
	require.NoError(t, db.Close())
	backup := copied(t, dir)
	db = open(t, dir)
	update(t, db, put("new", cluster{}))
	require.NoError(t, db.Close())
	db = open(t, dir)
	update(t, db, put("newer", cluster{}))
	dir = killed(t, dir)
	text, err := os.ReadFile(filepath.Join(backup, store.FileName))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, store.FileName), text, 0o600))

	var logged strings.Builder
	db, err = store.Open(t.Context(), dir, store.Options{Clock: clockwork.NewFakeClockAt(now),
		Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	require.NoError(t, err)
	require.Contains(t, logged.String(), "does not belong to this database")
	require.Equal(t, []string{"old"}, keys(t, db, ""))
	update(t, db, put("next", cluster{}))
	require.NoError(t, db.Close())
	require.Equal(t, []string{store.LogNames[0] + "." + now.UTC().Format("20060102T150405Z"), store.FileName},
		names(t, dir))
	require.Equal(t, []string{"next", "old"}, keys(t, open(t, dir), ""))
}

func TestRecovery_remnantOfOtherLogIsIgnored(t *testing.T) {
	other, dir := t.TempDir(), t.TempDir()
	update(t, open(t, other), put("elsewhere", cluster{}))
	block, err := os.ReadFile(filepath.Join(killed(t, other), store.LogNames[0]))
	require.NoError(t, err)
	block = block[:4096]

	db := open(t, dir)
	update(t, db, put("here", cluster{}))
	dir = killed(t, dir)
	path := filepath.Join(dir, store.LogNames[0])
	log, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 4096), log[4096:8192], "after the newest record")
	// A reused log file contains such a block if its own record was truncated.
	copy(log[4096:], block)
	require.NoError(t, os.WriteFile(path, log, 0o600))
	require.Equal(t, []string{"here"}, keys(t, open(t, dir), ""))
}

// killedDuringCheckpoint returns the files of a database after a kill, and the number of written
// rows. The database has two log files, and the bbolt file has no row of either.
func killedDuringCheckpoint(t *testing.T) (dir string, rows int) {
	t.Helper()
	outer := t
	synctest.Test(t, func(t *testing.T) {
		from, g := t.TempDir(), newCommitBlocker()
		db, err := store.Open(t.Context(), from, store.Options{}.OnDisk(noSync, g.update))
		require.NoError(t, err)
		update(t, db, put("000", cluster{}))
		g.set(true)
		for rows = 1; rows < 12; rows++ {
			update(t, db, put(fmt.Sprintf("%03d", rows), cluster{}))
		}
		dir = killed(outer, from)
		g.set(false)
		require.NoError(t, db.Close())
	})
	return dir, rows
}

func TestRecovery_twoFilesAreReadInOrder(t *testing.T) {
	dir, rows := killedDuringCheckpoint(t)
	require.Len(t, keys(t, open(t, dir), ""), rows)
}

func TestRecovery_gapBeforeSecondFileIsNamed(t *testing.T) {
	const inFirst = 8
	for block := range 12 {
		dir, rows := killedDuringCheckpoint(t)
		file, at := 0, block
		if block >= inFirst {
			file, at = 1, block-inFirst
		}
		path := filepath.Join(dir, store.LogNames[file])
		overwrite(t, path, int64(at)*4096+50, []byte("damage"))
		db, err := store.Open(t.Context(), dir, store.Options{})
		if block == rows-1 {
			require.NoError(t, err)
			require.Len(t, keys(t, db, ""), rows-1, "the last record counts as incomplete")
			require.NoError(t, db.Close())
			continue
		}
		require.NoError(t, err)
		require.Len(t, keys(t, db, ""), rows-1, "all other records are read")
		require.Len(t, db.Damage(), 1)
		require.Contains(t, db.Damage()[0].Reason, fmt.Sprintf("the transactions %d to %[1]d are missing", block+1))
		require.NoError(t, db.Close())
	}
}

func TestRecovery_logWithoutStartIsSetAside(t *testing.T) {
	dir, _ := killedDuringCheckpoint(t)
	require.NoError(t, os.Remove(filepath.Join(dir, store.LogNames[0])))
	requireAside(t, dir, 0, 1)
}

func TestRecovery_logOfLaterStateIsSetAside(t *testing.T) {
	dir := t.TempDir()
	db := openWith(t, dir, store.Options{}.OnDisk(noSync, (*bolt.DB).Update))
	backup := ""
	for i := range 60 {
		if i == 20 {
			backup = copied(t, dir)
		}
		update(t, db, put(fmt.Sprintf("%03d", i), cluster{}))
	}
	dir = killed(t, dir)
	require.NoError(t, os.Rename(filepath.Join(backup, store.FileName), filepath.Join(dir, store.FileName)))
	requireAside(t, dir, 8, 2)
}

// requireAside requires that the log in a directory is set aside, and that the rows of the bbolt
// file can be read and changed.
func requireAside(t *testing.T, dir string, rows, files int) {
	t.Helper()
	var logged strings.Builder
	db, err := store.Open(t.Context(), dir, store.Options{Clock: clockwork.NewFakeClockAt(now),
		Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	require.NoError(t, err)
	require.Contains(t, logged.String(), "does not belong to this database")
	require.GreaterOrEqual(t, len(keys(t, db, "")), rows)
	for i, key := range keys(t, db, "") {
		require.Equal(t, fmt.Sprintf("%03d", i), key)
	}
	rows = len(keys(t, db, ""))
	update(t, db, put("next", cluster{}))
	require.NoError(t, db.Close())
	require.Len(t, keys(t, open(t, dir), ""), rows+1)
	require.Len(t, names(t, dir), 1+files)
}

func TestRecovery_logOfDivergedCopyIsSetAside(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	for i := range 3 {
		update(t, db, put(fmt.Sprint("here", i), cluster{}))
	}
	dir = killed(t, dir)
	elsewhere := copied(t, dir)
	db = open(t, elsewhere)
	require.Empty(t, keys(t, db, ""), "the rows were in the log, which was not copied")
	update(t, db, put("there", cluster{}))
	require.NoError(t, db.Close())
	require.NoError(t, os.Rename(filepath.Join(elsewhere, store.FileName), filepath.Join(dir, store.FileName)))
	db = open(t, dir)
	require.Equal(t, []string{"there"}, keys(t, db, ""))
	require.Contains(t, strings.Join(names(t, dir), " "), store.LogNames[0]+".2", "the log is renamed")
}

func TestOpen_firstSchemaIsUpgraded(t *testing.T) {
	dir := t.TempDir()
	path := filled(t, dir)
	schema := func(value uint64) (found uint64) {
		require.NoError(t, boltUpdate(path, func(tx *bolt.Tx) error {
			found = binary.BigEndian.Uint64(tx.Bucket([]byte("meta")).Get([]byte("schema")))
			return tx.Bucket([]byte("meta")).Put([]byte("schema"), binary.BigEndian.AppendUint64(nil, value))
		}))
		return found
	}
	schema(1)
	db := open(t, dir)
	require.Len(t, documentKeys(t, db), 300)
	require.NoError(t, db.Close())
	require.EqualValues(t, 4, schema(4), "a program without support for the log rejects the file")
}

func documentKeys(t *testing.T, db *store.DB) (found []string) {
	t.Helper()
	view(t, db, func(tx *store.Tx) error {
		return documents.Keys(tx, "", func(key string) error {
			found = append(found, key)
			return nil
		})
	})
	return found
}

func TestOpen_writesOfOtherProgramsStay(t *testing.T) {
	dir := t.TempDir()
	path := filled(t, dir)
	for range 3 {
		require.NoError(t, boltUpdate(path, func(tx *bolt.Tx) error {
			return tx.Bucket([]byte("index")).
				Put([]byte("/halves/x"), nil)
		}))
	}
	db := open(t, dir)
	view(t, db, func(tx *store.Tx) error {
		require.True(t, halves.Exists(tx, "x"))
		return nil
	})
	update(t, db, put("a", cluster{}))
	db = open(t, killed(t, dir))
	view(t, db, func(tx *store.Tx) error {
		require.True(t, halves.Exists(tx, "x"))
		return nil
	})
	require.Equal(t, []string{"a"}, keys(t, db, ""))
}

func TestNoSync_readsLogOfSyncedDatabase(t *testing.T) {
	dir := t.TempDir()
	update(t, open(t, dir), put("a", cluster{}))
	dir = killed(t, dir)
	for i, noSync := range []bool{true, false, true} {
		db, err := store.Open(t.Context(), dir, store.Options{NoSync: noSync})
		require.NoError(t, err)
		require.Len(t, keys(t, db, ""), 1+i)
		update(t, db, put(fmt.Sprint("b", i), cluster{}))
		require.NoError(t, db.Close())
	}
	requireSound(t, dir)
	db, err := store.Open(t.Context(), filepath.Join(dir, "new"), store.Options{NoSync: true})
	require.NoError(t, err)
	require.NoError(t, errors.Join(db.Update(t.Context(), put("a", cluster{})), db.Close()))
	require.Equal(t, []string{store.FileName}, names(t, filepath.Join(dir, "new")))
}
