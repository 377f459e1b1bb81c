package web

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stalling is a file whose medium does not answer.
type stalling struct{ *os.File }

// StallTime is the time that the medium may take.
func (stalling) StallTime() time.Duration { return 10 * time.Millisecond }

// A file that hangs in the kernel breaks the connection, after what was read of it.
func TestConnections_fileHangs(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener := LimitConnections(plain, NewConnections(1000))
	defer func() { require.NoError(t, listener.Close()) }()
	file, writer, err := os.Pipe()
	require.NoError(t, err)
	_, err = io.WriteString(writer, "first")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, err = conn.(io.ReaderFrom).ReadFrom(&io.LimitedReader{R: stalling{file}, N: 100})
		}
		ended <- err
	}()
	client, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	got, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Equal(t, "first", string(got))
	_, err = io.WriteString(writer, "late")
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	require.Error(t, <-ended)
	require.NoError(t, client.Close())
}
