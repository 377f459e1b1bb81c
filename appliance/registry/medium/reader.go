package medium

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// partSize is how many bytes one read of a blob takes.
	partSize = 256 << 10
	// parallelReads limits the simultaneous reads of a medium. A read that hangs in the kernel
	// keeps its place until it returns.
	parallelReads = 16
	// probeSize is how many bytes of a part are read before the kernel copies the rest.
	probeSize = 32 << 10
	// directSize is how many bytes the kernel copies to a plain connection at once.
	directSize = 1 << 20
	// ReadDeadline limits one read, including its wait for a place. CRI-O of OpenShift 4.17 and
	// 4.18 cancels a pull without progress for ten seconds, so the client must hear of it earlier.
	ReadDeadline = 8 * time.Second
)

// ReadError reports that a medium could not be read. It is not about the content.
type ReadError struct {
	Label string
	Err   error
	// Hangs is set if the medium did not answer within [ReadDeadline].
	Hangs bool
}

func (e *ReadError) Error() string {
	if e.Hangs {
		return fmt.Sprintf("%s does not answer for %s", e.Label, ReadDeadline)
	}
	return fmt.Sprintf("%s can't be read: %s", e.Label, reason(e.Err))
}

// Unwrap returns the error of the file system.
func (e *ReadError) Unwrap() error { return e.Err }

// errDeadline is the error of a read that took too long.
var errDeadline = errors.New("the read took too long")

// ReaderOptions configures [NewReader].
type ReaderOptions struct {
	Location Location
	Index    *Index
	Open     Opener
	Deadline time.Duration // 0 means [ReadDeadline]
}

// Reader reads the blobs of a medium. Its methods may be called concurrently. A read that hangs in
// the kernel delays neither other media nor Close.
type Reader struct {
	location Location
	files    []string
	open     Opener
	deadline time.Duration
	places   chan struct{}
	buffers  sync.Pool

	mu      sync.Mutex
	root    *os.Root // of a folder
	file    File     // of an archive or ISO file
	copies  int      // that use root or file
	resting bool     // between copies, root and file are closed
	closed  bool

	// Bytes counts the bytes that were read.
	Bytes atomic.Int64
}

// NewReader opens a medium for reading.
func NewReader(options ReaderOptions) (*Reader, error) {
	m := &Reader{location: options.Location, files: options.Index.Files, open: options.Open, deadline: options.Deadline,
		places: make(chan struct{}, parallelReads)}
	if m.deadline == 0 {
		m.deadline = ReadDeadline
	}
	m.buffers.New = func() any { return new([partSize]byte) }
	if err := m.openLocked(); err != nil {
		return nil, err
	}
	return m, nil
}

// openLocked opens the medium unless it is open. The caller holds the mutex.
func (m *Reader) openLocked() (err error) {
	switch {
	case m.closed:
		err = fs.ErrClosed
	case m.root != nil || m.file != nil:
	case m.location.Container == Folder:
		m.root, err = os.OpenRoot(m.location.Path)
	default:
		m.file, err = m.open(m.location.Path)
	}
	if err != nil {
		return &ReadError{Label: m.location.Label(), Err: err}
	}
	return nil
}

// Rest closes the medium while nobody reads from it, so that its file system can be unmounted.
func (m *Reader) Rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resting = true
	if m.copies == 0 {
		_ = m.closeLocked() // it was only read
	}
}

// closeLocked closes the medium. The caller holds the mutex.
func (m *Reader) closeLocked() (err error) {
	if m.root != nil {
		err = m.root.Close()
	}
	if m.file != nil {
		err = m.file.Close()
	}
	m.root, m.file = nil, nil
	return err
}

// Close closes the medium. It does not wait for reads that hang.
func (m *Reader) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return m.closeLocked()
}

// begin opens the medium for a copy. The caller calls the function after the last read.
func (m *Reader) begin() (root *os.Root, file File, end func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.openLocked(); err != nil {
		// An absent file is a missing medium here, and not a damaged blob.
		return nil, nil, nil, &ReadError{Label: m.location.Label(), Err: errors.New("the medium is not there")}
	}
	m.copies++
	return m.root, m.file, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.copies--; m.copies == 0 && m.resting {
			_ = m.closeLocked() // it was only read
		}
	}, nil
}

// Copy writes a range of a blob to w. The error is a *[ReadError], or that of w or ctx.
func (m *Reader) Copy(ctx context.Context, w io.Writer, blob Blob, offset, size int64) (written int64, err error) {
	for _, part := range blob {
		if size == 0 {
			break
		}
		if offset >= part.Size {
			offset -= part.Size
			continue
		}
		n := min(size, part.Size-offset)
		copied, err := m.copyPart(ctx, w, part, offset, n)
		written += copied
		if err != nil {
			return written, err
		}
		offset, size = 0, size-n
	}
	if size > 0 {
		return written, &ReadError{Label: m.location.Label(), Err: io.ErrUnexpectedEOF}
	}
	return written, nil
}

