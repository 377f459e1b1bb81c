// Package stall ends reads from another machine that makes no progress, although the connection to
// it is open.
package stall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jonboulle/clockwork"
)

// Error reports that the other side stopped in the middle of a message.
type Error struct {
	From  string // the other side, such as "the registry"
	Limit time.Duration
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s sent nothing for %s", e.From, e.Limit) }

// Timeout reports that the error is one of time, as those of package net do.
func (*Error) Timeout() bool { return true }

// body is the content of an answer.
type body struct {
	io.ReadCloser
	ctx     context.Context // of the request
	cancel  context.CancelCauseFunc
	failure *Error
	timer   clockwork.Timer
}

// NewBody returns the content of an answer to a request with the context ctx, which cancel ends. A
// read without a byte within the limit of the failure fails with it. The reader itself may be slow.
// Close ends the context.
func NewBody(ctx context.Context, cancel context.CancelCauseFunc, content io.ReadCloser, failure *Error,
	clock clockwork.Clock) io.ReadCloser {
	timer := clock.AfterFunc(failure.Limit, func() { cancel(failure) })
	timer.Stop()
	return &body{content, ctx, cancel, failure, timer}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.timer.Reset(b.failure.Limit)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if err != nil && errors.Is(context.Cause(b.ctx), b.failure) {
		err = b.failure
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.timer.Stop()
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
