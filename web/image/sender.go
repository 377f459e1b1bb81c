package image

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/isogen"
	"landfall/web/image/progress"
)

const (
	// pieceSize is the largest range that is copied through a buffer. The kernel copies larger
	// ranges from file to socket. For small ranges, opening the base ISO again takes longer than
	// copying.
	pieceSize = 64 << 10
	// stepSize is the number of bytes after which the progress of a long range is recorded.
	stepSize = 2 << 20
	// stepTime is the time after which the progress of a slow range is recorded.
	stepTime = 5 * time.Second
)

// errStalled is the error of a response whose client stopped reading.
var errStalled = errors.New("the client stopped reading")

// sender is the response to which http.ServeContent copies an image. io.Copy calls its ReadFrom, so
// that the kernel copies ranges of the base ISO from file to socket; net/http supports that for an
// *os.File only.
// The underlying reader never returns the end of a range if the base ISO was changed, so a response
// with a mixture of two files is never complete.
type sender struct {
	http.ResponseWriter // the writer of net/http below echo's
	echo                *echo.Response
	control             *http.ResponseController
	stallTimeout        time.Duration // time after which a client that does not read is disconnected
	direct              bool          // the connection supports copying in the kernel
	image               *download
	reader              *isogen.Reader
	read                *progress.Read // nil for a HEAD request
	pieces              *sync.Pool     // buffers of pieceSize bytes
	pos                 int64          // position of the next byte in the image
	refused             int            // status of an error of http.ServeContent; 0 if there is none
	failure             error          // cause of an incomplete response
}

func (s *Service) newSender(response *echo.Response, r *http.Request, image *download, read *progress.Read) *sender {
	w := &sender{
		ResponseWriter: response.Writer, echo: response, control: http.NewResponseController(response.Writer),
		stallTimeout: s.options.StallTimeout, direct: r.TLS == nil && r.ProtoMajor == 1,
		image: image, reader: image.NewReader(), read: read, pieces: &s.pieces,
	}
	w.deadline(w.stallTimeout)
	return w
}

// finish closes the reader, flushes the buffers of net/http within a deadline, and then removes the
// deadline from the connection. It returns the cause of an incomplete response.
func (s *sender) finish() error {
	if s.failure = errors.Join(s.failure, s.reader.Close()); s.failure != nil {
		return s.failure
	}
	var err error
	if s.refused == 0 {
		err = s.record(s.control.Flush())
	}
	if err == nil {
		err = s.control.SetWriteDeadline(time.Time{})
	}
	if errors.Is(err, http.ErrNotSupported) {
		return nil // in a test without a connection
	}
	return err
}

// WriteHeader implements http.ResponseWriter. It records the errors of http.ServeContent without
// sending them, so that the caller can send them in the format of the API.
func (s *sender) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		s.refused = status
		return
	}
	s.echo.Status, s.echo.Committed = status, true
	s.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer. http.ServeContent calls it for responses with several ranges.
func (s *sender) Write(p []byte) (n int, err error) {
	if s.refused != 0 {
		return len(p), nil
	}
	for len(p) > 0 && err == nil {
		var k int
		s.deadline(s.stallTimeout)
		k, err = s.ResponseWriter.Write(p[:min(len(p), pieceSize)])
		s.echo.Size += int64(k)
		n, p = n+k, p[k:]
	}
	return n, err
}

// ReadFrom implements io.ReaderFrom.
func (s *sender) ReadFrom(src io.Reader) (n int64, err error) {
	limited, ok := src.(*io.LimitedReader)
	if !ok || limited.R != io.Reader(content{s}) {
		n, err = io.Copy(plain{s}, src)
		return n, s.record(err)
	}
	if limited.N > pieceSize && s.direct {
		n, err = s.long(limited.N)
		limited.N -= n
	}
	for err == nil && limited.N > 0 {
		var k int64
		k, err = s.piece(limited.N)
		n += k
		limited.N -= k
	}
	return n, err
}

