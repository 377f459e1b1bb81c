package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"landfall/web/operation"
	"landfall/web/problem"
)

func TestRouting_keepsSlashes(t *testing.T) {
	server := New(Options{})
	handle(t, server, "GET", "/", func(c echo.Context) error { return c.String(http.StatusOK, "root") })
	handle(t, server, "GET", "/a/b", func(c echo.Context) error { return c.String(http.StatusOK, "leaf") })
	handle(t, server, "GET", "/p/:name", func(c echo.Context) error { return c.String(http.StatusOK, c.Param("name")) })
	for path, answer := range map[string]string{
		"/": "root", "//": "root", "/a/b": "leaf", "/a/b/": "leaf", "/a//b": "leaf", "//a///b//": "leaf",
		"/p/x%2Fy": "x%2Fy", "/p//x%2Fy/": "x%2Fy",
	} {
		got := get(server, path)
		require.Equal(t, http.StatusOK, got.Code, path)
		require.Equal(t, answer, got.Body.String(), path)
	}
}

// Browsers escape characters that need no escape, such as the colon of a digest.
func TestRouting_decodesNames(t *testing.T) {
	server := New(Options{})
	handle(t, server, "GET", "/p/:name", func(c echo.Context) error { return c.String(http.StatusOK, c.Param("name")) })
	for path, answer := range map[string]string{
		"/p/sha256%3Aab": "sha256:ab", "/p/sha256:ab": "sha256:ab", "/p/anna%40site%2btest": "anna@site+test",
		"/%70/x%20y": "x y", "/p/50%25": "50%",
	} {
		got := get(server, path)
		require.Equal(t, http.StatusOK, got.Code, path)
		require.Equal(t, answer, got.Body.String(), path)
	}
}

func TestRouting_normalizedPathAllocatesNothing(t *testing.T) {
	request := httptest.NewRequest(http.MethodGet, "/api/assisted-install/v2/infra-envs/x/hosts/y/instructions", nil)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		useDecodedPath(request.URL)
		mergeSlashes(request.URL)
	}))
}

func TestRequestID_keptOrGenerated(t *testing.T) {
	server := New(Options{})
	handle(t, server, "GET", "/", func(c echo.Context) error {
		return c.String(http.StatusOK, RequestID(c.Request().Context()))
	})
	for sent, kept := range map[string]bool{"abc-1": true, "": false, "two words": false,
		strings.Repeat("x", 129): false} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.Header.Set("X-Request-Id", sent)
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, request)
		id := recorder.Header().Get("X-Request-Id")
		require.NotEmpty(t, id)
		require.Equal(t, kept, id == sent, sent)
		require.Equal(t, id, recorder.Body.String())
	}
}

func TestRequestID_inLogLines(t *testing.T) {
	logger, lines := recordedLog(slog.LevelInfo)
	server := New(Options{Logger: logger})
	handle(t, server, "GET", "/", func(c echo.Context) error {
		logger.With("more", 1).WithGroup("g").InfoContext(c.Request().Context(), "within", "x", 2)
		return nil
	})
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.Header.Set("X-Request-Id", "r-7")
	server.ServeHTTP(httptest.NewRecorder(), request)
	logged := lines()
	require.Len(t, logged, 2)
	require.Equal(t, "r-7", logged[0]["g"].(map[string]any)["request_id"])
	require.Equal(t, "r-7", logged[1]["request_id"])
	require.Equal(t, "request", logged[1]["msg"])
}

