// Package blob keeps large contents in a directory, by the SHA-256 of each content. With data keys,
// the contents are sealed.
package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"landfall/store/seal"
	"landfall/store/wal"
)

// Dir is a directory of blobs. A blob is stored as <first two digits>/<sha256>, with the suffix
// ".sealed" if it is sealed. Contents that are still being written are in stage/. Its methods are
// safe for concurrent use.
type Dir struct {
	dir  string
	ring *seal.Ring // nil: blobs are not sealed

	mu      sync.Mutex
	staging map[string]bool // paths below stage/ that this process is writing to
}

// NewDir returns the directory at a path. It need not exist. A nil ring means that blobs are not
// sealed.
func NewDir(path string, ring *seal.Ring) *Dir {
	return &Dir{dir: path, ring: ring, staging: map[string]bool{}}
}

// Root returns the path of the directory.
func (d *Dir) Root() string { return d.dir }

// Path returns the path of the blob with a SHA-256.
func (d *Dir) Path(sum string) string {
	path := filepath.Join(d.dir, sum[:2], sum)
	if d.ring != nil {
		path += sealedSuffix
	}
	return path
}

// Open opens a blob. It returns an error if the blob's content has another size in bytes. damaged
// returns the error of a read of damaged content.
func (d *Dir) Open(sum string, size int64, damaged func(error) error) (io.ReadSeekCloser, error) {
	stored := size
	if d.ring != nil {
		stored = sealedSize(size)
	}
	file, err := os.Open(d.Path(sum))
	if err != nil {
		return nil, err
	}
	stat, err := file.Stat()
	if err == nil && stat.Size() != stored {
		err = fmt.Errorf("%s has %d of %d bytes", file.Name(), stat.Size(), stored)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if d.ring == nil {
		return file, nil
	}
	return openSealed(d.ring, file, size, damaged)
}

// Write reads r to its end and stores the content, synced. It returns the content's SHA-256 and its
// size in bytes. The blob gets the modification time now. The error is a *wal.WriteError if the
// disk is full or fails, and otherwise wraps the error of r.
func (d *Dir) Write(r io.Reader, now time.Time) (sum string, size int64, err error) {
	return d.write(r, now, "")
}

// Put does the same as Write for a content with a known SHA-256. It stores no other content.
func (d *Dir) Put(r io.Reader, now time.Time, sum string) (size int64, err error) {
	_, size, err = d.write(r, now, sum)
	return size, err
}

// ErrOther is returned by Put for a content with another SHA-256.
var ErrOther = errors.New("it is another content")

func (d *Dir) write(r io.Reader, now time.Time, want string) (sum string, size int64, err error) {
	file, err := d.createStaged()
	if err != nil {
		return "", 0, &wal.WriteError{Path: d.dir, Err: err}
	}
	defer func() {
		err = errors.Join(err, d.closeStaged(file))
	}()
	hash := sha256.New()
	blob := &errorWriter{to: file}
	var sealed *chunkWriter
	if d.ring != nil {
		if sealed, err = newChunkWriter(d.ring, file); err != nil {
			return "", 0, &wal.WriteError{Path: d.dir, Err: err}
		}
		blob.to = sealed
	}
	size, err = io.Copy(io.MultiWriter(blob, hash), r)
	if sealed != nil && blob.err == nil && err == nil {
		blob.err = sealed.Close()
	}
	if blob.err != nil {
		return "", 0, &wal.WriteError{Path: d.dir, Err: blob.err}
	}
	if err != nil {
		return "", 0, fmt.Errorf("read the content to store: %w", err)
	}
	sum = hex.EncodeToString(hash.Sum(nil))
	if want != "" && sum != want {
		return "", 0, fmt.Errorf("store the content %s: %w", want, ErrOther)
	}
	if err := file.Sync(); err != nil {
		return "", 0, &wal.WriteError{Path: d.dir, Err: err}
	}
	if err := d.publish(file.Name(), sum, now); err != nil {
		return "", 0, &wal.WriteError{Path: d.dir, Err: err}
	}
	return sum, size, nil
}

// errorWriter keeps its error, so that the caller can tell a failed write from a failed read.
type errorWriter struct {
	to  io.Writer
	err error
}

func (w *errorWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.err = err
	return n, err
}

// createStaged creates a file below stage/. The caller must close it with closeStaged.
func (d *Dir) createStaged() (*os.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	stage := filepath.Join(d.dir, "stage")
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(stage, "")
	if err == nil {
		d.staging[file.Name()] = true
	}
	return file, err
}

// closeStaged closes a file below stage/. It removes the file unless publish has moved it.
func (d *Dir) closeStaged(file *os.File) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.staging, file.Name())
	err := os.Remove(file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, file.Close())
}

// publish renames a staged file to the blob with the given hash and sets the blob's modification
// time. It replaces a blob that exists: its bytes may be damaged.
func (d *Dir) publish(staged, sum string, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := d.Path(sum)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := d.refreshHeader(staged); err != nil {
		return err
	}
	if err := os.Chtimes(staged, now, now); err != nil {
		return err
	}
	if err := os.Rename(staged, path); err != nil {
		return err
	}
	return wal.SyncDirs(filepath.Dir(path), d.dir, filepath.Dir(d.dir))
}

// NewReader returns a reader that fails when its context ends.
func NewReader(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

// contextReader is a reader that fails when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// RemoveLeftovers removes the files below stage/ that this process is not writing.
func (d *Dir) RemoveLeftovers() (removed int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ring != nil {
		// An interrupted sealing of the database may have left them.
		if err := d.RemoveClear(); err != nil {
			return 0, err
		}
	}
	stage := filepath.Join(d.dir, "stage")
	entries, err := readDir(stage)
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		path := filepath.Join(stage, entry.Name())
		if d.staging[path] {
			continue
		}
		if err := os.Remove(path); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// OlderThan returns the hashes of the blobs that were staged before the limit.
func (d *Dir) OlderThan(ctx context.Context, limit time.Time) ([]string, error) {
	dirs, err := readDir(d.dir)
	if err != nil {
		return nil, err
	}
	var sums []string
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !dir.IsDir() || len(dir.Name()) != 2 {
			continue
		}
		entries, err := readDir(filepath.Join(d.dir, dir.Name()))
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			sum := strings.TrimSuffix(entry.Name(), sealedSuffix)
			if info, err := entry.Info(); err == nil && len(sum) == 2*sha256.Size &&
				filepath.Base(d.Path(sum)) == entry.Name() && info.ModTime().Before(limit) {
				sums = append(sums, sum)
			}
		}
	}
	return sums, nil
}

// Remove removes a blob unless it was staged again since the limit.
func (d *Dir) Remove(sum string, limit time.Time) (gone bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, err := d.IsOlder(sum, limit); err != nil || !old {
		return false, err
	}
	return true, os.Remove(d.Path(sum))
}

// IsOlder reports whether a blob is here and was not staged since the limit.
func (d *Dir) IsOlder(sum string, limit time.Time) (bool, error) {
	info, err := os.Stat(d.Path(sum))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.ModTime().Before(limit), err
}

// readDir lists a directory. A missing directory is empty.
func readDir(path string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}
