package fleet

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPeers_memberThatTakesNothing sends an answer to a member that does not read it.
func TestPeers_memberThatTakesNothing(t *testing.T) {
	t.Parallel()
	sent := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		to := newOutgoing(w)
		to.limit = 100 * time.Millisecond
		for {
			if _, err := to.Write(make([]byte, 1<<20)); err != nil {
				sent <- err
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: member\r\n\r\n")
	require.NoError(t, err)
	require.ErrorIs(t, <-sent, os.ErrDeadlineExceeded)
}

// TestPeers_memberThatSendsNothing takes files from a member that stops in the middle of one.
func TestPeers_memberThatSendsNothing(t *testing.T) {
	t.Parallel()
	received := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := newTaken(w, r)
		from.limit = 100 * time.Millisecond
		_, err := io.Copy(io.Discard, from)
		from.end()
		received <- err
	}))
	t.Cleanup(server.Close)
	for range 2 {
		answer, err := server.Client().Post(server.URL, "", strings.NewReader("content"))
		require.NoError(t, errors.Join(err, <-received))
		require.NoError(t, answer.Body.Close())
	}
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: member\r\nContent-Length: 9\r\n\r\nhalf")
	require.NoError(t, err)
	require.ErrorIs(t, <-received, os.ErrDeadlineExceeded)
}
