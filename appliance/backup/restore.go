package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"landfall/appliance/checksum"
	"landfall/appliance/durable"
	"landfall/appliance/process"
	"landfall/store"
)

// MarkerName is the name of the file that a restore leaves in the data directory. The first start
// reads it: see AfterRestore.
const MarkerName = "restored.json"

// temporarySuffix is the end of the name of a data directory that is being restored.
const temporarySuffix = ".restoring"

// Marker says from which backup a data directory was restored.
type Marker struct {
	Backup   time.Time `json:"backup"`
	Restored time.Time `json:"restored"`
	Revision uint64    `json:"revision"`
}

// Target is what a restore makes.
type Target struct {
	Dir string // the new data directory; it must not exist, or be empty
	Now func() time.Time
	// Progress gets what is read of the backup; nil: nothing does.
	Progress io.Writer
	// Replay changes the restored directory and its manifest before the directory is described: it
	// applies what happened after the backup. nil: nothing.
	Replay func(ctx context.Context, manifest *Manifest, dir string) error
	// Describe gets the restored directory before it gets its final name. Its error ends the
	// restore, and nothing is left.
	Describe func(manifest *Manifest, dir string) error
}

// NotEmptyError reports that the directory of a restore contains something.
type NotEmptyError struct{ Dir string }

// Error implements error.
func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("the directory %s is not empty, and a restore does not overwrite anything; name a new "+
		"directory, or move the old one away", e.Dir)
}

// Restore makes a data directory from the backup in a stream. It is made under another name and
// renamed at the end, so an interrupted restore leaves no data directory. The directory belongs to
// the owner of the empty one that it replaces, or of the one in which it is made.
func (t *Target) Restore(ctx context.Context, stream io.Reader) (_ *Manifest, err error) {
	dir, err := resolve(t.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	temporary := dir + temporarySuffix
	if err := os.RemoveAll(temporary); err != nil { // of an interrupted restore
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temporary))
		}
	}()
	if err := os.Mkdir(temporary, 0o700); err != nil {
		return nil, err
	}
	manifest, err := t.fill(ctx, temporary, stream)
	if err != nil {
		return nil, err
	}
	if t.Describe != nil {
		if err := t.Describe(manifest, temporary); err != nil {
			return nil, err
		}
	}
	if err := process.GiveToOwner(ownerOf(dir), temporary); err != nil {
		return nil, err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.Rename(temporary, dir); err != nil {
		return nil, err
	}
	return manifest, durable.SyncDir(filepath.Dir(dir))
}

// ownerOf returns a directory with the owner that a restored one gets: the one that it replaces, or
// the one in which it is made. The appliance runs as this user, and root may restore it.
func ownerOf(dir string) string {
	if _, err := os.Stat(dir); err != nil {
		return filepath.Dir(dir)
	}
	return dir
}

// resolve returns the directory that a restore makes or replaces, without symbolic links. A rename
// can replace an empty directory, but not a mount point.
func resolve(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(absolute)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(absolute); err == nil {
			return "", fmt.Errorf("%s is a symbolic link to a directory that does not exist; make that directory, or "+
				"name another one", dir)
		}
		return absolute, nil
	}
	if err != nil {
		return "", fmt.Errorf("the directory of the restore can't be read: %w", err)
	}
	mounted, err := isMountPoint(resolved)
	if err != nil {
		return "", fmt.Errorf("the directory of the restore can't be read: %w", err)
	}
	if mounted {
		return "", fmt.Errorf("%s is a mount point, which a restore can't replace; name a new directory in it, such "+
			"as %s", dir, filepath.Join(dir, "data"))
	}
	entries, err := os.ReadDir(resolved)
	if err != nil {
		return "", fmt.Errorf("the directory of the restore can't be read: %w", err)
	}
	if len(entries) > 0 {
		return "", &NotEmptyError{filepath.Clean(dir)}
	}
	return resolved, nil
}

// isMountPoint reports whether a directory is the root of a file system or of a bind mount.
func isMountPoint(dir string) (bool, error) {
	if root, known := isMountRoot(dir); known {
		return root, nil
	}
	var own, parent syscall.Stat_t
	err := errors.Join(syscall.Stat(dir, &own), syscall.Stat(filepath.Dir(dir), &parent))
	return own.Dev != parent.Dev, err
}

// rowsName is the name of the file with all rows while a restore runs.
const rowsName = "rows.restoring"

func (t *Target) fill(ctx context.Context, dir string, stream io.Reader) (*Manifest, error) {
	rows, err := os.OpenFile(filepath.Join(dir, rowsName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if t.Progress != nil {
		stream = io.TeeReader(stream, t.Progress)
	}
	manifest, err := Read(stream, func(name string, _ int64, content io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if strings.HasPrefix(name, rowsDir) {
			_, err := io.Copy(rows, content)
			return err
		}
		return writeEntry(filepath.Join(dir, filepath.FromSlash(name)), content)
	})
	if err == nil {
		err = createDatabase(dir, rows)
	}
	if err = errors.Join(err, rows.Close(), os.Remove(rows.Name())); err != nil {
		return nil, err
	}
	if t.Replay != nil {
		if err := t.Replay(ctx, manifest, dir); err != nil {
			return nil, err
		}
	}
	marker, err := checksum.Marshal(Marker{Backup: manifest.Time, Restored: t.Now().UTC(),
		Revision: manifest.Revision})
	if err != nil {
		return nil, err
	}
	if err := durable.WriteFile(filepath.Join(dir, MarkerName), marker, 0o600); err != nil {
		return nil, err
	}
	return manifest, syncAll(dir)
}

// createDatabase writes the database from the rows.
func createDatabase(dir string, rows *os.File) error {
	if _, err := rows.Seek(0, io.SeekStart); err != nil {
		return err
	}
	from := bufio.NewReaderSize(rows, 1<<20)
	if err := store.CreateFrom(dir, func() (store.StoredRow, error) { return store.ReadRow(from) }); err != nil {
		return fmt.Errorf("write the database: %w", err)
	}
	return nil
}

func writeEntry(path string, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncAll makes the names of all files durable.
func syncAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return durable.SyncDir(path)
	})
}

// ReadMarker returns the marker of a restored data directory, or nil. A damaged marker says nothing
// but that the directory was restored.
func ReadMarker(dir string) (*Marker, error) {
	text, err := os.ReadFile(filepath.Join(dir, MarkerName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	marker := new(Marker)
	if checksum.Unmarshal(text, marker) != nil {
		return new(Marker), nil
	}
	return marker, nil
}

// AfterRestore calls hold at the first start of a restored data directory, before anything is
// reported to others: hold stops what must wait for a person. The marker is then renamed, so that
// hold is called again if the process ends before.
func AfterRestore(dir string, hold func(Marker) error) error {
	marker, err := ReadMarker(dir)
	if err != nil || marker == nil {
		return err
	}
	if err := hold(*marker); err != nil {
		return fmt.Errorf("the data directory was restored from a backup, and what must wait could not be stopped: %w",
			err)
	}
	path := filepath.Join(dir, MarkerName)
	if err := os.Rename(path, path+"."+marker.Restored.Format(timeFormat)); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}
