// Package upgrade replaces the program of an appliance by another version, checks that the
// appliance is ready with it, and goes back to the former program if it is not.
//
// The file of the program always contains a complete program: a new one is written beside it and
// renamed. The former program stays beside it under the suffix ".previous". A program that can't
// use the version of the data is never installed.
//
// Design: docs/design.md#upgrades.
package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/dataversion"
	"landfall/appliance/durable"
	"landfall/appliance/process"
)

const (
	// PreviousSuffix is the end of the name of the former program.
	PreviousSuffix = ".previous"
	newSuffix      = ".new"
	swapSuffix     = ".swap"
	// lookInterval is the time between two requests whether the appliance is ready.
	lookInterval = 500 * time.Millisecond
	// KeptBackups is the number of backups before upgrades that stay.
	KeptBackups = 3
	event       = "upgrade"
)

// Installation is an installed program with its data directory.
type Installation struct {
	Program string // path
	DataDir string
	// Backup writes a backup to a file. nil: there is none.
	Backup func(ctx context.Context, path string) error
	// Restart restarts the appliance. nil: nothing restarts it, and Command tells what to do.
	Restart func(ctx context.Context) error
	Command string
	// Flags are the flags of the command that goes back, each after a space.
	Flags string
	// Ready returns nil if the appliance is ready.
	Ready func(ctx context.Context) error
	Limit time.Duration // for the appliance to get ready
	Clock clockwork.Clock
	Out   io.Writer

	reached func(step string) error // called after each step, in tests; nil: nothing
}

// RefusedError reports that a program can't use the data. Its text says the way out.
type RefusedError struct {
	Program *Program
	Dir     string
	Data    dataversion.State
}

// Error implements error.
func (e *RefusedError) Error() string {
	text := fmt.Sprintf("%s supports data version %d, and %s has version %d, so it is not installed", e.Program,
		e.Program.Data, e.Dir, e.Data.Needed())
	way := "a backup that was made before the data was changed"
	if e.Data.Backup != "" {
		way = filepath.Join(e.Dir, e.Data.Backup)
	}
	return text + fmt.Sprintf("; to go back, stop the appliance, restore the data as it was before (landfall restore "+
		"%s --data-dir NEW-DIRECTORY), and start the older program with NEW-DIRECTORY; what happened since then is "+
		"missing there", way)
}

func (i *Installation) previous() string { return i.Program + PreviousSuffix }

func (i *Installation) say(format string, values ...any) { fmt.Fprintf(i.Out, format+"\n", values...) }

func (i *Installation) step(name string) error {
	if i.reached == nil {
		return nil
	}
	return i.reached(name)
}

// check refuses a program that can't use the data.
func (i *Installation) check(program *Program) error {
	data, err := dataversion.Read(i.DataDir)
	if err != nil {
		return fmt.Errorf("read the version of the data: %w", err)
	}
	if data.Needed() > program.Data {
		return &RefusedError{Program: program, Dir: i.DataDir, Data: data}
	}
	return nil
}

// Upgrade installs a program, restarts the appliance and waits until it is ready. If it does not
// get ready, Upgrade puts back the former program.
func (i *Installation) Upgrade(ctx context.Context, file string, proof Proof) (err error) {
	next, err := i.prepare(ctx, file, proof)
	if err != nil {
		return err
	}
	defer func() {
		if rest := os.Remove(i.Program + newSuffix); rest != nil && !errors.Is(rest, fs.ErrNotExist) {
			err = errors.Join(err, rest)
		}
	}()
	former, err := Inspect(ctx, i.Program)
	if err != nil {
		return fmt.Errorf("the installed program: %w", err)
	}
	if next.SHA256 == former.SHA256 {
		i.say("%s is already installed as %s.", next, i.Program)
		return nil
	}
	if err := i.check(next); err != nil {
		return err
	}
	if err := i.backUp(ctx); err != nil {
		return err
	}
	if err := i.install(); err != nil {
		return fmt.Errorf("install %s: %w; %s is as it was", i.Program, err, former)
	}
	i.say("%s is installed as %s; the former one (%s) is %s.", next, i.Program, former.Version, i.previous())
	if err := i.step("installed"); err != nil {
		return err
	}
	return i.activate(ctx, next, former)
}

// activate restarts the appliance with a program, and goes back to the former one if it fails.
func (i *Installation) activate(ctx context.Context, next, former *Program) error {
	if i.Restart == nil {
		i.say("Restart the appliance to use it: %s\nTo go back: landfall upgrade --rollback%s", i.Command, i.Flags)
		return nil
	}
	failure := i.start(ctx, next)
	if failure == nil {
		i.say("The appliance is ready with %s.", next)
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted before the appliance was ready with %s; look at its state, and go back with "+
			"landfall upgrade --rollback%s if needed", next, i.Flags)
	}
	i.say("The appliance is not ready with %s: %s.", next, failure)
	if err := i.check(former); err != nil {
		return fmt.Errorf("the appliance is not ready with %s (%w), and it has changed the data already: %w", next,
			failure, err)
	}
	if err := i.swap(); err != nil {
		return fmt.Errorf("the appliance is not ready with %s (%w), and the former program could not be put back: %w",
			next, failure, err)
	}
	if err := i.start(ctx, former); err != nil {
		return fmt.Errorf("the appliance is not ready with %s (%w); %s was put back and is not ready either: %w", next,
			failure, former, err)
	}
	return fmt.Errorf("the appliance was not ready with %s (%w); %s was put back and is ready", next, failure, former)
}

