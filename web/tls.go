package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/web/operation"
	"landfall/web/problem"
)

const (
	// firstByteTimeout limits how long a connection may be silent before its first byte.
	firstByteTimeout = headerTimeout
	// handshakeByte is the first byte of a TLS connection (RFC 8446, section 5.1: the record type
	// handshake). No HTTP request begins with it.
	handshakeByte = 0x16
)

// TLS configures a [Server] that accepts TLS and plain HTTP on the same port. The first byte of a
// connection distinguishes them.
type TLS struct {
	// Config is the configuration of TLS connections. Its NextProtos contain h2 for HTTP/2.
	Config *tls.Config
	// Plain is the scope of plain HTTP.
	Plain Plain
	// Moved returns the URL of another listener of the appliance for a request that this server
	// does not serve here, or "". It may be nil.
	Moved func(r *http.Request) string
	// Machines reports whether a request for an operation of machines may come from another machine
	// in plain HTTP. nil allows none.
	Machines func(r *http.Request) bool
}

// Plain says for which requests a server with TLS serves plain HTTP.
type Plain int

const (
	// PlainFromMachine serves plain HTTP for programs on this machine, and for TLS.Machines. Other
	// clients are redirected to HTTPS.
	PlainFromMachine Plain = iota
	// PlainForAll serves plain HTTP for all clients.
	PlainForAll
)

// checkLine reports whether a request may be served on its connection. Otherwise it has answered
// with a redirect or an error.
func (s *Server) checkLine(w http.ResponseWriter, r *http.Request) bool {
	line := s.options.TLS
	if line == nil {
		return true
	}
	if line.Plain == PlainForAll {
		return s.checkMoved(w, r)
	}
	if r.TLS != nil || fromMachine(r) || s.isMachine(r) {
		return true
	}
	if line.Moved != nil {
		if at := line.Moved(r); at != "" && isRead(r) {
			redirect(w, at, http.StatusTemporaryRedirect)
			return false
		}
	}
	at := "https://" + r.Host + r.URL.RequestURI()
	if isRead(r) && r.Host != "" {
		redirect(w, at, http.StatusPermanentRedirect)
		return false
	}
	s.refuse(w, r, problem.BadRequest(
		"this port takes changes over HTTPS only; send the request to https://%s instead of http://%s", r.Host, r.Host))
	return false
}

// isMachine reports whether a request in plain HTTP comes from a machine that may send it.
func (s *Server) isMachine(r *http.Request) bool {
	machines := s.options.TLS.Machines
	if machines == nil || !machines(r) {
		return false
	}
	o, ok := s.Operation(r)
	return ok && o.Access.Agents
}

// checkMoved redirects requests for operations of another listener.
func (s *Server) checkMoved(w http.ResponseWriter, r *http.Request) bool {
	if s.options.TLS.Moved == nil || s.Serves(r) {
		return true
	}
	at := s.options.TLS.Moved(r)
	switch {
	case at == "":
		return true
	case isRead(r):
		redirect(w, at, http.StatusTemporaryRedirect)
	default:
		s.refuse(w, r, problem.New(http.StatusMisdirectedRequest,
			"this port serves only images and boot files; send the request to %s", at))
	}
	return false
}

// Serves reports whether the server has an operation for a request.
func (s *Server) Serves(r *http.Request) bool {
	_, ok := s.Operation(r)
	return ok
}

// Operation returns the operation for a request. ok is false if the server has none.
func (s *Server) Operation(r *http.Request) (o operation.Operation, ok bool) {
	c := s.router.AcquireContext()
	defer s.router.ReleaseContext(c)
	c.Reset(r, nil)
	s.router.Router().Find(r.Method, echo.GetPath(r), c)
	o, ok = s.operations[route{r.Method, c.Path()}]
	return o, ok
}

