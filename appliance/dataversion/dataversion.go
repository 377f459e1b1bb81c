// Package dataversion opens a data directory of any version that the program supports.
//
// The meaning of the rows and files of a data directory has a version. A program changes an older
// directory by migrations, and refuses a newer one. The version is a row of the store, so that a
// migration changes it in its own transaction; a directory without the row has version 1. The file
// version.json repeats it for programs that can't open the store, such as landfall upgrade.
//
// Before the first migration, the directory is backed up into its directory "backups". The start of
// the migrations is stored before anything changes. From then on an older program refuses the
// directory, and a program that was killed continues at its next start with the same backup.
//
// Design: docs/design.md#versions-of-the-data.
package dataversion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/backup"
	"landfall/appliance/durable"
	"landfall/appliance/integrity"
	"landfall/appliance/keyring"
	"landfall/store"
)

const (
	// FileName is the name of the file that repeats the version, in the data directory.
	FileName = "version.json"
	// BackupDir is the directory of automatic backups, in the data directory.
	BackupDir = "backups"
	// first is the version of directories without a row of their version.
	first = 1
	// KeptBackups is the number of versions whose backups stay.
	KeptBackups = 3
	backupTime  = "20060102T150405Z"
)

// Migration changes a data directory to a version. It must work with rows that are damaged, which
// the store leaves out.
type Migration struct {
	Version int    // of the directory afterwards; one more than before
	Name    string // what it changes, for the log
	// Prepare changes files, or rows in small transactions. It runs again from its beginning if the
	// process ended before Rows was committed. It may be nil.
	Prepare func(ctx context.Context, db *store.DB, dir string) error
	// Rows changes rows in the transaction that stores the version. It may be nil.
	Rows func(tx *store.Tx) error
}

// migrations returns the migrations of this program in the order of their versions. There is none:
// all programs until now have written version 1.
func migrations() []Migration { return nil }

// Supported returns the version of the data that this program writes.
func Supported() int { return first + len(migrations()) }

// State is the version of a data directory.
type State struct {
	Version int `json:"version"`
	// Target is the version that the directory has after the migrations that have begun; at least
	// Version.
	Target int `json:"target"`
	// Program is the version of the program that has written Version or begun the migrations. In
	// the file, it is the program that has opened the directory last.
	Program string `json:"program"`
	// Backup is the path of the backup before the migrations, relative to the data directory.
	Backup string `json:"backup,omitempty"`
}

// Needed returns the version that a program must support to use the directory.
func (s State) Needed() int { return max(s.Version, s.Target) }

const rowKey = "directory"

var states = store.NewBucket[State]("data-version", 1)

// NewerError reports that a data directory needs a newer program.
type NewerError struct {
	Dir       string
	State     State
	Program   string // this program; "": not named
	Supported int    // by this program
}

// Error implements error.
func (e *NewerError) Error() string {
	program := "this program"
	if e.Program != "" {
		program += " (" + e.Program + ")"
	}
	text := fmt.Sprintf("the data directory %s has data version %d, and %s supports version %d: use Landfall %s or a "+
		"newer one", e.Dir, e.State.Needed(), program, e.Supported, e.State.Program)
	if e.State.Backup == "" {
		return text + ", or restore a backup that was made before the upgrade"
	}
	return text + fmt.Sprintf(", or restore the backup that was made before the upgrade: landfall restore %s "+
		"--data-dir NEW-DIRECTORY", filepath.Join(e.Dir, e.State.Backup))
}

// Directory is a data directory that Open opens.
type Directory struct {
	Dir     string
	Keys    *keyring.Keyring
	Program string // version of this program
	Store   store.Options
	Clock   clockwork.Clock
	Logger  *slog.Logger
	// Migrations replaces the migrations of the program, in tests. nil: those of the program.
	Migrations []Migration

	reached func(step string) error // called after each step, in tests; nil: nothing
}

