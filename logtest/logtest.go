// Package logtest gives tests a logger that writes to their output.
package logtest

import (
	"io"
	"log/slog"
	"sync"
	"testing"
)

// New returns a logger for messages from a level on. It drops messages that come after the end of
// the test: goroutines of a request to the Kubernetes API may outlive the request.
func New(t testing.TB, level slog.Level) *slog.Logger {
	out := &output{to: t.Output()}
	t.Cleanup(out.end)
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
}

// output writes until its end.
type output struct {
	mu sync.Mutex
	to io.Writer
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to = io.Discard
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.to.Write(p)
}
