// Package porttest reserves TCP ports for the processes of tests.
package porttest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ports of this range are none of those that Linux gives to connections (32768 to 60999): a
// connection could get the port while the process of a test is dead.
const (
	firstPort = 10000
	ports     = 20000
)

// Reserve returns an address of this machine at which a process can listen until the test ends,
// also after a restart. Tests of other processes do not get the port meanwhile: a UDP socket with
// the number of the port reserves it.
func Reserve(t testing.TB) (address string) {
	t.Helper()
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(ports)))
		if reservation, ok := reserve(address); ok {
			t.Cleanup(func() { require.NoError(t, reservation.Close()) })
			return address
		}
	}
	require.Fail(t, "no free port was found")
	return ""
}

// reserve reserves a port if no process listens at it.
func reserve(address string) (reservation net.PacketConn, ok bool) {
	reservation, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, false
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		_ = reservation.Close() // nothing was sent
		return nil, false
	}
	_ = listener.Close() // there were no connections
	return reservation, true
}
