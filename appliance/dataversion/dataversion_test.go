package dataversion_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/backup"
	"landfall/appliance/dataversion"
	"landfall/appliance/keyring"
	"landfall/randtest"
	"landfall/store"
)

var kills = flag.Int("kills", 25, "number of random kills during migrations")

// childEnv names the data directory that this program opens with testMigrations instead of tests.
const childEnv = "LANDFALL_TEST_MIGRATE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		db, err := directory(dir, "2.0").Open(context.Background())
		if err == nil {
			err = db.Close()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type item struct {
	Text string `json:"text"`
}

var (
	items = store.NewBucket[item]("items", 1)
	now   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

const rows = 400

// testMigrations make version 2, whose rows have a longer text and whose directory has a file, and
// version 3, which has another text again.
func testMigrations() []dataversion.Migration {
	return []dataversion.Migration{
		{Version: 2, Name: "the texts are longer", Prepare: func(ctx context.Context, db *store.DB, dir string) error {
			for n := range rows { // small transactions, which are repeated after a kill
				if err := db.Update(ctx, func(tx *store.Tx) error {
					key := fmt.Sprintf("%03d", n)
					row, err := items.Get(tx, key)
					if err != nil || strings.HasSuffix(row.Text, " two") {
						return err
					}
					row.Text += " two"
					return items.Put(tx, key, row)
				}); err != nil {
					return err
				}
			}
			return os.WriteFile(filepath.Join(dir, "two"), []byte("two"), 0o600)
		}},
		{Version: 3, Name: "the texts have a third word", Rows: func(tx *store.Tx) error {
			return items.Each(tx, "", func(key string, row *item) error {
				changed := item{row.Text + " three"}
				return items.Put(tx, key, &changed)
			})
		}},
	}
}

func directory(dir, program string, migrations ...dataversion.Migration) dataversion.Directory {
	keys := keyring.New(dir, keyring.Options{})
	if migrations == nil {
		migrations = testMigrations()
	}
	return dataversion.Directory{Dir: dir, Keys: keys, Program: program, Clock: clockwork.NewFakeClockAt(now),
		Logger: slog.New(slog.DiscardHandler), Store: store.Options{Keys: keys.Open}, Migrations: migrations}
}

// old makes a data directory of version 1.
func old(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	before := directory(dir, "1.0")
	before.Migrations = []dataversion.Migration{}
	db, err := before.Open(t.Context())
	require.NoError(t, err)
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		for n := range rows {
			if err := items.Put(tx, fmt.Sprintf("%03d", n), &item{fmt.Sprintf("one %d", n)}); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, db.Close())
	return dir
}

// requireTexts requires that each text ends with the same words after its first two.
func requireTexts(t *testing.T, db *store.DB, end string) {
	t.Helper()
	require.NoError(t, db.View(func(tx *store.Tx) error {
		found := 0
		return errors.Join(items.Each(tx, "", func(key string, row *item) error {
			require.Equal(t, fmt.Sprintf("one %d%s", found, end), row.Text)
			found++
			return nil
		}), func() error { require.Equal(t, rows, found); return nil }())
	}))
}

func requireState(t *testing.T, dir string, version int) dataversion.State {
	t.Helper()
	state, err := dataversion.Read(dir)
	require.NoError(t, err)
	require.Equal(t, version, state.Version)
	require.Equal(t, version, state.Needed())
	return state
}

// requireBackup requires that there is exactly one backup, and that it restores to version 1.
func requireBackup(t *testing.T, dir string, state dataversion.State) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, dataversion.BackupDir, "*"))
	require.NoError(t, err)
	hidden, err := filepath.Glob(filepath.Join(dir, dataversion.BackupDir, ".*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, state.Backup)}, names)
	require.Empty(t, hidden, "an incomplete backup was left")
	file, err := os.Open(names[0])
	require.NoError(t, err)
	defer file.Close()
	restored := filepath.Join(t.TempDir(), "restored")
	target := &backup.Target{Dir: restored, Now: func() time.Time { return now }}
	_, err = target.Restore(t.Context(), file)
	require.NoError(t, err)
	key, err := os.ReadFile(filepath.Join(dir, keyring.DefaultKeyFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(restored, keyring.DefaultKeyFile), key, 0o600))
	before := directory(restored, "1.0")
	before.Migrations = []dataversion.Migration{}
	db, err := before.Open(t.Context())
	require.NoError(t, err, "the program of version 1 can't use the backup")
	requireTexts(t, db, "")
	require.NoError(t, db.Close())
}

func TestOpen_newDirectoryNeedsNoMigration(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	db, err := directory(dir, "2.0").Open(t.Context())
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.Equal(t, "2.0", requireState(t, dir, 3).Program)
	require.NoDirExists(t, filepath.Join(dir, dataversion.BackupDir))
	db, err = directory(dir, "2.1").Open(t.Context())
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.Equal(t, "2.1", requireState(t, dir, 3).Program, "the file names the program that opened it last")
	require.NoDirExists(t, filepath.Join(dir, dataversion.BackupDir))
}

func TestOpen_migratesAfterABackup(t *testing.T) {
	dir := old(t)
	requireState(t, dir, 1)
	db, err := directory(dir, "2.0").Open(t.Context())
	require.NoError(t, err)
	requireTexts(t, db, " two three")
	require.NoError(t, db.Close())
	state := requireState(t, dir, 3)
	require.Equal(t, "backups/before-version-3-20260301T120000Z.backup", state.Backup)
	requireBackup(t, dir, state)
	revision := uint64(0)
	for range 2 { // a further start changes nothing
		db, err = directory(dir, "2.0").Open(t.Context())
		require.NoError(t, err)
		require.True(t, revision == 0 || revision == db.Revision())
		revision = db.Revision()
		require.NoError(t, db.Close())
	}
}

func TestOpen_refusesANewerDirectory(t *testing.T) {
	dir := old(t)
	db, err := directory(dir, "2.0").Open(t.Context())
	require.NoError(t, err)
	require.NoError(t, db.Close())
	older := directory(dir, "1.0")
	older.Migrations = []dataversion.Migration{}
	want := "the data directory " + dir + " has data version 3, and this program (1.0) supports version 1: use " +
		"Landfall 2.0 or a newer one, or restore the backup that was made before the upgrade: landfall restore " +
		dir + "/backups/before-version-3-20260301T120000Z.backup --data-dir NEW-DIRECTORY"
	for _, name := range []string{"with the file", "without the file"} {
		before := content(t, dir)
		_, err = older.Open(t.Context())
		require.EqualError(t, err, want, name)
		require.Equal(t, before, content(t, dir), "the refusal changed the directory")
		require.NoError(t, os.RemoveAll(filepath.Join(dir, dataversion.FileName)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, dataversion.FileName), []byte("no JSON"), 0o600))
	_, err = older.Open(t.Context())
	require.EqualError(t, err, want, "with a damaged file")
}

// content returns the files of a data directory, without the lock.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Base(path) == "landfall.lock" {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	}))
	return all
}

