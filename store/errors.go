package store

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

var (
	// ErrNotFound is returned for a key that has no value.
	ErrNotFound = errors.New("not found")
	// ErrStop, returned by the function given to Each, EachReverse or Keys, ends the walk early;
	// the walk itself then returns nil.
	ErrStop = errors.New("stop")
	// ErrClosed is returned by whatever is called on a closed database.
	ErrClosed = errors.New("the database is closed")
	// ErrReadOnly is returned by writing within a View.
	ErrReadOnly = errors.New("a view cannot write")
	// ErrCompacted ends a watch whose starting revision the change log no longer reaches: read anew
	// and watch from there.
	ErrCompacted = errors.New("the change log no longer reaches back to the wanted revision")
	// ErrFutureRevision ends a watch that starts after the newest revision, as happens to a client
	// that outlived a restore: read anew and watch from there.
	ErrFutureRevision = errors.New("the wanted revision is newer than the database")
	// ErrStagedGone is returned by Files.Put for content that was collected because it waited
	// longer than Options.BlobGrace: stage it again.
	ErrStagedGone = errors.New("the staged content was collected before it was used")
)

// HeldError says that another process has the data directory.
type HeldError struct {
	Dir   string
	PID   int       // 0 if the holder did not say
	Since time.Time // UTC; zero if the holder did not say
}

func (e *HeldError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("the data directory %s is held by another process: stop it, or choose another data "+
			"directory", e.Dir)
	}
	return fmt.Sprintf("the data directory %s is held by process %d since %s: stop that process, or choose another "+
		"data directory",
		e.Dir, e.PID, e.Since.Format(time.RFC3339))
}

// DirError says why a path cannot serve as the data directory.
type DirError struct {
	Dir string
	Err error
}

func (e *DirError) Error() string {
	switch {
	case errors.Is(e.Err, syscall.ENOTDIR):
		return fmt.Sprintf("the data directory %s is not a directory: move that file away, or choose another data "+
			"directory", e.Dir)
	case errors.Is(e.Err, syscall.EROFS):
		return fmt.Sprintf("the data directory %s is on a read-only file system: remount it writable, or choose "+
			"another data directory", e.Dir)
	case errors.Is(e.Err, syscall.EACCES), errors.Is(e.Err, syscall.EPERM):
		return fmt.Sprintf("the data directory %s may not be read and written by user %d: give it to that user, or "+
			"choose another data directory", e.Dir, syscall.Getuid())
	}
	return fmt.Sprintf("the data directory %s cannot be used (%v): repair it, or choose another data directory",
		e.Dir, e.Err)
}

func (e *DirError) Unwrap() error { return e.Err }

// CorruptError says that the database is damaged or is not one of Landfall's.
type CorruptError struct {
	Path string
	Err  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("the database %s is damaged (%v): restore it from a backup, or move it away to start empty",
		e.Path, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// NewerSchemaError says that a newer Landfall wrote the database, or one value of it.
type NewerSchemaError struct {
	Path    string // of the database
	Key     string // of the value; empty if the database as a whole is newer
	Version int    // found
	Known   int    // the newest that this program knows
}

func (e *NewerSchemaError) Error() string {
	what := "the database " + e.Path
	if e.Key != "" {
		what = fmt.Sprintf("%s in the database %s", e.Key, e.Path)
	}
	return fmt.Sprintf("%s was written by a newer Landfall (schema %d, this one knows %d): use the newer Landfall, "+
		"or restore a backup made before the upgrade",
		what, e.Version, e.Known)
}

// WriteError says that a change did not reach the disk. The database stays usable: reading goes on,
// and writing works again when its cause is gone.
type WriteError struct {
	Path string // what could not be written
	Err  error
	// Unknown is set if the disk failed so late that only the next start will show whether the
	// change was kept. Otherwise nothing of it was.
	Unknown bool
}

func (e *WriteError) Error() string {
	fate := "nothing of the change was kept"
	if e.Unknown {
		fate = "whether the change was kept shows at the next start"
	}
	if e.NoSpace() {
		return fmt.Sprintf("no space is left to write %s, %s: free space on its file system, then try again",
			e.Path, fate)
	}
	return fmt.Sprintf("writing %s failed (%v), %s: check the disk and the kernel's log, then try again", e.Path,
		e.Err, fate)
}

func (e *WriteError) Unwrap() error { return e.Err }

// NoSpace reports whether the file system, a quota or a file size limit left no room.
func (e *WriteError) NoSpace() bool {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		// bbolt keeps only the text of an error met while it grows its file.
		if errors.Is(e.Err, errno) || strings.HasSuffix(e.Err.Error(), errno.Error()) {
			return true
		}
	}
	return false
}
