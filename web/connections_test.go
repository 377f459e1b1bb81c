package web

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/web/operation"
)

// strangers is a listener that gives each connection an address of a stranger. The loopback itself
// is always known.
type strangers struct {
	net.Listener
	next func() netip.Addr
}

func (l strangers) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return fromStranger{conn, &net.TCPAddr{IP: l.next().AsSlice(), Port: 1}}, nil
}

type fromStranger struct {
	net.Conn
	remote net.Addr
}

func (c fromStranger) RemoteAddr() net.Addr { return c.remote }

func TestConnectionLimit_leavesDescriptors(t *testing.T) {
	for descriptors, limit := range map[uint64]int{64: 16, 256: 128, 1024: 768, 1 << 20: MaxConnections,
		1<<64 - 1: MaxConnections} {
		require.Equal(t, limit, connectionLimit(descriptors), descriptors)
	}
}

func TestConnections_shares(t *testing.T) {
	now := time.Unix(0, 0)
	l := newConnections(16, func() time.Time { return now })
	address := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }
	opens := func(client netip.Addr) bool { _, ok := l.open(client); return ok }
	for range 4 {
		require.True(t, opens(address(1)))
	}
	require.False(t, opens(address(1)), "a quarter for each stranger")
	for n := range byte(8) {
		require.True(t, opens(address(2+n)))
	}
	require.False(t, opens(address(99)), "three quarters for all strangers")
	l.Remember(address(99))
	require.True(t, opens(address(99)), "an address that has authenticated")
	loopback := netip.MustParseAddr("127.0.0.1")
	for range 3 {
		require.True(t, opens(loopback))
	}
	require.False(t, opens(loopback), "all connections are used")
	l.close(loopback, false)
	now = now.Add(knownFor)
	require.False(t, opens(address(99)), "the address is no longer known")
	l.close(address(1), true)
	require.True(t, opens(address(99)))
}

func TestConnections_rememberFewAddresses(t *testing.T) {
	now := time.Unix(0, 0)
	l := newConnections(16, func() time.Time { return now })
	address := netip.MustParseAddr("10.0.0.1")
	for range maxKnown + 100 {
		l.Remember(address)
		address = address.Next()
		now = now.Add(time.Millisecond)
	}
	require.Len(t, l.known, maxKnown)
	require.Contains(t, l.known, address.Prev(), "the newest")
	require.NotContains(t, l.known, netip.MustParseAddr("10.0.0.1"), "the oldest")
}

// 1,100 connections with bodies of one byte each made the appliance unreachable.
func TestConnections_floodLeavesRoomForTheKnown(t *testing.T) {
	limit := newConnections(64, time.Now)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	client := netip.MustParseAddr("10.1.0.1")
	var flooding atomic.Bool
	flooding.Store(true)
	server := New(Options{})
	handle(t, server, http.MethodPost, "/read", readsBody)
	handle(t, server, http.MethodGet, "/health", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	local := httptest.NewUnstartedServer(server)
	local.Listener = LimitConnections(strangers{listener, func() netip.Addr {
		if flooding.Load() {
			client = client.Next()
			return client
		}
		return netip.MustParseAddr("127.0.0.1")
	}}, limit)
	local.Start()
	t.Cleanup(local.Close)
	address := listener.Addr().String()
	for range 300 {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nx")
	}
	require.Eventually(t, func() bool {
		limit.mu.Lock()
		defer limit.mu.Unlock()
		return limit.all == 48
	}, time.Minute, time.Millisecond)
	require.Zero(t, exchange(t, address, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"), "a stranger")
	flooding.Store(false)
	require.Equal(t, http.StatusOK, exchange(t, address, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"))
}

func TestServer_remembersAuthenticatedClients(t *testing.T) {
	limit := newConnections(16, time.Now)
	server := New(Options{Connections: limit})
	for path, kind := range map[string]access.Kind{"/agent": access.Agent, "/nobody": access.Nobody} {
		require.NoError(t, server.Register(operation.Operation{Method: http.MethodGet, Path: path,
			Access: operation.Public(), Handler: func(c echo.Context) error {
				c.SetRequest(c.Request().WithContext(access.With(c.Request().Context(), access.Identity{Kind: kind})))
				return c.NoContent(http.StatusOK)
			}}))
		request := httptest.NewRequest(http.MethodGet, path, nil)
		request.RemoteAddr = map[access.Kind]string{access.Agent: "10.0.0.5:1", access.Nobody: "10.0.0.6:1"}[kind]
		server.ServeHTTP(httptest.NewRecorder(), request)
	}
	require.Contains(t, limit.known, netip.MustParseAddr("10.0.0.5"))
	require.NotContains(t, limit.known, netip.MustParseAddr("10.0.0.6"))
}

// Connections keep the methods by which net/http sends files without copying them.
// net/http asks a connection for this method, by which the kernel copies files.
func TestConnections_keepSendfile(t *testing.T) {
	for _, sniffing := range []bool{false, true} {
		limited, err := NewConnections(1024).Listen(t.Context(), "127.0.0.1:0")
		require.NoError(t, err)
		listener := limited
		if sniffing {
			listener = newSniffer(limited, &tls.Config{}, time.Second)
		}
		client, err := net.Dial("tcp", limited.Addr().String())
		require.NoError(t, err)
		_, err = client.Write([]byte("G"))
		require.NoError(t, err)
		conn, err := listener.Accept()
		require.NoError(t, err)
		require.Implements(t, (*io.ReaderFrom)(nil), conn)
		require.True(t, strings.HasPrefix(conn.RemoteAddr().String(), "127.0.0.1:"))
		var first [1]byte
		_, err = conn.Read(first[:])
		require.NoError(t, err)
		require.Equal(t, "G", string(first[:]))
		require.NoError(t, errors.Join(client.Close(), conn.Close()))
		require.Error(t, conn.Close(), "closed twice, counted once")
		require.NoError(t, listener.Close())
	}
}
