package audittrail

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// syslogServer receives messages.
type syslogServer struct {
	address  string
	messages chan string
}

// receive returns the number of the record in the next message.
func (s *syslogServer) receive(t *testing.T) uint64 {
	t.Helper()
	select {
	case message := <-s.messages:
		header, line, found := strings.Cut(message, " audit - ")
		require.True(t, found, message)
		require.True(t, strings.HasPrefix(header, "<109>1 "), message)
		return sequenceOf([]byte(line))
	case <-time.After(10 * time.Second):
		require.Fail(t, "no message arrived")
		return 0
	}
}

func listenDatagrams(t *testing.T, network, address string) *syslogServer {
	t.Helper()
	connection, err := net.ListenPacket(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	s := &syslogServer{network + "://" + connection.LocalAddr().String(), make(chan string, 1000)}
	if network == "unixgram" {
		s.address = "unix://" + address
	}
	go func() {
		for buffer := make([]byte, 64<<10); ; {
			n, _, err := connection.ReadFrom(buffer)
			if err != nil {
				return
			}
			s.messages <- string(buffer[:n])
		}
	}()
	return s
}

func listenStream(t *testing.T, address string) *syslogServer {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	return receiveStream(t, "tcp", listener)
}

// listenTLS returns a server with TLS, and its certificate (PEM).
func listenTLS(t *testing.T, address string) (*syslogServer, string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	return receiveStream(t, "tls", tls.NewListener(listener, &tls.Config{Certificates: web.TLS.Certificates})),
		string(certificate)
}

// receiveStream reads messages with their lengths (RFC 6587).
func receiveStream(t *testing.T, network string, listener net.Listener) *syslogServer {
	t.Helper()
	t.Cleanup(func() { _ = listener.Close() })
	s := &syslogServer{network + "://" + listener.Addr().String(), make(chan string, 1000)}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				for in := bufio.NewReader(connection); ; {
					digits, err := in.ReadString(' ')
					if err != nil {
						return
					}
					length, err := strconv.Atoi(strings.TrimSpace(digits))
					if err != nil {
						return
					}
					message := make([]byte, length)
					if _, err := io.ReadFull(in, message); err != nil {
						return
					}
					s.messages <- string(message)
				}
			}()
		}
	}()
	return s
}

func TestSyslog_receivesEachRecord(t *testing.T) {
	secured, certificate := listenTLS(t, "127.0.0.1:0")
	for network, server := range map[string]*syslogServer{
		"unix": listenDatagrams(t, "unixgram", filepath.Join(t.TempDir(), "log")),
		"udp":  listenDatagrams(t, "udp", "127.0.0.1:0"),
		"tcp":  listenStream(t, "127.0.0.1:0"),
		"tls":  secured,
	} {
		t.Run(network, func(t *testing.T) {
			a := newAppliance(t)
			var err error
			a.options.Syslog, err = ParseSyslog(server.address)
			require.NoError(t, err)
			if network == "tls" {
				a.options.Syslog.Roots = certificate
			}
			next := uint64(1)
			receive := func(trail *Trail) {
				for next <= trail.Head().Sequence {
					got := server.receive(t)
					require.LessOrEqual(t, got, next)
					next = max(next, got+1) // the last ones arrive twice without an acknowledgement
				}
			}
			a.run(t, func(trail *Trail) { changes(t, trail, 5); receive(trail) })
			a.run(t, func(trail *Trail) { changes(t, trail, 5); receive(trail) })
		})
	}
}

func TestSyslog_unreachableServerGetsRecordsLater(t *testing.T) {
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := reserved.Addr().String()
	require.NoError(t, reserved.Close())
	a := newAppliance(t)
	a.options.Syslog = Syslog{Network: "tcp", Address: address}
	a.run(t, func(trail *Trail) { changes(t, trail, 5) })
	server := listenStream(t, address)
	a.run(t, func(trail *Trail) {
		for next := uint64(1); next <= trail.Head().Sequence; next++ {
			require.Equal(t, next, server.receive(t))
		}
	})
}

// A server that accepts connections and never reads must not stop changes.
func TestSyslog_slowServerBlocksNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	a := newAppliance(t)
	a.options.Syslog = Syslog{Network: "tcp", Address: listener.Addr().String()}
	a.run(t, func(trail *Trail) {
		changes(t, trail, 500)
		intact(t, trail)
	})
}

// A record that is written to a connection after the server closed it must not count as sent.
func TestSyslog_restartedServerMissesNothing(t *testing.T) {
	for _, network := range []string{"tcp", "tls"} {
		t.Run(network, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			address := listener.Addr().String()
			_, certificate := listenTLS(t, "127.0.0.1:0")
			a := newAppliance(t)
			a.options.Syslog = Syslog{Network: network, Address: address, Roots: certificate}
			a.run(t, func(trail *Trail) {
				first, err := listener.Accept()
				require.NoError(t, err)
				require.NoError(t, listener.Close())
				require.NoError(t, first.Close())
				before := trail.Head().Sequence // the first server may have received these
				changes(t, trail, 3)
				var server *syslogServer
				if network == "tls" {
					server, _ = listenTLS(t, address)
				} else {
					server = listenStream(t, address)
				}
				changes(t, trail, 3)
				received := map[uint64]bool{}
				for uint64(len(received)) < trail.Head().Sequence-before {
					select {
					case message := <-server.messages:
						_, line, _ := strings.Cut(message, " audit - ")
						if sequence := sequenceOf([]byte(line)); sequence > before {
							received[sequence] = true
						}
					case <-time.After(time.Millisecond):
						a.clock.Advance(syslogRetry)
					case <-t.Context().Done():
						require.Fail(t, "records are missing", received)
					}
				}
			})
		})
	}
}

// Strangers with another certificate receive no records.
func TestSyslog_foreignCertificateGetsNothing(t *testing.T) {
	server, certificate := listenTLS(t, "127.0.0.1:0")
	a := newAppliance(t)
	var err error
	a.options.Syslog, err = ParseSyslog(server.address)
	require.NoError(t, err)
	var warnings bytes.Buffer
	a.options.Logger = slog.New(slog.NewTextHandler(&warnings, nil))
	a.run(t, func(trail *Trail) {
		changes(t, trail, 5)
		require.NoError(t, a.clock.BlockUntilContext(t.Context(), 3), "the ticker, the delay of the last end, and the "+
			"wait after the failure")
	})
	require.Empty(t, server.messages)
	require.Contains(t, warnings.String(), "certificate signed by unknown authority")
	a.options.Syslog.Roots = certificate
	a.run(t, func(trail *Trail) { require.Equal(t, uint64(1), server.receive(t)) })
}

func TestParseSyslog_cases(t *testing.T) {
	for text, want := range map[string]Syslog{
		"":                        {},
		"unix:///dev/log":         {Network: "unixgram", Address: "/dev/log"},
		"udp://192.0.2.1":         {Network: "udp", Address: "192.0.2.1:514"},
		"udp://[2001:db8::1]:601": {Network: "udp", Address: "[2001:db8::1]:601"},
		"tcp://log.example.com:1": {Network: "tcp", Address: "log.example.com:1"},
		"tls://log.example.com":   {Network: "tls", Address: "log.example.com:6514"},
	} {
		got, err := ParseSyslog(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"/dev/log", "unix:", "unix://host/x", "http://x", "udp://", "tcp://a/b", "tcp://u@h",
		"tcp://h?x", "%"} {
		_, err := ParseSyslog(text)
		require.ErrorContains(t, err, "is not the address of a syslog server", text)
	}
}
