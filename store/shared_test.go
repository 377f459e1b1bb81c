package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"landfall/randtest"
	"landfall/store"
	"landfall/store/blob"
	"landfall/store/seal"
	"landfall/store/storetest"
	"landfall/store/wal"
	"landfall/store/wal/waltest"
)

// storedRows returns the rows of a database that wants selects; nil: all rows.
func storedRows(t testing.TB, db *store.DB, wants func(store.StoredRow) bool) (rows []store.StoredRow) {
	t.Helper()
	snapshot, err := db.Snapshot()
	require.NoError(t, err)
	require.NoError(t, snapshot.Rows(t.Context(), func(row store.StoredRow) error {
		if wants == nil || wants(row) {
			rows = append(rows, store.StoredRow{Bucket: row.Bucket, Key: []byte(string(row.Key)),
				Value: []byte(string(row.Value))})
		}
		return nil
	}))
	require.NoError(t, snapshot.Close())
	return rows
}

// requireEqualRows requires that two databases have the same rows. The number of commits is
// different, because a follower joins records.
func requireEqualRows(t *testing.T, want, got *store.DB) {
	t.Helper()
	shared := func(row store.StoredRow) bool { return string(row.Key) != "committed" }
	require.Equal(t, storedRows(t, want, shared), storedRows(t, got, shared))
	require.Equal(t, want.Revision(), got.Revision())
	require.Equal(t, want.Sequence(), got.Sequence())
}

// openLeader opens a database whose records go to a shared log, and writes the first record.
func openLeader(t *testing.T, dir string, log *waltest.Log) *store.DB {
	t.Helper()
	leader := openWith(t, dir, store.Options{Shared: log, Versioned: "versioned"})
	update(t, leader, put("first", cluster{}))
	return leader
}

// openFollower opens a new follower with the rows of a database.
func openFollower(t *testing.T, from *store.DB) *store.DB {
	t.Helper()
	dir := t.TempDir()
	storetest.CopyRows(t, from, dir)
	return openWith(t, dir, store.Options{Follow: true, Versioned: "versioned"})
}

func TestFollower_hasTheRowsOfTheLeader(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random, log := rand.New(rand.NewPCG(seed, 8)), new(waltest.Log)
			leader := openLeader(t, t.TempDir(), log)
			follower := openFollower(t, leader)
			watcher, m := follower.Watch(t.Context(), follower.Revision()), newModel()
			m.revision = leader.Revision()
			failure := errors.New("no")
			for range 150 {
				next, fails := m.clone(), random.IntN(4) == 0
				err := leader.Update(t.Context(), func(tx *store.Tx) error {
					for range random.IntN(12) {
						if err := step(random, tx, next); err != nil {
							return err
						}
					}
					if fails {
						return failure
					}
					return nil
				})
				if fails {
					require.ErrorIs(t, err, failure)
				} else {
					require.NoError(t, err)
					m = next
				}
				if random.IntN(4) == 0 {
					require.NoError(t, follower.Apply(t.Context(), log.After(follower.Sequence())))
					view(t, follower, func(tx *store.Tx) error { compare(t, tx, m); return nil })
				}
			}
			require.NoError(t, follower.Apply(t.Context(), log.After(follower.Sequence())))
			requireEqualRows(t, leader, follower)
			require.Equal(t, m.changes, follow(watcher, m.revision))
		})
	}
}

func TestFollower_watchersGetValues(t *testing.T) {
	log, versions := new(waltest.Log), store.NewVersions("versioned", 1)
	leader := openLeader(t, t.TempDir(), log)
	follower := openFollower(t, leader)
	watch := func(db *store.DB) *store.ValueWatcher {
		return versions.Watch(t.Context(), db, db.Revision(), store.Range{})
	}
	want, got := watch(leader), watch(follower)
	for _, value := range []string{`"a"`, `"b"`, `"c"`} {
		update(t, leader, func(tx *store.Tx) error { return versions.Put(tx, "key", []byte(value)) })
		require.NoError(t, follower.Apply(t.Context(), log.After(follower.Sequence())))
		require.Equal(t, <-want.C(), <-got.C())
	}
}