func TestRequestLog_pollsAtDebugLevel(t *testing.T) {
	logger, lines := recordedLog(slog.LevelInfo)
	server := New(Options{Logger: logger})
	require.NoError(t, server.Register(operation.Operation{Method: http.MethodGet, Path: "/poll/:id", Quiet: true,
		Access: operation.Public(), Handler: func(c echo.Context) error {
			if c.Param("id") == "2" {
				return problem.NotFound("there is no host 2")
			}
			return c.NoContent(http.StatusOK)
		}}))
	handle(t, server, "GET", "/page", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	get(server, "/poll/1")
	get(server, "/poll/2")
	get(server, "/page")
	logged := lines()
	require.Len(t, logged, 2)
	require.Equal(t, "/poll/2", logged[0]["path"])
	require.EqualValues(t, 404, logged[0]["status"])
	require.Equal(t, "/page", logged[1]["path"])
	require.EqualValues(t, 200, logged[1]["status"])
}

func TestRequestLog_longPathIsCut(t *testing.T) {
	logger, lines := recordedLog(slog.LevelInfo)
	require.Equal(t, http.StatusNotFound, get(New(Options{Logger: logger}), "/"+strings.Repeat("a", 60_000)).Code)
	require.Equal(t, "/"+strings.Repeat("a", maxLoggedPath-1)+"…", lines()[0]["path"])
}

func TestRegister_refusesIncompleteOperations(t *testing.T) {
	server := New(Options{})
	handler := func(c echo.Context) error { return nil }
	complete := operation.Operation{Method: http.MethodGet, Path: "/a", Access: operation.Public(), Handler: handler}
	require.NoError(t, server.Register(complete))
	for name, test := range map[string]struct {
		operation operation.Operation
		want      string
	}{
		"no access rule": {operation.Operation{Method: http.MethodGet, Path: "/b", Handler: handler}, "no access rule"},
		"no handler": {operation.Operation{Method: http.MethodGet, Path: "/b", Access: operation.Public()},
			"no handler"},
		"route taken": {complete, "another operation has this route"},
	} {
		t.Run(name, func(t *testing.T) {
			other := complete
			other.Path = "/other"
			require.ErrorContains(t, server.Register(other, test.operation), test.want)
			require.Len(t, server.Routes(), 1)
		})
	}
}

func TestRouting_unknownPathAndWrongMethod(t *testing.T) {
	server := New(Options{})
	handle(t, server, "POST", "/a", func(c echo.Context) error { return nil })
	nowhere := get(server, "/nowhere")
	require.Equal(t, http.StatusNotFound, nowhere.Code)
	require.Contains(t, nowhere.Body.String(), `"reason":"no page or operation has the path /nowhere`)
	wrong := get(server, "/a")
	require.Equal(t, http.StatusMethodNotAllowed, wrong.Code)
	require.Contains(t, wrong.Body.String(), "does not support the method GET, only OPTIONS, POST")
}

func TestRouting_handlerNotFoundKeepsReason(t *testing.T) {
	server := New(Options{})
	handle(t, server, "GET", "/c", func(c echo.Context) error { return problem.NotFound("there is no cluster c") })
	require.Contains(t, get(server, "/c").Body.String(), "there is no cluster c")
}

func TestServer_panicFailsOneRequest(t *testing.T) {
	logger, lines := recordedLog(slog.LevelInfo)
	server := New(Options{Logger: logger})
	handle(t, server, "GET", "/panic", func(c echo.Context) error { add(nil, "a"); return nil })
	answer := get(server, "/panic")
	require.Equal(t, http.StatusInternalServerError, answer.Code)
	require.Contains(t, answer.Body.String(), "request id "+answer.Header().Get("X-Request-Id"))
	require.NotContains(t, answer.Body.String(), "nil map")
	logged := lines()
	require.Equal(t, "assignment to entry in nil map", logged[0]["panic"])
	require.Contains(t, logged[0]["stack"], "TestServer_panicFailsOneRequest")
}

// TestServer_failureAfterTheFirstByteEndsTheConnection requires that a client does not take half a
// response for a complete one.
func TestServer_failureAfterTheFirstByteEndsTheConnection(t *testing.T) {
	onEachLine(t, time.Minute, func(c echo.Context) error {
		_, err := c.Response().Write(make([]byte, 1<<20))
		return errors.Join(err, errors.New("input/output error"))
	}, func(t *testing.T, server *httptest.Server) {
		response, err := server.Client().Get(server.URL)
		require.NoError(t, err)
		_, err = io.ReadAll(response.Body)
		require.Error(t, err)
		require.NoError(t, response.Body.Close())
	})
}

// add panics if the set is nil.
func add(set map[string]bool, key string) { set[key] = true }

// TestServer_panicLogsNoSecrets sends a request with secrets to handlers that panic. The secrets
// are also arguments of the functions on the stack.
func TestServer_panicLogsNoSecrets(t *testing.T) {
	const secret = "Planted-0123456789"
	for name, fails := range map[string]func(secrets []string){
		"index":   func(secrets []string) { _ = secrets[len(secrets)] },
		"slice":   func(secrets []string) { _ = secrets[0][len(secrets[0])+len(secrets):] },
		"nil map": func(secrets []string) { add(nil, secrets[0]) },
		"type":    func(secrets []string) { _ = any(secrets[0]).(error) },
		"pointer": func([]string) { var none *http.Request; _ = none.Method },
		"a text":  func(secrets []string) { panic("can't read " + secrets[0]) },
		"an error": func(secrets []string) {
			_, err := url.Parse("http://user:" + secrets[0] + "@a:b/")
			panic(err)
		},
		"a wrapped error": func(secrets []string) { panic(fmt.Errorf("read %q: %w", secrets[0], io.EOF)) },
		"a value":         func(secrets []string) { panic(secrets) },
	} {
		t.Run(name, func(t *testing.T) {
			logger, lines := recordedLog(slog.LevelDebug)
			server := New(Options{Logger: logger})
			handle(t, server, "POST", "/panic", func(c echo.Context) error {
				body, err := io.ReadAll(c.Request().Body)
				if err != nil {
					return err
				}
				fails([]string{string(body), c.QueryParam("api_key"), c.Request().Header.Get("Authorization")})
				return nil
			})
			request := httptest.NewRequest(http.MethodPost, "/panic?api_key="+secret, strings.NewReader(secret))
			for _, header := range []string{"Authorization", "Cookie", "X-Secret-Key"} {
				request.Header.Set(header, secret)
			}
			answer := httptest.NewRecorder()
			server.ServeHTTP(answer, request)
			require.Equal(t, http.StatusInternalServerError, answer.Code)
			require.NotContains(t, answer.Body.String(), secret)
			logged := fmt.Sprint(lines())
			require.Contains(t, logged, "TestServer_panicLogsNoSecrets")
			require.NotContains(t, logged, secret)
		})
	}
}

func TestBodyLimit_fiftyMegabytesRefused(t *testing.T) {
	server := New(Options{})
	read := func(c echo.Context) error {
		size, err := io.Copy(io.Discard, c.Request().Body)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, size)
	}
	handle(t, server, "POST", "/clusters", read)
	require.NoError(t, server.Register(operation.Operation{Method: http.MethodPost, Path: "/logs/:id",
		BodyLimit: 60 << 20, Access: operation.Public(), Handler: read}))
	post := func(path string, announced bool) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodPost, path, io.LimitReader(zeros{}, 50<<20))
		request.ContentLength = -1
		if announced {
			request.ContentLength = 50 << 20
		}
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, request)
		return recorder
	}
	for _, announced := range []bool{true, false} {
		refused := post("/clusters", announced)
		require.Equal(t, http.StatusRequestEntityTooLarge, refused.Code)
		require.Contains(t, refused.Body.String(), `"code":"413"`)
		require.Contains(t, refused.Body.String(), "4194304 bytes")
		require.Equal(t, http.StatusOK, post("/logs/1", announced).Code)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestServer_noErrorAfterResponseStarted(t *testing.T) {
	server := New(Options{})
	handle(t, server, "GET", "/", func(c echo.Context) error {
		if err := c.String(http.StatusOK, "half"); err != nil {
			return err
		}
		return errors.New("the disk went away")
	})
	answer := httptest.NewRecorder()
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		server.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	})
	require.Equal(t, http.StatusOK, answer.Code)
	require.Equal(t, "half", answer.Body.String())
}

