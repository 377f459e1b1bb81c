package hosted

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/web"
)

func TestPorts_busy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, taken.Close()) })
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	require.Equal(t, port, Ports{Provider: "0", ClustersService: port, Maestro: "0"}.Busy(t.Context()))
	require.Empty(t, Ports{Provider: "0", ClustersService: "0", Maestro: "0"}.Busy(t.Context()))

	_, err = web.Listen(t.Context(), taken.Addr().String())
	require.EqualError(t, portError(err), "another program already listens on "+taken.Addr().String()+
		"; stop that program, or set hosted.debug_listen to false")
}
