// Package staging copies blobs from media to the disk while they are served. Each byte of a blob is
// read from its medium once, however many clients ask for it: the first one starts a copy, and all
// of them read what the copy has written.
//
// Whole blobs are files with the hexadecimal digits of their digests as names. A copy has another
// name, and is renamed when its digest was verified and its bytes are synced. What an interrupted
// copy has written is kept, and the next one continues there.
package staging

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"landfall/appliance/durable"
	"landfall/appliance/registry/quota"
)

// parallelCopies limits the copies for which clients wait. More of them would make each too slow: a
// stick has one bandwidth, and CRI-O of OpenShift 4.17 and 4.18 ends a pull without progress.
const parallelCopies = 16

// checkInterval is how many bytes a copy writes between two looks at the room on the disk.
const checkInterval = 32 << 20

// bufferSize is how many bytes a client gets by one read of a copy.
const bufferSize = 256 << 10

// partSuffix ends the names of copies that are not whole.
const partSuffix = ".part"

// Source reads a blob from media.
type Source interface {
	// Read writes the bytes of the blob from an offset to its end.
	Read(ctx context.Context, w io.Writer, offset int64) error
	// Changed returns the error for bytes that do not have the digest. whole is set if one call of
	// Read supplied all of them.
	Changed(whole bool) error
}

// Store has the copies. Its methods may be called concurrently.
type Store struct {
	dir      string
	quota    *quota.Quota
	syncFile func(*os.File) error
	syncDir  func(dir string) error
	hash     func(sum io.Writer, part *os.File, size int64) error

	background context.Context // ends with Close
	stop       context.CancelFunc
	copying    sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	changed  chan struct{}    // closed when a copy gets its first client, or loses its last one
	blobs    map[string]int64 // sizes of whole copies, by digest
	parts    map[string]*part // of interrupted copies
	copies   map[string]*blobCopy
	demanded int // copies with clients that read from their media
	used     int64
}

// part is what an interrupted copy has written.
type part struct {
	size int64
	sum  hash.Hash // of the bytes; nil if this process did not write them
}

// blobCopy is a copy that runs. Its written bytes are readable.
type blobCopy struct {
	store  *Store
	digest string
	size   int64
	source Source
	had    *part // what an earlier copy has written
	cancel context.CancelFunc

	// of the goroutine that writes
	file     *os.File
	sum      hash.Hash
	unlooked int64 // bytes since the last look at the disk

	// guarded by Store.mu
	clients int
	ended   bool // nothing is read any more
	users   int  // clients and the goroutine, which keep file open

	mu       sync.Mutex
	advanced chan struct{} // closed at the next change below
	opened   bool
	written  int64
	sound    bool
	done     bool
	err      error
}

// Open opens the copies in a directory.
func Open(dir string, q *quota.Quota) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory for copies of media: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the directory with copies of media: %w", err)
	}
	s := &Store{dir: dir, quota: q, syncFile: (*os.File).Sync, syncDir: durable.SyncDir, hash: hashPart,
		changed: make(chan struct{}), blobs: map[string]int64{}, parts: map[string]*part{},
		copies: map[string]*blobCopy{}}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		name, isPart := strings.CutSuffix(entry.Name(), partSuffix)
		if isPart {
			s.parts["sha256:"+name] = &part{size: info.Size()}
		} else {
			s.blobs["sha256:"+name] = info.Size()
		}
		s.used += info.Size()
		q.Count(info.Size())
	}
	s.background, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Close ends the copies that run. They continue after the next start.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.copying.Wait()
	return nil
}

// path returns the file of a whole copy.
func (s *Store) path(digest string) string {
	return filepath.Join(s.dir, strings.TrimPrefix(digest, "sha256:"))
}

// Size returns the size of a whole copy.
func (s *Store) Size(digest string) (size int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, ok = s.blobs[digest]
	return size, ok
}

// Written returns how many bytes of a blob are on the disk, of a whole copy or of a part.
func (s *Store) Written(digest string) int64 {
	s.mu.Lock()
	running := s.copies[digest]
	size := s.blobs[digest]
	if p := s.parts[digest]; p != nil {
		size = p.size
	}
	s.mu.Unlock()
	if running == nil {
		return size
	}
	running.mu.Lock()
	defer running.mu.Unlock()
	return running.written
}

// Used returns the bytes of all copies.
func (s *Store) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Digests returns the sorted digests of the whole copies.
func (s *Store) Digests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.blobs))
}