func TestFollower_cachedValuesAreNew(t *testing.T) {
	log, cached := new(waltest.Log), clusters.Cached()
	leader := openLeader(t, t.TempDir(), log)
	follower := openFollower(t, leader)
	for hosts := range 5 {
		update(t, leader, put("a", cluster{Hosts: hosts}))
		require.NoError(t, follower.Apply(t.Context(), log.After(follower.Sequence())))
		view(t, follower, func(tx *store.Tx) error {
			got, err := cached.Get(tx, "a")
			require.NoError(t, err)
			require.Equal(t, hosts, got.Hosts)
			return nil
		})
	}
}

func TestFollower_beginsBeforeTheFirstRecord(t *testing.T) {
	log, dir := new(waltest.Log), t.TempDir()
	alone := openWith(t, dir, store.Options{})
	update(t, alone, put("before", cluster{}))
	require.NoError(t, alone.Close())
	leader := openWith(t, dir, store.Options{Shared: log})
	require.Zero(t, leader.Position())
	log.Next = func() waltest.Fault { return waltest.Refused }
	require.Error(t, leader.Update(t.Context(), put("refused", cluster{})))
	log.Next = nil
	require.Zero(t, leader.Position().Number)
	follower := openFollower(t, leader)
	require.Equal(t, leader.Position(), follower.Position())
	update(t, leader, put("first", cluster{}))
	require.NoError(t, follower.Apply(t.Context(), log.After(0)))
	requireEqualRows(t, leader, follower)
	require.Equal(t, log.After(0)[0].Position(), follower.Position())
}

func TestFollower_refusesOtherChanges(t *testing.T) {
	log := new(waltest.Log)
	leader := openLeader(t, t.TempDir(), log)
	follower := openFollower(t, leader)
	require.ErrorIs(t, follower.Update(t.Context(), put("a", cluster{})), store.ErrFollower)
	require.ErrorIs(t, leader.Apply(t.Context(), nil), store.ErrNotFollower)
	empty := openWith(t, t.TempDir(), store.Options{Follow: true})
	require.ErrorIs(t, empty.Apply(t.Context(), log.After(0)), store.ErrNoSequence)
}

func TestFollower_refusesWrongRecords(t *testing.T) {
	log := new(waltest.Log)
	leader := openLeader(t, t.TempDir(), log)
	follower := openFollower(t, leader)
	for i := range 3 {
		update(t, leader, put(fmt.Sprint(i), cluster{}))
	}
	records := log.After(follower.Sequence())
	other := new(waltest.Log)
	otherLeader := openLeader(t, t.TempDir(), other)
	update(t, otherLeader, put("another fleet", cluster{}))
	operation := func(bucket byte, key string) []byte {
		return append([]byte{bucket, 0, byte(len(key))}, key...)
	}
	for name, c := range map[string]struct {
		records []wal.Record
		err     error
	}{
		"a gap":            {records[1:], store.ErrNotNext},
		"a gap in between": {[]wal.Record{records[0], records[2]}, store.ErrNotNext},
		"an old record":    {log.After(0), store.ErrNotNext},
		"twice":            {[]wal.Record{records[0], records[0]}, store.ErrNotNext},
		"another number":   {[]wal.Record{{Number: 2, Operations: records[1].Operations}}, nil},
		"truncated": {[]wal.Record{records[0], {Number: 3, Operations: records[1].Operations[:20]}},
			nil},
		"another fleet":        {other.After(1), store.ErrDiverged},
		"empty":                {[]wal.Record{{Number: 2}}, nil},
		"garbage":              {[]wal.Record{{Number: 2, Operations: []byte("garbage")}}, nil},
		"the digest of a file": {[]wal.Record{{Number: 2, Operations: operation(byte(wal.Meta), "digest")}}, nil},
		"an empty key":         {[]wal.Record{{Number: 2, Operations: operation(byte(wal.Data), "")}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := storedRows(t, follower, nil)
			var wrong *store.RecordError
			err := follower.Apply(t.Context(), c.records)
			require.ErrorAs(t, err, &wrong)
			require.NotContains(t, err.Error(), "\n")
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
			}
			require.Equal(t, before, storedRows(t, follower, nil))
		})
	}
	require.NoError(t, follower.Apply(t.Context(), records))
	requireEqualRows(t, leader, follower)
}

