package web

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stalling is a file whose medium may not answer.
type stalling struct {
	*os.File
	time time.Duration
}

// StallTime is the time that the medium may take.
func (s stalling) StallTime() time.Duration { return s.time }

// sendPipe sends what is written to a pipe to a client. It returns the side of the client, the end
// of the pipe to write to, and the error of the copy.
func sendPipe(t *testing.T, stall time.Duration) (client net.Conn, writer *os.File, ended chan error) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener := LimitConnections(plain, NewConnections(1000))
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	file, writer, err := os.Pipe()
	require.NoError(t, err)
	ended = make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, err = conn.(io.ReaderFrom).ReadFrom(&io.LimitedReader{R: stalling{file, stall}, N: 1 << 30})
		}
		ended <- err
	}()
	client, err = net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client, writer, ended
}

// A file that hangs in the kernel breaks the connection, after what was read of it.
func TestConnections_fileHangs(t *testing.T) {
	client, writer, ended := sendPipe(t, 10*time.Millisecond)
	_, err := io.WriteString(writer, "first")
	require.NoError(t, err)
	got, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Equal(t, "first", string(got))
	_, err = io.WriteString(writer, "late")
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	require.Error(t, <-ended)
}

// A file that is read slowly is sent as a whole, although that takes longer than one read may.
func TestConnections_fileIsSlow(t *testing.T) {
	const stall = 200 * time.Millisecond
	client, writer, ended := sendPipe(t, stall)
	for start := time.Now(); time.Since(start) < 6*stall; {
		_, err := io.WriteString(writer, "x")
		require.NoError(t, err)
		_, err = io.ReadFull(client, make([]byte, 1))
		require.NoError(t, err, "after %s", time.Since(start))
	}
	require.NoError(t, writer.Close())
	require.NoError(t, <-ended)
}
