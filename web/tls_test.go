package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
)

// certified returns the TLS configuration of a server and that of its clients.
func certified(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	made := httptest.NewUnstartedServer(nil)
	made.EnableHTTP2 = true
	made.StartTLS()
	t.Cleanup(made.Close)
	roots := x509.NewCertPool()
	roots.AddCert(made.Certificate())
	return &tls.Config{Certificates: made.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"},
		MinVersion: tls.VersionTLS12}, &tls.Config{RootCAs: roots}
}

// startServer serves on a port of the loopback and returns its address.
func startServer(t *testing.T, server *Server) string {
	t.Helper()
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return listener.Addr().String()
}

func helloServer(t *testing.T, line *TLS) *Server {
	t.Helper()
	server := New(Options{TLS: line})
	handle(t, server, http.MethodGet, "/hello", func(c echo.Context) error {
		return c.String(http.StatusOK, c.Request().Proto)
	})
	handle(t, server, http.MethodPost, "/hello", func(c echo.Context) error {
		return c.NoContent(http.StatusNoContent)
	})
	return server
}

func TestTLS_shutdownFinishesRequestsOfHTTP2(t *testing.T) {
	config, trusting := certified(t)
	server := New(Options{TLS: &TLS{Config: config}})
	entered, leave := make(chan struct{}), make(chan struct{})
	handle(t, server, http.MethodGet, "/slow", func(c echo.Context) error {
		close(entered)
		<-leave
		return c.String(http.StatusOK, c.Request().Proto)
	})
	ctx, cancel := context.WithCancel(t.Context())
	listener, err := Listen(ctx, "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting, ForceAttemptHTTP2: true}}
	answer := make(chan string, 1)
	go func() {
		response, err := client.Get("https://" + listener.Addr().String() + "/slow")
		if err != nil {
			answer <- err.Error()
			return
		}
		body, err := io.ReadAll(response.Body)
		answer <- string(body) + errorText(errors.Join(err, response.Body.Close()))
	}()
	<-entered
	none, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	server.unused.wait(none) // so the connection is not closed at the end of the grace
	require.NoError(t, none.Err())
	cancel()
	<-server.Draining()
	close(leave)
	require.Equal(t, "HTTP/2.0", <-answer)
	require.NoError(t, <-served)
}

func TestTLS_sharesPortWithPlainHTTP(t *testing.T) {
	config, trusting := certified(t)
	address := startServer(t, helloServer(t, &TLS{Config: config}))
	secure := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting, ForceAttemptHTTP2: true}}
	old := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting.Clone(),
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}}
	for name, request := range map[string]struct {
		client      *http.Client
		url, answer string
		strict      bool
	}{
		"HTTP/2":     {secure, "https://" + address + "/hello", "HTTP/2.0", true},
		"HTTP/1.1":   {old, "https://" + address + "/hello", "HTTP/1.1", true},
		"plain HTTP": {http.DefaultClient, "http://" + address + "/hello", "HTTP/1.1", false},
	} {
		t.Run(name, func(t *testing.T) {
			response, err := request.client.Get(request.url)
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, request.answer, string(body))
			require.Equal(t, request.strict, response.Header.Get("Strict-Transport-Security") != "",
				"browsers may only learn the rule over TLS (RFC 6797, section 7.2)")
		})
	}
}

func TestTLS_oldVersionRefused(t *testing.T) {
	config, trusting := certified(t)
	address := startServer(t, helloServer(t, &TLS{Config: config}))
	trusting.MinVersion, trusting.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	_, err := tls.Dial("tcp", address, trusting)
	require.ErrorContains(t, err, "protocol version")
}

// TestTLS_silentClientsDelayNobody opens connections that send nothing.
func TestTLS_silentClientsDelayNobody(t *testing.T) {
	config, _ := certified(t)
	address := startServer(t, helloServer(t, &TLS{Config: config}))
	for range 50 {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
	}
	response, err := http.Get("http://" + address + "/hello")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
}