// Discard removes a damaged whole copy. damaged is the file that was read. Another one, of a copy
// that was made again meanwhile, stays.
func (s *Store) Discard(digest string, damaged fs.FileInfo) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, ok := s.blobs[digest]
	if !ok {
		return nil
	}
	info, err := os.Stat(s.path(digest))
	if err == nil && !os.SameFile(info, damaged) {
		return nil
	}
	if err == nil {
		err = os.Remove(s.path(digest))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a damaged copy: %w", err)
	}
	delete(s.blobs, digest)
	s.count(-size)
	return nil
}

// Blob opens the file of a whole copy.
func (s *Store) Blob(digest string) (*os.File, error) {
	file, err := os.Open(s.path(digest))
	if errors.Is(err, fs.ErrNotExist) {
		s.forget(digest)
	}
	if err != nil {
		return nil, fmt.Errorf("read the copy of a blob: %w", err)
	}
	return file, nil
}

// forget forgets a whole copy whose file somebody removed. After a collection, there may be a file
// again, of a newer copy.
func (s *Store) forget(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := os.Stat(s.path(digest))
	if size, ok := s.blobs[digest]; ok && errors.Is(err, fs.ErrNotExist) {
		delete(s.blobs, digest)
		s.count(-size)
	}
}

// count adds to the bytes in use. The caller holds the mutex.
func (s *Store) count(n int64) {
	s.used += n
	s.quota.Count(n)
}

// Reader reads a blob while it is copied.
type Reader struct{ from *blobCopy }

// Join returns a reader of a blob, whose copy starts if it does not run yet. It returns
// [quota.ErrFull] if the disk has no room, and nil without an error if the copy is whole. While too
// many copies run for other clients, it calls wait, which returns an error to end that.
func (s *Store) Join(digest string, size int64, source Source, wait func(changed <-chan struct{}) error) (*Reader,
	error) {
	for {
		s.mu.Lock()
		if _, ok := s.blobs[digest]; ok {
			s.mu.Unlock()
			return nil, nil
		}
		running := s.copies[digest]
		if s.demanded < parallelCopies || running != nil && (running.clients > 0 || running.ended) {
			break
		}
		changed := s.changed
		s.mu.Unlock()
		if err := wait(changed); err != nil {
			return nil, err
		}
	}
	defer s.mu.Unlock()
	running, err := s.start(digest, size, source)
	if err != nil {
		return nil, err
	}
	running.users++
	if running.clients++; running.clients == 1 && !running.ended {
		s.demanded++
		s.announce()
	}
	return &Reader{running}, nil
}

// announce wakes those that wait for a change of the demand. The caller holds the mutex.
func (s *Store) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// start returns the copy of a blob that runs, or starts one. The caller holds the mutex.
func (s *Store) start(digest string, size int64, source Source) (*blobCopy, error) {
	if running := s.copies[digest]; running != nil {
		return running, nil
	}
	if s.closed {
		return nil, context.Canceled
	}
	had := s.parts[digest]
	if had == nil {
		had = &part{sum: sha256.New()}
	}
	if room, _, err := s.quota.Room(); err != nil || room < size-had.size {
		return nil, errors.Join(quota.ErrFull, err)
	}
	ctx, cancel := context.WithCancel(s.background)
	c := &blobCopy{store: s, digest: digest, size: size, source: source, had: had, cancel: cancel, users: 1,
		advanced: make(chan struct{})}
	s.copies[digest] = c
	s.copying.Go(func() {
		err := c.run(ctx)
		cancel()
		c.endReading()
		c.end(err)
	})
	return c, nil
}

// run copies the blob.
func (c *blobCopy) run(ctx context.Context) error {
	if err := c.open(); err != nil {
		return err
	}
	offset := c.written
	if offset < c.size {
		if err := c.source.Read(ctx, writer{ctx, c}, offset); err != nil {
			return err
		}
	}
	c.endReading()
	if "sha256:"+hex.EncodeToString(c.sum.Sum(nil)) != c.digest {
		return &uselessError{c.source.Changed(offset == 0)}
	}
	c.advance(func() { c.sound = true })
	path := c.store.path(c.digest)
	err := c.store.syncFile(c.file)
	if err == nil {
		err = os.Rename(path+partSuffix, path)
	}
	if err == nil {
		err = c.store.syncDir(c.store.dir)
	}
	if err != nil { // the kernel reports lost bytes once, so a later success would say nothing
		return &uselessError{writeError(err)}
	}
	return nil
}

// endReading lets the copies read for which no clients wait: this one has read all, or failed. Its
// sync may take long on a slow disk, and the medium is not to wait for it.
func (c *blobCopy) endReading() {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.ended && c.clients > 0 {
		s.demanded--
		s.announce()
	}
	c.ended = true
}

// uselessError is the error of a copy that can't be continued: its bytes do not have the digest, or
// may not be on the disk.
type uselessError struct{ err error }

