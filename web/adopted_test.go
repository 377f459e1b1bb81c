package web

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func adoptedListener(t *testing.T, address string) *net.TCPListener {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	return listener.(*net.TCPListener)
}

func TestConnections_useAdoptedListener(t *testing.T) {
	for _, test := range []struct{ name, opened, configured string }{
		{"same address", "127.0.0.1:0", "127.0.0.1:%d"},
		{"all addresses", "0.0.0.0:0", "0.0.0.0:%d"},
		{"all addresses of both families", ":0", "0.0.0.0:%d"},
		{"no host", "0.0.0.0:0", ":%d"},
	} {
		t.Run(test.name, func(t *testing.T) {
			passed := adoptedListener(t, test.opened)
			connections := NewConnections(1 << 10)
			require.NoError(t, connections.Adopt([]net.Listener{passed}, nil))
			address := fmt.Sprintf(test.configured, passed.Addr().(*net.TCPAddr).Port)
			listener, err := connections.Listen(t.Context(), address)
			require.NoError(t, err, "the port is in use, so only the adopted listener can have it")
			require.Equal(t, passed.Addr(), listener.Addr())
			require.NoError(t, connections.Unused())
			_, err = connections.Listen(t.Context(), address)
			require.ErrorContains(t, err, "another program already listens")
		})
	}
}

// A socket for all networks must not replace a listener for this machine only.
func TestConnections_refuseOtherHostOfAdopted(t *testing.T) {
	passed := adoptedListener(t, "0.0.0.0:0")
	connections := NewConnections(1 << 10)
	require.NoError(t, connections.Adopt([]net.Listener{passed}, nil))
	_, err := connections.Listen(t.Context(), fmt.Sprintf("127.0.0.1:%d", passed.Addr().(*net.TCPAddr).Port))
	require.ErrorContains(t, err, "make ListenStream in landfall.socket and the configuration equal")
}

// A service has no right to ports below 1024, so its socket must open them.
func TestConnections_nameSocketForOtherPort(t *testing.T) {
	connections := NewConnections(1 << 10)
	require.NoError(t, connections.Adopt([]net.Listener{adoptedListener(t, "127.0.0.1:0")}, nil))
	taken := adoptedListener(t, "127.0.0.1:0")
	_, err := connections.Listen(t.Context(), taken.Addr().String())
	require.ErrorContains(t, err, "systemd can open the port: ListenStream in landfall.socket")
}

func TestConnections_reportUnusedAdopted(t *testing.T) {
	passed := adoptedListener(t, "127.0.0.1:0")
	connections := NewConnections(1 << 10)
	require.NoError(t, connections.Adopt([]net.Listener{passed}, nil))
	listener, err := connections.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	require.NotEqual(t, passed.Addr(), listener.Addr())
	require.NoError(t, listener.Close())
	require.ErrorContains(t, connections.Unused(), passed.Addr().String())
	_, err = passed.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, connections.Unused())
}
