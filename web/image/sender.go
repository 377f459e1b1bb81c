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
	"landfall/web/image/telescope"
)

const (
	// pieceSize is the largest range that is read and written; more goes from file to socket in the
	// kernel. Opening the base and handing it to the kernel takes longer than copying so little.
	pieceSize = 64 << 10
	// stepSize is after how many bytes a long range is counted.
	stepSize = 2 << 20
	// stepTime is after how long a slow one is.
	stepTime = 5 * time.Second
)

// errStalled ends the answer to a client that stopped reading.
var errStalled = errors.New("the client stopped reading")

// sender is the response that http.ServeContent copies an image to. io.Copy asks it first
// (ReadFrom), so that ranges of the base ISO go from file to socket in the kernel, which net/http
// does for an *os.File and for nothing else.
//
// The reader beneath never hands out the end of a range of a base that was changed meanwhile, so no
// answer with a mixture of two files is ever whole.
type sender struct {
	http.ResponseWriter // net/http's own, beneath echo's
	echo                *echo.Response
	control             *http.ResponseController
	patience            time.Duration // how long a client may take nothing
	direct              bool          // the connection takes files
	image               *download
	reader              *isogen.Reader
	read                *telescope.Read // nil for a HEAD
	pieces              *sync.Pool      // of buffers of pieceSize bytes
	pos                 int64           // in the image, of the next byte
	refused             int             // the status that the request is to be refused with
	failure             error           // why the answer had to be broken off
}

func (s *Service) newSender(response *echo.Response, r *http.Request, image *download, read *telescope.Read) *sender {
	w := &sender{
		ResponseWriter: response.Writer, echo: response, control: http.NewResponseController(response.Writer),
		patience: s.options.Patience, direct: r.TLS == nil && r.ProtoMajor == 1,
		image: image, reader: image.NewReader(), read: read, pieces: &s.pieces,
	}
	w.deadline(w.patience)
	return w
}

// finish closes the reader, hands over what net/http still holds back while there is a deadline,
// and leaves the connection without one. It returns why the answer had to be broken off.
func (s *sender) finish() error {
	if s.failure = errors.Join(s.failure, s.reader.Close()); s.failure != nil {
		return s.failure
	}
	var err error
	if s.refused == 0 {
		err = s.noted(s.control.Flush())
	}
	if err == nil {
		err = s.control.SetWriteDeadline(time.Time{})
	}
	if errors.Is(err, http.ErrNotSupported) {
		return nil // the connection is none
	}
	return err
}

// WriteHeader implements http.ResponseWriter. What http.ServeContent refuses is left to be told in
// the API's own shape.
func (s *sender) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		s.refused = status
		return
	}
	s.echo.Status, s.echo.Committed = status, true
	s.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer. The parts of several ranges come this way.
func (s *sender) Write(p []byte) (n int, err error) {
	if s.refused != 0 {
		return len(p), nil
	}
	for len(p) > 0 && err == nil {
		var k int
		s.deadline(s.patience)
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
		return n, s.noted(err)
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

// long sends n bytes, those of the base without touching them.
func (s *sender) long(n int64) (int64, error) {
	s.deadline(s.patience)
	if err := s.control.Flush(); err != nil { // the headers; from here on a step's deadline may pass in vain
		return 0, s.noted(err)
	}
	if _, err := s.reader.Seek(s.pos, io.SeekStart); err != nil {
		return 0, s.noted(err)
	}
	n, err := s.reader.CopyN(steps{s}, n)
	return n, s.noted(err)
}

// piece sends up to pieceSize bytes by way of a buffer.
func (s *sender) piece(n int64) (int64, error) {
	buffer, ok := s.pieces.Get().(*[pieceSize]byte)
	if !ok {
		buffer = new([pieceSize]byte)
	}
	defer s.pieces.Put(buffer)
	p := buffer[:min(n, pieceSize)]
	if _, err := s.reader.ReadAt(p, s.pos); err != nil {
		return 0, s.noted(err)
	}
	s.deadline(s.patience)
	k, err := s.ResponseWriter.Write(p)
	s.sent(int64(k))
	return int64(k), s.noted(err)
}

func (s *sender) sent(n int64) {
	s.read.Sent(s.pos, n)
	s.pos += n
	s.echo.Size += n
}

// deadline gives the connection so long to take what comes next. One that knows no deadlines has
// none.
func (s *sender) deadline(d time.Duration) {
	if err := s.control.SetWriteDeadline(time.Now().Add(d)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.failure = err
	}
}

// noted keeps the first error; http.ServeContent tells nobody of it.
func (s *sender) noted(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errStalled
	}
	if s.failure == nil {
		s.failure = err
	}
	return err
}

// steps takes what a reader copies: ranges of the base and pieces of the image's own.
type steps struct{ *sender }

// Write implements io.Writer.
func (s steps) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		var k int
		s.deadline(s.patience)
		k, err = s.ResponseWriter.Write(p[:min(len(p), pieceSize)])
		s.sent(int64(k))
		n, p = n+k, p[k:]
	}
	return n, err
}

// ReadFrom implements io.ReaderFrom for a range of the base. It gives the kernel a step at a time;
// a step that takes long goes on as long as something of it is taken.
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
		patience := min(stepTime, s.patience-stalled)
		s.deadline(patience)
		step := &io.LimitedReader{R: file, N: min(limited.N, stepSize)}
		k, err := to.ReadFrom(step)
		s.sent(k)
		n, limited.N = n+k, limited.N-k
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if stalled += patience; k > 0 {
				stalled = 0
			}
			if stalled < s.patience {
				// What was read of the file and not taken is read again.
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

// content is the image as http.ServeContent sees it. It reads it this way for several ranges at
// once only.
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

// plain hides every method but Write.
type plain struct{ io.Writer }
