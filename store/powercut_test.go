package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/store"
	"landfall/store/wal/waltest"
)

// disk records the contents that a power cut may leave in a database's files: the synced content,
// with or without each later sector.
type disk struct {
	dir string

	mu       sync.Mutex
	contents map[string]*contents // by file name
	moment   func()               // called before a sync, with the lock held
}

type contents struct {
	synced []byte
	since  [][]byte // contents recorded since then
}

func newDisk(t *testing.T, dir string) *disk {
	t.Helper()
	d := &disk{dir: dir, contents: map[string]*contents{}}
	for _, name := range append([]string{store.FileName}, store.LogNames...) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
			continue
		}
		d.contents[name] = &contents{synced: text}
	}
	return d
}

// sync is the function with which the database syncs a file. The content at its start is on the
// disk at its end.
func (d *disk) sync(file *os.File) error {
	name := filepath.Base(file.Name())
	d.mu.Lock()
	d.snapshot()
	if d.moment != nil {
		d.moment()
	}
	text, err := os.ReadFile(filepath.Join(d.dir, name))
	d.mu.Unlock()
	if err := errors.Join(err, store.Datasync(file)); err != nil || name == store.FileName {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.contents[name] = &contents{synced: text}
	d.snapshot()
	return nil
}

// step records the contents while a record is written to a shared log.
func (d *disk) step() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.snapshot()
	if d.moment != nil {
		d.moment()
	}
}

// update is the function with which the database commits to the bbolt file. bbolt guarantees that a
// power cut leaves the state before or after the commit.
func (d *disk) update(b *bolt.DB, fn func(*bolt.Tx) error) error {
	err := b.Update(fn)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.snapshot()
	if d.moment != nil {
		d.moment()
	}
	text, readErr := os.ReadFile(filepath.Join(d.dir, store.FileName))
	d.contents[store.FileName] = &contents{synced: text}
	if d.moment != nil {
		d.moment()
	}
	return errors.Join(err, readErr)
}

// snapshot records the current content of the log's files.
func (d *disk) snapshot() {
	for _, name := range store.LogNames {
		text, err := os.ReadFile(filepath.Join(d.dir, name))
		if err != nil {
			continue
		}
		c := d.contents[name]
		if c == nil {
			c = &contents{}
			d.contents[name] = c
		}
		c.since = append(c.since, text)
		if len(c.since) > 6 {
			c.since = slices.Delete(c.since, 1, 2)
		}
	}
}

