package servicemanager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
)

// asService is the variable with which the test program prints the addresses of its sockets.
const asService = "LANDFALL_TEST_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) == "" {
		os.Exit(m.Run())
	}
	listeners, err := Listeners()
	for _, listener := range listeners {
		fmt.Print(listener.Addr(), " ")
	}
	again, _ := Listeners()
	fmt.Print(len(again), " ", err)
}

// startWith returns the output of this program as a service with a socket.
func startWith(t *testing.T, socket *os.File) string {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), asService+"=yes", "LISTEN_FDS=1", "LISTEN_FDNAMES=landfall.socket")
	cmd.ExtraFiles = []*os.File{socket}
	output, err := cmd.Output()
	require.NoError(t, err)
	return string(output)
}

func TestListeners_takesSocketOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	require.NoError(t, err)
	defer socket.Close()
	require.Equal(t, listener.Addr().String()+" 0 <nil>", startWith(t, socket))
}

func TestListeners_refusesOtherSockets(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	defer listener.Close()
	socket, err := listener.(*net.UnixListener).File()
	require.NoError(t, err)
	defer socket.Close()
	require.Contains(t, startWith(t, socket), "use ListenStream=ADDRESS:PORT in landfall.socket")
}

func TestListeners_noneWithoutSystemd(t *testing.T) {
	listeners, err := Listeners()
	require.NoError(t, err)
	require.Empty(t, listeners)
}

// systemd is the receiver of reports.
type systemd struct{ *net.UnixConn }

func newSystemd(t *testing.T, watchdog time.Duration) systemd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	if watchdog > 0 {
		t.Setenv("WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
		t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	}
	return systemd{conn}
}

func (s systemd) next(t *testing.T) string {
	t.Helper()
	require.NoError(t, s.SetReadDeadline(time.Now().Add(10*time.Second)))
	buffer := make([]byte, 1<<10)
	n, err := s.Read(buffer)
	require.NoError(t, err)
	return string(buffer[:n])
}

func TestService_reportsLifeAndStop(t *testing.T) {
	receiver, clock := newSystemd(t, time.Minute), clockwork.NewFakeClock()
	ctx, cancel := context.WithCancel(t.Context())
	failures := make(chan error, 1)
	checked := make(chan struct{})
	service := Service{Status: "Serving.", Clock: clock, Logger: slog.New(slog.DiscardHandler),
		Alive: func(context.Context) error {
			defer func() { checked <- struct{}{} }()
			select {
			case err := <-failures:
				return err
			default:
				return nil
			}
		}}
	var running sync.WaitGroup
	running.Go(func() { service.Run(ctx) })
	require.Equal(t, "READY=1\nSTATUS=Serving.", receiver.next(t))
	beat := func() {
		require.NoError(t, clock.BlockUntilContext(ctx, 1))
		clock.Advance(15 * time.Second)
		<-checked
	}
	beat()
	require.Equal(t, "WATCHDOG=1", receiver.next(t))
	// A failed check sends nothing, so the next report is that of the next check.
	failures <- errors.New("the engine has stood still")
	beat()
	beat()
	require.Equal(t, "WATCHDOG=1", receiver.next(t))
	cancel()
	running.Wait()
	require.Equal(t, "STOPPING=1\nSTATUS=Stopping.", receiver.next(t))
	require.NoError(t, receiver.SetReadDeadline(time.Now()))
	_, err := receiver.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "a failed check was reported as life")
}

func TestService_withoutWatchdog(t *testing.T) {
	receiver := newSystemd(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { Service{Status: "Serving.", Logger: slog.New(slog.DiscardHandler)}.Run(ctx) })
	require.Equal(t, "READY=1\nSTATUS=Serving.", receiver.next(t))
	cancel()
	running.Wait()
	require.Equal(t, "STOPPING=1\nSTATUS=Stopping.", receiver.next(t))
}

func TestService_nothingWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	Service{Logger: slog.New(slog.DiscardHandler)}.Run(t.Context()) // returns although the context has not ended
}

func TestAnswersAt(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
	}))
	alive := AnswersAt(server.URL + "/livez")
	require.NoError(t, alive(t.Context()))
	status = http.StatusServiceUnavailable
	require.ErrorContains(t, alive(t.Context()), "/livez answers 503 Service Unavailable")
	server.Close()
	require.ErrorContains(t, alive(t.Context()), "connection refused")
}

func TestAnswersAt_limitOfConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			_, _ = conn.Read(make([]byte, 1)) // the request is sent, then the connection is reset
			conn.Close()
		}
	})
	require.NoError(t, AnswersAt("http://"+listener.Addr().String())(t.Context()))
	listener.Close()
	accepting.Wait()
}