// The client gets the whole answer of a handler that sends its error itself.
func TestServer_errorThatWasAnswered(t *testing.T) {
	var log bytes.Buffer
	server := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	handle(t, server, "GET", "/", func(c echo.Context) error {
		if err := c.String(http.StatusInternalServerError, "own format"); err != nil {
			return err
		}
		return &problem.AnsweredError{Err: errors.New("the row is damaged")}
	})
	local := httptest.NewServer(server)
	t.Cleanup(local.Close)
	response, err := http.Get(local.URL)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusInternalServerError, response.StatusCode)
	require.Equal(t, "own format", string(body))
	require.Contains(t, log.String(), "the row is damaged")
}

// A client that ends a download early, such as of a backup to a full medium, is no error of the
// appliance. An error of the appliance during the response is one.
func TestServer_clientEndsDownload(t *testing.T) {
	for name, test := range map[string]struct {
		ends   bool
		err    error
		logged bool
	}{
		"the client ends":      {ends: true, err: errors.New("write: broken pipe")},
		"the connection broke": {err: &net.OpError{Op: "write", Err: syscall.EPIPE}},
		"the appliance fails":  {err: errors.New("write: broken pipe"), logged: true},
		"another server fails": {err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}, logged: true},
	} {
		logger, log := recordedLog(slog.LevelError)
		server := New(Options{Logger: logger})
		ctx, end := context.WithCancel(t.Context())
		handle(t, server, "GET", "/", func(c echo.Context) error {
			if err := c.String(http.StatusOK, "half"); err != nil {
				return err
			}
			if test.ends {
				end()
			}
			return test.err
		})
		require.Panics(t, func() {
			server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		})
		end()
		require.Equal(t, test.logged, len(log()) > 0, name)
	}
}