// cut returns a directory with content that a power cut may leave.
func (d *disk) cut(t *testing.T, random *rand.Rand) string {
	t.Helper()
	dir := t.TempDir()
	for name, c := range d.contents {
		if text := c.left(random); text != nil {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
	}
	return dir
}

// left returns content that a power cut may leave in a file: each sector or page comes from the
// synced content or from a later write.
func (c *contents) left(random *rand.Rand) []byte {
	versions := append([][]byte{c.synced}, c.since...)
	size := len(versions[random.IntN(len(versions))])
	size = max(size, len(c.synced))
	left := make([]byte, size)
	sector := []int{32, 512, 4096}[random.IntN(3)]
	kept := []float64{0, 0.03, 0.3, 0.7, 0.97, 1}[random.IntN(6)]
	newest := random.IntN(2) == 0
	for at := 0; at < size; at += sector {
		from := c.synced
		if random.Float64() < kept {
			from = versions[random.IntN(len(versions))]
			if newest {
				from = versions[len(versions)-1]
			}
		}
		if at < len(from) {
			copy(left[at:min(at+sector, size)], from[at:])
		}
	}
	return left
}

var counted = store.NewBucket[int]("counted", 1)

// history contains the expected content after each update. The first element is the initial
// content.
type history struct {
	home
	db           *store.DB // that the power cuts affect; nil: while it opens
	models       []*model
	begun, acked atomic.Int64
}

// cut is what a power cut left: a directory, the shared log, and the updates between low and high
// in one of whose states the database is.
type cut struct {
	home
	dir       string
	low, high int64
}

// cut returns what a power cut leaves now. A shared log is not affected by it.
func (h *history) cut(t *testing.T, d *disk, random *rand.Rand) cut {
	t.Helper()
	left := h.fork()
	if h.db != nil {
		left.synced = h.db.SyncedSequence()
	}
	return cut{left, d.cut(t, random), h.acked.Load(), h.begun.Load()}
}

// left returns a directory with all acknowledged updates.
func (h *history) left(dir string) cut { return cut{h.fork(), dir, h.acked.Load(), h.acked.Load()} }

// requireOneOf requires that a directory opens in the state of an update between low and high, and
// that the database is usable. A second power cut may happen while it opens.
func (h *history) requireOneOf(t *testing.T, random *rand.Rand, c cut, depth int) {
	t.Helper()
	d := newDisk(t, c.dir)
	var again []cut
	d.moment = func() {
		if depth > 0 && random.IntN(3) == 0 {
			again = append(again, cut{c.fork(), d.cut(t, random), c.low, c.high})
		}
	}
	db := c.open(t, c.dir, store.Options{}.OnDisk(d.sync, d.update))
	d.mu.Lock()
	d.moment = nil
	d.mu.Unlock()
	var at int64
	view(t, db, func(tx *store.Tx) error {
		at = h.at(t, tx)
		return nil
	})
	require.GreaterOrEqual(t, at, c.low, "an acknowledged update is lost")
	require.LessOrEqual(t, at, c.high)
	if at > 0 {
		require.Equal(t, h.models[at].changes, follow(db.Watch(t.Context(), 0), h.models[at].revision))
	}
	update(t, db, func(tx *store.Tx) error { return modelIndex.Add(tx, "and on") })
	require.NoError(t, db.Close())
	requireSound(t, c.dir)
	for _, c := range again {
		h.requireOneOf(t, random, c, depth-1)
	}
}

// at returns the number of the last update that the transaction contains. It requires that this
// update is complete.
func (h *history) at(t *testing.T, tx *store.Tx) int64 {
	t.Helper()
	n, err := counted.Get(tx, "updates")
	if errors.Is(err, store.ErrNotFound) {
		n, err = new(int), nil
	}
	require.NoError(t, err)
	compare(t, tx, h.models[*n])
	return int64(*n)
}

// requireSound requires that bbolt's check of all pages succeeds.
func requireSound(t *testing.T, dir string) {
	t.Helper()
	b, err := bolt.Open(filepath.Join(dir, store.FileName), 0o600, &bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, b.View(func(tx *bolt.Tx) error {
		var errs []error
		for err := range tx.Check() {
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}))
	require.NoError(t, b.Close())
}

// update applies a random update and returns its error.
func (h *history) update(random *rand.Rand, db *store.DB) error {
	next := h.models[h.acked.Load()].clone()
	n := int(h.acked.Load()) + 1
	h.models = append(h.models[:n], next)
	h.begun.Store(int64(n))
	seed := random.Uint64()
	err := db.Update(context.Background(), func(tx *store.Tx) error {
		random := rand.New(rand.NewPCG(seed, 2))
		next.changed("/counted/updates", false)
		if err := counted.Put(tx, "updates", &n); err != nil {
			return err
		}
		for range random.IntN(10) {
			if err := step(random, tx, next); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		h.models[n-1].least = next.revision + 1 // no other change uses the revisions of this update
		return err
	}
	h.acked.Store(int64(n))
	return nil
}

func TestPowerCut_acknowledgedUpdatesSurvive(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			eachHome(t, func(t *testing.T, home home) {
				t.Parallel()
				random, cuts := rand.New(rand.NewPCG(seed, 3)), rand.New(rand.NewPCG(seed, 4))
				dir := t.TempDir()
				d := newDisk(t, dir)
				h := &history{home: home, models: []*model{newModel()}}
				var made []cut
				db := h.open(t, dir, store.Options{}.OnDisk(d.sync, d.update))
				d.mu.Lock()
				d.contents[store.FileName] = newDisk(t, dir).contents[store.FileName] // synced by Open
				d.moment = func() {
					if cuts.IntN(8) == 0 {
						made = append(made, h.cut(t, d, cuts))
					}
				}
				h.db = db
				d.mu.Unlock()
				if h.log != nil {
					h.log.Next = func() waltest.Fault { d.step(); return waltest.None }
					h.log.Wrote = d.step
				}
				for range 200 {
					require.NoError(t, h.update(random, db))
				}
				require.NoError(t, db.Close())
				require.Greater(t, len(made), 15)
				for _, cut := range made {
					h.requireOneOf(t, random, cut, 2)
				}
			})
		})
	}
}

func TestPowerCut_unknownRecordsLoseNothing(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random, cuts := rand.New(rand.NewPCG(seed, 10)), rand.New(rand.NewPCG(seed, 11))
			dir := t.TempDir()
			d := newDisk(t, dir)
			h := &history{home: home{log: new(waltest.Log)}, models: []*model{newModel()}}
			options := store.Options{}.OnDisk(d.sync, d.update)
			db := h.open(t, dir, options)
			for range 60 {
				h.fault(random, 3)
				err := h.update(random, db)
				if err != nil {
					var failure *store.WriteError
					require.ErrorAs(t, err, &failure)
					high := h.acked.Load()
					if failure.Unknown {
						high = h.begun.Load()
					}
					d.mu.Lock()
					left := cut{h.fork(), d.cut(t, cuts), h.acked.Load(), high}
					d.mu.Unlock()
					h.requireOneOf(t, random, left, 1)
					if failure.Unknown {
						require.NoError(t, db.Close())
						db = h.open(t, dir, options)
						view(t, db, func(tx *store.Tx) error { h.acked.Store(h.at(t, tx)); return nil })
						h.models[h.acked.Load()].least = 0 // revisions that no reader saw are used again
					}
				}
			}
			require.NoError(t, db.Close())
		})
	}
}

