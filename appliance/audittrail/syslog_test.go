package audittrail

import (
	"bufio"
	"io"
	"net"
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

// listenStream reads messages with their lengths (RFC 6587).
func listenStream(t *testing.T, address string) *syslogServer {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	s := &syslogServer{"tcp://" + listener.Addr().String(), make(chan string, 1000)}
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
	for network, server := range map[string]*syslogServer{
		"unix": listenDatagrams(t, "unixgram", filepath.Join(t.TempDir(), "log")),
		"udp":  listenDatagrams(t, "udp", "127.0.0.1:0"),
		"tcp":  listenStream(t, "127.0.0.1:0"),
	} {
		t.Run(network, func(t *testing.T) {
			a := newAppliance(t)
			var err error
			a.options.Syslog, err = ParseSyslog(server.address)
			require.NoError(t, err)
			next := uint64(1)
			receive := func(trail *Trail) {
				for ; next <= trail.Head().Sequence; next++ {
					require.Equal(t, next, server.receive(t))
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
	a.options.Syslog = Syslog{"tcp", address}
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
	a.options.Syslog = Syslog{"tcp", listener.Addr().String()}
	a.run(t, func(trail *Trail) {
		changes(t, trail, 500)
		intact(t, trail)
	})
}

func TestParseSyslog_cases(t *testing.T) {
	for text, want := range map[string]Syslog{
		"":                        {},
		"unix:///dev/log":         {"unixgram", "/dev/log"},
		"udp://192.0.2.1":         {"udp", "192.0.2.1:514"},
		"udp://[2001:db8::1]:601": {"udp", "[2001:db8::1]:601"},
		"tcp://log.example.com:1": {"tcp", "log.example.com:1"},
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
