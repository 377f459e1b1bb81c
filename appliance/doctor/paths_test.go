package doctor

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// way is a path with the MTU of its narrowest part.
type way struct {
	mtu    int // known to this machine
	takes  int
	silent bool // packets that are too large are lost without an error
	mute   bool // no machine answers
}

func (w *way) MTU() (int, error) { return w.mtu, nil }
func (w *way) Close() error      { return nil }
func (w *way) Arrives(_ context.Context, size int, _ time.Duration) (bool, error) {
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
		way      way
		verdict  Status
		answered string
		do       string
	}{
		"all is well":  {way{mtu: 1500, takes: 1500}, Green, "packets of 1500 bytes arrive", ""},
		"jumbo frames": {way{mtu: 9000, takes: 9000}, Green, "packets of 9000 bytes arrive", ""},
		"a tunnel on the way": {way{mtu: 1500, takes: 1420}, Amber,
			"the way takes packets of 1420 bytes, this machine's network sends 1500",
			"Give the networks on the way the same MTU."},
		"a black hole": {way{mtu: 9000, takes: 1500, silent: true}, Red,
			"packets of 128 bytes arrive, those of 9000 bytes do not, and nobody says why",
			"Find the switch, tunnel or firewall"},
		"a small network": {way{mtu: 1400, takes: 1400}, Amber,
			"packets of 1400 bytes arrive; the network here takes no larger ones",
			"See that the nodes' network is no smaller"},
		"a machine without ear": {way{mtu: 1500, takes: 1500, mute: true}, Unknown,
			"it can't be told from here: 192.0.2.7 does not answer datagrams",
			"Hosts look themselves once they are up; a person can ask with: ping -M do -s 1472 192.0.2.7"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Doctor{OpenPath: func(netip.Addr) (Path, error) { return &c.way, nil }}
			finding := find(t, d.Diagnose(t.Context(),
				&Site{Machines: []Machine{{"host a", netip.MustParseAddr("192.0.2.7")}}}), "way to host a")
			require.Equal(t, c.verdict, finding.Status, finding)
			require.Equal(t, c.answered, finding.Result)
			require.Contains(t, finding.Advice, c.do)
		})
	}
	d := Doctor{OpenPath: func(netip.Addr) (Path, error) { return nil, errors.New("no way") }}
	finding := find(t, d.Diagnose(t.Context(),
		&Site{Machines: []Machine{{"host a", netip.MustParseAddr("192.0.2.7")}}}),
		"way to host a")
	require.Equal(t, Unknown, finding.Status)
	require.Equal(t, "it can't be told from here: no way", finding.Result)
}

// This machine itself reports that the port is closed.
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
	if six, err := openPath(netip.MustParseAddr("::1")); err == nil { // not every machine has IPv6
		defer func() { require.NoError(t, six.Close()) }()
		arrived, err = six.Arrives(t.Context(), usualPacket, time.Second)
		require.NoError(t, err)
		require.True(t, arrived)
	}
	_, err = path.Arrives(t.Context(), 70_000, time.Second)
	require.ErrorIs(t, err, errTooLarge, "more than the device takes")
}