func TestLeader_refusedRecordIsRolledBack(t *testing.T) {
	log := new(waltest.Log)
	leader := openLeader(t, t.TempDir(), log)
	log.Next = func() waltest.Fault { return waltest.Refused }
	var failure *store.WriteError
	require.ErrorAs(t, leader.Update(t.Context(), put("a", cluster{})), &failure)
	require.False(t, failure.Unknown)
	require.Equal(t, []string{"first"}, keys(t, leader, ""))
	log.Next = nil
	update(t, leader, put("b", cluster{}))
	require.Equal(t, []string{"b", "first"}, keys(t, leader, ""))
	require.EqualValues(t, 2, leader.Sequence())
	require.Len(t, log.After(0), 2)
}

func TestLeader_unknownOutcomeBreaksTheDatabase(t *testing.T) {
	for _, fault := range []waltest.Fault{waltest.NoRecord, waltest.NoAnswer} {
		t.Run(fmt.Sprint("fault ", fault), func(t *testing.T) {
			log, dir := new(waltest.Log), t.TempDir()
			leader := openLeader(t, dir, log)
			log.Next = func() waltest.Fault { return fault }
			var failure *store.WriteError
			require.ErrorAs(t, leader.Update(t.Context(), put("a", cluster{})), &failure)
			require.True(t, failure.Unknown)
			require.ErrorIs(t, failure, waltest.ErrTimeout)
			<-leader.Broken()
			log.Next = nil
			require.ErrorIs(t, leader.Update(t.Context(), put("b", cluster{})), store.ErrBroken)
			require.Equal(t, []string{"first"}, keys(t, leader, ""))
			require.NoError(t, leader.Close())

			follower := openWith(t, dir, store.Options{Follow: true})
			require.NoError(t, follower.Apply(t.Context(), log.After(follower.Sequence())))
			require.NoError(t, follower.Close())
			again := openWith(t, dir, store.Options{Shared: log})
			update(t, again, put("c", cluster{}))
			want := []string{"c", "first"}
			if fault == waltest.NoAnswer {
				want = []string{"a", "c", "first"}
			}
			require.Equal(t, want, keys(t, again, ""))
		})
	}
}

func TestSharedLog_isLeftByAChangeWithoutIt(t *testing.T) {
	log, dir := new(waltest.Log), t.TempDir()
	require.NoError(t, openLeader(t, dir, log).Close())
	alone := openWith(t, dir, store.Options{})
	require.EqualValues(t, 1, alone.Sequence(), "only a change leaves the shared log")
	update(t, alone, put("alone", cluster{}))
	require.Zero(t, alone.Sequence())
	require.NoError(t, alone.Close())
	follower := openWith(t, dir, store.Options{Follow: true})
	require.ErrorIs(t, follower.Apply(t.Context(), log.After(1)), store.ErrNoSequence)
	require.NoError(t, follower.Close())
	var failure *store.WriteError
	leader := openWith(t, dir, store.Options{Shared: log})
	require.ErrorAs(t, leader.Update(t.Context(), put("a", cluster{})), &failure)
	require.False(t, failure.Unknown)
}

func TestFollower_failingCheckpointsLoseNothing(t *testing.T) {
	random, faults := randtest.New(t, 12), randtest.New(t, 13)
	log, file := new(waltest.Log), &faultyFile{}
	leader := openLeader(t, t.TempDir(), log)
	dir := t.TempDir()
	storetest.CopyRows(t, leader, dir)
	follower := openWith(t, dir, store.Options{Follow: true}.OnDisk(noSync, file.update))
	failed := 0
	for i := range 200 {
		update(t, leader, put(fmt.Sprint(random.IntN(20)), cluster{Hosts: i, Name: strings.Repeat("n", 6000)}))
		if i > 0 {
			file.set(func() fault { return fault(faults.IntN(3)) })
		}
		if err := follower.Apply(t.Context(), log.After(follower.Sequence())); err != nil {
			requireRefusal(t, err)
			failed++
		}
	}
	file.set(nil)
	require.Positive(t, failed)
	require.NoError(t, follower.Apply(t.Context(), log.After(follower.Sequence())))
	requireEqualRows(t, leader, follower)
	require.NoError(t, follower.ReleaseMemory())
	require.Equal(t, follower.Sequence(), follower.SyncedSequence())
}

