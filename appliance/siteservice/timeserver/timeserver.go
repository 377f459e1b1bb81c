// Package timeserver serves the time by NTP (RFC 5905) from this machine's clock, and never claims
// more about the clock than the kernel does.
//
// Design: docs/design.md#services-for-a-bare-site.
package timeserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/beevik/ntp"
	"github.com/jonboulle/clockwork"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/siteservice/link"
)

// Port is the port of NTP.
const Port = 123

const (
	// StratumSynchronized is the stratum of a synchronised clock. The kernel does not know the
	// stratum of its source, so this is larger than that of any source in practice.
	StratumSynchronized = 8
	// StratumLocal is the stratum of a clock that a person declared as the time of the site, as of
	// chrony's local reference.
	StratumLocal = 10
	// stratumNone is the stratum of a clock that is not synchronised.
	stratumNone = 16
)

// Fields of a packet (RFC 5905, 7.3).
const (
	packetSize = 48
	leapNone   = 0
	leapAlarm  = 3 // the clock is not synchronised
	modeClient = 3
	modeServer = 4

	offsetStratum, offsetPoll, offsetPrecision      = 1, 2, 3
	offsetDispersion, offsetReference               = 8, 12
	offsetReferenceTime, offsetOrigin               = 16, 24
	offsetReceive, offsetTransmit                   = 32, 40
	lowestVersion, highestVersion                   = 1, 4
	precision                                  int8 = -20 // about a microsecond, as a power of 2 in seconds
)

// localDispersion is the root dispersion of a local reference. Its error is unknown; clients need a
// value below their limit, which is 3 s in chrony.
const localDispersion = time.Millisecond

// Reading is the state of this machine's clock.
type Reading struct {
	Synchronized bool
	MaxError     time.Duration // the largest possible error, if the clock is synchronised
}

// Server is the NTP server on one interface.
type Server struct {
	// Local declares the clock as the time of the site while it is not synchronised.
	Local bool
	// Read reads the state of the clock.
	Read func() (Reading, error)
	// Sources returns the time servers of the site, names or addresses, with or without a port.
	// This machine may be one of them.
	Sources func() []string
	// Own reports whether an address belongs to this machine.
	Own   func(netip.Addr) bool
	Clock clockwork.Clock
	Port  uint16
}

// lookTimeout is the time for the answer of another time server.
const lookTimeout = 2 * time.Second

// Look returns the time servers of the site that answer and whose clocks are synchronised, without
// this machine: its answer would be that of this server, on this interface or on another one.
func (s *Server) Look(ctx context.Context, _ link.Link) ([]link.Other, error) {
	var others []link.Other
	for _, source := range s.Sources() {
		addresses := slices.DeleteFunc(resolve(ctx, source), func(a netip.AddrPort) bool { return s.Own(a.Addr()) })
		if other, ok := ask(ctx, source, addresses); ok {
			others = append(others, other)
		}
	}
	return others, nil
}

// resolve returns the addresses of a time server. A name that can't be resolved has none.
func resolve(ctx context.Context, source string) []netip.AddrPort {
	host, port := source, uint16(Port)
	if name, text, err := net.SplitHostPort(source); err == nil {
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil
		}
		host, port = name, uint16(number)
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	var addresses []netip.AddrPort
	for _, address := range found {
		addresses = append(addresses, netip.AddrPortFrom(address.Unmap(), port))
	}
	return addresses
}

// ask asks a time server at the first of its addresses to which this machine has a route.
func ask(ctx context.Context, source string, addresses []netip.AddrPort) (link.Other, bool) {
	answer, err := ntp.QueryWithOptions(source, ntp.QueryOptions{Timeout: lookTimeout,
		Dialer: func(string, string) (conn net.Conn, err error) {
			err = errors.New("the time server has no address but those of this machine")
			for _, address := range addresses {
				conn, err = new(net.Dialer).DialContext(ctx, "udp", address.String())
				if err == nil {
					break
				}
			}
			return conn, err
		}})
	if err != nil || answer.Validate() != nil {
		return link.Other{}, false
	}
	return link.Other{Address: source, Details: fmt.Sprintf("stratum %d", answer.Stratum)}, true
}

