package audittrail

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// Syslog is a syslog server. The zero value means none.
type Syslog struct {
	Network string // unixgram, unix, udp or tcp
	Address string
}

// ParseSyslog reads the address of a syslog server: unix:///dev/log, udp://HOST:PORT or
// tcp://HOST:PORT.
func ParseSyslog(text string) (Syslog, error) {
	wrong := fmt.Errorf("%q is not the address of a syslog server; give unix:///dev/log, udp://HOST:PORT or "+
		"tcp://HOST:PORT", text)
	if text == "" {
		return Syslog{}, nil
	}
	address, err := url.Parse(text)
	if err != nil || address.User != nil || address.RawQuery != "" {
		return Syslog{}, wrong
	}
	switch {
	case address.Scheme == "unix" && address.Host == "" && address.Path != "":
		return Syslog{"unixgram", address.Path}, nil
	case (address.Scheme == "udp" || address.Scheme == "tcp") && address.Hostname() != "" && address.Path == "":
		return Syslog{address.Scheme, net.JoinHostPort(address.Hostname(), cmp.Or(address.Port(), "514"))}, nil
	}
	return Syslog{}, wrong
}

const (
	// syslogTimeout limits a connection attempt, and one write.
	syslogTimeout = 5 * time.Second
	syslogRetry   = 15 * time.Second
	// The facility is 13 (log audit), the severity 5 (notice): RFC 5424, section 6.2.1.
	syslogPriority = 13*8 + 5
)

// forwarder sends the records to a syslog server. It reads them from the files, so records that a
// slow or unreachable server did not take are neither lost nor kept in memory.
type forwarder struct {
	trail *Trail
	sent  atomic.Uint64
	host  string
	conn  net.Conn
}

// newForwarder returns a forwarder for the records after a number.
func newForwarder(t *Trail, sent uint64) *forwarder {
	f := &forwarder{trail: t}
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
	failed := false
	for ctx.Err() == nil {
		f.trail.mu.Lock()
		grown, head := f.trail.grown, f.trail.head
		f.trail.mu.Unlock()
		var wait <-chan time.Time
		if head.Sequence > f.sent.Load() {
			_, err := f.trail.copyLines(ctx, f.sent.Load(), func(line []byte) error { return f.send(ctx, line) })
			if err == nil && failed {
				f.trail.options.Logger.Info("The syslog server accepts audit records again.")
			}
			if err != nil && ctx.Err() == nil {
				f.disconnect()
				if !failed {
					f.trail.options.Logger.Warn("The syslog server does not accept audit records. They are sent later.",
						"server", f.trail.options.Syslog.Address, "error", err)
				}
				wait, grown = f.trail.options.Clock.After(syslogRetry), nil
			}
			failed = err != nil
		}
		select {
		case <-ctx.Done():
		case <-grown:
		case <-wait:
		}
	}
}

func (f *forwarder) disconnect() {
	if f.conn != nil {
		_ = f.conn.Close()
		f.conn = nil
	}
}

// send sends one line as a message of RFC 5424. On a stream, the message is preceded by its length
// (RFC 6587, section 3.4.1).
func (f *forwarder) send(ctx context.Context, line []byte) error {
	server := f.trail.options.Syslog
	if f.conn == nil {
		dialer := net.Dialer{Timeout: syslogTimeout}
		var err error
		if f.conn, err = dialer.DialContext(ctx, server.Network, server.Address); err != nil {
			return err
		}
	}
	message := fmt.Appendf(nil, "<%d>1 %s %s landfall %d audit - ", syslogPriority,
		f.trail.now().Format("2006-01-02T15:04:05.000Z"), f.host, os.Getpid())
	message = append(message, line...)
	if server.Network == "tcp" {
		message = append(strconv.AppendInt(nil, int64(len(message)), 10), append([]byte{' '}, message...)...)
	}
	if err := f.conn.SetWriteDeadline(time.Now().Add(syslogTimeout)); err != nil {
		return err
	}
	if _, err := f.conn.Write(message); err != nil {
		return err
	}
	f.sent.Store(sequenceOf(line))
	return nil
}
