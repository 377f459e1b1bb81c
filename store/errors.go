package store

import (
	"errors"
	"fmt"
	"time"

	"landfall/store/wal"
)

var (
	// ErrNotFound is returned for a key that has no value.
	ErrNotFound = errors.New("not found")
	// ErrStop, returned by the function given to Each, EachReverse or Keys, ends the iteration
	// early. The iteration itself then returns nil.
	ErrStop = errors.New("stop")
	// ErrClosed is returned by every call on a closed database.
	ErrClosed = wal.ErrClosed
	// ErrReadOnly is returned by a write within a View.
	ErrReadOnly = wal.ErrReadOnly
	// ErrCompacted ends a watch whose start revision is no longer in the change log. Read the rows
	// again and watch from there.
	ErrCompacted = errors.New("the change log no longer reaches back to the wanted revision")
	// ErrFutureRevision ends a watch that starts after the newest revision, as happens to a client
	// that outlived a restore. Read the rows again and watch from there.
	ErrFutureRevision = errors.New("the wanted revision is newer than the database")
	// ErrStagedGone is returned by Files.Put for content that was collected because it waited
	// longer than Options.BlobGrace. Stage it again.
	ErrStagedGone = errors.New("the staged content was collected before it was used")
)

type (
	// DirError reports why a path cannot serve as the data directory.
	DirError = wal.DirError
	// CorruptError reports that the database is damaged or is not one of Landfall's.
	CorruptError = wal.CorruptError
	// WriteError reports that a change did not reach the disk. The database stays usable: reads
	// continue, and writes succeed again when the cause is gone.
	WriteError = wal.WriteError
)

// HeldError reports that another process holds the data directory.
type HeldError struct {
	Dir   string
	PID   int       // 0 if unknown
	Since time.Time // UTC; zero if unknown
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

// NewerSchemaError reports that a newer Landfall wrote the database, or one value of it.
type NewerSchemaError struct {
	Path    string // of the database
	Key     string // of the value; empty if the database as a whole is newer
	Version int    // the version found
	Known   int    // the newest version that this program knows
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
