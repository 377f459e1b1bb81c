// Package unpacked keeps the tar archives of compressed archives on the disk, because a compressed
// one can't be read at a given place. A tar archive grows under a name that ends with .part. Its
// name counts when all of it is written and synced.
package unpacked

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"landfall/appliance/durable"
	"landfall/appliance/registry/quota"
)

// partSuffix ends the names of archives that are not whole.
const partSuffix = ".part"

// checkInterval is how many bytes are written between two looks at the room on the disk.
const checkInterval = 32 << 20

// InputError is an error of the reader whose bytes are written.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the reader.
func (e *InputError) Unwrap() error { return e.Err }

// Store has the unpacked archives, each in a folder with a key as its name. Its methods may be
// called concurrently, except for one archive.
type Store struct {
	dir      string
	quota    *quota.Quota
	syncFile func(*os.File) error

	mu   sync.Mutex
	used int64
}

// Open opens the archives in a directory. It removes those whose keys are not wanted.
func Open(dir string, q *quota.Quota, wanted func(key string) bool) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory for unpacked archives: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the directory with unpacked archives: %w", err)
	}
	s := &Store{dir: dir, quota: q, syncFile: (*os.File).Sync}
	for _, entry := range entries {
		if !wanted(entry.Name()) {
			if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
				return nil, fmt.Errorf("remove an unwanted unpacked archive: %w", err)
			}
			continue
		}
		size, err := sizeOf(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		s.count(size)
	}
	return s, nil
}

// sizeOf returns the bytes of the files in a folder.
func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read the directory with unpacked archives: %w", err)
	}
	return size, nil
}

func (s *Store) count(n int64) {
	s.mu.Lock()
	s.used += n
	s.mu.Unlock()
	s.quota.Count(n)
}

// Used returns the bytes of all archives.
func (s *Store) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Path returns the file of a whole archive. name is relative.
func (s *Store) Path(key, name string) string {
	return filepath.Join(s.dir, key, filepath.Clean("/"+name))
}

// KeyOf returns the key of the archive with a path.
func (s *Store) KeyOf(path string) (key string, ok bool) {
	rest, ok := strings.CutPrefix(path, s.dir+string(filepath.Separator))
	key, _, _ = strings.Cut(rest, string(filepath.Separator))
	return key, ok
}

// Written returns how many bytes of an archive are on the disk, and whether it is whole.
func (s *Store) Written(key, name string) (written int64, whole bool) {
	if info, err := os.Stat(s.Path(key, name)); err == nil {
		return info.Size(), true
	}
	if info, err := os.Stat(s.Path(key, name) + partSuffix); err == nil {
		return info.Size(), false
	}
	return 0, false
}

// Remove removes an archive. It returns the bytes that are free then.
func (s *Store) Remove(key string) (int64, error) {
	dir := filepath.Join(s.dir, key)
	size, err := sizeOf(dir)
	if err != nil {
		return 0, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return 0, fmt.Errorf("remove an unpacked archive: %w", err)
	}
	s.count(-size)
	return size, nil
}

// Write writes an archive. What an earlier call wrote is compared and kept. The error is an
// *[InputError], [quota.ErrFull], or one of the disk.
func (s *Store) Write(key, name string, in io.Reader) error {
	path := s.Path(key, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return writeError(err)
	}
	file, err := os.OpenFile(path+partSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return writeError(err)
	}
	info, err := file.Stat()
	if err == nil {
		w := &writer{store: s, file: file, had: info.Size(), unlooked: checkInterval}
		err = w.copy(in)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	err = errors.Join(s.syncFile(file), file.Close())
	if err == nil {
		err = os.Rename(path+partSuffix, path)
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(path))
	}
	if err != nil { // the kernel reports lost bytes once, so a later success would say nothing
		_, removed := s.Remove(key)
		return errors.Join(writeError(err), removed)
	}
	return nil
}

// Differences are the parts of an archive that differ from its content.
type Differences struct {
	Bytes int64                       // of these parts, and beyond the end of the content
	size  int64                       // of the content
	parts map[int64][sha256.Size]byte // hashes of the content of these parts, by their places
}