func TestFollower_isRandomlyBatched(t *testing.T) {
	random, log := randtest.New(t, 9), new(waltest.Log)
	leader := openLeader(t, t.TempDir(), log)
	follower := openFollower(t, leader)
	for i := range 100 {
		update(t, leader, put(fmt.Sprint(random.IntN(20)), cluster{Hosts: i}))
	}
	for records := log.After(1); len(records) > 0; {
		count := 1 + random.IntN(len(records))
		require.NoError(t, follower.Apply(t.Context(), records[:count]))
		records = records[count:]
	}
	requireEqualRows(t, leader, follower)
}

func TestFollower_copiesContents(t *testing.T) {
	sealing, err := seal.NewRing(seal.NewKey(1))
	require.NoError(t, err)
	for name, keys := range map[string]func(bool) (*seal.Ring, error){
		"sealed":   func(bool) (*seal.Ring, error) { return sealing, nil },
		"in clear": nil,
	} {
		t.Run(name, func(t *testing.T) {
			log, files := new(waltest.Log), store.NewFiles("files")
			leader := openWith(t, t.TempDir(), store.Options{Shared: log, Keys: keys})
			text := strings.Repeat("content", 20_000)
			staged, err := leader.Stage(t.Context(), strings.NewReader(text))
			require.NoError(t, err)
			update(t, leader, put("first", cluster{}))
			dir := t.TempDir()
			storetest.CopyRows(t, leader, dir)
			clock := clockwork.NewFakeClock()
			follower := openWith(t, dir, store.Options{Follow: true, Keys: keys, Clock: clock})
			update(t, leader, func(tx *store.Tx) error { return files.Put(tx, "a", staged, now) })
			require.NoError(t, follower.Apply(t.Context(), log.After(1)))
			<-follower.NewReferences()

			var missing *store.MissingContentError
			_, _, err = files.Open(follower, "a")
			require.ErrorAs(t, err, &missing)
			require.Equal(t, staged.SHA256(), missing.SHA256)
			require.Empty(t, follower.Damage(), "a content that is not here yet is no damage")
			report, err := follower.Check(t.Context())
			require.NoError(t, err)
			require.Empty(t, report.Problems)
			require.Equal(t, 1, report.Elsewhere)
			snapshot, err := follower.Snapshot()
			require.NoError(t, err)
			require.ErrorAs(t, snapshot.Contents(t.Context(), func(string, int64, io.Reader) error { return nil }),
				&missing, "a backup has all contents")
			require.NoError(t, snapshot.Close())

			sums, err := follower.MissingContents(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{staged.SHA256()}, sums)
			content, size, err := leader.OpenContent(sums[0])
			require.NoError(t, err)
			require.EqualValues(t, len(text), size)
			require.ErrorIs(t, follower.StoreContent(t.Context(), sums[0], strings.NewReader("another")), blob.ErrOther)
			require.NoError(t, follower.StoreContent(t.Context(), sums[0], content))
			require.NoError(t, content.Close())
			sums, err = follower.MissingContents(t.Context())
			require.NoError(t, err)
			require.Empty(t, sums)
			opened, _, err := files.Open(follower, "a")
			require.NoError(t, err)
			got, err := io.ReadAll(opened)
			require.NoError(t, err)
			require.Equal(t, text, string(got))
			require.NoError(t, opened.Close())

			clock.Advance(2 * time.Hour)
			require.NoError(t, follower.CollectBlobs(t.Context()))
			kept, _, err := follower.OpenContent(staged.SHA256())
			require.NoError(t, err, "a row refers to the content")
			require.NoError(t, kept.Close())
			update(t, leader, func(tx *store.Tx) error { return files.Delete(tx, "a") })
			require.NoError(t, follower.Apply(t.Context(), log.After(2)))
			require.NoError(t, follower.CollectBlobs(t.Context()))
			_, _, err = follower.OpenContent(staged.SHA256())
			require.ErrorIs(t, err, fs.ErrNotExist)
			_, _, err = follower.OpenContent("../landfall.db")
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

func TestFollower_removesContentsThatOthersHave(t *testing.T) {
	log, files := new(waltest.Log), store.NewFiles("files")
	leader := openLeader(t, t.TempDir(), log)
	dir, clock := t.TempDir(), clockwork.NewFakeClock()
	storetest.CopyRows(t, leader, dir)
	follower := openWith(t, dir, store.Options{Follow: true, Clock: clock})
	text := strings.Repeat("content", 20_000)
	staged, err := leader.Stage(t.Context(), strings.NewReader(text))
	require.NoError(t, err)
	sum := staged.SHA256()
	update(t, leader, func(tx *store.Tx) error { return files.Put(tx, "a", staged, now) })
	require.NoError(t, follower.Apply(t.Context(), log.After(1)))
	held := func() []string {
		sums, err := follower.HeldContents(t.Context())
		require.NoError(t, err)
		return sums
	}
	remove := func(sum string) int {
		size, err := follower.RemovableContent(sum)
		require.NoError(t, err)
		gone, err := follower.RemoveContent(t.Context(), sum)
		require.NoError(t, err)
		require.Equal(t, gone, size > 0, "the size is known before")
		return int(size)
	}
	require.Empty(t, held())
	require.Zero(t, remove(sum))
	require.Zero(t, remove("../landfall.db"))
	require.NoError(t, follower.StoreContent(t.Context(), sum, strings.NewReader(text)))
	require.Equal(t, []string{sum}, held())
	require.Zero(t, remove(sum), "it has just come")

	clock.Advance(2 * time.Hour)
	snapshot, err := follower.Snapshot()
	require.NoError(t, err)
	require.Zero(t, remove(sum), "a snapshot has the content")
	require.NoError(t, snapshot.Close())
	reading, _, err := files.Open(follower, "a")
	require.NoError(t, err)
	require.Equal(t, len(text), remove(sum))
	require.Empty(t, held())
	got, err := io.ReadAll(reading)
	require.NoError(t, errors.Join(err, reading.Close()))
	require.Equal(t, text, string(got), "a reader goes on")
	missing, err := follower.MissingContents(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{sum}, missing)
}

func TestFollower_damagedContentIsCopiedAgain(t *testing.T) {
	log, files := new(waltest.Log), store.NewFiles("files")
	leader := openLeader(t, t.TempDir(), log)
	dir := t.TempDir()
	storetest.CopyRows(t, leader, dir)
	follower := openWith(t, dir, store.Options{Follow: true})
	staged, err := leader.Stage(t.Context(), strings.NewReader(strings.Repeat("content", 20_000)))
	require.NoError(t, err)
	update(t, leader, func(tx *store.Tx) error { return files.Put(tx, "a", staged, now) })
	require.NoError(t, follower.Apply(t.Context(), log.After(1)))
	content, _, err := leader.OpenContent(staged.SHA256())
	require.NoError(t, err)
	require.NoError(t, follower.StoreContent(t.Context(), staged.SHA256(), content))
	require.NoError(t, content.Close())

	path := filepath.Join(dir, "blobs", staged.SHA256()[:2], staged.SHA256())
	require.NoError(t, os.WriteFile(path, []byte("damaged"), 0o600))
	var removed []string
	require.NoError(t, follower.Repair(t.Context(), collect(&removed)))
	require.Empty(t, removed, "the other machines have the content")
	sums, err := follower.MissingContents(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{staged.SHA256()}, sums)
}

func TestFollower_replicaHasItsRows(t *testing.T) {
	log := new(waltest.Log)
	leader := openLeader(t, t.TempDir(), log)
	follower := openFollower(t, leader)
	for name, db := range map[string]*store.DB{"leader": leader, "follower": follower} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			commits := db.Follow(1 << 20)
			defer commits.Close()
			storetest.CopyRows(t, db, dir)
			for i := range 20 {
				update(t, leader, put(fmt.Sprint(i%7), cluster{Hosts: i, Name: name}))
				if i%3 == 0 {
					require.NoError(t, follower.Apply(t.Context(), log.After(follower.Sequence())))
				}
			}
			require.NoError(t, follower.Apply(t.Context(), log.After(follower.Sequence())))
			taken, err := commits.Take()
			require.NoError(t, err)
			require.NoError(t, store.Apply(dir, func() ([]byte, error) {
				if len(taken) == 0 {
					return nil, io.EOF
				}
				operations := taken[0].Operations
				taken = taken[1:]
				return operations, nil
			}))
			requireEqualRows(t, leader, openWith(t, dir, store.Options{Follow: true}))
		})
	}
}

func TestFollower_readsTheHistory(t *testing.T) {
	sealing, err := seal.NewRing(seal.NewKey(1))
	require.NoError(t, err)
	log, dir, options := new(waltest.Log), t.TempDir(), withKeys(sealing)
	options.Shared, options.Floor = log, 1000
	leader := openWith(t, t.TempDir(), options)
	update(t, leader, put("a", cluster{}))
	storetest.CopyRows(t, leader, dir)
	options.Shared, options.Follow = nil, true
	follower := openWith(t, dir, options)
	for hosts := range 9 {
		update(t, leader, func(tx *store.Tx) error {
			tx.Note(func() []byte { return []byte(fmt.Sprint("note ", hosts)) })
			return errors.Join(put("a", cluster{Hosts: hosts})(tx), put("b", cluster{Hosts: -hosts})(tx))
		})
	}
	update(t, leader, remove("b"))
	require.NoError(t, follower.Apply(t.Context(), log.After(1)))
	steps := func(db *store.DB) (all []store.Step) {
		view(t, db, func(tx *store.Tx) error {
			return tx.History(func(string) bool { return true }, func(s *store.Step) error {
				all = append(all, *s)
				return nil
			})
		})
		return all
	}
	require.Len(t, steps(leader), 11)
	require.Equal(t, steps(leader), steps(follower))
	require.NoError(t, leader.Compact(t.Context(), leader.Revision()))
	require.NoError(t, follower.Apply(t.Context(), log.After(follower.Sequence())))
	requireEqualRows(t, leader, follower)
}

func TestFollower_stoppedWithoutAContentIsWhole(t *testing.T) {
	log, dir, files := new(waltest.Log), t.TempDir(), store.NewFiles("files")
	leader := openLeader(t, t.TempDir(), log)
	staged, err := leader.Stage(t.Context(), strings.NewReader(strings.Repeat("content", 20_000)))
	require.NoError(t, err)
	update(t, leader, func(tx *store.Tx) error { return files.Put(tx, "a", staged, now) })
	storetest.CopyRows(t, leader, dir)
	report, err := store.CheckDir(t.Context(), dir, func() (*seal.Ring, error) { return nil, nil })
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.Equal(t, 1, report.Elsewhere)
}

func TestFollower_damagedFileIsNotRepaired(t *testing.T) {
	log, dir := new(waltest.Log), t.TempDir()
	leader := openLeader(t, t.TempDir(), log)
	for i := range 500 {
		update(t, leader, put(fmt.Sprint(i), cluster{Name: strings.Repeat("n", 500)}))
	}
	storetest.CopyRows(t, leader, dir)
	path := filepath.Join(dir, store.FileName)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.Index(text, []byte(strings.Repeat("n", 400)))
	require.Positive(t, at)
	page := at / os.Getpagesize() * os.Getpagesize()
	copy(text[page:], bytes.Repeat([]byte{0xee}, os.Getpagesize()))
	require.NoError(t, os.WriteFile(path, text, 0o600))
	var damaged *store.DamagedCopyError
	_, err = store.Open(t.Context(), dir, store.Options{Follow: true})
	require.ErrorAs(t, err, &damaged)
	_, err = store.Open(t.Context(), dir, store.Options{Shared: log})
	require.ErrorAs(t, err, &damaged)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, after)
}

