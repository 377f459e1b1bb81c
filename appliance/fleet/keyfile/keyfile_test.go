package keyfile_test

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/authority"
	"landfall/appliance/fleet/keyfile"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/store/storetest"
	"landfall/store/wal/waltest"
)

// patience and moment are for conditions that another goroutine brings about.
const patience, moment = time.Minute, 5 * time.Millisecond

// machine is a member of a fleet with a data directory.
type machine struct {
	dir keyfile.Directory
	log *waltest.Log
}

// things has rows for the first records of a log.
var things = store.NewBucket[string]("things", 1)

// newFleet returns two members of a fleet. The second one joined before the first one made a key.
func newFleet(t *testing.T) (first, second *machine) {
	t.Helper()
	log := new(waltest.Log)
	first = &machine{keyfile.Directory{Path: t.TempDir(), Fleet: "fleet"}, log}
	second = &machine{keyfile.Directory{Path: t.TempDir(), Fleet: "fleet"}, log}
	first.lead(t, func(db *store.DB) {
		value := "value"
		require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error { return things.Put(tx, "thing", &value) }))
		storetest.CopyRows(t, db, second.dir.Path)
	})
	return first, second
}

// lead calls a function with the database of this member as the leader.
func (m *machine) lead(t *testing.T, fn func(*store.DB)) {
	t.Helper()
	db, err := store.Open(t.Context(), m.dir.Path, store.Options{Shared: m.log, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	fn(db)
	require.NoError(t, db.Close())
}

// follow does the same as a follower, after it has the records of the log.
func (m *machine) follow(t *testing.T, fn func(*store.DB)) {
	t.Helper()
	db, err := store.Open(t.Context(), m.dir.Path, store.Options{Follow: true, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, db.Apply(t.Context(), m.log.After(db.Sequence())))
	fn(db)
	require.NoError(t, db.Close())
}

func (m *machine) files(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, pattern := range []string{"*.key", "*.crt", "acme/*"} {
		paths, err := filepath.Glob(filepath.Join(m.dir.Path, pattern))
		require.NoError(t, err)
		for _, path := range paths {
			name, err := filepath.Rel(m.dir.Path, path)
			require.NoError(t, err)
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			files[name] = string(content)
		}
	}
	return files
}

func (m *machine) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(m.dir.Path, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestDirectory_nextLeaderHasTheKeys(t *testing.T) {
	first, second := newFleet(t)
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	box, err := key.Box(authority.Purpose, nil)
	require.NoError(t, err)
	var made *authority.Clients
	first.lead(t, func(db *store.DB) {
		made, err = authority.LoadOrCreateClients(first.dir.Path, box)
		require.NoError(t, err)
		first.write(t, "acme/acme_account+key", "account")
		first.write(t, "acme/token", "answer to a challenge")
		first.write(t, "acme/token.123", "unfinished")
		require.NoError(t, first.dir.Store(t.Context(), db))
	})
	before := len(first.log.After(0))
	first.lead(t, func(db *store.DB) { require.NoError(t, first.dir.Store(t.Context(), db)) })
	require.Len(t, first.log.After(0), before, "equal files are no change")

	second.follow(t, func(db *store.DB) {
		require.NoError(t, follow(t, second, db))
	})
	require.Equal(t, []string{"acme/acme_account+key", "acme/token", "clients-ca.crt", "clients-ca.key"},
		slices.Sorted(maps.Keys(second.files(t))))
	again, err := authority.LoadOrCreateClients(second.dir.Path, box)
	require.NoError(t, err)
	require.Equal(t, made.PEM(), again.PEM(), "the next leader makes no second authority")

	first.lead(t, func(db *store.DB) {
		require.NoError(t, os.Remove(filepath.Join(first.dir.Path, "acme", "token")))
		require.NoError(t, first.dir.Store(t.Context(), db))
	})
	second.follow(t, func(db *store.DB) { err = follow(t, second, db) })
	require.NoError(t, err)
	require.NotContains(t, second.files(t), "acme/token")
}

// follow follows until the end of a context that has ended, like a member that is elected at once.
func follow(t *testing.T, m *machine, db *store.DB) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return m.dir.Follow(ctx, db, slog.New(slog.DiscardHandler))
}

func TestDirectory_followsChanges(t *testing.T) {
	first, second := newFleet(t)
	first.write(t, "ams.key", "one")
	keep := func(db *store.DB) { require.NoError(t, first.dir.Store(t.Context(), db)) }
	first.lead(t, keep)
	second.write(t, "ams.key", "of another leader, which nobody acknowledged")
	second.follow(t, func(db *store.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() { require.NoError(t, second.dir.Follow(ctx, db, slog.New(slog.DiscardHandler))) })
		require.Eventually(t, func() bool { return second.files(t)["ams.key"] == "one" }, patience, moment)
		first.write(t, "ams.key", "two")
		first.lead(t, keep)
		require.NoError(t, db.Apply(t.Context(), second.log.After(db.Sequence())))
		require.Eventually(t, func() bool { return second.files(t)["ams.key"] == "two" }, patience, moment)
		cancel()
		following.Wait()
	})
}

func TestDirectory_ignoresTheFilesOfAFormerFleet(t *testing.T) {
	m, _ := newFleet(t)
	m.write(t, "ams.key", "old")
	m.lead(t, func(db *store.DB) { require.NoError(t, m.dir.Store(t.Context(), db)) })
	m.write(t, "ams.key", "new")
	m.dir.Fleet = "another"
	m.follow(t, func(db *store.DB) {
		require.NoError(t, follow(t, m, db))
	})
	require.Equal(t, "new", m.files(t)["ams.key"])
}

func TestDirectory_unwritableDirectoryStopsTheMember(t *testing.T) {
	first, second := newFleet(t)
	first.write(t, "acme/acme_account+key", "account")
	first.lead(t, func(db *store.DB) { require.NoError(t, first.dir.Store(t.Context(), db)) })
	second.write(t, "acme", "a file")
	second.follow(t, func(db *store.DB) {
		require.Error(t, follow(t, second, db))
	})
}