// Compare compares a whole archive with its content, and writes nothing: whether the content is
// sound is known at its end. The error is an *[InputError], or one of the disk.
func (s *Store) Compare(key, name string, in io.Reader) (_ *Differences, err error) {
	file, err := os.Open(s.Path(key, name))
	if err != nil {
		return nil, readError(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, readError(err)
	}
	d := &Differences{parts: map[int64][sha256.Size]byte{}}
	had := make([]byte, repairSize)
	if d.size, err = eachPart(in, func(part []byte, at int64) error {
		// A part that the disk does not give any more differs, too.
		if n, _ := file.ReadAt(had[:len(part)], at); n < len(part) || !bytes.Equal(had[:n], part) {
			d.parts[at] = sha256.Sum256(part)
			d.Bytes += int64(len(part))
		}
		return nil
	}); err != nil {
		return nil, err
	}
	d.Bytes += max(0, info.Size()-d.size)
	return d, nil
}

// Repair writes the parts of a whole archive that differ from its content in their place: the sound
// parts can be read meanwhile. It writes no other bytes than those that were compared. The error is
// an *[InputError], [quota.ErrFull], or one of the disk.
func (s *Store) Repair(key, name string, in io.Reader, d *Differences) (err error) {
	file, err := os.OpenFile(s.Path(key, name), os.O_RDWR, 0o600)
	if err != nil {
		return writeError(err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return writeError(err)
	}
	size, left := info.Size(), len(d.parts)
	_, err = eachPart(in, func(part []byte, at int64) error {
		sum, differs := d.parts[at]
		switch {
		case left == 0:
			return errEnough
		case !differs:
			return nil
		case sha256.Sum256(part) != sum:
			return &InputError{errors.New("its content has changed since it was compared")}
		}
		if _, err := file.WriteAt(part, at); err != nil {
			return writeError(err)
		}
		if end := at + int64(len(part)); end > size {
			s.count(end - size)
			size = end
		}
		left--
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, errEnough):
		return err
	case left > 0:
		return &InputError{io.ErrUnexpectedEOF}
	}
	if err := errors.Join(file.Truncate(d.size), s.syncFile(file)); err != nil {
		return writeError(err)
	}
	s.count(d.size - size)
	return nil
}

// errEnough ends a repair that wrote all parts.
var errEnough = errors.New("all parts are written")

// repairSize is the size of a part, in bytes.
const repairSize = 256 << 10

// eachPart calls fn with each part of a content and its place. It returns the size of the content.
func eachPart(in io.Reader, fn func(part []byte, at int64) error) (size int64, err error) {
	buffer := make([]byte, repairSize)
	for ended := false; !ended; {
		n, err := io.ReadFull(in, buffer)
		if ended = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); err != nil && !ended {
			return size, &InputError{err}
		}
		if n == 0 {
			break
		}
		if err := fn(buffer[:n], size); err != nil {
			return size, err
		}
		size += int64(n)
	}
	return size, nil
}

// writer writes an archive after what it had before.
type writer struct {
	store    *Store
	file     *os.File
	had      int64 // bytes of the file
	at       int64
	unlooked int64 // bytes since the last look at the disk
}

func (w *writer) copy(in io.Reader) error {
	buffer := make([]byte, 1<<20)
	for {
		n, err := in.Read(buffer)
		if failed := w.write(buffer[:n]); failed != nil {
			return failed
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return &InputError{err}
		}
	}
	return w.cut()
}

// write writes bytes, or compares them with those that the file had.
func (w *writer) write(p []byte) error {
	if n := min(int64(len(p)), w.had-w.at); n > 0 {
		before := make([]byte, n)
		if _, err := w.file.ReadAt(before, w.at); err != nil {
			return readError(err)
		}
		if bytes.Equal(before, p[:n]) {
			w.at, p = w.at+n, p[n:]
		} else if err := w.cut(); err != nil { // a power failure left other bytes
			return err
		}
	}
	n := int64(len(p))
	if n == 0 {
		return nil
	}
	if w.unlooked += n; w.unlooked >= checkInterval {
		w.unlooked = 0
		if room, _, err := w.store.quota.Room(); err != nil || room < n {
			return errors.Join(quota.ErrFull, err)
		}
	}
	if !w.store.quota.Take(n) {
		return quota.ErrFull
	}
	if _, err := w.file.WriteAt(p, w.at); err != nil {
		w.store.quota.Release(n)
		return errors.Join(writeError(err), w.file.Truncate(w.at))
	}
	w.store.mu.Lock()
	w.store.used += n
	w.store.mu.Unlock()
	w.at += n
	w.had = w.at
	return nil
}

// cut removes what follows the written bytes.
func (w *writer) cut() error {
	if w.had == w.at {
		return nil
	}
	if err := w.file.Truncate(w.at); err != nil {
		return writeError(err)
	}
	w.store.count(w.at - w.had)
	w.had = w.at
	return nil
}

func readError(err error) error { return fmt.Errorf("read an unpacked archive: %w", err) }

func writeError(err error) error { return quota.WriteError("store an unpacked archive", err) }
