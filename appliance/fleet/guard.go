package fleet

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// guard is the response of a leader. It asks again whether this member leads before the answer
// begins: a member that was paused in the middle of a request would otherwise answer with data from
// before the pause, although another leader has changed them.
type guard struct {
	http.ResponseWriter
	request *http.Request
	leads   func() bool
	refuse  Refuse
	begun   bool // the answer has begun
	refused bool // it is that of a member that does not lead
}

// Unwrap lets [http.ResponseController] find the methods of the connection.
func (g *guard) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// begin refuses the request if this member no longer leads. It is called before the answer begins.
func (g *guard) begin() error {
	if !g.begun {
		g.begun = true
		if g.refused = !g.leads(); g.refused {
			clear(g.Header())
			if isRead(g.request) {
				refuseAsFollower(g.ResponseWriter, g.request, g.refuse)
			} else {
				g.Header().Set("Retry-After", retryAfter)
				g.refuse(g.ResponseWriter, g.request, errStopped)
			}
		}
	}
	if g.refused {
		return ErrNoLeader
	}
	return nil
}

// WriteHeader implements [http.ResponseWriter].
func (g *guard) WriteHeader(status int) {
	informational := status < http.StatusOK && status != http.StatusSwitchingProtocols
	if status == http.StatusServiceUnavailable && g.Header().Get("Retry-After") == "" {
		g.Header().Set("Retry-After", retryAfter) // such as when etcd is full
	}
	if informational || g.begin() == nil {
		g.ResponseWriter.WriteHeader(status)
	}
}

// Write implements io.Writer.
func (g *guard) Write(p []byte) (int, error) {
	if err := g.begin(); err != nil {
		return 0, err
	}
	return g.ResponseWriter.Write(p)
}

// ReadFrom implements io.ReaderFrom, by which the kernel copies files.
func (g *guard) ReadFrom(src io.Reader) (int64, error) {
	if err := g.begin(); err != nil {
		return 0, err
	}
	if to, ok := g.ResponseWriter.(io.ReaderFrom); ok {
		return to.ReadFrom(src)
	}
	return io.Copy(struct{ io.Writer }{g.ResponseWriter}, src)
}

// FlushError implements the method of [http.ResponseController].
func (g *guard) FlushError() error {
	if err := g.begin(); err != nil {
		return err
	}
	return http.NewResponseController(g.ResponseWriter).Flush()
}

// Flush implements [http.Flusher].
func (g *guard) Flush() { _ = g.FlushError() } // the next write has the error

// Hijack implements [http.Hijacker].
func (g *guard) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if err := g.begin(); err != nil {
		return nil, nil, err
	}
	return http.NewResponseController(g.ResponseWriter).Hijack()
}

// end begins an answer without a body, if the handler has written nothing.
func (g *guard) end() { _ = g.begin() } // the client has the error
