package web

import (
	"io"
	"net/http"
	"time"
)

// Times of answers. A client that reads more slowly is disconnected.
const (
	// answerTime is the time for each part of an answer, and for the rest when the handler ends.
	answerTime = time.Minute
	// answerPart is the largest part of an answer in bytes. So a client must read 1 KiB/s.
	answerPart = 64 << 10
)

// answer is a response whose client must read it. Each write has a deadline; between writes there
// is none, so that live feeds and watches may be silent. A handler that sets deadlines itself, such
// as that of images, has its own limits.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController // of ResponseWriter
	time    time.Duration
	own     bool // the handler sets the deadlines
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

// ReadFrom implements io.ReaderFrom, by which the kernel copies the files of handlers with their
// own limits.
func (a *answer) ReadFrom(src io.Reader) (int64, error) {
	if direct, ok := a.ResponseWriter.(io.ReaderFrom); ok && a.own {
		return direct.ReadFrom(src)
	}
	return io.Copy(onlyWriter{a}, src)
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