// Open opens the store of the directory and changes it to the version of the program. Its errors
// are *NewerError, errors of the backup and of the migrations, and those of [store.Open].
func (d Directory) Open(ctx context.Context) (*store.DB, error) {
	if d.Migrations == nil {
		d.Migrations = migrations()
	}
	noted, unread := Read(d.Dir)
	if noted.Needed() > d.supported() {
		return nil, d.newer(noted)
	}
	db, err := store.Open(ctx, d.Dir, d.Store)
	if newer, ok := errors.AsType[*store.NewerSchemaError](err); ok {
		newer.Program = noted.Program
	}
	if err != nil {
		return nil, err
	}
	if unread != nil {
		d.Logger.WarnContext(ctx, "The file with the version of the data can't be read. The database has the version "+
			"too.", "error", unread)
	}
	if err := d.prepare(ctx, db, noted); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func (d *Directory) supported() int { return first + len(d.Migrations) }

func (d *Directory) newer(state State) *NewerError {
	return &NewerError{Dir: d.Dir, State: state, Program: d.Program, Supported: d.supported()}
}

// prepare changes an open store to the version of the program.
func (d *Directory) prepare(ctx context.Context, db *store.DB, noted State) error {
	state, err := d.stored(ctx, db)
	if err != nil {
		return err
	}
	if state.Needed() > d.supported() {
		return d.newer(state)
	}
	if err := integrity.Derive(ctx, db, d.Clock.Now()); err != nil {
		return err
	}
	if state.Version < d.supported() {
		if state, err = d.migrate(ctx, db, state); err != nil {
			return err
		}
	}
	state.Program = d.Program
	if state == noted {
		return nil
	}
	if err := d.note(state); err != nil {
		d.Logger.WarnContext(ctx, "The file with the version of the data could not be written. The database has the "+
			"version too.", "error", err)
	}
	return nil
}

// stored returns the version in the store. It gives a new store the version of the program.
func (d *Directory) stored(ctx context.Context, db *store.DB) (State, error) {
	isNew := db.Revision() == 0
	state := State{Version: first, Target: first, Program: d.Program}
	if isNew && d.supported() > first {
		state.Version, state.Target = d.supported(), d.supported()
		return state, d.put(ctx, db, state, nil)
	}
	err := db.View(func(tx *store.Tx) error {
		row, err := states.Get(tx, rowKey)
		if err == nil {
			state = *row
		}
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return State{}, fmt.Errorf("the version of the data can't be read: %w; restore a backup", err)
	}
	return state, nil
}

// put stores a state in the transaction of a change.
func (d *Directory) put(ctx context.Context, db *store.DB, state State, change func(*store.Tx) error) error {
	return db.Update(ctx, func(tx *store.Tx) error {
		if change != nil {
			if err := change(tx); err != nil {
				return err
			}
		}
		return states.Put(tx, rowKey, &state)
	})
}

func (d *Directory) step(name string) error {
	if d.reached == nil {
		return nil
	}
	return d.reached(name)
}

func (d *Directory) migrate(ctx context.Context, db *store.DB, state State) (State, error) {
	if state.Target <= state.Version || state.Target != d.supported() {
		// A newer program may continue what another one has begun. The directory then has a backup.
		begun := state.Target > state.Version
		state.Target, state.Program = d.supported(), d.Program
		if !begun {
			var err error
			if state.Backup, err = d.backUp(ctx, db, state.Target); err != nil {
				return state, err
			}
		}
		if err := d.put(ctx, db, state, nil); err != nil {
			return state, fmt.Errorf("store the begin of the change of the data: %w", err)
		}
		if err := d.step("begun"); err != nil {
			return state, err
		}
	}
	if err := errors.Join(d.note(state), d.prune(state)); err != nil {
		return state, fmt.Errorf("the data can't be changed to version %d: %w", state.Target, err)
	}
	if err := d.step("noted"); err != nil {
		return state, err
	}
	for _, m := range d.Migrations {
		if m.Version <= state.Version {
			continue
		}
		if err := d.apply(ctx, db, m, &state); err != nil {
			return state, fmt.Errorf("the data could not be changed to version %d (%s): %w; the next start tries "+
				"again, and %s contains the data as it was before", m.Version, m.Name, err,
				filepath.Join(d.Dir, state.Backup))
		}
	}
	return state, nil
}

func (d *Directory) apply(ctx context.Context, db *store.DB, m Migration, state *State) error {
	start := d.Clock.Now()
	if m.Prepare != nil {
		if err := m.Prepare(ctx, db, d.Dir); err != nil {
			return err
		}
		if err := d.step("prepared " + strconv.Itoa(m.Version)); err != nil {
			return err
		}
	}
	next := *state
	next.Version, next.Program = m.Version, d.Program
	if err := d.put(ctx, db, next, m.Rows); err != nil {
		return err
	}
	*state = next
	d.Logger.InfoContext(ctx, "The data was changed to another version.", "version", m.Version, "change", m.Name,
		"took", d.Clock.Since(start))
	return d.step("committed " + strconv.Itoa(m.Version))
}

// backUp writes the backup before a version, and returns its path in the data directory.
func (d *Directory) backUp(ctx context.Context, db *store.DB, target int) (string, error) {
	dir := filepath.Join(d.Dir, BackupDir)
	if err := MakeBackupDir(d.Dir); err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s%d-%s.backup", backupPrefix, target, d.Clock.Now().UTC().Format(backupTime))
	source := &backup.Source{DB: db, Dir: d.Dir, Program: d.Program, Now: d.Clock.Now,
		SealedWith: string(d.Keys.With()), DataKey: d.Keys.Content, ExportKeys: d.Keys.Export}
	manifest, err := source.WriteFile(ctx, filepath.Join(dir, name))
	if err != nil {
		return "", fmt.Errorf("the data must be changed to version %d, and the backup before the change failed: %w; "+
			"nothing was changed", target, err)
	}
	d.Logger.InfoContext(ctx, "The data was backed up before its change to another version, and the backup was read "+
		"back.", "backup", filepath.Join(dir, name), "bytes", manifest.Bytes(), "version", target)
	return filepath.Join(BackupDir, name), d.step("backed up")
}

// MakeBackupDir makes the directory of automatic backups, and removes incomplete ones from it.
func MakeBackupDir(dataDir string) error {
	dir := filepath.Join(dataDir, BackupDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of automatic backups: %w", err)
	}
	incomplete, err := fs.Glob(os.DirFS(dir), ".before-*") // of backup.WriteFile
	if err != nil {
		return err
	}
	for _, name := range incomplete {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an incomplete backup: %w", err)
		}
	}
	return nil
}

const backupPrefix = "before-version-"

// prune removes backups of migrations that never began, and those of old versions.
func (d *Directory) prune(state State) error {
	dir := filepath.Join(d.Dir, BackupDir)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	byVersion := make(map[int][]string)
	for _, entry := range entries {
		rest, ok := strings.CutPrefix(entry.Name(), backupPrefix)
		text, _, _ := strings.Cut(rest, "-")
		if version, err := strconv.Atoi(text); ok && err == nil {
			byVersion[version] = append(byVersion[version], entry.Name())
		}
	}
	versions := make([]int, 0, len(byVersion))
	for version := range byVersion {
		versions = append(versions, version)
	}
	slices.Sort(versions)
	for i, version := range versions {
		for _, name := range byVersion[version] {
			needed := filepath.Join(BackupDir, name) == state.Backup
			if needed || version != state.Target && i >= len(versions)-KeptBackups {
				continue
			}
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove an old backup: %w", err)
			}
		}
	}
	return nil
}

