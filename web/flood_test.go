package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"landfall/web/operation"
)

// floodVariable makes the test program the server of the floods. It has a process of its own, so
// that its descriptors and its memory can be limited and measured.
const floodVariable = "LANDFALL_TEST_FLOOD"

// floodDescriptors is the limit of the server's descriptors. The attacker needs few as well,
// because it closes the connections that the server has closed.
const floodDescriptors = 512

func TestMain(m *testing.M) {
	if os.Getenv(floodVariable) != "" {
		if err := serveFlood(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serveFlood serves a server with the default limits on two listeners, and prints their addresses.
// Each connection of the first one comes from another stranger, and those of the second one from
// this machine, which is always known. It ends with its input.
func serveFlood() error {
	limit := unix.Rlimit{Cur: floodDescriptors, Max: floodDescriptors}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	connections := NewConnections(floodDescriptors)
	server := New(Options{Connections: connections})
	if err := server.Register(
		operation.Operation{Method: http.MethodPost, Path: "/read", Access: operation.Public(), Handler: readsBody},
		operation.Operation{Method: http.MethodGet, Path: "/memory", Access: operation.Public(),
			Handler: func(c echo.Context) error {
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				return c.String(http.StatusOK, strconv.FormatUint(stats.Sys>>20, 10))
			}},
	); err != nil {
		return err
	}
	for _, known := range []bool{false, true} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(listener.Addr())
		if !known {
			next := netip.MustParseAddr("10.1.0.0")
			listener = strangers{listener, func() netip.Addr { next = next.Next(); return next }}
		}
		go func() { _ = server.Serve(context.Background(), LimitConnections(listener, connections)) }()
	}
	_, err := io.Copy(io.Discard, os.Stdin) // The listeners end with the process.
	return err
}

// flooded is the server of the floods.
type flooded struct {
	*testing.T
	strangers, known string // addresses
}

func newFlooded(t *testing.T) *flooded {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env, command.Stderr = append(os.Environ(), floodVariable+"=1"), os.Stderr
	input, err := command.StdinPipe()
	require.NoError(t, err)
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		require.NoError(t, input.Close())
		require.NoError(t, command.Wait())
	})
	f := &flooded{T: t}
	_, err = fmt.Fscan(output, &f.strangers, &f.known)
	require.NoError(t, err)
	return f
}

// flood opens connections of strangers, sends a text over each, and keeps those that the server
// does not close, until the test ends.
func (f *flooded) flood(connections int, text []byte) {
	f.Helper()
	var group sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	f.Cleanup(group.Wait)
	f.Cleanup(end)
	for range connections {
		conn, err := net.Dial("tcp", f.strangers)
		require.NoError(f, err)
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		group.Go(func() {
			defer stop()
			defer conn.Close()
			if _, err := conn.Write(text); err == nil {
				_, _ = io.Copy(io.Discard, conn) // until the server or the end of the test closes it
			}
		})
	}
}

// peak returns the largest memory of the server until now, in MiB: what Go has taken from the
// operating system.
func (f *flooded) peak() int {
	f.Helper()
	response, err := http.Get("http://" + f.known + "/memory")
	require.NoError(f, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(f, err)
	megabytes, err := strconv.Atoi(string(text))
	require.NoError(f, err)
	return megabytes
}

// TestFlood_knownClientIsServed floods a server that has the default limits and few descriptors. A
// client on this machine is served meanwhile, and the memory of the process stays below a bound.
func TestFlood_knownClientIsServed(t *testing.T) {
	const head = "POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
	large := append(fmt.Appendf(nil, "%s%d\r\n\r\n", head, DefaultBodyLimit), make([]byte, DefaultBodyLimit-1)...)
	for name, c := range map[string]struct {
		connections int
		text        []byte
		memory      int // MiB
	}{
		// The bodies have 128 MiB. Their buffers grow by copying, and the collector runs when the
		// memory has doubled.
		"200 unfinished bodies":     {200, large, 640},
		"1,100 bodies of a byte":    {1100, []byte(head + "2\r\n\r\nx"), 96},
		"10,000 silent connections": {10_000, nil, 96},
		"10,000 unfinished heads":   {10_000, []byte("GET /read HTTP/1.1\r\nHost: "), 96},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlooded(t)
			f.flood(c.connections, c.text)
			for range 20 {
				require.Equal(t, http.StatusOK, exchange(t, f.known, head+"2\r\n\r\nxy"))
			}
			require.Less(t, f.peak(), c.memory)
		})
	}
}