var errInjected = errors.New("injected")

// TestOpen_continuesAfterAFailureAtEachStep ends the migrations after each step, as a full disk
// would. An older program must not use the directory from the first change on.
func TestOpen_continuesAfterAFailureAtEachStep(t *testing.T) {
	steps := []string{"backed up", "begun", "noted", "prepared 2", "committed 2", "committed 3"}
	for _, failing := range steps {
		t.Run(failing, func(t *testing.T) {
			dir := old(t)
			failed := false
			_, err := directory(dir, "2.0").Observed(func(step string) error {
				if step == failing {
					failed = true
					return errInjected
				}
				return nil
			}).Open(t.Context())
			require.True(t, failed, "the step did not happen")
			require.ErrorIs(t, err, errInjected)
			older := directory(dir, "1.0")
			older.Migrations = []dataversion.Migration{}
			db, err := older.Open(t.Context())
			if failing == "backed up" {
				require.NoError(t, err, "nothing was changed yet")
				requireTexts(t, db, "")
				require.NoError(t, db.Close())
			} else {
				require.ErrorContains(t, err, "use Landfall 2.0 or a newer one")
			}
			var reached []string
			db, err = directory(dir, "2.0").Observed(func(step string) error {
				reached = append(reached, step)
				return nil
			}).Open(t.Context())
			require.NoError(t, err)
			requireTexts(t, db, " two three")
			require.NoError(t, db.Close())
			if failing != "backed up" {
				require.NotContains(t, reached, "backed up", "changed data was backed up again")
			}
			requireBackup(t, dir, requireState(t, dir, 3))
		})
	}
}

