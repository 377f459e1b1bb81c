package web

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// requestGrace is the time in which the first request of a connection must arrive when the server
// shuts down. Its client may have sent it just now. net/http drops the requests that it reads after
// the beginning of [http.Server.Shutdown].
const requestGrace = 500 * time.Millisecond

// unused holds the connections whose first request has not reached a handler yet. Clients also open
// connections in advance.
type unused struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
	none  chan struct{} // closed when there are none; nil if nothing waits for that
}

// follow is called when the state of a connection changes.
func (u *unused) follow(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		u.mu.Lock()
		defer u.mu.Unlock()
		u.conns[conn] = true
	case http.StateClosed, http.StateHijacked:
		u.remove(conn)
	}
}

func (u *unused) remove(conn net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if delete(u.conns, conn); len(u.conns) == 0 && u.none != nil {
		close(u.none)
		u.none = nil
	}
}

// wait waits until there is no unused connection or the context ends.
func (u *unused) wait(ctx context.Context) {
	u.mu.Lock()
	if len(u.conns) == 0 {
		u.mu.Unlock()
		return
	}
	none := make(chan struct{})
	u.none = none
	u.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}

func (u *unused) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for conn := range u.conns {
		_ = conn.Close() // its client sent no request in time
	}
}

type connKey struct{}

// firstUse is the state of a connection for its handlers.
type firstUse struct {
	conn net.Conn
	used atomic.Bool
}

// withConn lets the handlers of a connection's requests find it.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, &firstUse{conn: conn})
}

// wrap returns a handler whose first request of a connection makes it used.
func (u *unused) wrap(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if of, ok := r.Context().Value(connKey{}).(*firstUse); ok && !of.used.Load() {
			of.used.Store(true)
			u.remove(of.conn)
		}
		handler.ServeHTTP(w, r)
	})
}
