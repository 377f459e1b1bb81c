package wal

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

var (
	// ErrClosed is returned by every call on a closed database.
	ErrClosed = errors.New("the database is closed")
	// ErrReadOnly is returned by a write in a read transaction.
	ErrReadOnly = errors.New("a view cannot write")
)

// DirError reports why a path is not usable as the data directory.
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
	case errors.Is(e.Err, syscall.EEXIST): // of the creation, although stat did not find it
		return fmt.Sprintf("the path of the data directory %s has a symbolic link to a place that does not exist: "+
			"mount its disk, or choose another data directory", e.Dir)
	case errors.Is(e.Err, syscall.ENOMEM):
		return fmt.Sprintf("the database in %s can't be mapped (%v): raise the limit of this process's address space "+
			"to 16 GiB or more (ulimit -v, or LimitAS= of systemd); the data is not damaged", e.Dir, e.Err)
	case errors.Is(e.Err, syscall.EMFILE), errors.Is(e.Err, syscall.ENFILE):
		return fmt.Sprintf("the data directory %s can't be opened (%v): raise the limit of open files (ulimit -n, or "+
			"LimitNOFILE= of systemd); the data is not damaged", e.Dir, e.Err)
	}
	return fmt.Sprintf("the data directory %s cannot be used (%v): repair it, or choose another data directory",
		e.Dir, e.Err)
}

func (e *DirError) Unwrap() error { return e.Err }

// NewDirError returns the typed error for a failure to create or open a path in the data directory:
// *WriteError if the disk is full, otherwise *DirError.
func NewDirError(dir, path string, err error) error {
	if full := (&WriteError{Path: path, Err: err}); full.NoSpace() {
		return full
	}
	return &DirError{Dir: dir, Err: err}
}

// IsLimit reports whether a limit of the process or of the machine is the cause of an error. Such
// an error says nothing about the content of a file.
func IsLimit(err error) bool {
	return errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// CorruptError reports that the database is damaged or was not written by Landfall.
type CorruptError struct {
	Path string
	Err  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("the database %s is damaged (%v): restore it from a backup, or move it away to start empty",
		e.Path, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// damagedPage is the value of a panic that a damaged page of the bbolt file caused.
type damagedPage struct{ reason any }

// guardPage converts a panic of bbolt to a panic with a damagedPage. It must be deferred around
// reads of the bbolt file. bbolt trusts its pages, so a damaged page causes panics of any kind.
func guardPage() {
	if reason := recover(); reason != nil {
		panic(damagedPage{reason})
	}
}

// faultAddress is implemented by the panic about an invalid address, such as one in a damaged page
// or after the end of a mapped file. See debug.SetPanicOnFault.
type faultAddress interface{ Addr() uintptr }

// CatchCorruption converts the panic about a damaged page to a *CorruptError. It must be deferred.
// Other panics continue.
func CatchCorruption(path string, err *error) {
	reason := recover()
	if reason == nil {
		return
	}
	if guarded, ok := reason.(damagedPage); ok {
		reason = guarded.reason
	} else if fault, ok := reason.(faultAddress); !ok || fault.Addr() < 1<<12 {
		// not a value in the mapped file either: a nil pointer has a small address
		panic(reason)
	}
	// The prefix is that of bbolt's internal/common.Assert.
	text := strings.TrimPrefix(fmt.Sprint(reason), "assertion failed: ")
	*err = &CorruptError{Path: path, Err: fmt.Errorf("a page can't be read: %s", text)}
}

// WriteError reports that a change was not written to the disk. Reads continue. Writes succeed
// again when the cause is removed.
type WriteError struct {
	Path string // file that could not be written
	Err  error
	// Unknown reports that the disk failed late: only the next start shows whether the change was
	// written. If Unknown is false, the change was rolled back.
	Unknown bool
	// Shared reports that the shared log did not take the change.
	Shared bool
}

func (e *WriteError) Error() string {
	if e.Shared && e.Unknown {
		return fmt.Sprintf("the shared log may have the change or not (%v): read the current state before you try "+
			"again", e.Err)
	}
	if e.Shared {
		return fmt.Sprintf("the shared log did not take the change (%v), the change was not saved: try again", e.Err)
	}
	result := "the change was not saved"
	if e.Unknown {
		result = "the next start shows whether the change was saved"
	}
	if e.NoSpace() {
		return fmt.Sprintf("no space is left to write %s, %s: free space on its file system, then try again",
			e.Path, result)
	}
	return fmt.Sprintf("writing %s failed (%v), %s: check the disk and the kernel's log, then try again", e.Path,
		e.Err, result)
}

func (e *WriteError) Unwrap() error { return e.Err }

// NoSpace reports whether the cause is a full file system, a quota or a file size limit.
func (e *WriteError) NoSpace() bool {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		// If growing the file fails, bbolt keeps only the text of the error.
		if errors.Is(e.Err, errno) || strings.HasSuffix(e.Err.Error(), errno.Error()) {
			return true
		}
	}
	return false
}

// notReady returns the typed error of a database that accepts no updates.
func notReady(path string, err error) error {
	var corrupt *CorruptError
	var failure *WriteError
	if errors.As(err, &corrupt) || errors.As(err, &failure) {
		return err
	}
	return &WriteError{Path: path, Err: err}
}