// long sends n bytes. The kernel copies the bytes of the base ISO.
func (s *sender) long(n int64) (int64, error) {
	s.deadline(s.stallTimeout)
	// The headers are sent first: afterwards, a passed deadline only ends a step.
	if err := s.control.Flush(); err != nil {
		return 0, s.record(err)
	}
	if _, err := s.reader.Seek(s.pos, io.SeekStart); err != nil {
		return 0, s.record(err)
	}
	n, err := s.reader.CopyN(steps{s}, n)
	return n, s.record(err)
}

// piece sends up to pieceSize bytes through a buffer.
func (s *sender) piece(n int64) (int64, error) {
	buffer, ok := s.pieces.Get().(*[pieceSize]byte)
	if !ok {
		buffer = new([pieceSize]byte)
	}
	defer s.pieces.Put(buffer)
	p := buffer[:min(n, pieceSize)]
	if _, err := s.reader.ReadAt(p, s.pos); err != nil {
		return 0, s.record(err)
	}
	s.deadline(s.stallTimeout)
	k, err := s.ResponseWriter.Write(p)
	s.sent(int64(k))
	return int64(k), s.record(err)
}

func (s *sender) sent(n int64) {
	s.read.Sent(s.pos, n)
	s.pos += n
	s.echo.Size += n
}

// deadline limits the time for the next write. A connection that does not support deadlines has
// none.
func (s *sender) deadline(d time.Duration) {
	if err := s.control.SetWriteDeadline(time.Now().Add(d)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.failure = err
	}
}

// record stores the first error, because http.ServeContent discards it.
func (s *sender) record(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errStalled
	}
	if s.failure == nil {
		s.failure = err
	}
	return err
}

// steps is the writer to which the reader of an image copies ranges of the base ISO and generated
// bytes.
type steps struct{ *sender }

// Write implements io.Writer.
func (s steps) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		var k int
		s.deadline(s.stallTimeout)
		k, err = s.ResponseWriter.Write(p[:min(len(p), pieceSize)])
		s.sent(int64(k))
		n, p = n+k, p[k:]
	}
	return n, err
}

// ReadFrom implements io.ReaderFrom for a range of the base ISO. The kernel copies one step at a
// time. A slow step continues as long as the client reads some bytes of it.
func (s steps) ReadFrom(src io.Reader) (n int64, err error) {
	limited, ok := src.(*io.LimitedReader)
	if !ok {
		return io.Copy(plain{s}, src)
	}
	file, ok := limited.R.(*os.File)
	to, canReadFrom := s.ResponseWriter.(io.ReaderFrom)
	if !ok || !canReadFrom {
		return io.Copy(plain{s}, src)
	}
	start, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	for stalled := time.Duration(0); limited.N > 0; {
		timeout := min(stepTime, s.stallTimeout-stalled)
		s.deadline(timeout)
		step := &io.LimitedReader{R: file, N: min(limited.N, stepSize)}
		k, err := to.ReadFrom(step)
		s.sent(k)
		n, limited.N = n+k, limited.N-k
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if stalled += timeout; k > 0 {
				stalled = 0
			}
			if stalled < s.stallTimeout {
				// The next step reads the bytes again that were read from the file and not sent.
				if _, err := file.Seek(start+n, io.SeekStart); err != nil {
					return n, err
				}
				continue
			}
		}
		if err != nil || k == 0 {
			return n, err
		}
		stalled = 0
	}
	return n, nil
}

// content is the image for http.ServeContent, which reads it only for requests with several ranges.
type content struct{ *sender }

// Read implements io.Reader.
func (c content) Read(p []byte) (int, error) {
	n := min(int64(len(p)), c.image.Size()-c.pos)
	if n <= 0 {
		return 0, io.EOF
	}
	if _, err := c.reader.ReadAt(p[:n], c.pos); err != nil {
		return 0, err
	}
	c.read.Sent(c.pos, n)
	c.pos += n
	return int(n), nil
}

// Seek implements io.Seeker.
func (c content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.pos
	case io.SeekEnd:
		offset += c.image.Size()
	}
	c.pos = offset
	return offset, nil
}

// plain hides all methods except Write.
type plain struct{ io.Writer }
