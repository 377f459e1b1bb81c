package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Limits of connections.
const (
	// MaxConnections is the largest number of connections, whatever the operating system permits.
	MaxConnections = 64 << 10
	// reservedDescriptors is the smallest number of file descriptors that connections leave to the
	// database, files and outgoing requests.
	reservedDescriptors = 128
	// knownFor is how long a client address is known after its last authenticated request.
	knownFor = time.Hour
	// maxKnown is the largest number of known client addresses.
	maxKnown = 16 << 10
)

// Connections limits the connections of all listeners of a process, so that strangers can use up
// neither the file descriptors nor the connections. Client addresses are known for an hour after an
// authenticated request; the loopback is always known.
//
//   - All connections together are at most the limit.
//   - Addresses that are not known have at most three quarters of the limit together, and each of
//     them a quarter.
//
// A connection above a limit is closed at once. Methods may be called concurrently.
type Connections struct {
	limit   int
	now     func() time.Time
	adopted []net.Listener // changed only while the appliance is opened

	mu        sync.Mutex
	all       int
	strangers int
	clients   map[netip.Addr]int       // connections of each address; never 0
	known     map[netip.Addr]time.Time // last authenticated request
}

// NewConnections returns a limit of connections for a number of file descriptors, such as the
// process's RLIMIT_NOFILE.
func NewConnections(descriptors uint64) *Connections {
	return newConnections(connectionLimit(descriptors), time.Now)
}

func newConnections(limit int, now func() time.Time) *Connections {
	return &Connections{limit: limit, now: now, clients: map[netip.Addr]int{}, known: map[netip.Addr]time.Time{}}
}

// connectionLimit returns three quarters of the descriptors, and leaves some even if there are few.
func connectionLimit(descriptors uint64) int {
	limit := int(min(descriptors, 2*MaxConnections))
	return min(max(16, min(limit*3/4, limit-reservedDescriptors)), MaxConnections)
}

// Listen is like the function [Listen]; the listener's connections count. An adopted listener with
// this address is used instead of a new one.
func (l *Connections) Listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := l.take(address)
	if listener == nil && err == nil {
		listener, err = Listen(ctx, address)
		if err != nil && len(l.adopted) > 0 {
			err = fmt.Errorf("%w; systemd can open the port: ListenStream in landfall.socket", err)
		}
	}
	if err != nil {
		return nil, err
	}
	return l.Limit(listener), nil
}

// Limit returns a listener whose connections count.
func (l *Connections) Limit(listener net.Listener) net.Listener { return LimitConnections(listener, l) }

// LimitConnections returns a listener whose connections count. A nil limit returns the listener.
func LimitConnections(listener net.Listener, limit *Connections) net.Listener {
	if limit == nil {
		return listener
	}
	return &limitedListener{listener, limit}
}

// Remember makes the address of a client known, after an authenticated request.
func (l *Connections) Remember(client netip.Addr) {
	if l == nil || !client.IsValid() || client.IsLoopback() {
		return
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.known[client]) < knownFor/60 {
		return
	}
	if _, there := l.known[client]; !there && len(l.known) >= maxKnown {
		l.forget(now)
	}
	l.known[client] = now
}

// forget removes addresses that are no longer known, and at least one. The caller holds the mutex.
func (l *Connections) forget(now time.Time) {
	oldest, at := netip.Addr{}, now
	for client, last := range l.known {
		if now.Sub(last) >= knownFor {
			delete(l.known, client)
		} else if !last.After(at) {
			oldest, at = client, last
		}
	}
	if len(l.known) >= maxKnown {
		delete(l.known, oldest)
	}
}

// open counts a connection of a client. It reports false if the connection is above a limit.
func (l *Connections) open(client netip.Addr) (stranger, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.limit {
		return false, false
	}
	last, remembered := l.known[client]
	stranger = !client.IsLoopback() && !(remembered && l.now().Sub(last) < knownFor)
	if stranger && (l.strangers >= l.limit*3/4 || l.clients[client] >= max(1, l.limit/4)) {
		return false, false
	}
	l.all++
	l.clients[client]++
	if stranger {
		l.strangers++
	}
	return stranger, true
}

func (l *Connections) close(client netip.Addr, stranger bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.clients[client]--; l.clients[client] <= 0 {
		delete(l.clients, client)
	}
	if stranger {
		l.strangers--
	}
}

// limitedListener closes connections above the limits instead of returning them.
type limitedListener struct {
	net.Listener
	limit *Connections
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := addressOf(conn.RemoteAddr().String())
		stranger, ok := l.limit.open(client)
		if !ok {
			reset(conn)
			continue
		}
		release := sync.OnceFunc(func() { l.limit.close(client, stranger) })
		if tcp, ok := conn.(*net.TCPConn); ok {
			return &limitedTCP{tcp, release}, nil
		}
		return &limitedConn{conn, release}, nil
	}
}

// reset closes a connection without the state that an orderly end leaves in the kernel.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close() // the client is refused in any case
}

// limitedTCP is a counted TCP connection. It keeps the methods of net.TCPConn, by which net/http
// sends files without copying them.
type limitedTCP struct {
	*net.TCPConn
	release func()
}

// ReadFrom implements io.ReaderFrom. A file that may hang in the kernel has a method StallTime.
func (c *limitedTCP) ReadFrom(src io.Reader) (int64, error) {
	if limited, ok := src.(*io.LimitedReader); ok {
		if file, ok := limited.R.(interface{ StallTime() time.Duration }); ok {
			defer c.breakAfter(file.StallTime())()
		}
	}
	return c.TCPConn.ReadFrom(src)
}

// looks is how often breakAfter looks at a connection within its time.
const looks = 16

// breakAfter breaks the connection if the client has acknowledged all bytes that the kernel has
// read of a file, and the kernel reads no more within a time. The goroutine that reads can't be
// ended, but the client must hear of it. The caller calls stop when the bytes have been sent.
func (c *limitedTCP) breakAfter(stall time.Duration) (stop func()) {
	var timer *time.Timer
	var mu sync.Mutex
	ended := false
	var before uint64
	unchanged := 0 // looks
	mu.Lock()
	timer = time.AfterFunc(stall/looks, func() {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			return
		}
		count, all := acknowledgedBytes(c.TCPConn)
		if all && count == before {
			unchanged++
		} else { // the file is read, or the client is slow
			before, unchanged = count, 0
		}
		if unchanged == looks {
			_ = c.TCPConn.CloseWrite() // the client has left if this fails
			return
		}
		timer.Reset(stall / looks)
	})
	mu.Unlock()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
		timer.Stop()
	}
}

// Close implements net.Conn.
func (c *limitedTCP) Close() error {
	defer c.release()
	return c.TCPConn.Close()
}

// limitedConn is another counted connection.
type limitedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