// TestTLS_stopsWithSilentClients checks that a server ends while a connection has sent nothing.
func TestTLS_stopsWithSilentClients(t *testing.T) {
	config, _ := certified(t)
	server := helloServer(t, &TLS{Config: config})
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	response, err := http.Get("http://" + listener.Addr().String() + "/hello")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestTLS_plainRequestsOfOtherMachines(t *testing.T) {
	moved := func(r *http.Request) string {
		if r.URL.Path == "/image.iso" {
			return AtPort(r, "http", "8091")
		}
		return ""
	}
	server := helloServer(t, &TLS{Moved: moved})
	for name, sent := range map[string]struct {
		method, target, client string
		status                 int
		location, body         string
	}{
		"page": {http.MethodGet, "/hello?x=1", "192.0.2.7:1000", http.StatusPermanentRedirect,
			"https://site.test:8090/hello?x=1", ""},
		"HEAD": {http.MethodHead, "/hello", "192.0.2.7:1000", http.StatusPermanentRedirect,
			"https://site.test:8090/hello", ""},
		"several slashes": {http.MethodGet, "//evil.test/x", "192.0.2.7:1000", http.StatusPermanentRedirect,
			"https://site.test:8090/evil.test/x", ""},
		"change": {http.MethodPost, "/hello", "192.0.2.7:1000", http.StatusBadRequest, "",
			"send the request to https://site.test:8090"},
		"image": {http.MethodGet, "/image.iso", "192.0.2.7:1000", http.StatusTemporaryRedirect,
			"http://site.test:8091/image.iso", ""},
		"loopback":             {http.MethodGet, "/hello", "127.0.0.1:1000", http.StatusOK, "", "HTTP/1.1"},
		"loopback of IPv6":     {http.MethodGet, "/hello", "[::1]:1000", http.StatusOK, "", "HTTP/1.1"},
		"change from loopback": {http.MethodPost, "/hello", "127.0.0.1:1000", http.StatusNoContent, "", ""},
		"own address":          {http.MethodGet, "/hello", "10.0.0.5:1000", http.StatusOK, "", "HTTP/1.1"},
		"neighbour of loopback": {http.MethodGet, "/hello", "128.0.0.1:1", http.StatusPermanentRedirect,
			"https://site.test:8090/hello", ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequest(sent.method, "http://site.test:8090"+sent.target, nil)
			request.RemoteAddr = sent.client
			request = request.WithContext(context.WithValue(request.Context(), http.LocalAddrContextKey,
				net.Addr(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 8090})))
			recorder := httptest.NewRecorder()
			server.ServeHTTP(recorder, request)
			require.Equal(t, sent.status, recorder.Code, recorder.Body)
			require.Equal(t, sent.location, recorder.Header().Get("Location"))
			require.Contains(t, recorder.Body.String(), sent.body)
			require.Empty(t, recorder.Header().Get("Strict-Transport-Security"))
		})
	}
}

func TestTLS_plainServerForAll(t *testing.T) {
	server := helloServer(t, &TLS{Plain: PlainForAll, Moved: func(r *http.Request) string {
		return AtPort(r, "https", "8090")
	}})
	for name, sent := range map[string]struct {
		method, path string
		status       int
		location     string
	}{
		"own operation":         {http.MethodGet, "/hello", http.StatusOK, ""},
		"page":                  {http.MethodGet, "/", http.StatusTemporaryRedirect, "https://[2001:db8::1]:8090/"},
		"change on other":       {http.MethodPost, "/clusters", http.StatusMisdirectedRequest, ""},
		"unknown method of own": {http.MethodDelete, "/hello", http.StatusMisdirectedRequest, ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequest(sent.method, "http://[2001:db8::1]:8091"+sent.path, nil)
			recorder := httptest.NewRecorder()
			server.ServeHTTP(recorder, request)
			require.Equal(t, sent.status, recorder.Code, recorder.Body)
			require.Equal(t, sent.location, recorder.Header().Get("Location"))
		})
	}
}

// FuzzTLS_firstBytes sends any bytes. The server must neither crash nor stop.
func FuzzTLS_firstBytes(f *testing.F) {
	for _, seed := range []string{"\x16\x03\x01", "\x16", "GET /hello HTTP/1.1\r\n\r\n", "\x80\x2e\x01\x00\x02",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x00", "SSH-2.0-x\r\n"} {
		f.Add([]byte(seed))
	}
	made := httptest.NewUnstartedServer(nil)
	made.StartTLS()
	f.Cleanup(made.Close)
	server := New(Options{TLS: &TLS{Config: &tls.Config{Certificates: made.TLS.Certificates}}})
	listener, err := Listen(f.Context(), "127.0.0.1:0")
	require.NoError(f, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	f.Cleanup(func() {
		cancel()
		require.NoError(f, <-ended)
	})
	f.Fuzz(func(t *testing.T, sent []byte) {
		conn, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		_, _ = conn.Write(sent) // the server may have closed the connection
		require.NoError(t, conn.Close())
		conn, err = net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		_, err = fmt.Fprint(conn, "GET /nothing HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, response.StatusCode)
		require.NoError(t, response.Body.Close())
		require.NoError(t, conn.Close())
	})
}
