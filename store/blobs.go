package store

import (
	"bytes"
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

// blobs is the directory of the contents of large files. A blob is stored as <first two
// digits>/<sha256>, with the suffix ".sealed" if it is sealed. Contents that are still being
// written are in stage/.
type blobs struct {
	dir  string
	ring *seal.Ring // nil: blobs are not sealed

	mu      sync.Mutex
	staging map[string]bool // paths below stage/ that this process is writing to
}

func (b *blobs) path(sum string) string {
	path := filepath.Join(b.dir, sum[:2], sum)
	if b.ring != nil {
		path += sealedSuffix
	}
	return path
}

// open opens a blob. It returns an error if the blob's size differs from the size in the
// description. damaged returns the error of a read of damaged content.
func (b *blobs) open(info FileInfo, damaged func(error) error) (io.ReadSeekCloser, error) {
	size := info.Size
	if b.ring != nil {
		size = sealedSize(size)
	}
	file, err := os.Open(b.path(info.SHA256))
	if err != nil {
		return nil, err
	}
	stat, err := file.Stat()
	if err == nil && stat.Size() != size {
		err = fmt.Errorf("%s has %d of %d bytes", file.Name(), stat.Size(), size)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if b.ring == nil {
		return file, nil
	}
	return openSealed(b.ring, file, info.Size, damaged)
}

// Staged is content that was written with DB.Stage and is not a file yet. Small content is in
// memory, larger content is synced to the disk. Staged content needs no Close: CollectBlobs removes
// content that no file refers to.
type Staged struct {
	size    int64
	sha256  string
	content []byte // nil if it is a blob
}

// Size returns the size of the content in bytes.
func (s *Staged) Size() int64 { return s.size }

// SHA256 returns the SHA-256 of the content in hex.
func (s *Staged) SHA256() string { return s.sha256 }

// Stage reads r to its end and keeps the content for Files.Put. It holds at most 64 KiB in memory.
// Larger content is written to a blob, synced, and renamed to its hash. Stage wraps the errors of r
// and ctx. It returns *WriteError if the disk is full or fails.
func (db *DB) Stage(ctx context.Context, r io.Reader) (*Staged, error) {
	r = contextReader{ctx, r}
	// io.ReadFull would not distinguish truncated content from short content.
	head, err := io.ReadAll(io.LimitReader(r, inlineLimit+1))
	if err != nil {
		return nil, fmt.Errorf("read the content to store: %w", err)
	}
	if len(head) > inlineLimit {
		return db.stageBlob(r, head)
	}
	sum := sha256.Sum256(head)
	return &Staged{size: int64(len(head)), sha256: hex.EncodeToString(sum[:]), content: bytes.Clone(head)}, nil
}

// stageBlob writes head and the rest of r to a staged file and publishes that file as a blob.
func (db *DB) stageBlob(r io.Reader, head []byte) (_ *Staged, err error) {
	file, err := db.blobs.createStaged()
	if err != nil {
		return nil, &WriteError{Path: db.blobs.dir, Err: err}
	}
	defer func() {
		err = errors.Join(err, db.blobs.closeStaged(file))
	}()
	hash := sha256.New()
	blob := &blobWriter{to: file}
	var sealed *chunkWriter
	if db.ring != nil {
		if sealed, err = newChunkWriter(db.ring, file); err != nil {
			return nil, &WriteError{Path: db.blobs.dir, Err: err}
		}
		blob.to = sealed
	}
	size, err := io.Copy(io.MultiWriter(blob, hash), io.MultiReader(bytes.NewReader(head), r))
	if sealed != nil && blob.err == nil && err == nil {
		blob.err = sealed.Close()
	}
	if blob.err != nil {
		return nil, &WriteError{Path: db.blobs.dir, Err: blob.err}
	}
	if err != nil {
		return nil, fmt.Errorf("read the content to store: %w", err)
	}
	staged := &Staged{size: size, sha256: hex.EncodeToString(hash.Sum(nil))}
	if err := file.Sync(); err != nil {
		return nil, &WriteError{Path: db.blobs.dir, Err: err}
	}
	if err := db.blobs.publish(file.Name(), staged.sha256, db.clock.Now()); err != nil {
		return nil, &WriteError{Path: db.blobs.dir, Err: err}
	}
	return staged, nil
}

// blobWriter stores its write error, so that the caller can tell a failed write from a failed read.
type blobWriter struct {
	to  io.Writer
	err error
}

func (w *blobWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.err = err
	return n, err
}

// createStaged creates a file below stage/. The caller must close it with closeStaged.
func (b *blobs) createStaged() (*os.File, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	stage := filepath.Join(b.dir, "stage")
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(stage, "")
	if err == nil {
		b.staging[file.Name()] = true
	}
	return file, err
}

// closeStaged closes a file below stage/. It removes the file unless publish has moved it.
func (b *blobs) closeStaged(file *os.File) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.staging, file.Name())
	err := os.Remove(file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, file.Close())
}