// note writes the file that repeats the version.
func (d *Directory) note(state State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(d.Dir, FileName), append(text, '\n'), 0o600)
}

// Read returns the version in the file of a data directory, or the zero value if there is no file.
func Read(dir string) (State, error) {
	text, err := os.ReadFile(filepath.Join(dir, FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, err
	}
	var state State
	if err := json.Unmarshal(text, &state); err != nil {
		return State{}, fmt.Errorf("read %s: %w", filepath.Join(dir, FileName), err)
	}
	return state, nil
}

// NoteProgram writes the version of a program that opens a data directory without Open into the
// file. A directory that needs a newer program stays as it is, because the file names that program.
func NoteProgram(dir, program string) error {
	state, err := Read(dir)
	if err != nil || state.Needed() > Supported() || state.Program == program {
		return err
	}
	state.Program = program
	return (&Directory{Dir: dir}).note(state)
}

// Check returns a *NewerError if a data directory needs a newer program than this one. Commands
// that change a directory without an appliance call it first.
func Check(dir string) error {
	state, err := Read(dir)
	if err == nil && state.Needed() > Supported() {
		return &NewerError{Dir: dir, State: state, Supported: Supported()}
	}
	return err
}

// BackupName returns the name of an automatic backup that is made at a time before an event.
func BackupName(event string, at time.Time) string {
	return fmt.Sprintf("before-%s-%s.backup", event, at.UTC().Format(backupTime))
}
