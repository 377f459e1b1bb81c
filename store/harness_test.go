package store_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/store"
	"landfall/store/wal/waltest"
)

type cluster struct {
	Name  string            `json:"name"`
	Hosts int               `json:"hosts"`
	Tags  map[string]string `json:"tags,omitempty"`
}

var clusters = store.NewBucket[cluster]("clusters", 1)

// open opens the database in dir and closes it at the end of the test.
func open(t testing.TB, dir string) *store.DB {
	t.Helper()
	return openWith(t, dir, store.Options{})
}

func openWith(t testing.TB, dir string, options store.Options) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), dir, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func update(t testing.TB, db *store.DB, fn func(*store.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(context.Background(), fn))
}

func view(t testing.TB, db *store.DB, fn func(*store.Tx) error) {
	t.Helper()
	require.NoError(t, db.View(fn))
}

func put(key string, c cluster) func(*store.Tx) error {
	return func(tx *store.Tx) error { return clusters.Put(tx, key, &c) }
}

func remove(key string) func(*store.Tx) error {
	return func(tx *store.Tx) error { return clusters.Delete(tx, key) }
}

// keys returns the keys of clusters that start with prefix.
func keys(t testing.TB, db *store.DB, prefix string) []string {
	t.Helper()
	var found []string
	view(t, db, func(tx *store.Tx) error {
		found = nil
		return clusters.Keys(tx, prefix, func(key string) error {
			found = append(found, key)
			return nil
		})
	})
	return found
}

// commitBlocker blocks commits to the bbolt file while it is closed.
type commitBlocker struct {
	mu      sync.Mutex
	changed *sync.Cond
	closed  bool
	waiting int
	passed  int
}

func newCommitBlocker() *commitBlocker {
	g := &commitBlocker{}
	g.changed = sync.NewCond(&g.mu)
	return g
}

func (g *commitBlocker) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
	g.changed.Broadcast()
}

// update commits to the bbolt file once the blocker is open.
func (g *commitBlocker) update(b *bolt.DB, fn func(*bolt.Tx) error) error {
	g.mu.Lock()
	g.waiting++
	g.changed.Broadcast()
	for g.closed {
		g.changed.Wait()
	}
	g.waiting--
	g.mu.Unlock()
	err := b.Update(fn)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passed++
	g.changed.Broadcast()
	return err
}

// holds returns the number of blocked commits.
func (g *commitBlocker) holds() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

// commits returns the number of completed commits.
func (g *commitBlocker) commits() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.passed
}

func noSync(*os.File) error { return nil }

// killed returns a directory with copies of the files of an open database, as a kill would leave
// them.
func killed(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range append([]string{store.FileName}, store.LogNames...) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, name), text, 0o600))
	}
	return to
}

// names returns the names of the files in a directory, without the lock and the number of the
// newest commit.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var found []string
	for _, entry := range entries {
		if entry.Name() != "landfall.lock" && entry.Name() != "landfall.committed" {
			found = append(found, entry.Name())
		}
	}
	return found
}

var errDisk = &os.PathError{Op: "fdatasync", Path: "landfall.db", Err: syscall.EIO}

// faultyFile commits to the bbolt file and injects faults before or after the commit.
type faultyFile struct {
	mu   sync.Mutex
	next func() fault
}

type fault int

const (
	none fault = iota
	before
	behind
)

func (f *faultyFile) update(b *bolt.DB, fn func(*bolt.Tx) error) error {
	f.mu.Lock()
	fault := none
	if f.next != nil {
		fault = f.next()
	}
	f.mu.Unlock()
	if fault == before {
		return errDisk
	}
	if err := b.Update(fn); err != nil || fault == none {
		return err
	}
	return errDisk
}

func (f *faultyFile) set(next func() fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = next
}

func always(f fault) func() fault { return func() fault { return f } }

// heldDisk blocks syncs until it is released.
type heldDisk struct {
	held chan struct{}
	err  error
}

func (d *heldDisk) sync(file *os.File) error {
	if d.held == nil || filepath.Base(file.Name()) == store.FileName {
		return nil
	}
	<-d.held
	d.held = nil
	err := d.err
	d.err = nil
	return err
}

// openHeld opens a database and starts an update whose record waits for the disk. The returned
// function releases the disk and returns the error of that update.
func openHeld(t *testing.T, dir string, d *heldDisk) (db *store.DB, letGo func() error) {
	t.Helper()
	db = openWith(t, dir, store.Options{}.OnDisk(d.sync, (*bolt.DB).Update))
	update(t, db, put("kept", cluster{Hosts: 1}))
	d.held = make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- db.Update(context.Background(), put("held", cluster{})) }()
	synctest.Wait()
	return db, func() error {
		close(d.held)
		return <-done
	}
}

// inLine starts updates while a record waits for the disk, so that they share the next record in
// the given order. The returned function waits for them and returns their errors: errEnded for an
// update that ended its goroutine, the panic value for a panic.
func inLine(db *store.DB, fns ...func(*store.Tx) error) (wait func() []error) {
	var running sync.WaitGroup
	errs := make([]error, len(fns))
	for i, fn := range fns {
		running.Go(func() {
			errs[i] = errEnded
			defer func() {
				if reason := recover(); reason != nil {
					errs[i] = reason.(error)
				}
			}()
			errs[i] = db.Update(context.Background(), fn)
		})
		synctest.Wait()
	}
	return func() []error {
		running.Wait()
		return errs
	}
}

var errEnded = errors.New("the goroutine ended")

// home is where the log of a database is.
type home struct {
	name string
	log  *waltest.Log // nil: in the log file alone
	// synced is the number of the newest record that the database has for certain.
	synced uint64
}

// eachHome runs a test over both homes of the log.
func eachHome(t *testing.T, test func(t *testing.T, h home)) {
	t.Helper()
	for _, h := range []home{{name: "log file"}, {name: "shared log", log: new(waltest.Log)}} {
		t.Run(h.name, func(t *testing.T) { test(t, h) })
	}
}

// records returns the number of records in the shared log.
func (h home) records() int {
	if h.log == nil {
		return 0
	}
	return h.log.Len()
}

// fork returns a home with a copy of the shared log.
func (h home) fork() home {
	if h.log != nil {
		h.log = h.log.Prefix(h.log.Len())
	}
	return h
}

// fault selects what happens to the next record: each one in oneOf is not written as it should be.
func (h home) fault(random *rand.Rand, oneOf int) waltest.Fault {
	fault := waltest.None
	if h.log == nil {
		return fault
	}
	if random.IntN(oneOf) == 0 {
		fault = waltest.Faults()[random.IntN(len(waltest.Faults()))]
	}
	h.log.Next = func() waltest.Fault { return fault }
	return fault
}

// open opens the database in a directory. With a shared log, it first gets the records that it
// lacks.
func (h home) open(t *testing.T, dir string, options store.Options) *store.DB {
	t.Helper()
	if h.log != nil {
		if h.log.Len() > 0 {
			following := options
			following.Follow = true
			follower, err := store.Open(t.Context(), dir, following)
			require.NoError(t, err)
			require.GreaterOrEqual(t, follower.Sequence(), h.synced)
			require.NoError(t, follower.Apply(t.Context(), h.log.After(follower.Sequence())))
			require.Empty(t, follower.Damage(), "the shared log has what is missing")
			require.NoError(t, follower.Close())
		}
		options.Shared = h.log
	}
	db, err := store.Open(t.Context(), dir, options)
	require.NoError(t, err)
	return db
}