func TestLeader_unknownOutcomeFailsWaitingUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, dir := new(waltest.Log), t.TempDir()
		leader := openLeader(t, dir, log)
		release := make(chan waltest.Fault)
		log.Next = func() waltest.Fault { return <-release }
		held := inLine(leader, put("held", cluster{}))
		wait := inLine(leader, put("a", cluster{}), func(tx *store.Tx) error { return remove("first")(tx) })
		closed := make(chan error, 1)
		release <- waltest.NoAnswer
		<-leader.Broken()
		go func() { closed <- leader.Close() }()
		for i, err := range append(held(), wait()...) {
			var failure *store.WriteError
			require.ErrorAs(t, err, &failure)
			require.True(t, failure.Shared)
			require.Equal(t, i == 0, failure.Unknown)
			require.NotContains(t, err.Error(), "disk")
		}
		require.NoError(t, <-closed)
		log.Next = nil
		again := home{log: log}.open(t, dir, store.Options{})
		require.Equal(t, []string{"first", "held"}, keys(t, again, ""))
		require.NoError(t, again.Close())
	})
}

// TestLeader_manyWritersLoseNoUpdate has writers that count, a shared log that fails, a follower
// that applies what the log has, and a new leader after each unknown outcome.
func TestLeader_manyWritersLoseNoUpdate(t *testing.T) {
	const writers, rounds, terms = 8, 40, 6
	faults := randtest.New(t, 14)
	log, dir := new(waltest.Log), t.TempDir()
	leader := openLeader(t, dir, log)
	follower := openFollower(t, leader)
	require.NoError(t, leader.Close())
	var acknowledged, unknown [writers]int
	for term := range terms {
		log.Next = func() waltest.Fault {
			if term < terms-1 && faults.IntN(40) == 0 {
				return waltest.Faults()[faults.IntN(len(waltest.Faults()))]
			}
			return waltest.None
		}
		leader := home{log: log}.open(t, dir, store.Options{})
		var running sync.WaitGroup
		for w := range writers {
			running.Go(func() {
				for range rounds {
					err := leader.Update(context.Background(), countUp(fmt.Sprint(w)))
					if failure, ok := errors.AsType[*store.WriteError](err); ok && failure.Unknown {
						unknown[w]++
					} else if err == nil {
						acknowledged[w]++
					}
				}
			})
		}
		running.Go(func() {
			for range rounds {
				if err := follower.Apply(context.Background(), log.After(follower.Sequence())); err != nil {
					t.Error(err)
				}
				if err := follower.View(func(tx *store.Tx) error {
					return clusters.Each(tx, "", func(string, *cluster) error { return nil })
				}); err != nil {
					t.Error(err)
				}
			}
		})
		running.Wait()
		require.NoError(t, leader.Close())
	}
	leader = home{log: log}.open(t, dir, store.Options{})
	require.NoError(t, follower.Apply(t.Context(), log.After(follower.Sequence())))
	requireEqualRows(t, leader, follower)
	for w := range writers {
		view(t, leader, func(tx *store.Tx) error {
			c, err := clusters.Get(tx, fmt.Sprint(w))
			require.NoError(t, err)
			require.GreaterOrEqual(t, c.Hosts, acknowledged[w])
			require.LessOrEqual(t, c.Hosts, acknowledged[w]+unknown[w])
			return nil
		})
	}
	require.NoError(t, leader.Close())
}