func TestPowerCut_failedSyncsLoseNothing(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random, faults, cuts := rand.New(rand.NewPCG(seed, 5)), rand.New(rand.NewPCG(seed, 6)),
				rand.New(rand.NewPCG(seed, 7))
			dir := t.TempDir()
			d := newDisk(t, dir)
			h := &history{models: []*model{newModel()}}
			var failing atomic.Bool
			syncs := func(file *os.File) error {
				if failing.Load() && filepath.Base(file.Name()) != store.FileName && faults.IntN(3) == 0 {
					d.mu.Lock()
					defer d.mu.Unlock()
					d.snapshot() // failed writes may have reached the disk
					return &os.PathError{Op: "fdatasync", Path: file.Name(), Err: syscall.EIO}
				}
				return d.sync(file)
			}
			options := store.Options{}.OnDisk(syncs, d.update)
			if seed%2 == 1 {
				options = options.AlwaysCheckpoint()
			}
			db, err := store.Open(t.Context(), dir, options)
			require.NoError(t, err)
			for range 20 {
				require.NoError(t, h.update(random, db))
			}
			failures, unknown := 0, int64(0)
			failing.Store(true)
			for range 60 {
				err := h.update(random, db)
				view(t, db, func(tx *store.Tx) error {
					require.Equal(t, h.acked.Load(), h.at(t, tx), "views do not contain failed updates")
					return nil
				})
				if err == nil {
					unknown = 0
				} else {
					failures++
					var failure *store.WriteError
					require.ErrorAs(t, err, &failure)
					require.ErrorIs(t, err, syscall.EIO)
					if failure.Unknown {
						unknown = 1
					}
				}
				if cuts.IntN(3) == 0 {
					d.mu.Lock()
					left := d.cut(t, cuts)
					d.mu.Unlock()
					h.requireOneOf(t, random, cut{dir: left, low: h.acked.Load(), high: h.acked.Load() + unknown}, 0)
				}
			}
			require.Greater(t, failures, 3)
			h.requireOneOf(t, random, cut{dir: killed(t, dir), low: h.acked.Load(), high: h.acked.Load() + unknown}, 1)
			require.NoError(t, db.Close())
			h.requireOneOf(t, random, h.left(dir), 1)
		})
	}
}

func TestCommit_undiscardedRecordIsOverwritten(t *testing.T) {
	dir := t.TempDir()
	onDisk := map[string][]byte{} // possible contents of the log's files
	failing := 0
	syncs := func(file *os.File) error {
		if filepath.Base(file.Name()) == store.FileName {
			return nil
		}
		if failing--; failing != 0 { // the write that discards the record may not reach the disk, so it is not recorded
			text, err := os.ReadFile(file.Name())
			require.NoError(t, err)
			onDisk[filepath.Base(file.Name())] = text
		}
		if failing >= 0 {
			return &os.PathError{Op: "fdatasync", Path: file.Name(), Err: syscall.EIO}
		}
		return nil
	}
	db := openWith(t, dir, store.Options{}.OnDisk(syncs, (*bolt.DB).Update).AlwaysCheckpoint())
	for i := range 6 {
		update(t, db, put(fmt.Sprint(i, "a"), cluster{}))
		failing = 2
		var failure *store.WriteError
		require.ErrorAs(t, db.Update(t.Context(), put("failed", cluster{})), &failure)
		require.True(t, failure.Unknown)
		failing = 0
		require.NoError(t, db.ReleaseMemory())
		update(t, db, put(fmt.Sprint(i, "b"), cluster{}))
		left := copied(t, dir)
		for name, text := range onDisk {
			require.NoError(t, os.WriteFile(filepath.Join(left, name), text, 0o600))
		}
		require.Equal(t, keys(t, db, ""), keys(t, open(t, left), ""))
		require.Len(t, keys(t, db, ""), 2*i+2)
	}
}
