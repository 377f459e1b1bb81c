package membership_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/backup"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/keyring"
	"landfall/store"
)

var things = store.NewBucket[string]("things", 1)

// write writes a value into a data directory, and returns a snapshot of the directory.
func write(t *testing.T, dir, value string, withKey bool) *bytes.Buffer {
	t.Helper()
	keys := keyring.New(dir, keyring.Options{})
	db, err := store.Open(t.Context(), dir, store.Options{Keys: keys.Open})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error { return things.Put(tx, "thing", &value) }))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "audit"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "audit", "1.log"), []byte("record"), 0o600))
	snapshot := new(bytes.Buffer)
	source := &backup.Source{DB: db, Dir: dir, Program: "test", Now: time.Now, DataKey: keys.Content,
		ExportKeys: keys.Export}
	require.NoError(t, source.Write(t.Context(), snapshot, withKey))
	return snapshot
}

// read returns the value in a data directory.
func read(t *testing.T, dir string) (value string) {
	t.Helper()
	db, err := store.Open(t.Context(), dir, store.Options{Keys: keyring.New(dir, keyring.Options{}).Open})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.View(func(tx *store.Tx) error {
		row, err := things.Get(tx, "thing")
		if err == nil {
			value = *row
		}
		return err
	}))
	return value
}

func TestUnpack_makesDirectoryOfMember(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	state := &fleet.State{Fleet: "fleet", Member: "two", Etcd: []string{"http://192.0.2.5:2379"}, Prefix: "/landfall/"}
	require.NoError(t, membership.Unpack(t.Context(), write(t, t.TempDir(), "value", true), dir, state))
	require.Equal(t, "value", read(t, dir))
	found, err := fleet.ReadState(dir)
	require.NoError(t, err)
	require.Equal(t, state, found)
	for _, name := range []string{"audit", backup.MarkerName} {
		require.NoFileExists(t, filepath.Join(dir, name))
		require.NoDirExists(t, filepath.Join(dir, name))
	}
}

func TestUnpack_needsKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	err := membership.Unpack(t.Context(), write(t, t.TempDir(), "value", false), dir, new(fleet.State))
	require.ErrorContains(t, err, "the snapshot has no keys")
	require.NoDirExists(t, dir, "nothing is left")
}

// TestReplace_takesNewerDatabase also begins with the directory that an interrupted replacement
// leaves: without a database.
func TestReplace_takesNewerDatabase(t *testing.T) {
	for name, interrupted := range map[string]bool{"behind": false, "after an interruption": true} {
		t.Run(name, func(t *testing.T) {
			from, dir := t.TempDir(), filepath.Join(t.TempDir(), "data")
			state := &fleet.State{Fleet: "fleet", Member: "two"}
			require.NoError(t, membership.Unpack(t.Context(), write(t, from, "older", true), dir, state))
			if interrupted {
				require.NoError(t, os.Remove(filepath.Join(dir, store.FileName)))
				require.NoError(t, os.Mkdir(filepath.Join(dir, "incoming"), 0o700))
			}
			require.NoError(t, membership.Replace(t.Context(), write(t, from, "newer", true), dir, false))
			require.Equal(t, "newer", read(t, dir))
			require.NoDirExists(t, filepath.Join(dir, "incoming"))
			found, err := fleet.ReadState(dir)
			require.NoError(t, err)
			require.Equal(t, state, found, "it is still the same member")
		})
	}
}

func TestReplace_keepsDamagedDatabase(t *testing.T) {
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "data")
	require.NoError(t, membership.Unpack(t.Context(), write(t, from, "older", true), dir, new(fleet.State)))
	for range 2 { // the second time replaces what is kept
		damaged := []byte("damaged")
		require.NoError(t, os.WriteFile(filepath.Join(dir, store.FileName), damaged, 0o600))
		require.NoError(t, membership.Replace(t.Context(), write(t, from, "newer", true), dir, true))
		require.Equal(t, "newer", read(t, dir))
		kept, err := os.ReadFile(filepath.Join(dir, membership.DamagedDir, store.FileName))
		require.NoError(t, err)
		require.Equal(t, damaged, kept)
	}
}

// The name of a data directory may look like a pattern, which another directory matches.
func TestReplace_directoryWithSpecialCharacters(t *testing.T) {
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "site [1]")
	require.NoError(t, membership.Unpack(t.Context(), write(t, from, "older", true), dir, new(fleet.State)))
	other := filepath.Join(filepath.Dir(dir), "site 1", "landfall-1.wal")
	require.NoError(t, os.Mkdir(filepath.Dir(other), 0o700))
	require.NoError(t, os.WriteFile(other, []byte("changes"), 0o600))
	own := filepath.Join(dir, "landfall-1.wal")
	require.NoError(t, os.WriteFile(own, []byte("of the old database"), 0o600))
	require.NoError(t, membership.Replace(t.Context(), write(t, from, "newer", true), dir, false))
	require.FileExists(t, other)
	require.NoFileExists(t, own)
	require.Equal(t, "newer", read(t, dir))
}

func TestReplace_damagedSnapshotChangesNothing(t *testing.T) {
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "data")
	require.NoError(t, membership.Unpack(t.Context(), write(t, from, "older", true), dir, new(fleet.State)))
	snapshot := write(t, from, "newer", true)
	snapshot.Truncate(snapshot.Len() / 2)
	require.Error(t, membership.Replace(t.Context(), snapshot, dir, true))
	require.Equal(t, "older", read(t, dir))
}

func TestOpen_refusesOtherDirectories(t *testing.T) {
	for name, c := range map[string]struct {
		state *fleet.State
		want  string
	}{
		"single machine": {nil, "belongs to no fleet"},
		"left":           {&fleet.State{Fleet: "fleet", Left: true}, "has left its fleet"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.state != nil {
				require.NoError(t, c.state.Write(dir))
			}
			_, err := membership.Open(membership.Options{Dir: dir})
			require.ErrorContains(t, err, c.want)
		})
	}
}