func TestOpen_failedMigrationNamesTheBackup(t *testing.T) {
	dir := old(t)
	_, err := directory(dir, "2.0", dataversion.Migration{Version: 2, Name: "nothing works",
		Rows: func(*store.Tx) error { return errInjected }}).Open(t.Context())
	require.EqualError(t, err, "the data could not be changed to version 2 (nothing works): injected; the next start "+
		"tries again, and "+dir+"/backups/before-version-2-20260301T120000Z.backup contains the data as it was before")
	// the next program also makes version 3, with the backup of the first attempt
	db, err := directory(dir, "2.1").Open(t.Context())
	require.NoError(t, err)
	requireTexts(t, db, " two three")
	require.NoError(t, db.Close())
	requireBackup(t, dir, requireState(t, dir, 3))
}

func TestOpen_failedBackupChangesNothing(t *testing.T) {
	dir := old(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, dataversion.BackupDir), nil, 0o600))
	_, err := directory(dir, "2.0").Open(t.Context())
	require.ErrorContains(t, err, "make the directory of automatic backups")
	older := directory(dir, "1.0")
	older.Migrations = []dataversion.Migration{}
	db, err := older.Open(t.Context())
	require.NoError(t, err)
	requireTexts(t, db, "")
	require.NoError(t, db.Close())
}

// TestOpen_survivesKills kills processes that migrate at random times.
func TestOpen_survivesKills(t *testing.T) {
	chance := randtest.New(t, 0)
	program, err := os.Executable()
	require.NoError(t, err)
	whole := time.Duration(0)
	for killed := 0; killed < *kills; {
		dir := old(t)
		for {
			cmd := exec.Command(program)
			cmd.Env = append(os.Environ(), childEnv+"="+dir)
			begun := time.Now()
			require.NoError(t, cmd.Start())
			if whole > 0 {
				timer := time.AfterFunc(time.Duration(chance.Int64N(int64(whole))), func() {
					_ = cmd.Process.Kill() // the process may have ended
				})
				err = cmd.Wait()
				timer.Stop()
			} else {
				err = cmd.Wait()
			}
			if err == nil {
				whole = max(whole, time.Since(begun))
				break
			}
			exit, ok := errors.AsType[*exec.ExitError](err)
			require.True(t, ok && exit.ExitCode() == -1, "a start failed after a kill: %v", err)
			killed++
		}
		db, err := directory(dir, "2.0").Open(t.Context())
		require.NoError(t, err)
		requireTexts(t, db, " two three")
		report, err := db.Check(t.Context())
		require.NoError(t, err)
		require.Empty(t, report.Problems)
		require.NoError(t, db.Close())
		requireBackup(t, dir, requireState(t, dir, 3))
	}
}

func TestMakeBackupDir_directoryWithSpecialCharacters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site [1")
	require.NoError(t, dataversion.MakeBackupDir(dir))
	incomplete := filepath.Join(dir, dataversion.BackupDir, ".before-1")
	require.NoError(t, os.WriteFile(incomplete, nil, 0o600))
	require.NoError(t, dataversion.MakeBackupDir(dir))
	require.NoFileExists(t, incomplete)
}

func TestNoteProgram_keepsTheVersionOfTheData(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ before, after string }{
		"no file":      {"", `{"version":0,"target":0,"program":"1.1"}`},
		"same version": {`{"version":1,"target":1,"program":"1.0"}`, `{"version":1,"target":1,"program":"1.1"}`},
		"newer data":   {`{"version":1,"target":9,"program":"9.0"}`, `{"version":1,"target":9,"program":"9.0"}`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, dataversion.FileName)
			if c.before != "" {
				require.NoError(t, os.WriteFile(path, []byte(c.before), 0o600))
			}
			require.NoError(t, dataversion.NoteProgram(dir, "1.1"))
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, c.after, strings.TrimSpace(string(after)))
			require.NoError(t, os.Remove(path))
		})
	}
}
