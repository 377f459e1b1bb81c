package web

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"landfall/web/operation"
)

// readsBody is a handler that holds the request's body and answers with its length.
func readsBody(c echo.Context) error {
	content, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	return c.String(http.StatusOK, fmt.Sprint(len(content)))
}

// serve runs a server with a handler of POST /read that holds bodies, and returns its address and
// its log.
func serve(t *testing.T, options Options, grace time.Duration) (address string, log func() []map[string]any) {
	t.Helper()
	options.Logger, log = recordedLog(slog.LevelError)
	server := New(options)
	server.bodyGrace = grace
	handle(t, server, http.MethodPost, "/read", readsBody)
	handle(t, server, http.MethodGet, "/health", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	local := httptest.NewServer(server)
	t.Cleanup(local.Close)
	return strings.TrimPrefix(local.URL, "http://"), log
}

// exchange sends the text of a request over a new connection and returns the status of the answer,
// or 0 if the server closed the connection.
func exchange(t *testing.T, address, request string) int {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

func TestBody_slowBodyEndsWith408(t *testing.T) {
	address, log := serve(t, Options{}, 50*time.Millisecond)
	require.Equal(t, http.StatusRequestTimeout,
		exchange(t, address, "POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nx"))
	require.Equal(t, http.StatusRequestTimeout,
		exchange(t, address, "POST /read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"))
	require.Equal(t, http.StatusOK,
		exchange(t, address, "POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nxy"))
	require.Empty(t, log())
}

// The server reads the rest of a body that a handler ignores, before it answers.
func TestBody_unreadBodyHoldsNoConnection(t *testing.T) {
	address, _ := serve(t, Options{}, 20*time.Millisecond)
	for _, path := range []string{"/nothing", "/health"} {
		require.GreaterOrEqual(t, exchange(t, address, "POST "+path+
			" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nx"), http.StatusBadRequest)
	}
}

// A handler may take longer than the time of its body.
func TestBody_timeEndsWithTheBody(t *testing.T) {
	server := New(Options{})
	server.bodyGrace = 20 * time.Millisecond
	handle(t, server, http.MethodPost, "/slow", func(c echo.Context) error {
		if _, err := io.Copy(io.Discard, c.Request().Body); err != nil {
			return err
		}
		select {
		case <-c.Request().Context().Done():
			return c.Request().Context().Err()
		case <-time.After(100 * time.Millisecond):
			return c.NoContent(http.StatusOK)
		}
	})
	local := httptest.NewServer(server)
	t.Cleanup(local.Close)
	response, err := http.Post(local.URL+"/slow", "text/plain", strings.NewReader("body"))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
}

// A body that the client broke off was a 500 and an ERROR line.
func TestBody_brokenOffIsTheClientsError(t *testing.T) {
	for name, request := range map[string]string{
		"in the middle":   "POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf",
		"inside a chunk":  "POST /read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
		"malformed chunk": "POST /read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhalf",
	} {
		t.Run(name, func(t *testing.T) {
			address, log := serve(t, Options{}, time.Minute)
			conn, err := net.Dial("tcp", address)
			require.NoError(t, err)
			_, err = io.WriteString(conn, request)
			require.NoError(t, err)
			require.NoError(t, conn.(*net.TCPConn).CloseWrite())
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusBadRequest, response.StatusCode)
			require.NoError(t, response.Body.Close())
			require.NoError(t, conn.Close())
			require.Empty(t, log())
		})
	}
}

// 200 unfinished bodies of 4 MiB held 1.5 GB.
func TestBody_unfinishedBodiesHoldLittleMemory(t *testing.T) {
	const memory = 32 << 20
	address, log := serve(t, Options{BodyMemory: memory}, time.Minute)
	part := bytes.Repeat([]byte("x"), 4<<20-1)
	var refused int
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = fmt.Fprintf(conn, "POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 4<<20)
			_, _ = conn.Write(part) // fails if the server has closed the connection
			_ = conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err == nil && response.StatusCode == http.StatusServiceUnavailable &&
				response.Header.Get("Retry-After") != "" {
				mu.Lock()
				refused++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	require.Positive(t, refused)
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	require.Less(t, stats.HeapAlloc, uint64(4*memory))
	require.Equal(t, http.StatusOK, exchange(t, address, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	require.Empty(t, filterErrors(log()))
}

// filterErrors returns the lines about errors of the appliance itself. A refusal with 503 is not
// one.
func filterErrors(lines []map[string]any) []map[string]any {
	var errs []map[string]any
	for _, line := range lines {
		if line["status"] != float64(http.StatusServiceUnavailable) {
			errs = append(errs, line)
		}
	}
	return errs
}

func TestBudget_shareOfEachClient(t *testing.T) {
	b := newBudget(100)
	client := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }
	require.True(t, b.take(client(1), 25, 1))
	require.False(t, b.take(client(1), 1, 1), "a quarter for each client")
	for n := range byte(3) {
		require.True(t, b.take(client(2+n), 25, 1))
	}
	require.False(t, b.take(client(9), 1, 1), "all memory is used")
	b.release(client(1), 25)
	require.True(t, b.take(client(9), 1, 1))
	for n := range byte(3) {
		b.release(client(2+n), 25)
	}
	b.release(client(9), 1)
	require.True(t, b.take(client(1), 60, 200), "one large body")
	require.False(t, b.take(client(1), 60, 60), "only one")
	b.release(client(1), 60)
	require.Zero(t, b.used)
	require.Empty(t, b.clients)
}

func TestBody_panicReleasesItsMemory(t *testing.T) {
	server := New(Options{BodyMemory: 1 << 10})
	for path, cause := range map[string]any{"/fails": "x", "/aborts": http.ErrAbortHandler} {
		require.NoError(t, server.Register(operation.Operation{Method: http.MethodPost, Path: path,
			Access: operation.Public(), Handler: func(c echo.Context) error {
				_, err := io.ReadAll(c.Request().Body)
				require.NoError(t, err)
				panic(cause)
			}}))
		func() {
			defer func() { _ = recover() }() // like net/http
			server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path,
				strings.NewReader("a body")))
		}()
		require.Zero(t, server.memory.used, path)
		require.Empty(t, server.memory.clients, path)
	}
}

func TestBody_streamsNeedNoMemory(t *testing.T) {
	server := New(Options{BodyMemory: 1 << 10})
	require.NoError(t, server.Register(operation.Operation{Method: http.MethodPost, Path: "/stream",
		Access: operation.Public(), Handler: readsBody, Streams: true}))
	local := httptest.NewServer(server)
	t.Cleanup(local.Close)
	response, err := http.Post(local.URL+"/stream", "text/plain", bytes.NewReader(make([]byte, 1<<20)))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
}
