//go:build etcd

package etcdtest

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Line is a TCP proxy between a client and a server.
type Line struct {
	Address string // host:port

	target   string
	listener net.Listener
	copies   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	// gates pass data while they are open. A closed gate keeps the data, like a network that loses
	// every packet.
	forward, backward *gate
	refuse            bool
}

// gate is open while its channel is closed.
type gate struct {
	mu   sync.Mutex
	open chan struct{}
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) wait() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		if !open {
			g.open = make(chan struct{})
		}
	default:
		if open {
			close(g.open)
		}
	}
}

// NewLine runs a proxy to an address until the test ends.
func NewLine(t testing.TB, target string) *Line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &Line{Address: listener.Addr().String(), target: target, listener: listener, conns: map[net.Conn]struct{}{},
		forward: newGate(), backward: newGate()}
	l.copies.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.Cut()
		l.forward.set(true)
		l.backward.set(true)
		l.copies.Wait()
	})
	return l
}

func (l *Line) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.target)
		l.mu.Lock()
		if err != nil || l.refuse {
			_ = client.Close()
			if server != nil {
				_ = server.Close()
			}
		} else {
			l.conns[client], l.conns[server] = struct{}{}, struct{}{}
			l.copies.Go(func() { l.copy(server, client, l.forward) })
			l.copies.Go(func() { l.copy(client, server, l.backward) })
		}
		l.mu.Unlock()
	}
}

func (l *Line) copy(to, from net.Conn, gate *gate) {
	defer l.drop(to, from)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		gate.wait()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *Line) drop(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
		delete(l.conns, conn)
	}
}

// Cut ends all connections and refuses new ones until Mend.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = true
	for conn := range l.conns {
		_ = conn.Close()
	}
}

// Break ends all connections; new ones are accepted.
func (l *Line) Break() {
	l.Cut()
	l.Mend()
}

// Silence keeps all data in one direction or in both, without an end of the connections, until
// Mend.
func (l *Line) Silence(requests, answers bool) {
	l.forward.set(!requests)
	l.backward.set(!answers)
}

// Mend undoes Cut and Silence.
func (l *Line) Mend() {
	l.mu.Lock()
	l.refuse = false
	l.mu.Unlock()
	l.Silence(false, false)
}
