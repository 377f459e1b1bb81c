package porttest

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReserve(t *testing.T) {
	address := Reserve(t)
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err, "the owner of the reservation listens")
	require.NoError(t, listener.Close())
	_, ok := reserve(address)
	require.False(t, ok, "another test gets the port")

	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, busy.Close()) })
	_, ok = reserve(busy.Addr().String())
	require.False(t, ok, "a process listens at it")
}

func TestReserve_untilTheTestEnds(t *testing.T) {
	var address string
	t.Run("a test", func(t *testing.T) { address = Reserve(t) })
	reservation, ok := reserve(address)
	require.True(t, ok)
	require.NoError(t, reservation.Close())
}