func redirect(w http.ResponseWriter, to string, status int) {
	w.Header().Set("Location", to)
	w.WriteHeader(status)
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// fromMachine reports whether a client runs on this machine: its address is a loopback address, or
// the address of the listener that it uses.
func fromMachine(r *http.Request) bool {
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	if client.Addr().Unmap().IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	own, err := netip.ParseAddrPort(local.String())
	return err == nil && own.Addr().Unmap() == client.Addr().Unmap()
}

// sniffer is a listener that accepts TLS and plain connections. It waits for the first byte of each
// connection in a separate goroutine, so that a silent client delays only itself.
type sniffer struct {
	net.Listener
	config *tls.Config
	grace  time.Duration // after the end of the listener, for connections without a byte
	ready  chan net.Conn
	ended  chan struct{} // closed after the listener has failed or was closed, and ready has no more
	err    error         // of the listener; valid after ended is closed

	ctx    context.Context // ends with the grace
	cancel context.CancelFunc
}

// newSniffer returns a listener that takes over another one. Call Accept until it fails.
func newSniffer(listener net.Listener, config *tls.Config, grace time.Duration) *sniffer {
	s := &sniffer{Listener: listener, config: config, grace: grace, ready: make(chan net.Conn),
		ended: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.accept()
	return s
}

func (s *sniffer) accept() {
	defer close(s.ended)
	defer s.cancel()
	var sniffing sync.WaitGroup
	for {
		conn, err := s.Listener.Accept()
		if err == nil {
			sniffing.Go(func() { s.sniff(conn) })
			continue
		}
		// net/http repeats Accept after a temporary error, such as too many open files.
		temporary, ok := errors.AsType[net.Error](err)
		//lint:ignore SA1019 net/http decides by this method, too
		if ok && temporary.Temporary() {
			time.Sleep(acceptPause)
			continue
		}
		s.err = err
		// The clients of accepted connections may have sent their requests just now.
		defer time.AfterFunc(s.grace, s.cancel).Stop()
		sniffing.Wait()
		return
	}
}

// acceptPause is the time between two attempts to accept a connection after a temporary error.
const acceptPause = 100 * time.Millisecond

// sniff reads the first byte of a connection and passes the connection on.
func (s *sniffer) sniff(conn net.Conn) {
	stop := context.AfterFunc(s.ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	var first [1]byte
	err := conn.SetReadDeadline(time.Now().Add(firstByteTimeout))
	if err == nil && s.ctx.Err() == nil {
		_, err = conn.Read(first[:])
	}
	if stop() && err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if err != nil || s.ctx.Err() != nil {
		_ = conn.Close()
		return
	}
	var through net.Conn = &sniffed{Conn: conn, first: first[:]}
	if tcp, ok := conn.(tcpConn); ok {
		through = &sniffedTCP{tcpConn: tcp, first: first[:]}
	}
	if first[0] == handshakeByte {
		through = tls.Server(through, s.config)
	}
	select {
	case s.ready <- through:
	case <-s.ctx.Done():
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (s *sniffer) Accept() (net.Conn, error) {
	select {
	case conn := <-s.ready:
		return conn, nil
	case <-s.ended:
		return nil, s.err
	}
}

// tcpConn is a TCP connection, counted or not. It has the methods that net/http uses: ReadFrom lets
// the kernel copy files.
type tcpConn interface {
	net.Conn
	io.ReaderFrom
	CloseWrite() error
}

// sniffedTCP is a TCP connection whose first byte was read already.
type sniffedTCP struct {
	tcpConn
	first []byte
}

func (c *sniffedTCP) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.tcpConn.Read(p)
}

// sniffed is a connection of another kind whose first byte was read already.
type sniffed struct {
	net.Conn
	first []byte
}

func (c *sniffed) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// AtPort returns the URL of a request at another port and scheme of the same host.
func AtPort(r *http.Request, scheme, port string) string {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.Trim(host, "[]")
	}
	return fmt.Sprintf("%s://%s%s", scheme, net.JoinHostPort(host, port), r.URL.RequestURI())
}