func TestServer_gracefulShutdown(t *testing.T) {
	server := New(Options{})
	entered, leave := make(chan struct{}), make(chan struct{})
	handle(t, server, "GET", "/slow", func(c echo.Context) error {
		entered <- struct{}{}
		<-leave
		return c.String(http.StatusOK, "done")
	})
	handle(t, server, "GET", "/feed", func(c echo.Context) error {
		entered <- struct{}{}
		<-server.Draining()
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	listener, err := Listen(ctx, "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()

	answers := make(chan string, 2)
	for _, path := range []string{"/slow", "/feed"} {
		go func() {
			response, err := http.Get("http://" + listener.Addr().String() + path)
			if err != nil {
				answers <- err.Error()
				return
			}
			body, err := io.ReadAll(response.Body)
			answers <- string(body) + errorText(errors.Join(err, response.Body.Close()))
		}()
	}
	<-entered
	<-entered
	cancel()
	<-server.Draining()
	close(leave)
	require.ElementsMatch(t, []string{"done", ""}, []string{<-answers, <-answers})
	require.NoError(t, <-served)
	_, err = net.Dial("tcp", listener.Addr().String())
	require.Error(t, err)
}

// A connection on which no request was sent does not delay the end.
func TestServer_shutdownClosesUnusedConnections(t *testing.T) {
	var log bytes.Buffer
	server := New(Options{ShutdownTimeout: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	listener, err := Listen(ctx, "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.Eventually(t, func() bool {
		server.unused.mu.Lock()
		defer server.unused.mu.Unlock()
		return len(server.unused.conns) == 1
	}, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-served)
	require.NotContains(t, log.String(), "time-out passed")
}

// accepted is a listener that reports each connection that it accepts.
type accepted struct {
	net.Listener
	conns chan struct{}
}

func (a accepted) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.conns <- struct{}{}
	}
	return conn, err
}

func TestServer_shutdownAnswersRequestsOnTheirWay(t *testing.T) {
	for name, line := range map[string]*TLS{"plain": nil, "with TLS": {Plain: PlainForAll}} {
		t.Run(name, func(t *testing.T) {
			server := New(Options{ShutdownTimeout: 10 * time.Second, TLS: line})
			handle(t, server, "GET", "/", func(c echo.Context) error { return c.String(http.StatusOK, "done") })
			ctx, cancel := context.WithCancel(t.Context())
			listener, err := Listen(ctx, "127.0.0.1:0")
			require.NoError(t, err)
			counted := accepted{listener, make(chan struct{}, 1)}
			served := make(chan error, 1)
			go func() { served <- server.Serve(ctx, counted) }()
			conn, err := net.Dial("tcp", listener.Addr().String())
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			<-counted.conns
			cancel()
			<-server.Draining()
			_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+listener.Addr().String()+"\r\n\r\n")
			require.NoError(t, err)
			answer, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Contains(t, string(answer), "done")
			require.NoError(t, <-served)
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestServer_shutdownTimeoutEndsRequests(t *testing.T) {
	server := New(Options{ShutdownTimeout: time.Millisecond})
	entered := make(chan struct{})
	handle(t, server, "GET", "/", func(c echo.Context) error {
		close(entered)
		<-c.Request().Context().Done()
		return c.Request().Context().Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	listener, err := Listen(ctx, "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	failed := make(chan error, 1)
	go func() {
		_, err := http.Get("http://" + listener.Addr().String())
		failed <- err
	}()
	<-entered
	cancel()
	require.NoError(t, <-served)
	require.Error(t, <-failed)
}

func TestListen_unusableAddress(t *testing.T) {
	taken, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	for address, sentence := range map[string]string{
		taken.Addr().String(): "another program already listens on " + taken.Addr().String() +
			"; stop that program, or choose another address with --listen",
		"203.0.113.7:8090":     "203.0.113.7:8090 is not an address of this machine",
		"no-such-host.invalid": "cannot listen on no-such-host.invalid",
	} {
		_, err := Listen(t.Context(), address)
		require.ErrorContains(t, err, sentence)
	}
}
