package web

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
)

// lines are the protocols over which a client receives answers.
var lines = map[string]func(*httptest.Server){
	"HTTP/1.1 in clear": (*httptest.Server).Start,
	"HTTP/1.1 over TLS": (*httptest.Server).StartTLS,
	"HTTP/2":            func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
}

// onEachLine runs a test of a server over each protocol.
func onEachLine(t *testing.T, limit time.Duration, route echo.HandlerFunc, test func(*testing.T, *httptest.Server)) {
	for name, start := range lines {
		t.Run(name, func(t *testing.T) {
			server := New(Options{})
			server.answerTime = limit
			handle(t, server, http.MethodGet, "/", route)
			local := httptest.NewUnstartedServer(server)
			start(local)
			t.Cleanup(local.Close)
			test(t, local)
		})
	}
}

// A client that did not read held a goroutine and the whole answer for as long as it liked.
func TestAnswer_clientThatDoesNotReadIsDisconnected(t *testing.T) {
	ended := make(chan error, 1)
	endless := func(c echo.Context) error {
		c.Response().WriteHeader(http.StatusOK)
		for part := make([]byte, 1<<20); ; {
			if _, err := c.Response().Write(part); err != nil {
				ended <- err
				return err
			}
		}
	}
	onEachLine(t, 50*time.Millisecond, endless, func(t *testing.T, server *httptest.Server) {
		response, err := server.Client().Get(server.URL)
		require.NoError(t, err)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			require.Fail(t, "the handler still runs")
		}
		_, err = io.Copy(io.Discard, response.Body)
		require.Error(t, err, "the answer is incomplete")
		require.NoError(t, response.Body.Close())
	})
}

// A client that reads one byte at a time makes no progress that counts.
func TestAnswer_slowReaderIsDisconnected(t *testing.T) {
	server := New(Options{})
	server.answerTime = 50 * time.Millisecond
	ended := make(chan error, 1)
	handle(t, server, http.MethodGet, "/", func(c echo.Context) error {
		err := c.Blob(http.StatusOK, "application/json", make([]byte, 64<<20))
		ended <- err
		return err
	})
	local := httptest.NewServer(server)
	t.Cleanup(local.Close)
	conn, err := net.Dial("tcp", local.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for one := make([]byte, 1); ; <-pace.C {
		if _, err := conn.Read(one); err != nil {
			require.Fail(t, "the connection ended before the handler", err)
		}
		select {
		case err := <-ended:
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			return
		default:
		}
	}
}

// A feed may be silent for longer than the time of a write.
func TestAnswer_silenceOfTheHandlerIsPermitted(t *testing.T) {
	feed := func(c echo.Context) error {
		c.Response().WriteHeader(http.StatusOK)
		for line := range 3 {
			if line > 0 {
				<-time.After(100 * time.Millisecond)
			}
			if _, err := fmt.Fprintln(c.Response(), line); err != nil {
				return err
			}
			c.Response().Flush()
		}
		return nil
	}
	onEachLine(t, 20*time.Millisecond, feed, func(t *testing.T, server *httptest.Server) {
		response, err := server.Client().Get(server.URL)
		require.NoError(t, err)
		in := bufio.NewScanner(response.Body)
		for line := range 3 {
			require.True(t, in.Scan(), "line %d: %v", line, in.Err())
			require.Equal(t, fmt.Sprint(line), in.Text())
		}
		require.NoError(t, response.Body.Close())
	})
}

// steps is a connection whose client reads some bytes until each deadline.
type steps struct {
	http.ResponseWriter
	sizes []int64
	got   []byte
}

// ReadFrom implements io.ReaderFrom.
func (s *steps) ReadFrom(src io.Reader) (int64, error) {
	size := s.sizes[0]
	s.sizes = s.sizes[1:]
	data, err := io.ReadAll(io.LimitReader(src, size))
	s.got = append(s.got, data...)
	if err == nil && int64(len(data)) == size {
		err = os.ErrDeadlineExceeded
	}
	return int64(len(data)), err
}

// A client that reads a file slowly, but fast enough, gets all of it. One that is slower is
// disconnected.
func TestAnswer_slowReaderOfFile(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	for name, c := range map[string]struct {
		sizes []int64
		whole bool
	}{
		"fast enough": {[]int64{answerPart, 2 * answerPart, 1 << 20}, true},
		"too slow":    {[]int64{answerPart - 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			conn := &steps{ResponseWriter: httptest.NewRecorder(), sizes: c.sizes}
			n, err := newAnswer(conn, time.Hour).ReadFrom(&io.LimitedReader{R: bytes.NewReader(content),
				N: int64(len(content))})
			require.EqualValues(t, len(conn.got), n)
			require.Equal(t, content[:n], conn.got)
			if c.whole {
				require.NoError(t, err)
				require.EqualValues(t, len(content), n)
			} else {
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			}
		})
	}
}
