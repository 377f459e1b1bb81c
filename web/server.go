// Package web is the HTTP server for the appliance's APIs, image downloads and console. For all of
// them it normalizes slashes, gives each request an ID, limits the size of bodies, recovers from
// panics of handlers, and sends errors in the format of the API (package problem).
//
// Design: docs/design.md#dry-runs.
package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/tracing"
	"landfall/store"
	"landfall/web/operation"
	"landfall/web/problem"
)

// Defaults of [Options].
const (
	DefaultBodyLimit       = 4 << 20 // bytes
	DefaultShutdownTimeout = 10 * time.Second
)

const (
	headerTimeout = 30 * time.Second
	// longer than the minute between two polls of an agent, so that agents can reuse connections
	idleTimeout    = 3 * time.Minute
	maxHeaderBytes = 64 << 10
)

// Options configures a [Server]. Each zero value has a default.
type Options struct {
	// Logger receives requests, panics and failed responses; nil discards them.
	Logger *slog.Logger
	// BodyLimit is the largest request body in bytes. It applies to operations without a limit of
	// their own; 0 means [DefaultBodyLimit].
	BodyLimit int64
	// ShutdownTimeout limits how long running requests may continue after the context of
	// [Server.Serve] has ended; 0 means [DefaultShutdownTimeout].
	ShutdownTimeout time.Duration
	// BodyMemory is the memory for request bodies that handlers hold, in bytes; 0 means
	// [DefaultBodyMemory]. A client address may use a quarter of it.
	BodyMemory int64
	// Connections learns the addresses of authenticated clients; it may be nil.
	Connections *Connections
	// Hosts are the permitted values of the Host header; nil permits all.
	Hosts Hosts
	// Wrap returns the handler of an operation with the checks that precede it, such as the check
	// of the client's rights; nil means that handlers are called directly.
	Wrap func(operation.Operation) echo.HandlerFunc
	// Spelling returns the path by which operations are found, for APIs whose paths have several
	// spellings. nil leaves paths as they are.
	Spelling func(path string) string
	// TLS makes the server accept TLS connections as well; nil means plain HTTP only.
	TLS *TLS
	// Front returns a handler that precedes that of the server, for all requests of its listener;
	// nil: none does.
	Front func(http.Handler) http.Handler
	// Instead handles a request that failed here, in place of an answer with the error. It reports
	// false if it does not. nil handles none.
	Instead func(w http.ResponseWriter, r *http.Request) bool
	// Stamp sets headers of each answer, after its handler has read what the answer contains. nil
	// sets none.
	Stamp func(header http.Header)
}

// Server is an HTTP server with an echo router.
type Server struct {
	options    Options
	router     *echo.Echo
	operations map[route]operation.Operation
	http       *http.Server
	draining   chan struct{}
	unused     unused
	origins    *http.CrossOriginProtection
	memory     *budget
	bodyGrace  time.Duration
	answerTime time.Duration
	// compression wraps the handlers of operations whose responses are compressed.
	compression func(http.Handler) http.HandlerFunc
}

// route identifies a route of the router by its method and its registered path.
type route struct{ method, path string }

// New returns a server without operations. Call [Server.Register] before [Server.Serve].
func New(options Options) *Server {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.BodyLimit == 0 {
		options.BodyLimit = DefaultBodyLimit
	}
	if options.ShutdownTimeout == 0 {
		options.ShutdownTimeout = DefaultShutdownTimeout
	}
	if options.BodyMemory == 0 {
		options.BodyMemory = DefaultBodyMemory
	}
	s := &Server{options: options, router: echo.New(), operations: make(map[route]operation.Operation),
		draining: make(chan struct{}), unused: unused{conns: map[net.Conn]bool{}},
		origins: http.NewCrossOriginProtection(),
		memory:  newBudget(options.BodyMemory), bodyGrace: bodyGrace, answerTime: answerTime}
	var err error
	if s.compression, err = newCompression(); err != nil {
		options.Logger.Error("Responses are not compressed.", "error", err)
	}
	s.router.JSONSerializer = serializer{}
	s.router.HideBanner, s.router.HidePort = true, true
	s.router.HTTPErrorHandler = s.answerError
	s.router.Use(s.logRequests, s.rememberClient, s.recoverPanics, s.limitBody)
	handler := http.Handler(s)
	if options.Front != nil {
		handler = options.Front(s)
	}
	s.http = &http.Server{
		Handler:           s.unused.wrap(handler),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(options.Logger.Handler(), slog.LevelDebug),
		// An HTTP/2 connection has frames besides those of answers, and ends without progress.
		HTTP2:       &http.HTTP2Config{WriteByteTimeout: answerTime},
		ConnState:   s.unused.follow,
		ConnContext: withConn,
		BaseContext: baseContext,
		// ReadTimeout and WriteTimeout are not set: a management controller may need half an hour
		// to read an image, and a host may send its logs over a slow line. Bodies and answers have
		// their own deadlines.
	}
	return s
}

