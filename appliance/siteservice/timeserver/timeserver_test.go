package timeserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/beevik/ntp"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/siteservice/link"
)

func loopback() link.Link {
	return link.Link{Name: "lo", Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}}
}

// start serves the time on the loopback interface and returns the server's address.
func start(t *testing.T, s *Server) string {
	t.Helper()
	free, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, free.Close())
	s.Port = netip.MustParseAddrPort(free.LocalAddr().String()).Port()
	if s.Clock == nil {
		s.Clock = clockwork.NewRealClock()
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Serve(ctx, loopback(), func() { close(ready) }) }()
	<-ready
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return free.LocalAddr().String()
}

func query(t *testing.T, address string) *ntp.Response {
	t.Helper()
	answer, err := ntp.QueryWithOptions(address, ntp.QueryOptions{Timeout: time.Minute})
	require.NoError(t, err)
	return answer
}

// clock returns the function that reads a clock in a fixed state.
func clock(reading Reading) func() (Reading, error) {
	return func() (Reading, error) { return reading, nil }
}

// Case 50: an appliance whose clock is not synchronised: clients reject its time, unless a person
// has declared it as the time of the site.
func TestFault50_ownClockUnsynchronised(t *testing.T) {
	answer := query(t, start(t, &Server{Read: clock(Reading{MaxError: time.Hour})}))
	require.Equal(t, ntp.LeapNotInSync, answer.Leap)
	require.EqualValues(t, stratumNone, answer.Stratum)
	require.Error(t, answer.Validate())

	declared := query(t, start(t, &Server{Read: clock(Reading{MaxError: time.Hour}), Local: true}))
	require.NoError(t, declared.Validate())
	require.EqualValues(t, 10, declared.Stratum)

	unknown := query(t, start(t, &Server{Read: func() (Reading, error) { return Reading{}, errors.New("no clock") }}))
	require.Equal(t, ntp.LeapNotInSync, unknown.Leap)
}

func TestServer_synchronisedClock(t *testing.T) {
	answer := query(t, start(t, &Server{Read: clock(Reading{Synchronized: true, MaxError: 40 * time.Millisecond}),
		Local: true}))
	require.NoError(t, answer.Validate())
	require.EqualValues(t, StratumSynchronized, answer.Stratum, "a real clock precedes the local reference")
	require.InDelta(t, 40, answer.RootDispersion.Milliseconds(), 1)
	require.Less(t, answer.ClockOffset.Abs(), time.Second)
}

func TestServer_showsItsClock(t *testing.T) {
	ahead := clockwork.NewFakeClockAt(time.Now().Add(time.Hour))
	answer := query(t, start(t, &Server{Read: clock(Reading{Synchronized: true}), Clock: ahead}))
	require.InDelta(t, time.Hour.Seconds(), answer.ClockOffset.Seconds(), 60)
}

// TestLook_anotherTimeServer holds that the appliance does not serve the time beside a server whose
// clock is synchronised.
func TestLook_anotherTimeServer(t *testing.T) {
	good := start(t, &Server{Read: clock(Reading{Synchronized: true})})
	lost := start(t, &Server{Read: clock(Reading{})})
	s := &Server{Sources: func() []string { return []string{lost, good, "nobody.invalid"} },
		Own: func(netip.Addr) bool { return false }}
	others, err := s.Look(t.Context(), loopback())
	require.NoError(t, err)
	require.Equal(t, []link.Other{{Address: good, Details: "stratum 8"}}, others)
}

// TestLook_ownAnswers holds that the appliance does not yield to itself if the site's time servers
// contain its name, or its address on another interface.
func TestLook_ownAnswers(t *testing.T) {
	own := start(t, &Server{Read: clock(Reading{Synchronized: true})})
	port := netip.MustParseAddrPort(own).Port()
	s := &Server{Sources: func() []string { return []string{own, fmt.Sprintf("localhost:%d", port)} }, Own: link.IsOwn}
	others, err := s.Look(t.Context(),
		link.Link{Name: "eth1", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}})
	require.NoError(t, err)
	require.Empty(t, others)
}

func TestTimestamp_roundTrip(t *testing.T) {
	at := time.Date(2031, 2, 3, 4, 5, 6, 500_000_000, time.UTC)
	stamp := timestamp(at)
	require.EqualValues(t, at.Unix()+epochOffset, stamp>>32)
	require.EqualValues(t, 1<<31, uint32(stamp))
	require.EqualValues(t, 1<<16, short(time.Second))
	require.EqualValues(t, 1, short(time.Nanosecond), "a dispersion is rounded up")
}

func FuzzAnswer(f *testing.F) {
	request := make([]byte, packetSize)
	request[0] = 4<<3 | modeClient
	f.Add(request)
	f.Add([]byte{0x1b})
	f.Add(bytes.Repeat([]byte{0xff}, 68))
	received := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &Server{}
	f.Fuzz(func(t *testing.T, packet []byte) {
		answer, ok := s.Answer(packet, received, Reading{Synchronized: true})
		if !ok {
			return
		}
		require.LessOrEqual(t, len(answer), len(packet), "an answer is never longer than its question")
		require.EqualValues(t, modeServer, answer[0]&7)
		require.Equal(t, packet[offsetTransmit:packetSize], answer[offsetOrigin:offsetReceive])
		require.Equal(t, timestamp(received), binary.BigEndian.Uint64(answer[offsetReceive:]))
	})
}