// countUp adds one to a row.
func countUp(key string) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		c, err := clusters.Get(tx, key)
		if errors.Is(err, store.ErrNotFound) {
			c, err = &cluster{}, nil
		}
		if err != nil {
			return err
		}
		c.Hosts++
		return clusters.Put(tx, key, c)
	}
}

// TestFollower_randomDamageIsNeverServed damages files of a follower at random places. Either the
// start is refused, or the follower has the rows of the leader when it has read the shared log.
func TestFollower_randomDamageIsNeverServed(t *testing.T) {
	log, dir := new(waltest.Log), t.TempDir()
	leader := openLeader(t, t.TempDir(), log)
	storetest.CopyRows(t, leader, dir)
	grow := func(from, to int) {
		for i := from; i < to; i++ {
			c := cluster{Hosts: i, Name: strings.Repeat("n", i)}
			update(t, leader, put(fmt.Sprint(i%60), c))
		}
	}
	grow(0, 200)
	follower, err := store.Open(t.Context(), dir, store.Options{Follow: true})
	require.NoError(t, err)
	require.NoError(t, follower.Apply(t.Context(), log.After(follower.Sequence())))
	require.NoError(t, follower.Close())
	follower = openWith(t, dir, store.Options{Follow: true})
	grow(200, 300)
	for _, record := range log.After(follower.Sequence()) {
		require.NoError(t, follower.Apply(t.Context(), []wal.Record{record}))
	}
	killed := copyOf(t, dir)
	grow(300, 310)
	refused, whole := 0, 0
	for seed := range *damages {
		damaged := copyOf(t, killed)
		what := damageRandomly(t, damaged, rand.New(rand.NewPCG(uint64(seed), 15)))
		db, err := store.Open(t.Context(), damaged, store.Options{Follow: true})
		if err == nil {
			if err = db.Apply(t.Context(), log.After(db.Sequence())); err == nil {
				whole++
				requireEqualRows(t, leader, db)
				require.Empty(t, db.Damage(), what)
			}
			require.NoError(t, db.Close())
		}
		if err != nil {
			refused++
			require.NotContains(t, err.Error(), "\n")
			_, damaged := errors.AsType[*store.DamagedCopyError](err)
			require.Truef(t, damaged || errors.Is(err, store.ErrNoSequence), "%s: %v", what, err)
		}
		require.NoError(t, os.RemoveAll(damaged))
	}
	require.Positive(t, refused)
	require.Positive(t, whole)
	t.Logf("%d damages: the start was refused %d times, and the rows were complete %d times", *damages, refused, whole)
}