// Register adds operations to the server. If one of them has no access rule, no handler, or the
// route of another operation, Register returns an error and adds none of them.
func (s *Server) Register(operations ...operation.Operation) error {
	added := make(map[route]bool)
	for _, o := range operations {
		if !o.Access.Valid() {
			return fmt.Errorf("register %s %s: the operation has no access rule", o.Method, o.Path)
		}
		if o.Handler == nil {
			return fmt.Errorf("register %s %s: the operation has no handler", o.Method, o.Path)
		}
		for _, method := range o.Methods() {
			r := route{method, o.Path}
			if _, taken := s.operations[r]; taken || added[r] {
				return fmt.Errorf("register %s %s: another operation has this route", method, o.Path)
			}
			added[r] = true
		}
	}
	for _, o := range operations {
		for _, method := range o.Methods() {
			s.operations[route{method, o.Path}] = o
			s.router.Add(method, o.Path, s.handler(o))
		}
	}
	return nil
}

func (s *Server) handler(o operation.Operation) echo.HandlerFunc {
	o.Handler = tried(o)
	if s.compression != nil && isCompressed(o) {
		o.Handler = s.compress(o.Handler)
	}
	if s.options.Wrap == nil {
		return o.Handler
	}
	return s.options.Wrap(o)
}

// Routes returns all routes of the router with their operations. A route that was added without
// [Server.Register] has the zero value.
func (s *Server) Routes() map[*echo.Route]operation.Operation {
	routes := make(map[*echo.Route]operation.Operation)
	for _, r := range s.router.Routes() {
		routes[r] = s.operations[route{r.Method, r.Path}]
	}
	return routes
}

// Draining returns a channel that is closed when the server begins to shut down. Endless responses,
// such as the live feed, must end then.
func (s *Server) Draining() <-chan struct{} { return s.draining }

// ServeHTTP handles one request. It does everything except the time-outs of connections, so that
// tests can call it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	useDecodedPath(r.URL)
	mergeSlashes(r.URL)
	if s.options.Spelling != nil {
		r.URL.Path, r.URL.RawPath = s.options.Spelling(r.URL.Path), s.options.Spelling(r.URL.RawPath)
	}
	r = dryRun(r)
	limited := newAnswer(w, s.answerTime)
	limited.stamp = s.options.Stamp
	s.serve(limited, r)
	limited.finish()
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	r = identify(w, r)
	setHeaders(w.Header(), r)
	if err := s.checkOrigin(r); err != nil {
		s.refuse(w, r, err)
		return
	}
	if s.checkLine(w, r) {
		s.router.ServeHTTP(w, r)
	}
}

// refuse answers a request that no handler may see.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	failure := problem.From(err)
	s.options.Logger.InfoContext(r.Context(), "Request refused.", "method", r.Method, "path", pathForLog(r.URL.Path),
		"status",
		failure.Status, "host", r.Host, "client", r.RemoteAddr)
	if err := problem.Write(w, r, failure); err != nil {
		s.options.Logger.DebugContext(r.Context(), "Error response could not be sent.", "path", pathForLog(r.URL.Path),
			"error",
			err)
	}
}

// Serve handles requests from a listener until the context ends. Then it accepts no new requests,
// waits for the running ones within the shutdown time-out, and returns nil. It always closes the
// listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	if s.options.TLS != nil {
		listener = newSniffer(listener, s.options.TLS.Config, min(requestGrace, s.options.ShutdownTimeout))
	}
	ended := make(chan error, 1)
	// Requests go on after the end of the context, up to the time-out.
	go func() {
		defer close(ended)
		ended <- s.http.Serve(listenerOf{listener, context.WithoutCancel(ctx)})
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTP on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	close(s.draining)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.ShutdownTimeout)
	defer cancel()
	// All connections are accepted before Shutdown begins, and their first requests handled.
	grace, stop := context.WithTimeout(ending, requestGrace)
	defer stop()
	closed := listener.Close()
	select {
	case <-ended:
	case <-ending.Done():
	}
	s.unused.wait(grace)
	s.unused.close()
	err := errors.Join(closed, s.shutDown(ending))
	<-ended
	return err
}

// listenerOf is a listener whose requests have the values of a context.
type listenerOf struct {
	net.Listener
	ctx context.Context
}

func baseContext(l net.Listener) context.Context { return l.(listenerOf).ctx }

func (s *Server) shutDown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.options.Logger.Info("Shutdown time-out passed; closing the connections of running requests.",
			"timeout", s.options.ShutdownTimeout)
		err = s.http.Close()
	}
	if err != nil && !errors.Is(err, net.ErrClosed) { // the listener was closed before
		return fmt.Errorf("shut the HTTP server down: %w", err)
	}
	return nil
}

