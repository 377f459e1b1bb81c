package audittrail

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"landfall/appliance/roots"
)

// Syslog is a syslog server. The zero value means none.
type Syslog struct {
	Network string // unixgram, unix, udp, tcp or tls (RFC 5425)
	Address string
	// Roots are the CAs (PEM) that may sign a TLS server's certificate, on top of the system's.
	Roots string
}

// ParseSyslog reads the address of a syslog server: unix:///dev/log, udp://HOST:PORT,
// tcp://HOST:PORT or tls://HOST:PORT.
func ParseSyslog(text string) (Syslog, error) {
	wrong := fmt.Errorf("%q is not the address of a syslog server; give unix:///dev/log, udp://HOST:PORT, "+
		"tcp://HOST:PORT or tls://HOST:PORT", text)
	if text == "" {
		return Syslog{}, nil
	}
	address, err := url.Parse(text)
	if err != nil || address.User != nil || address.RawQuery != "" {
		return Syslog{}, wrong
	}
	if address.Scheme == "unix" && address.Host == "" && address.Path != "" {
		return Syslog{Network: "unixgram", Address: address.Path}, nil
	}
	port, ok := map[string]string{"udp": "514", "tcp": "514", "tls": "6514"}[address.Scheme]
	if !ok || address.Hostname() == "" || address.Path != "" {
		return Syslog{}, wrong
	}
	return Syslog{Network: address.Scheme,
		Address: net.JoinHostPort(address.Hostname(), cmp.Or(address.Port(), port))}, nil
}

// dialer returns what connects to the server.
func (s Syslog) dialer() (func(ctx context.Context) (net.Conn, error), error) {
	plain := &net.Dialer{Timeout: syslogTimeout}
	if s.Network != "tls" {
		return func(ctx context.Context) (net.Conn, error) { return plain.DialContext(ctx, s.Network, s.Address) }, nil
	}
	trusted, ok := roots.With([]byte(s.Roots))
	if s.Roots != "" && !ok {
		return nil, errors.New("the file in audit.syslog_ca_file contains no certificate in PEM")
	}
	secured := &tls.Dialer{NetDialer: plain, Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}}
	return func(ctx context.Context) (net.Conn, error) { return secured.DialContext(ctx, "tcp", s.Address) }, nil
}

const (
	// syslogTimeout limits a connection attempt, one write, and the wait for its acknowledgement.
	syslogTimeout = 5 * time.Second
	syslogRetry   = 15 * time.Second
	// syslogGroup is the largest number of records without an acknowledgement.
	syslogGroup = 256
	// The facility is 13 (log audit), the severity 5 (notice): RFC 5424, section 6.2.1.
	syslogPriority = 13*8 + 5
)

// forwarder sends the records to a syslog server. It reads them from the files, so records that a
// slow or unreachable server did not take are neither lost nor kept in memory. The syslog protocols
// have no acknowledgements. On a stream, a record counts as sent when the server's machine has
// acknowledged its bytes (TCP) and the connection still exists. Other records are sent again, so a
// server may receive a record twice.
type forwarder struct {
	trail   *Trail
	dial    func(ctx context.Context) (net.Conn, error)
	sent    atomic.Uint64
	host    string
	conn    net.Conn
	written uint64 // the last record that was written to conn
	waiting int    // records without an acknowledgement
}

// newForwarder returns a forwarder for the records after a number.
func newForwarder(t *Trail, sent uint64, dial func(ctx context.Context) (net.Conn, error)) *forwarder {
	f := &forwarder{trail: t, dial: dial}
	f.sent.Store(sent)
	return f
}

// position returns the number of the last record that was sent.
func (f *forwarder) position() uint64 { return f.sent.Load() }

func (f *forwarder) run(ctx context.Context) {
	f.host = "-"
	if name, err := os.Hostname(); err == nil {
		f.host = name
	}
	defer f.disconnect()
	told, reconnected := false, false
	for ctx.Err() == nil {
		f.trail.mu.Lock()
		grown, head := f.trail.grown, f.trail.head
		f.trail.mu.Unlock()
		var wait <-chan time.Time
		if head.Sequence > f.sent.Load() {
			err := f.sendAll(ctx)
			switch {
			case err == nil && told:
				f.trail.options.Logger.Info("The syslog server accepts audit records again.")
			case err != nil && ctx.Err() == nil:
				f.disconnect()
				if errors.Is(err, errLost) && !reconnected {
					reconnected = true
					continue // the server has probably restarted
				}
				if !told {
					f.trail.options.Logger.Warn("The syslog server does not accept audit records. They are sent later.",
						"server", f.trail.options.Syslog.Address, "error", err)
				}
				told, wait, grown = true, f.trail.options.Clock.After(syslogRetry), nil
			}
			if err == nil {
				told, reconnected = false, false
			}
		}
		select {
		case <-ctx.Done():
		case <-grown:
		case <-wait:
		}
	}
}

// sendAll sends the records after the position.
func (f *forwarder) sendAll(ctx context.Context) error {
	after := f.sent.Load()
	all, err := f.trail.contents(after)
	if err != nil {
		return err
	}
	err = all.eachLine(ctx, after, func(line []byte) error {
		if err := f.send(ctx, line); err != nil {
			return err
		}
		if f.waiting++; f.waiting < syslogGroup {
			return nil
		}
		return f.confirm(ctx)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a new file replaces the removed one: the trail has grown
		return err
	}
	return f.confirm(ctx)
}

func (f *forwarder) disconnect() {
	if f.conn != nil {
		_ = f.conn.Close()
		f.conn = nil
	}
	f.waiting = 0
}

// send sends one line as a message of RFC 5424. On a stream, the message is preceded by its length
// (RFC 6587, section 3.4.1, and RFC 5425, section 4.3).
func (f *forwarder) send(ctx context.Context, line []byte) error {
	if f.conn == nil {
		var err error
		if f.conn, err = f.dial(ctx); err != nil {
			return err
		}
	}
	message := fmt.Appendf(nil, "<%d>1 %s %s landfall %d audit - ", syslogPriority,
		f.trail.now().Format("2006-01-02T15:04:05.000Z"), f.host, os.Getpid())
	message = append(message, line...)
	if f.stream() {
		message = append(strconv.AppendInt(nil, int64(len(message)), 10), append([]byte{' '}, message...)...)
	}
	if err := f.conn.SetWriteDeadline(time.Now().Add(syslogTimeout)); err != nil {
		return err
	}
	if _, err := f.conn.Write(message); errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return errors.Join(errLost, err)
	} else if err != nil {
		return err
	}
	f.written = sequenceOf(line)
	return nil
}

func (f *forwarder) stream() bool {
	network := f.trail.options.Syslog.Network
	return network == "tcp" || network == "tls"
}

// errLost means that the server has closed the connection.
var errLost = errors.New("the server has closed the connection")

// confirm waits until the server's machine has acknowledged what was written, and moves the
// position.
func (f *forwarder) confirm(ctx context.Context) error {
	if f.waiting == 0 {
		return nil
	}
	if f.stream() {
		if err := f.acknowledged(ctx); err != nil {
			return err
		}
	}
	f.sent.Store(f.written)
	f.waiting = 0
	return nil
}

func (f *forwarder) acknowledged(ctx context.Context) error {
	conn := f.conn
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, syslogTimeout)
	defer cancel()
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	for {
		left, err := unacknowledged(tcp)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server did not acknowledge %d bytes: %w", left, ctx.Err())
		case <-pace.C:
		}
	}
}