// Rollback exchanges the installed program with the former one.
func (i *Installation) Rollback(ctx context.Context) error {
	former, err := Inspect(ctx, i.previous())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no former program %s; only landfall upgrade keeps one", i.previous())
	}
	if err != nil {
		return fmt.Errorf("the former program: %w", err)
	}
	if err := i.check(former); err != nil {
		return err
	}
	present, err := Inspect(ctx, i.Program)
	if err != nil {
		present = &Program{Path: i.Program, Version: "that was installed"} // it may be the reason to go back
	}
	if err := i.swap(); err != nil {
		return fmt.Errorf("put back %s: %w", i.previous(), err)
	}
	i.say("%s is installed as %s again; %s is %s.", former, i.Program, present, i.previous())
	if i.Restart == nil {
		i.say("Restart the appliance to use it: %s", i.Command)
		return nil
	}
	if err := i.start(ctx, former); err != nil {
		return fmt.Errorf("the appliance is not ready with %s: %w", former, err)
	}
	i.say("The appliance is ready with %s.", former)
	return nil
}

func (i *Installation) backUp(ctx context.Context) error {
	if i.Backup == nil {
		return nil
	}
	if err := dataversion.MakeBackupDir(i.DataDir); err != nil {
		return err
	}
	dir := filepath.Join(i.DataDir, dataversion.BackupDir)
	path := filepath.Join(dir, dataversion.BackupName(event, i.Clock.Now()))
	err := i.Backup(ctx, path)
	given := process.GiveToOwner(i.DataDir, dir) // also without a backup: the program makes others there
	if err != nil {
		return fmt.Errorf("the backup before the upgrade failed: %w; or upgrade without it (--no-backup)", err)
	}
	if given != nil {
		return given
	}
	i.say("The data is backed up in %s.", path)
	if err := prune(dir); err != nil {
		return err
	}
	return i.step("backed up")
}

// prune removes all but the newest backups before upgrades.
func prune(dir string) error {
	names, err := fs.Glob(os.DirFS(dir), "before-"+event+"-*.backup")
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names[:max(0, len(names)-KeptBackups)] {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove an old backup: %w", err)
		}
	}
	return nil
}

// prepare copies a program beside the installed one. It runs only the copy, and only if that passes
// the proof: the file may change between the check and the run.
func (i *Installation) prepare(ctx context.Context, file string, proof Proof) (*Program, error) {
	program, err := copyProgram(file, i.Program+newSuffix)
	if err != nil {
		return nil, err
	}
	err = proof.Check(program)
	if err == nil {
		err = program.ask(ctx, i.Program+newSuffix)
	}
	if err == nil {
		err = i.step("copied")
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(i.Program+newSuffix))
	}
	return program, nil
}

// install replaces the installed program by the copied one, and keeps the former one.
func (i *Installation) install() error {
	if err := replaceLink(i.Program, i.previous()); err != nil {
		return err
	}
	if err := i.step("kept"); err != nil {
		return err
	}
	if err := os.Rename(i.Program+newSuffix, i.Program); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(i.Program))
}

// copyProgram copies a program to a new file, which replaces that of an interrupted upgrade.
func copyProgram(path, to string) (_ *Program, err error) {
	from, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	if rest, err := os.Stat(to); err == nil && os.SameFile(from, rest) {
		return nil, fmt.Errorf("%s has the name under which the upgrade copies a program; give it another name", path)
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the copy of an interrupted upgrade: %w", err)
	}
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return nil, fmt.Errorf("copy %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(to))
		}
	}()
	program, err := read(path, file)
	return program, errors.Join(cmp.Or(err, file.Chmod(0o755), file.Sync()), file.Close())
}

// replaceLink makes to a second name of a file. At any moment, to is complete.
func replaceLink(from, to string) error {
	temporary := to + newSuffix
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(from, temporary); err != nil {
		return err
	}
	// A rename does nothing if both are the same file.
	if err := os.Rename(temporary, to); err != nil {
		return err
	}
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// swap exchanges the installed program with the former one.
func (i *Installation) swap() error {
	if err := replaceLink(i.Program, i.Program+swapSuffix); err != nil {
		return err
	}
	if err := os.Rename(i.previous(), i.Program); err != nil {
		return err
	}
	if err := os.Rename(i.Program+swapSuffix, i.previous()); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(i.Program))
}

// start restarts the appliance and waits until it is ready with a program.
func (i *Installation) start(ctx context.Context, program *Program) error {
	if err := i.Restart(ctx); err != nil {
		return fmt.Errorf("it could not be restarted: %w", err)
	}
	limit := i.Clock.NewTimer(i.Limit)
	defer limit.Stop()
	ticker := i.Clock.NewTicker(lookInterval)
	defer ticker.Stop()
	var last error
	for {
		last = cmp.Or(i.Ready(ctx), i.running(program))
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.Chan():
			return fmt.Errorf("not ready after %s: %w", i.Limit, last)
		case <-ticker.Chan():
		}
	}
}

// running returns an error if another program has opened the data directory last.
func (i *Installation) running(program *Program) error {
	data, err := dataversion.Read(i.DataDir)
	if err != nil {
		return err
	}
	if program.Notes && data.Program != program.Version {
		return fmt.Errorf("the appliance still runs version %s", data.Program)
	}
	return nil
}

// readyLimit limits the time of one request whether the appliance is ready.
const readyLimit = 5 * time.Second

// ReadyAt returns a function that asks an appliance at a URL whether it is ready.
func ReadyAt(url string, client *http.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, readyLimit)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(url, "/")+"/readyz", nil)
		if err != nil {
			return err
		}
		request.Close = true // another process answers after a restart
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s: %s", request.URL, response.Status, strings.TrimSpace(string(text)))
		}
		return nil
	}
}