// recoverPanics limits the effect of a panic to its request. A panic with [http.ErrAbortHandler]
// ends a response on purpose and continues to net/http.
func (s *Server) recoverPanics(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler {
				panic(cause)
			}
			ctx := c.Request().Context()
			s.options.Logger.ErrorContext(ctx, "Request handler panicked.",
				"method", c.Request().Method, "route", c.Path(), "panic", panicText(cause), "stack",
				string(debug.Stack()))
			err = problem.New(http.StatusInternalServerError,
				"the appliance failed to handle this request because of an internal error; the appliance's log has "+
					"the details under request id %s",
				RequestID(ctx))
		}()
		return next(c)
	}
}

// panicText describes the cause of a panic. Errors of the Go runtime contain no texts of a request
// or of the store. Other causes may contain secrets, so their type and the stack must suffice.
func panicText(cause any) string {
	var failure runtime.Error
	if err, ok := cause.(error); ok && errors.As(err, &failure) {
		return failure.Error()
	}
	return fmt.Sprintf("a value of type %T", cause)
}

// rememberClient makes the address of an authenticated client known to the limits of connections.
func (s *Server) rememberClient(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		switch access.From(c.Request().Context()).Kind {
		case access.Person, access.Program, access.Agent:
			s.options.Connections.Remember(clientAddress(c.Request()))
		}
		return err
	}
}

// logRequests logs requests. It sends the error of a failed request itself, so that the log line
// has the status that the client received.
func (s *Server) logRequests(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		r, span := tracing.StartRequest(c.Request(), c.Path(), pathForLog(c.Request().URL.Path))
		c.SetRequest(r)
		err := next(c)
		if err != nil && s.instead(c) {
			tracing.EndRequest(span, c.Response().Status, c.Response().Size)
			return nil
		}
		_, answered := errors.AsType[*problem.AnsweredError](err)
		interrupted := err != nil && c.Response().Committed && !answered
		if err != nil {
			c.Error(err)
		}
		s.logRequest(c, start)
		tracing.EndRequest(span, c.Response().Status, c.Response().Size)
		if interrupted {
			panic(http.ErrAbortHandler) // the client must not take the response for complete
		}
		return nil
	}
}

// instead lets another handler answer a failed request. Nothing of the answer was sent yet.
func (s *Server) instead(c echo.Context) bool {
	response := c.Response()
	if s.options.Instead == nil || response.Committed {
		return false
	}
	ours := response.Header().Clone()
	clear(response.Header())
	if s.options.Instead(response, c.Request()) {
		return true
	}
	maps.Copy(response.Header(), ours)
	return false
}

func (s *Server) logRequest(c echo.Context, start time.Time) {
	r, level := c.Request(), slog.LevelInfo
	if status := c.Response().Status; status >= http.StatusInternalServerError {
		return // answerError has logged the error
	} else if status < http.StatusBadRequest && s.operations[route{r.Method, c.Path()}].Quiet {
		level = slog.LevelDebug
	}
	if s.options.Logger.Enabled(r.Context(), level) {
		path := pathForLog(r.URL.Path)
		if store.IsDryRun(r.Context()) {
			path = DryRunPath + path
		}
		s.options.Logger.Log(r.Context(), level, "request", "method", r.Method, "path", path,
			"status", c.Response().Status, "bytes", c.Response().Size, "took",
			time.Since(start).Round(time.Microsecond), "client", r.RemoteAddr)
	}
}

// answerError is echo's error handler. After the first byte of a response, it can only log an
// error.
func (s *Server) answerError(err error, c echo.Context) {
	r, failure := c.Request(), problem.From(err)
	if failure.Status == http.StatusNotFound && errors.Is(err, echo.ErrNotFound) {
		failure = problem.NotFound("no page or operation has the path %s; check the path", r.URL.Path)
	}
	if failure.Status == http.StatusMethodNotAllowed && errors.Is(err, echo.ErrMethodNotAllowed) {
		failure = problem.New(failure.Status, "%s does not support the method %s, only %s", r.URL.Path, r.Method,
			c.Response().Header().Get(echo.HeaderAllow))
	}
	clientLeft := c.Response().Committed && (r.Context().Err() != nil || isBrokenSend(err))
	if failure.Status >= http.StatusInternalServerError && !clientLeft {
		s.options.Logger.ErrorContext(r.Context(), "Request failed.", "method", r.Method, "path",
			pathForLog(r.URL.Path), "status",
			failure.Status, "error", err)
	}
	if c.Response().Committed {
		s.options.Logger.DebugContext(r.Context(), "Response was interrupted.", "method", r.Method, "path",
			pathForLog(r.URL.Path),
			"error", err)
		return
	}
	if err := problem.Write(c.Response(), r, failure); err != nil {
		s.options.Logger.DebugContext(r.Context(), "Error response could not be sent.", "path", pathForLog(r.URL.Path),
			"error",
			err)
	}
}

// isBrokenSend reports whether a client ended its connection while the server sent to it. An error
// of a read is about another server, from which the response comes.
func isBrokenSend(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op != "read" && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET))
}