func (m *Reader) copyPart(ctx context.Context, w io.Writer, part Extent, offset, size int64) (written int64,
	err error) {
	root, archive, end, err := m.begin()
	if err != nil {
		return 0, err
	}
	defer end()
	file, done, err := m.fileOf(ctx, root, archive, part.File)
	if err != nil {
		return 0, err
	}
	defer done()
	to, isDirect := w.(io.ReaderFrom)
	for written < size {
		// The first read has a deadline of its own: a medium that hangs is an answer, and not a
		// broken connection.
		if isDirect && written > 0 {
			n, err := m.sendDirect(ctx, to, file, part.Offset+offset+written, size-written)
			written += n
			if n > 0 || err != nil {
				return written, err
			}
			isDirect = false
		}
		length := min(partSize, size-written)
		if isDirect {
			length = min(probeSize, length)
		}
		data, release, err := m.read(ctx, file, part.Offset+offset+written, int(length))
		if err != nil {
			return written, err
		}
		n, err := w.Write(data)
		written += int64(n)
		release()
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// reopen opens a file again, at an offset. It returns nil if the path leads to another file now.
func reopen(known *os.File, offset int64) *os.File {
	again, err := os.Open(known.Name())
	if err != nil {
		return nil
	}
	before, errBefore := known.Stat()
	now, errNow := again.Stat()
	_, errSeek := again.Seek(offset, io.SeekStart)
	if errors.Join(errBefore, errNow, errSeek) != nil || !os.SameFile(before, now) {
		closeFile(again)
		return nil
	}
	return again
}

// closeFile closes a file that was only read.
func closeFile(file *os.File) {
	if file != nil {
		_ = file.Close()
	}
}

// directFile is a file that the kernel copies to a connection.
type directFile struct {
	*os.File
	stall time.Duration
}

// StallTime is how long the medium may take for a read.
func (f directFile) StallTime() time.Duration { return f.stall }

// sendDirect lets the kernel copy a part of a file to a connection. It does nothing for files that
// are not of the operating system. The file is opened again, because the copy moves its position.
func (m *Reader) sendDirect(ctx context.Context, to io.ReaderFrom, file io.ReaderAt, offset, size int64) (
	written int64, err error) {
	known, ok := file.(*os.File)
	if !ok {
		return 0, nil
	}
	again, err := within(ctx, m, func() *os.File { return reopen(known, offset) }, closeFile)
	if err != nil || again == nil {
		return 0, err
	}
	defer closeFile(again)
	for written < size {
		wanted := min(directSize, size-written)
		n, err := to.ReadFrom(&io.LimitedReader{R: directFile{again, m.deadline}, N: wanted})
		written += n
		m.Bytes.Add(n)
		switch {
		case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENXIO):
			return written, &ReadError{Label: m.location.Label(), Err: err}
		case err != nil:
			return written, err
		case n < wanted:
			return written, &ReadError{Label: m.location.Label(), Err: io.ErrUnexpectedEOF}
		}
	}
	return written, nil
}

// fileOf returns an open file of the medium, and a function that is called after the last read.
func (m *Reader) fileOf(ctx context.Context, root *os.Root, archive File, number int) (io.ReaderAt, func(), error) {
	if root == nil {
		return archive, func() {}, nil
	}
	type result struct {
		file *os.File
		err  error
	}
	opened, err := within(ctx, m, func() result {
		file, err := root.Open(m.files[number])
		return result{file, err}
	}, func(late result) {
		if late.file != nil {
			_ = late.file.Close() // it was only read
		}
	})
	if err == nil && opened.err != nil {
		err = &ReadError{Label: m.location.Label(), Err: opened.err}
	}
	if err != nil {
		return nil, nil, err
	}
	return opened.file, func() { _ = opened.file.Close() }, nil // it was only read
}

// read reads a part of a file into a buffer. The caller releases the buffer. The buffer of a read
// that took too long is not used again, because the kernel may still write to it.
func (m *Reader) read(ctx context.Context, file io.ReaderAt, offset int64, size int) ([]byte, func(), error) {
	type result struct {
		n   int
		err error
	}
	buffer := m.buffers.Get().(*[partSize]byte)
	got, err := within(ctx, m, func() result {
		n, err := file.ReadAt(buffer[:size], offset)
		return result{n, err}
	}, func(result) {})
	if err != nil {
		return nil, nil, err
	}
	m.Bytes.Add(int64(got.n))
	if got.n < size {
		m.buffers.Put(buffer)
		if got.err == nil || errors.Is(got.err, io.EOF) {
			got.err = io.ErrUnexpectedEOF
		}
		return nil, nil, &ReadError{Label: m.location.Label(), Err: got.err}
	}
	return buffer[:size], func() { m.buffers.Put(buffer) }, nil
}

// within runs a call to the kernel and waits for it until the deadline of the medium. A call that
// returns later passes its result to late.
func within[T any](ctx context.Context, m *Reader, call func() T, late func(T)) (T, error) {
	var none T
	timer := time.NewTimer(m.deadline)
	defer timer.Stop()
	hangs := func() error { return &ReadError{Label: m.location.Label(), Err: errDeadline, Hangs: true} }
	select {
	case m.places <- struct{}{}:
	case <-ctx.Done():
		return none, context.Cause(ctx)
	case <-timer.C:
		return none, hangs()
	}
	done := make(chan T, 1)
	var abandoned atomic.Bool
	go func() {
		result := call()
		<-m.places
		done <- result
		if abandoned.Load() {
			select {
			case result := <-done:
				late(result)
			default:
			}
		}
	}()
	abandon := func(err error) (T, error) {
		abandoned.Store(true)
		select { // the call may have returned in the meantime
		case result := <-done:
			late(result)
		default:
		}
		return none, err
	}
	select {
	case result := <-done:
		return result, nil
	case <-ctx.Done():
		return abandon(context.Cause(ctx))
	case <-timer.C:
		return abandon(hangs())
	}
}
