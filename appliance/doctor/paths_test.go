package doctor

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakePath is a Path with a given MTU.
type fakePath struct {
	mtu    int  // according to this machine's kernel
	takes  int  // MTU of the narrowest link
	silent bool // large packets are lost without an ICMP error
	mute   bool // the machine does not answer
}

func (w *fakePath) MTU() (int, error) { return w.mtu, nil }
func (w *fakePath) Close() error      { return nil }
func (w *fakePath) Arrives(_ context.Context, size int, _ time.Duration) (bool, error) {
	switch {
	case w.mute:
		return false, nil
	case size > w.takes && w.silent:
		return false, nil
	case size > w.takes:
		w.mtu = w.takes
		return false, errTooLarge
	}
	return true, nil
}

func TestPaths_fullPacketsArrive(t *testing.T) {
	for name, c := range map[string]struct {
		fakePath fakePath
		status   Status
		result   string
		advice   string
	}{
		"correct":      {fakePath{mtu: 1500, takes: 1500}, Green, "packets of 1500 bytes arrive", ""},
		"jumbo frames": {fakePath{mtu: 9000, takes: 9000}, Green, "packets of 9000 bytes arrive", ""},
		"tunnel on the path": {fakePath{mtu: 1500, takes: 1420}, Amber,
			"the MTU of the path is 1420 bytes, the MTU of this machine's network is 1500 bytes",
			"Give the networks on the path the same MTU."},
		"black hole": {fakePath{mtu: 9000, takes: 1500, silent: true}, Red,
			"packets of 128 bytes arrive; packets of 9000 bytes are lost without an ICMP error",
			"Find the switch, tunnel or firewall"},
		"network with a small MTU": {fakePath{mtu: 1400, takes: 1400}, Amber,
			"packets of 1400 bytes arrive, which is the MTU of this machine's network",
			"Make sure that the MTU of the nodes' network is not smaller"},
		"machine that does not answer": {fakePath{mtu: 1500, takes: 1500, mute: true}, Unknown,
			"cannot be determined from this machine: 192.0.2.7 does not answer datagrams",
			"Hosts check the path themselves after they boot. To check by hand, run: ping -M do -s 1472 192.0.2.7"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Doctor{OpenPath: func(netip.Addr) (Path, error) { return &c.fakePath, nil }}
			finding := find(t, d.Diagnose(t.Context(),
				&Site{Machines: []Machine{{"host a", netip.MustParseAddr("192.0.2.7")}}}), "path to host a")
			require.Equal(t, c.status, finding.Status, finding)
			require.Equal(t, c.result, finding.Result)
			require.Contains(t, finding.Advice, c.advice)
		})
	}
	d := Doctor{OpenPath: func(netip.Addr) (Path, error) { return nil, errors.New("no route") }}
	finding := find(t, d.Diagnose(t.Context(),
		&Site{Machines: []Machine{{"host a", netip.MustParseAddr("192.0.2.7")}}}),
		"path to host a")
	require.Equal(t, Unknown, finding.Status)
	require.Equal(t, "cannot be determined from this machine: no route", finding.Result)
}

// The loopback interface rejects the datagram at the closed port.
func TestPaths_datagramArrivalIsReported(t *testing.T) {
	path, err := openPath(netip.MustParseAddr("127.0.0.1"))
	require.NoError(t, err)
	defer func() { require.NoError(t, path.Close()) }()
	mtu, err := path.MTU()
	require.NoError(t, err)
	require.GreaterOrEqual(t, mtu, usualPacket)
	arrived, err := path.Arrives(t.Context(), usualPacket, time.Second)
	require.NoError(t, err)
	require.True(t, arrived)
	if six, err := openPath(netip.MustParseAddr("::1")); err == nil { // not every machine supports IPv6
		defer func() { require.NoError(t, six.Close()) }()
		arrived, err = six.Arrives(t.Context(), usualPacket, time.Second)
		require.NoError(t, err)
		require.True(t, arrived)
	}
	_, err = path.Arrives(t.Context(), 70_000, time.Second)
	require.ErrorIs(t, err, errTooLarge, "exceeds the MTU of the loopback device")
}
