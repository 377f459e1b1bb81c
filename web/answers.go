package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// Times of answers. A client that reads more slowly is disconnected.
const (
	// answerTime is the time for each part of an answer, and for the rest when the handler ends.
	answerTime = time.Minute
	// answerPart is the largest part of an answer in bytes. So a client must read 1 KiB/s.
	answerPart = 64 << 10
	// directPart is the largest part that the kernel copies from a file at once.
	directPart = 1 << 20
)

// answer is a response whose client must read it. Each write has a deadline; between writes there
// is none, so that live feeds and watches may be silent. A handler that sets deadlines itself, such
// as that of images, has its own limits.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController // of ResponseWriter
	time    time.Duration
	own     bool              // the handler sets the deadlines
	stamp   func(http.Header) // see Options.Stamp
}

func newAnswer(w http.ResponseWriter, limit time.Duration) *answer {
	return &answer{ResponseWriter: w, control: http.NewResponseController(w), time: limit}
}

// Unwrap lets [http.ResponseController] find the methods of the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// SetWriteDeadline implements the method of [http.ResponseController].
func (a *answer) SetWriteDeadline(at time.Time) error {
	a.own = true
	return a.control.SetWriteDeadline(at)
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.stamp != nil {
		a.stamp(a.Header())
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (n int, err error) {
	if a.own {
		return a.ResponseWriter.Write(p)
	}
	defer a.endDeadline()
	for {
		a.beginDeadline()
		part := p[n:min(len(p), n+answerPart)]
		k, err := a.ResponseWriter.Write(part)
		n += k
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// ReadFrom implements io.ReaderFrom, by which the kernel copies files.
func (a *answer) ReadFrom(src io.Reader) (n int64, err error) {
	direct, ok := a.ResponseWriter.(io.ReaderFrom)
	limited, isPart := src.(*io.LimitedReader)
	switch {
	case ok && a.own:
		return direct.ReadFrom(src)
	case !ok || !isPart:
		return io.Copy(onlyWriter{a}, src)
	}
	defer a.endDeadline()
	for limited.N > 0 {
		a.beginDeadline()
		wanted := min(limited.N, directPart)
		part := &io.LimitedReader{R: limited.R, N: wanted}
		k, err := direct.ReadFrom(part)
		n += k
		limited.N -= k
		// The client reads fast enough, and no byte was read of the file without being sent.
		isProgress := errors.Is(err, os.ErrDeadlineExceeded) && k >= answerPart && part.N == wanted-k
		if !isProgress && (err != nil || k < wanted) {
			return n, err
		}
	}
	return n, nil
}

// onlyWriter hides all methods except Write.
type onlyWriter struct{ io.Writer }

// FlushError implements the method of [http.ResponseController].
func (a *answer) FlushError() error {
	if !a.own {
		defer a.endDeadline()
		a.beginDeadline()
	}
	return a.control.Flush()
}

// finish limits the time in which net/http sends the rest. Afterwards net/http removes the
// deadline.
func (a *answer) finish() { a.beginDeadline() }

// Recorders in tests support no deadlines. The next write to a broken connection reports the error.

func (a *answer) beginDeadline() { _ = a.control.SetWriteDeadline(time.Now().Add(a.time)) }
func (a *answer) endDeadline()   { _ = a.control.SetWriteDeadline(time.Time{}) }