// elsewhere is another machine. It keeps what is shared with it.
type elsewhere struct {
	mu      sync.Mutex
	have    map[string]string
	fetched int
}

func (e *elsewhere) Share(_ context.Context, sum string, open func() (io.ReadSeekCloser, int64, error)) {
	content, _, err := open()
	if err != nil {
		return
	}
	text, err := io.ReadAll(content)
	if errors.Join(err, content.Close()) == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.have[sum] = string(text)
	}
}

func (e *elsewhere) Fetch(_ context.Context, sum string) (io.ReadCloser, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	text, ok := e.have[sum]
	if !ok {
		return nil, fs.ErrNotExist
	}
	e.fetched++
	return io.NopCloser(strings.NewReader(text)), nil
}

func TestElsewhere_hasContentsBeforeTheirRows(t *testing.T) {
	log, files, other := new(waltest.Log), store.NewFiles("files"), &elsewhere{have: map[string]string{}}
	leader := openWith(t, t.TempDir(), store.Options{Shared: log, Elsewhere: other})
	text := strings.Repeat("content", 20_000)
	staged, err := leader.Stage(t.Context(), strings.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, map[string]string{staged.SHA256(): text}, other.have)
	_, err = leader.Stage(t.Context(), strings.NewReader("small"))
	require.NoError(t, err)
	require.Len(t, other.have, 1, "the rows contain small contents")
	update(t, leader, func(tx *store.Tx) error { return files.Put(tx, "a", staged, now) })
	dir := t.TempDir()
	storetest.CopyRows(t, leader, dir)
	require.NoError(t, leader.Close(), "the leader is lost")
	path := filepath.Join(dir, "blobs", staged.SHA256()[:2], staged.SHA256())

	next := openWith(t, dir, store.Options{Follow: true, Elsewhere: other})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			opened, _, err := files.Open(next, "a")
			if !assert.NoError(t, err) {
				return
			}
			got, err := io.ReadAll(opened)
			assert.NoError(t, errors.Join(err, opened.Close()))
			assert.Equal(t, text, string(got))
		})
	}
	readers.Wait()
	require.NoError(t, os.Remove(path))
	snapshot, err := next.Snapshot()
	require.NoError(t, err)
	require.NoError(t, snapshot.Contents(t.Context(), func(string, int64, io.Reader) error { return nil }))
	require.NoError(t, snapshot.Close())

	require.NoError(t, os.Remove(path))
	clear(other.have)
	_, _, err = files.Open(next, "a")
	require.ErrorAs(t, err, new(*store.MissingContentError))
}
