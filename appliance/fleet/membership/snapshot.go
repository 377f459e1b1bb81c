package membership

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"landfall/appliance/backup"
	"landfall/appliance/durable"
	"landfall/appliance/fleet"
	"landfall/store"
)

// incomingDir is the directory in the data directory of a member into which it unpacks a snapshot.
const incomingDir = "incoming"

// DamagedDir is the directory in the data directory for the last database that was found damaged.
const DamagedDir = "damaged"

// auditDir is the directory of the audit trail, of which each member has its own.
const auditDir = "audit"

// Unpack makes a data directory from a snapshot, with which a machine joins a fleet. It gives the
// state of the directory a new ID.
func Unpack(ctx context.Context, snapshot io.Reader, dir string, state *fleet.State) error {
	state.ID = uuid.NewString()
	target := &backup.Target{Dir: dir, Now: time.Now}
	target.Describe = func(manifest *backup.Manifest, temporary string) error {
		if !manifest.Key {
			return errors.New("the snapshot has no keys; the program of the member that sent it is another version")
		}
		// The machine goes on with the data of the others. Nothing is compared with AMS, as after a
		// restore from a backup.
		if err := errors.Join(os.Remove(filepath.Join(temporary, backup.MarkerName)),
			os.RemoveAll(filepath.Join(temporary, auditDir))); err != nil {
			return err
		}
		return state.Write(temporary)
	}
	if _, err := target.Restore(ctx, snapshot); err != nil {
		return fmt.Errorf("take a snapshot of a member: %w", err)
	}
	return nil
}

// Replace replaces the database of a data directory by that of a snapshot of the same fleet. If it
// is interrupted, the directory has no database or an old one, and the member takes a snapshot
// again. A damaged database is kept in the directory DamagedDir.
func Replace(ctx context.Context, snapshot io.Reader, dir string, damaged bool) error {
	incoming := filepath.Join(dir, incomingDir)
	if err := os.RemoveAll(incoming); err != nil {
		return err
	}
	if _, err := (&backup.Target{Dir: incoming, Now: time.Now}).Restore(ctx, snapshot); err != nil {
		return fmt.Errorf("take a snapshot of a member: %w", err)
	}
	if err := moveContents(incoming, dir); err != nil {
		return err
	}
	if err := removeOld(dir, damaged); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(incoming, store.FileName), filepath.Join(dir, store.FileName)); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(incoming), durable.SyncDir(dir))
}

// removeOld removes the log of the old database, or moves both away.
func removeOld(dir string, keep bool) error {
	old, err := fs.Glob(os.DirFS(dir), "landfall-[12].wal")
	if err != nil {
		return err
	}
	old = append(old, "landfall.committed", store.DamageFileName)
	remove := os.Remove
	if keep {
		kept := filepath.Join(dir, DamagedDir)
		if err := errors.Join(os.RemoveAll(kept), os.Mkdir(kept, 0o700)); err != nil {
			return err
		}
		old = append(old, store.FileName)
		remove = func(path string) error { return os.Rename(path, filepath.Join(kept, filepath.Base(path))) }
	}
	for _, name := range old {
		if err := remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// moveContents moves the contents that a data directory lacks.
func moveContents(from, to string) error {
	const contents = "blobs"
	root := filepath.Join(from, contents)
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		if err := os.Rename(path, target); err != nil {
			return err
		}
		return durable.SyncDir(filepath.Dir(target))
	})
}