func (e *uselessError) Error() string { return e.err.Error() }
func (e *uselessError) Unwrap() error { return e.err }

// open opens the file of the copy, and hashes what an earlier process has written.
func (c *blobCopy) open() error {
	had := *c.had // another goroutine may read the part meanwhile
	c.mu.Lock()
	c.had = &had
	c.mu.Unlock()
	restart := func() {
		c.store.release(had.size)
		c.mu.Lock()
		had.size, had.sum = 0, sha256.New()
		c.mu.Unlock()
	}
	file, err := os.OpenFile(c.store.path(c.digest)+partSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return writeError(err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(writeError(err), file.Close())
	}
	if info.Size() < had.size { // somebody removed or shortened it
		restart()
	}
	if had.sum == nil {
		had.sum = sha256.New()
		if had.size > c.size { // of a damaged copy of the medium
			restart()
		}
		if c.store.hash(had.sum, file, had.size) != nil { // a damaged sector of the disk does not heal
			if err := errors.Join(file.Close(), os.Remove(file.Name())); err != nil {
				return fmt.Errorf("remove the copy of a blob that can't be read: %w", err)
			}
			restart()
			if file, err = os.OpenFile(file.Name(), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
				return writeError(err)
			}
		}
	}
	if err := file.Truncate(had.size); err != nil {
		return errors.Join(writeError(err), file.Close())
	}
	c.sum = had.sum
	c.advance(func() { c.file, c.opened, c.written = file, true, had.size })
	return nil
}

func hashPart(sum io.Writer, part *os.File, size int64) error {
	_, err := io.Copy(sum, io.NewSectionReader(part, 0, size))
	return err
}

func (s *Store) release(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(-n)
}

// advance makes a change visible to the clients.
func (c *blobCopy) advance(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.advanced)
	c.advanced = make(chan struct{})
}

// writer writes to a copy. While clients wait for other copies only, it waits for them.
type writer struct {
	ctx context.Context
	*blobCopy
}

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	if err := w.yield(); err != nil {
		return 0, err
	}
	n := int64(len(p))
	if w.unlooked += n; w.unlooked >= checkInterval {
		w.unlooked = 0
		if room, _, err := w.store.quota.Room(); err != nil || room < n {
			return 0, errors.Join(quota.ErrFull, err)
		}
	}
	if !w.store.quota.Take(n) {
		return 0, quota.ErrFull
	}
	if _, err := w.file.WriteAt(p, w.written); err != nil {
		w.store.quota.Release(n)
		return 0, writeError(err)
	}
	w.store.mu.Lock()
	w.store.used += n
	w.store.mu.Unlock()
	w.sum.Write(p)
	w.advance(func() { w.blobCopy.written += n })
	return len(p), nil
}

// yield waits while clients wait for other copies, and none for this one.
func (w writer) yield() error {
	for {
		w.store.mu.Lock()
		changed, first := w.store.changed, w.clients > 0 || w.store.demanded == 0
		w.store.mu.Unlock()
		if first {
			return w.ctx.Err()
		}
		select {
		case <-w.ctx.Done():
			return w.ctx.Err()
		case <-changed:
		}
	}
}

func writeError(err error) error { return quota.WriteError("store the copy of a blob", err) }

// end ends a copy. What it has written is kept, unless it is of no use.
func (c *blobCopy) end(err error) {
	s := c.store
	useless, isUseless := errors.AsType[*uselessError](err)
	if isUseless {
		err = useless.err
		for _, path := range []string{s.path(c.digest) + partSuffix, s.path(c.digest)} {
			if failed := os.Remove(path); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
				err = errors.Join(err, failed)
			}
		}
	}
	s.mu.Lock()
	delete(s.copies, c.digest)
	delete(s.parts, c.digest)
	switch {
	case err == nil:
		s.blobs[c.digest] = c.size
	case isUseless:
		s.count(-c.written)
	case c.opened && c.written > 0:
		s.parts[c.digest] = &part{c.written, c.sum}
	case !c.opened && c.had.size > 0:
		s.parts[c.digest] = &part{size: c.had.size}
	}
	s.mu.Unlock()
	c.advance(func() { c.done, c.err = true, err })
	c.leave()
}

// leave ends the use of the file by a client or by the goroutine that writes.
func (c *blobCopy) leave() {
	c.store.mu.Lock()
	c.users--
	last := c.users == 0
	c.store.mu.Unlock()
	if last && c.file != nil {
		_ = c.file.Close() // the bytes are synced, or not whole
	}
}