// Serve answers clients at the addresses of an interface until the context ends. It calls ready
// when its sockets are open.
func (s *Server) Serve(ctx context.Context, on link.Link, ready func()) error {
	if len(on.Prefixes) == 0 {
		return link.ErrNoAddress
	}
	var sockets []*net.UDPConn
	for _, address := range on.Addresses() {
		socket, err := link.ListenUDP(ctx, netip.AddrPortFrom(address, s.Port))
		if err != nil {
			return errors.Join(err, closeAll(sockets))
		}
		sockets = append(sockets, socket)
	}
	ready()
	group, ctx := errgroup.WithContext(ctx)
	for _, socket := range sockets {
		group.Go(func() error { return s.serve(ctx, socket) })
	}
	group.Go(func() error {
		<-ctx.Done()
		return closeAll(sockets)
	})
	return group.Wait()
}

func closeAll(sockets []*net.UDPConn) error {
	var errs []error
	for _, socket := range sockets {
		errs = append(errs, socket.Close())
	}
	return errors.Join(errs...)
}

func (s *Server) serve(ctx context.Context, socket *net.UDPConn) error {
	for packet := make([]byte, 512); ; {
		n, client, err := socket.ReadFromUDPAddrPort(packet)
		received := s.Clock.Now()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("receive an NTP packet: %w", err)
		}
		reading, err := s.Read()
		if err != nil {
			reading = Reading{} // an unknown state is shown as not synchronised
		}
		answer, ok := s.Answer(packet[:n], received, reading)
		if !ok {
			continue
		}
		binary.BigEndian.PutUint64(answer[offsetTransmit:], timestamp(s.Clock.Now()))
		// A client that can't be reached asks again or leaves.
		_, _ = socket.WriteToUDPAddrPort(answer, client)
	}
}

// Answer returns the answer to a client's packet that was received at a time. It reports false for
// a packet that is not from a client. The answer is never longer than the packet.
func (s *Server) Answer(packet []byte, received time.Time, reading Reading) ([]byte, bool) {
	if len(packet) < packetSize {
		return nil, false
	}
	version, mode := packet[0]>>3&7, packet[0]&7
	if mode != modeClient || version < lowestVersion || version > highestVersion {
		return nil, false
	}
	answer := make([]byte, packetSize)
	leap, stratum, dispersion := s.describe(reading)
	answer[0] = leap<<6 | version<<3 | modeServer
	answer[offsetStratum] = stratum
	answer[offsetPoll] = packet[offsetPoll]
	p := precision
	answer[offsetPrecision] = byte(p)
	binary.BigEndian.PutUint32(answer[offsetDispersion:], short(dispersion))
	if stratum == StratumLocal {
		copy(answer[offsetReference:], []byte{127, 127, 1, 1}) // a local reference, as of chrony and ntpd
	}
	if leap != leapAlarm {
		binary.BigEndian.PutUint64(answer[offsetReferenceTime:], timestamp(received))
	}
	copy(answer[offsetOrigin:], packet[offsetTransmit:packetSize])
	binary.BigEndian.PutUint64(answer[offsetReceive:], timestamp(received))
	binary.BigEndian.PutUint64(answer[offsetTransmit:], timestamp(received))
	return answer, true
}

// describe returns what the server says about its clock.
func (s *Server) describe(reading Reading) (leap, stratum byte, dispersion time.Duration) {
	switch {
	case reading.Synchronized:
		return leapNone, StratumSynchronized, reading.MaxError
	case s.Local:
		return leapNone, StratumLocal, localDispersion
	}
	return leapAlarm, stratumNone, 0
}

// epochOffset is the number of seconds from the epoch of NTP, 1900, to that of Unix.
const epochOffset = 2_208_988_800

// timestamp returns a time in the 64-bit format of NTP: seconds and fractions of 2^-32 s.
func timestamp(at time.Time) uint64 {
	seconds := uint64(at.Unix() + epochOffset)
	return seconds<<32 | uint64(at.Nanosecond())<<32/uint64(time.Second)
}

// short returns a duration in the 32-bit format of NTP: seconds and fractions of 2^-16 s. It rounds
// up.
func short(d time.Duration) uint32 {
	const largest = 0xffff * time.Second
	d = min(max(d, 0), largest)
	return uint32((uint64(d)<<16 + uint64(time.Second) - 1) / uint64(time.Second))
}
