package isogen

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Reader reads an image. ReadAt is safe for concurrent use. The other methods must be called by one
// goroutine.
type Reader struct {
	image *Image
	err   error // if set, returned by every read
	pos   int64
	own   *os.File // the base, opened again with its own file position for the system's file-to-socket copy
}

// zeros fills the embed area after the payload. It must not be changed.
var zeros [32 << 10]byte

// ReadAt implements io.ReaderAt.
func (r *Reader) ReadAt(p []byte, off int64) (n int, err error) {
	if r.err != nil {
		return 0, r.err
	}
	if off < 0 {
		return 0, fmt.Errorf("reading the image: the offset %d is negative", off)
	}
	for n < len(p) && off < r.image.size {
		k, err := r.readExtent(p[n:], off)
		n += k
		off += int64(k)
		if err != nil {
			return n, err
		}
	}
	if err := r.image.Intact(); err != nil { // the bytes may come from a changed file
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readExtent fills p from offset off, up to the end of the extent.
func (r *Reader) readExtent(p []byte, off int64) (int, error) {
	e := r.image.at(off)
	skip := off - e.start
	p = p[:min(int64(len(p)), e.length-skip)]
	if e.base {
		n, err := r.image.base.file.ReadAt(p, e.from+skip)
		if n == len(p) {
			return n, nil
		}
		return n, r.image.base.readError(err)
	}
	n := 0
	if skip < int64(len(e.data)) {
		n = copy(p, e.data[skip:])
	}
	clear(p[n:])
	return len(p), nil
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if r.pos >= r.image.size {
		return 0, io.EOF
	}
	n, err := r.ReadAt(p, r.pos)
	r.pos += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// Seek implements io.Seeker.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.pos
	case io.SeekEnd:
		offset += r.image.size
	case io.SeekStart:
	default:
		return 0, fmt.Errorf("seeking in the image: whence %d is invalid", whence)
	}
	if offset < 0 {
		return 0, fmt.Errorf("seeking in the image: the position %d is negative", offset)
	}
	r.pos = offset
	return offset, nil
}

// WriteTo implements io.WriterTo: it copies the image from the current position to the end, like
// CopyN.
func (r *Reader) WriteTo(w io.Writer) (int64, error) {
	return r.CopyN(w, max(0, r.image.size-r.pos))
}

// CopyN copies n bytes from the current position, or fewer with io.EOF at the end of the image. It
// passes ranges of the base to w's ReadFrom as an *io.LimitedReader over an *os.File. If w is a TCP
// connection, or an http.ResponseWriter on one, the kernel copies them from the page cache
// (sendfile). If the base is changed during the copy, CopyN returns a *BaseError, and w does not
// receive all bytes.
func (r *Reader) CopyN(w io.Writer, n int64) (written int64, err error) {
	if r.err != nil {
		return 0, r.err
	}
	for written < n {
		if r.pos >= r.image.size {
			return written, io.EOF
		}
		e := r.image.at(r.pos)
		k, err := r.copyExtent(w, e, min(n-written, e.end()-r.pos))
		written += k
		r.pos += k
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// copyExtent copies n bytes from the current position. All of them must lie in e.
func (r *Reader) copyExtent(w io.Writer, e extent, n int64) (int64, error) {
	skip := r.pos - e.start
	if e.base {
		return r.copyBase(w, e.from+skip, n)
	}
	p := zeros[:min(n, int64(len(zeros)))]
	if skip < int64(len(e.data)) {
		p = e.data[skip:min(skip+n, int64(len(e.data)))]
	}
	k, err := w.Write(p)
	return int64(k), err
}

// Sizes for copying a range of the base in bytes. The system copies the range in chunks, except the
// tail, which is copied through memory.
const (
	tailSize  = 32 << 10
	chunkSize = 16 << 20
)

// copyBase copies a range of the base. It sends the tail only after it has checked that the file
// has not changed. A client that receives all bytes has therefore received the correct bytes.
func (r *Reader) copyBase(w io.Writer, from, n int64) (written int64, err error) {
	for n-written > tailSize {
		k, err := r.copyChunk(w, from+written, min(chunkSize, n-written-tailSize))
		written += k
		if err == nil {
			err = r.image.base.Intact()
		}
		if err != nil {
			return written, err
		}
	}
	base := r.image.base
	tail, ok := base.tails.Get().(*[tailSize]byte)
	if !ok {
		tail = new([tailSize]byte)
	}
	defer base.tails.Put(tail)
	p := tail[:n-written]
	if k, err := base.file.ReadAt(p, from+written); k < len(p) {
		return written, base.readError(err)
	}
	if err := base.Intact(); err != nil {
		return written, err
	}
	k, err := w.Write(p)
	return written + int64(k), err
}

// copyChunk copies with the system's file-to-socket copy if possible.
func (r *Reader) copyChunk(w io.Writer, from, n int64) (int64, error) {
	var src io.Reader
	if f := r.ownFile(); f != nil {
		if _, err := f.Seek(from, io.SeekStart); err != nil {
			return 0, r.image.base.readError(err)
		}
		src = f
	} else {
		src = io.NewSectionReader(r.image.base.file, from, n)
	}
	k, err := io.Copy(w, &io.LimitedReader{R: src, N: n})
	if err == nil && k < n {
		err = r.image.base.readError(io.EOF)
	}
	return k, err
}

// ownFile opens the base again for this reader. It returns nil if the path now refers to another
// file. The bytes are then read from the shared file.
func (r *Reader) ownFile() *os.File {
	if r.own == nil {
		r.own = r.image.base.reopen()
	}
	return r.own
}

// Close releases the resources of the reader.
func (r *Reader) Close() error {
	if r.own == nil {
		return nil
	}
	f := r.own
	r.own = nil
	return f.Close()
}

// reopen opens the path of the base again. It returns nil if the path refers to another file.
func (b *Base) reopen() *os.File {
	f, err := os.Open(b.path)
	if err != nil {
		return nil
	}
	if here, err := f.Stat(); err == nil {
		if there, err := b.file.Stat(); err == nil && os.SameFile(here, there) {
			return f
		}
	}
	if err := f.Close(); err != nil {
		return nil
	}
	return nil
}

// BaseError reports that the base ISO was readable when it was opened, but was changed or failed
// later.
type BaseError struct {
	Path string
	Err  error
}

func (e *BaseError) Error() string {
	return fmt.Sprintf("the base ISO %s was changed after it was opened: %v: download the image again, and "+
		"replace a base ISO by renaming the new file over it", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *BaseError) Unwrap() error { return e.Err }

var errChanged = errors.New("the file was modified")

// Intact returns a *BaseError if the file was changed after it was indexed. Its images can then not
// be read: open the path again.
func (b *Base) Intact() error {
	info, err := b.file.Stat()
	if err != nil {
		return b.readError(err)
	}
	if info.Size() != b.size || !info.ModTime().Equal(b.modified) {
		return b.readError(errChanged)
	}
	return nil
}

func (b *Base) readError(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &BaseError{Path: b.path, Err: err}
}
