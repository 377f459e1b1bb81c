package web

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/web/operation"
	"landfall/web/problem"
)

// Times of request bodies. A body that arrives more slowly ends with 408.
const (
	// bodyGrace is the time for the first bytes of a body. Later, no interruption may last twice as
	// long.
	bodyGrace = 30 * time.Second
	// unreadTime is the time for the rest of a body that the handler has not read.
	unreadTime = 5 * time.Second
	// bodyRate is the smallest average rate of a body that a handler holds in memory, in bytes per
	// second. With it, a body of 4 MiB takes at most five minutes.
	bodyRate = 16 << 10
	// streamRate is the smallest average rate of a body that a handler writes to disk as it
	// arrives. Hosts send their logs over slow lines.
	streamRate = 1 << 10
)

// DefaultBodyMemory is the default of [Options.BodyMemory].
const DefaultBodyMemory = 128 << 20 // bytes

// clientShare is the part of the memory for bodies that one client address may use: a quarter.
const clientShare = 4

// budget is the memory for request bodies that handlers hold.
type budget struct {
	limit int64 // bytes; of one client, limit/clientShare

	mu      sync.Mutex
	used    int64
	clients map[netip.Addr]int64 // of clients with bodies; never 0
}

func newBudget(limit int64) *budget { return &budget{limit: limit, clients: map[netip.Addr]int64{}} }

// take reserves n bytes for a client. It reports false, and reserves nothing, if there are too few.
// One body of the largest permitted size always fits if there is no other.
func (b *budget) take(client netip.Addr, n, largest int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > max(b.limit, largest) || b.clients[client]+n > max(b.limit/clientShare, largest) {
		return false
	}
	b.used += n
	b.clients[client] += n
	return true
}

func (b *budget) release(client netip.Addr, n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.clients[client] -= n; b.clients[client] <= 0 {
		delete(b.clients, client)
	}
}

// body is a request body with its limits: of size, of time, and of memory. The first violation ends
// the body and is the answer, whatever the handler makes of the error.
type body struct {
	io.ReadCloser
	connection *http.ResponseController
	grace      time.Duration
	rate       int64
	memory     *budget // nil if the handler does not hold the body
	client     netip.Addr
	largest    int64 // bytes of the body

	start    time.Time
	read     int64
	held     int64 // taken from memory
	complete bool  // read to its end
	failure  atomic.Pointer[problem.Error]
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if failure := b.failure.Load(); failure != nil {
		return 0, failure
	}
	deadline := b.start.Add(b.grace + time.Duration(b.read/b.rate)*time.Second)
	if idle := time.Now().Add(2 * b.grace); idle.Before(deadline) {
		deadline = idle
	}
	b.setDeadline(deadline)
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if b.memory != nil && n > 0 {
		if !b.memory.take(b.client, int64(n), b.largest) {
			return 0, b.fail(problem.Unavailable("the appliance receives too many large requests at the moment; " +
				"try again in a few seconds"))
		}
		b.held += int64(n)
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		b.complete = true
		// Otherwise the deadline would end the connection, which the server watches while the
		// handler runs.
		b.setDeadline(time.Time{})
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, b.fail(problem.New(http.StatusRequestTimeout, "the request's body arrived too slowly; send it again "+
			"over a better connection"))
	case brokenOff(err):
		b.failure.CompareAndSwap(nil, &problem.Error{Status: http.StatusBadRequest, Err: err,
			Reason: "the request's body ended before its announced end; send the request again"})
	}
	return n, err
}

// brokenOff reports whether the error of a body means that the client ended it early or violated
// its encoding.
func brokenOff(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrBodyReadAfterClose) ||
		malformedChunk(err)
}

// malformedChunk reports whether a body violates the chunked encoding. The errors of net/http for
// this have no types.
func malformedChunk(err error) bool {
	switch err.Error() {
	case "invalid byte in chunk length", "http chunk length too large", "malformed chunked encoding",
		"chunked encoding contains too much non-data", "empty hex number for chunk length",
		"chunked line ends with bare LF", "header line too long":
		return true
	}
	return errors.Is(err, http.ErrLineTooLong)
}

func (b *body) fail(failure *problem.Error) error {
	b.failure.CompareAndSwap(nil, failure)
	return b.failure.Load()
}

// setDeadline sets the time at which reads of the connection fail. Recorders in tests support no
// deadlines, and the next read of a broken connection reports the error.
func (b *body) setDeadline(at time.Time) { _ = b.connection.SetReadDeadline(at) }

// end releases the memory of the body. Before it sends the answer, net/http reads the rest of a
// body that the handler has not read. It must not wait long for that.
func (b *body) end() {
	if b.memory != nil {
		b.memory.release(b.client, b.held)
	}
	switch {
	case b.complete:
	case b.failure.Load() != nil:
		b.setDeadline(time.Now())
	default:
		b.setDeadline(time.Now().Add(min(b.grace, unreadTime)))
	}
}

// limitBody limits the size, the time and the memory of a request's body.
func (s *Server) limitBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if r.ContentLength == 0 {
			return next(c)
		}
		of := s.operations[route{r.Method, c.Path()}]
		limit := of.BodyLimit
		if limit == 0 {
			limit = s.options.BodyLimit
		}
		limited := s.newBody(c, r, of, limit)
		if r.ContentLength > limit {
			limited.end()
			if of.TooLarge != nil {
				return of.TooLarge(c, problem.TooLarge(limit))
			}
			return problem.TooLarge(limit)
		}
		r.Body = limited
		defer limited.end() // a handler may panic
		err := next(c)
		if failure := limited.failure.Load(); failure != nil && !c.Response().Committed {
			return answerOf(failure, err, c)
		}
		return err
	}
}

// answerOf returns the answer to a request whose body failed. The handler's own answer about a body
// that was broken off is better, unless it is an internal error.
func answerOf(failure *problem.Error, handled error, c echo.Context) error {
	switch failure.Status {
	case http.StatusServiceUnavailable:
		c.Response().Header().Set(echo.HeaderRetryAfter, retrySeconds)
	case http.StatusBadRequest:
		if handled != nil && problem.From(handled).Status < http.StatusInternalServerError {
			return handled
		}
	}
	return failure
}

// retrySeconds is the value of Retry-After when bodies take too much memory.
const retrySeconds = "5"

func (s *Server) newBody(c echo.Context, r *http.Request, of operation.Operation, limit int64) *body {
	limited := &body{
		ReadCloser: http.MaxBytesReader(c.Response(), r.Body, limit),
		connection: http.NewResponseController(c.Response()),
		client:     clientAddress(r), largest: limit, start: time.Now(),
		grace: s.bodyGrace, rate: bodyRate, memory: s.memory,
	}
	if of.Streams {
		limited.rate, limited.memory = streamRate, nil
	}
	return limited
}

// clientAddress returns the address of a request's client, or the zero value.
func clientAddress(r *http.Request) netip.Addr { return addressOf(r.RemoteAddr) }

func addressOf(remote string) netip.Addr {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return address.Addr().Unmap().WithZone("")
}
