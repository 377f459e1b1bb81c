package web

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// requestGrace is the time in which the first request of a connection must arrive when the server
// shuts down. Its client may have sent it just now.
const requestGrace = 500 * time.Millisecond

// unused holds the connections that have sent nothing yet. Clients open connections in advance, and
// [http.Server.Shutdown] waits for them for five seconds.
type unused struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
}

// follow is called when the state of a connection changes.
func (u *unused) follow(conn net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state == http.StateNew {
		u.conns[conn] = true
		return
	}
	delete(u.conns, conn)
}

func (u *unused) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for conn := range u.conns {
		_ = conn.Close() // its client sent no request in time
	}
}
