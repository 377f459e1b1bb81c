package store

import (
	"errors"
	"fmt"
	"time"

	"landfall/store/wal"
)

var (
	// ErrNotFound reports that a key has no value.
	ErrNotFound = errors.New("not found")
	// ErrStop ends an iteration when the function passed to Each, EachReverse or Keys returns it.
	// The iteration then returns nil.
	ErrStop = errors.New("stop")
	// ErrClosed is returned by every call on a closed database.
	ErrClosed = wal.ErrClosed
	// ErrReadOnly is returned by a write within a View.
	ErrReadOnly = wal.ErrReadOnly
	// ErrCompacted ends a watch whose start revision was removed from the change log. Read the rows
	// again and watch from their revision.
	ErrCompacted = errors.New("the requested revision was removed from the change log")
	// ErrFutureRevision ends a watch that starts after the newest revision. A client gets it after
	// a restore of the database. Read the rows again and watch from their revision.
	ErrFutureRevision = errors.New("the requested revision is newer than the database")
	// ErrStagedGone is returned by Files.Put for content that was collected because it was staged
	// longer than Options.BlobGrace ago. Stage it again.
	ErrStagedGone = errors.New("the staged content was collected before it was used")
)

// Errors of a database with a part in a shared log; see package wal.
var (
	ErrBroken      = wal.ErrBroken
	ErrFollower    = wal.ErrFollower
	ErrNotFollower = wal.ErrNotFollower
	ErrNoSequence  = wal.ErrNoSequence
	ErrNotNext     = wal.ErrNotNext
	ErrDiverged    = wal.ErrDiverged
)

type (
	// DirError reports why a path is not usable as the data directory.
	DirError = wal.DirError
	// CorruptError reports that the database is damaged or was not written by Landfall.
	CorruptError = wal.CorruptError
	// WriteError reports that a change was not written to the disk. Reads continue. Writes succeed
	// again when the cause is removed.
	WriteError = wal.WriteError
	// RecordError reports a record of the shared log that was not applied.
	RecordError = wal.RecordError
	// RefusedError reports that a record is not in the shared log and will never be.
	RefusedError = wal.RefusedError
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

// MissingContentError reports that this machine does not have the content of a file yet. Other
// machines with the same rows have it.
type MissingContentError struct {
	Key    string // of the file
	SHA256 string // of the content
}

// Error implements error.
func (e *MissingContentError) Error() string {
	return fmt.Sprintf("the content of %s (SHA-256 %s) is not on this machine yet: try again when it was copied from "+
		"another member", e.Key, e.SHA256)
}

// DamagedCopyError reports that a database with a part in a shared log is damaged. It is not
// repaired, because other machines have the same rows.
type DamagedCopyError struct {
	Path   string
	Reason string
}

// Error implements error.
func (e *DamagedCopyError) Error() string {
	return fmt.Sprintf("the database %s is damaged (%s): move it away, and copy the database of another member",
		e.Path, e.Reason)
}

// NewerSchemaError reports that a newer Landfall wrote the database, or one value of it.
type NewerSchemaError struct {
	Path      string // of the database
	Key       string // of the value; empty if the schema of the whole database is newer
	Version   int    // the version found
	Supported int    // the newest version that this program supports
	Program   string // that used the database last; "": unknown
}

func (e *NewerSchemaError) Error() string {
	subject := "the database " + e.Path
	if e.Key != "" {
		subject = fmt.Sprintf("%s in the database %s", e.Key, e.Path)
	}
	newer := "the newer Landfall"
	if e.Program != "" {
		newer = fmt.Sprintf("Landfall %s or a newer one", e.Program)
	}
	return fmt.Sprintf("%s was written by a newer Landfall (schema %d, this program supports %d): use %s, or restore "+
		"a backup made before the upgrade", subject, e.Version, e.Supported, newer)
}