// publish renames a staged file to the blob with the given hash and sets the blob's modification
// time. It replaces a blob that exists: its bytes may be damaged.
func (b *blobs) publish(staged, sum string, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	path := b.path(sum)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := b.refreshHeader(staged); err != nil {
		return err
	}
	if err := os.Chtimes(staged, now, now); err != nil {
		return err
	}
	if err := os.Rename(staged, path); err != nil {
		return err
	}
	return wal.SyncDirs(filepath.Dir(path), b.dir, filepath.Dir(b.dir))
}

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

// CollectBlobs removes blobs that no file refers to, if they were staged longer than
// Options.BlobGrace ago. It also removes files that an interrupted Stage left.
func (db *DB) CollectBlobs(ctx context.Context) error {
	removed, err := db.blobs.removeLeftovers()
	if err != nil {
		return fmt.Errorf("collect blobs: %w", err)
	}
	old, err := db.blobs.olderThan(ctx, db.clock.Now().Add(-db.grace))
	if err != nil {
		return fmt.Errorf("collect blobs: %w", err)
	}
	for _, sum := range old {
		// An update sees the changes of updates that are not committed, and a snapshot does not. So
		// no committed row may refer to the blob either.
		referenced := false
		if err := db.View(func(tx *Tx) error { referenced = tx.references(sum); return nil }); err != nil {
			return fmt.Errorf("collect blobs: %w", err)
		}
		if referenced {
			continue
		}
		// No file can start to refer to the blob between the check and the removal, because updates
		// run one at a time.
		err := db.Update(ctx, func(tx *Tx) error {
			if tx.references(sum) || db.snapshots.Load() > 0 {
				return nil
			}
			gone, err := db.blobs.remove(sum, db.clock.Now().Add(-db.grace))
			if gone {
				removed++
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("collect blobs: %w", err)
		}
	}
	if removed > 0 {
		db.logger.Info("Unreferenced blobs removed.", "removed", removed)
	}
	return nil
}

// references reports whether a file refers to the blob with the given hash.
func (tx *Tx) references(sum string) bool {
	prefix := []byte(blobReference(sum, ""))
	key, _ := tx.rows.Cursor(wal.Index).Seek(prefix)
	return bytes.HasPrefix(key, prefix)
}

// removeLeftovers removes the files below stage/ that this process is not writing.
func (b *blobs) removeLeftovers() (removed int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ring != nil {
		// An interrupted sealing of the database may have left them.
		if err := b.removeClear(); err != nil {
			return 0, err
		}
	}
	stage := filepath.Join(b.dir, "stage")
	entries, err := readDir(stage)
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		path := filepath.Join(stage, entry.Name())
		if b.staging[path] {
			continue
		}
		if err := os.Remove(path); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// olderThan returns the hashes of the blobs that were staged before the limit.
func (b *blobs) olderThan(ctx context.Context, limit time.Time) ([]string, error) {
	dirs, err := readDir(b.dir)
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
		entries, err := readDir(filepath.Join(b.dir, dir.Name()))
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			sum := strings.TrimSuffix(entry.Name(), sealedSuffix)
			if info, err := entry.Info(); err == nil && len(sum) == 2*sha256.Size &&
				filepath.Base(b.path(sum)) == entry.Name() && info.ModTime().Before(limit) {
				sums = append(sums, sum)
			}
		}
	}
	return sums, nil
}

// remove removes a blob unless it was staged again since the limit.
func (b *blobs) remove(sum string, limit time.Time) (gone bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	info, err := os.Stat(b.path(sum))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.ModTime().Before(limit) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, os.Remove(b.path(sum))
}

// readDir lists a directory. A missing directory is empty.
func readDir(path string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}