// Copy writes a range of the blob as far as it gets, and returns how far it got. The last byte of
// the blob follows when all were compared with the digest.
func (r *Reader) Copy(ctx context.Context, w io.Writer, offset, size int64) (n int64, err error) {
	c := r.from
	var send func(offset, size int64) (int64, error)
	for n < size {
		c.mu.Lock()
		readable, advanced, sound, failed := c.written, c.advanced, c.sound, c.err
		c.mu.Unlock()
		if readable == c.size && !sound {
			readable--
		}
		if part := min(size, readable-offset) - n; part > 0 {
			if send == nil {
				var end func()
				send, end = c.sender(w, offset+n)
				defer end()
			}
			copied, err := send(offset+n, part)
			if n += copied; err != nil {
				return n, err
			}
			continue
		}
		if failed != nil {
			return n, failed
		}
		select {
		case <-ctx.Done():
			return n, context.Cause(ctx)
		case <-advanced:
		}
	}
	return n, nil
}

// sender returns the function that writes ranges of the copy, one after the other from an offset,
// and a function that ends it. The kernel copies to a plain connection, from a file of its own,
// because that moves its position.
func (c *blobCopy) sender(w io.Writer, offset int64) (send func(offset, size int64) (int64, error), end func()) {
	if to, ok := w.(io.ReaderFrom); ok {
		if file := c.reopen(offset); file != nil {
			return func(_, size int64) (int64, error) {
				n, err := to.ReadFrom(&io.LimitedReader{R: file, N: size})
				if err == nil && n < size {
					err = io.ErrUnexpectedEOF
				}
				return n, err
			}, func() { _ = file.Close() } // it was only read
		}
	}
	buffer := make([]byte, bufferSize)
	return func(offset, size int64) (int64, error) {
		return io.CopyBuffer(struct{ io.Writer }{w}, io.NewSectionReader(c.file, offset, size), buffer)
	}, func() {}
}

// reopen opens the file of the copy again, at an offset. It returns nil if that is not possible.
func (c *blobCopy) reopen(offset int64) *os.File {
	path := c.store.path(c.digest)
	file, err := os.Open(path + partSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = os.Open(path) // the copy is whole now
	}
	if err != nil {
		return nil
	}
	written, errWritten := c.file.Stat()
	opened, errOpened := file.Stat()
	_, errSeek := file.Seek(offset, io.SeekStart)
	if errors.Join(errWritten, errOpened, errSeek) != nil || !os.SameFile(written, opened) {
		_ = file.Close() // it was only read
		return nil
	}
	return file
}

// Reached returns how many bytes of the blob can be read without a wait.
func (r *Reader) Reached() int64 {
	r.from.mu.Lock()
	defer r.from.mu.Unlock()
	if !r.from.opened {
		return r.from.had.size
	}
	return r.from.written
}

// Close ends the reader. The copy goes on, after those for which clients wait. If many do so, it
// ends, and continues when it is asked for again.
func (r *Reader) Close() {
	s := r.from.store
	s.mu.Lock()
	// A client that reads the rest of a copy that has ended does not keep others waiting.
	if r.from.clients--; r.from.clients == 0 && !r.from.ended {
		s.demanded--
		s.announce()
		if len(s.copies)-s.demanded > parallelCopies {
			r.from.cancel()
		}
	}
	s.mu.Unlock()
	r.from.leave()
}

// Stage copies a blob for nobody in particular, and waits until that has ended. If ctx ends first,
// the copy ends too, unless clients wait for it.
func (s *Store) Stage(ctx context.Context, digest string, size int64, source Source) error {
	s.mu.Lock()
	if _, ok := s.blobs[digest]; ok {
		s.mu.Unlock()
		return nil
	}
	c, err := s.start(digest, size, source)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	for {
		c.mu.Lock()
		advanced, done, err := c.advanced, c.done, c.err
		c.mu.Unlock()
		if done {
			return err
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			s.mu.Lock()
			if c.clients == 0 {
				c.cancel()
			}
			s.mu.Unlock()
			return context.Cause(ctx)
		}
	}
}

// Collect removes the copies that nobody keeps, except those that run.
func (s *Store) Collect(ctx context.Context, keep func(digest string) bool) (files int, bytes int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	remove := func(digest, path string, size int64) error {
		if s.copies[digest] != nil || keep(digest) {
			return nil
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the copy of a blob: %w", err)
		}
		delete(s.blobs, digest)
		delete(s.parts, digest)
		s.count(-size)
		files, bytes = files+1, bytes+size
		return ctx.Err()
	}
	for digest, size := range s.blobs {
		if err := remove(digest, s.path(digest), size); err != nil {
			return files, bytes, err
		}
	}
	for digest, p := range s.parts {
		if err := remove(digest, s.path(digest)+partSuffix, p.size); err != nil {
			return files, bytes, err
		}
	}
	return files, bytes, nil
}
