// Package logwriter writes a program's log so that the reader of the log can't stop the program.
package logwriter

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/jonboulle/clockwork"
)

// Patience is the time that a line waits for the reader, who may have stopped a terminal with
// Ctrl-S, or be a program that hangs.
const Patience = time.Second

// Writer writes lines. While the reader does not take a line, further lines are dropped. It is safe
// for concurrent use.
type Writer struct {
	out     io.Writer
	clock   clockwork.Clock
	dropped func(lines int) []byte

	mu   sync.Mutex
	done chan struct{} // closed when the line that nobody took is written; nil if there is none
	lost int           // lines since then
}

// New returns a writer to out. dropped returns the line that says how many lines were dropped.
func New(out io.Writer, clock clockwork.Clock, dropped func(lines int) []byte) *Writer {
	return &Writer{out: out, clock: clock, dropped: dropped}
}

// Write writes a line, or drops it. It returns no error, because no caller could tell anybody.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done != nil {
		select {
		case <-w.done:
			w.done = nil
		default:
			w.lost++
			return len(line), nil
		}
	}
	text := bytes.Clone(line)
	if w.lost > 0 {
		text = append(w.dropped(w.lost), line...)
		w.lost = 0
	}
	// Nobody can end a write to a pipe or terminal, so the goroutine ends with the write.
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = w.out.Write(text)
	}()
	timer := w.clock.NewTimer(Patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.Chan():
		w.done = done
	}
	return len(line), nil
}

// IgnoreSIGPIPE makes this process survive the end of the reader of its output, such as
// "landfall serve | tee FILE". The returned function restores the default, which ends the process.
func IgnoreSIGPIPE() (restore func()) {
	// Unlike an ignored signal, this does not apply to the programs that the process starts.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGPIPE)
	return func() { signal.Stop(signals) }
}
