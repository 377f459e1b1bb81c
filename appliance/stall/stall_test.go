package stall

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
)

// end is the body of a connection, which fails when its request ends.
type end struct {
	*io.PipeReader
	closed chan struct{}
}

func (e end) Close() error {
	close(e.closed)
	return e.PipeReader.Close()
}

func open(t *testing.T, clock clockwork.Clock) (read io.ReadCloser, write *io.PipeWriter, closed chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	reader, writer := io.Pipe()
	context.AfterFunc(ctx, func() { _ = reader.CloseWithError(ctx.Err()) }) // as net/http does
	closed = make(chan struct{})
	return NewBody(ctx, cancel, end{reader, closed}, &Error{From: "the server", Limit: time.Minute}, clock), writer,
		closed
}

func TestBody_silence(t *testing.T) {
	clock := clockwork.NewFakeClock()
	body, _, closed := open(t, clock)
	failed := make(chan error, 1)
	go func() {
		_, err := body.Read(make([]byte, 1))
		failed <- err
	}()
	require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
	clock.Advance(time.Minute)
	err := <-failed
	require.EqualError(t, err, "the server sent nothing for 1m0s")
	var timeout interface{ Timeout() bool }
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.NoError(t, body.Close())
	<-closed
}

// Neither bytes that arrive slowly nor a reader that is busy meanwhile count as a stall.
func TestBody_slow(t *testing.T) {
	clock := clockwork.NewFakeClock()
	body, writer, _ := open(t, clock)
	for range 5 {
		read := make(chan error, 1)
		go func() {
			_, err := body.Read(make([]byte, 1))
			read <- err
		}()
		require.NoError(t, clock.BlockUntilContext(t.Context(), 1))
		clock.Advance(time.Minute - time.Second)
		_, err := writer.Write([]byte{0})
		require.NoError(t, err)
		require.NoError(t, <-read)
		clock.Advance(time.Hour)
	}
	require.NoError(t, body.Close())
}
