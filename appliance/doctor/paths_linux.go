package doctor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tracePort is the first of traceroute's ports. Nothing listens there, and a machine that gets a datagram says so, or its
// firewall does: that is how its arrival is seen, without any rights.
const tracePort = 33434

// answers are how many times an answer is waited for in the given patience. A neighbour that is not there shows as an error
// of the same kind as a firewall's, only later than that.
const answers = 3

// udpPath is a Path by a connected UDP socket (ip(7): IP_MTU_DISCOVER, IP_MTU; ipv6(7)).
type udpPath struct {
	conn    *net.UDPConn
	headers int
	v6      bool
}

func openPath(address netip.Addr) (Path, error) {
	p := &udpPath{headers: 20 + 8, v6: address.Is6()}
	level, option, always := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO
	if p.v6 {
		p.headers, level, option, always = 40+8, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO
	}
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, always) })
		return errors.Join(err, failed)
	}}
	conn, err := dialer.Dial("udp", net.JoinHostPort(address.String(), strconv.Itoa(tracePort)))
	if err != nil {
		return nil, err
	}
	p.conn = conn.(*net.UDPConn)
	return p, nil
}

// MTU asks the kernel.
func (p *udpPath) MTU() (mtu int, err error) {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	level, option := unix.IPPROTO_IP, unix.IP_MTU
	if p.v6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	var failed error
	err = raw.Control(func(fd uintptr) { mtu, failed = unix.GetsockoptInt(int(fd), level, option) })
	return mtu, errors.Join(err, failed)
}

// Arrives sends a datagram and waits until somebody says that nothing listens there.
func (p *udpPath) Arrives(ctx context.Context, size int, patience time.Duration) (bool, error) {
	for range answers - 1 {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if _, err := p.conn.Write(make([]byte, size-p.headers)); err != nil {
			if arrived, err := judge(err); arrived || err != nil {
				return arrived, err
			}
		}
		if err := p.conn.SetReadDeadline(time.Now().Add(patience / answers)); err != nil {
			return false, err
		}
		if _, err := p.conn.Read(make([]byte, 1)); err != nil {
			if arrived, err := judge(err); arrived || err != nil {
				return arrived, err
			}
			continue
		}
		return true, nil // something listens there, and answers
	}
	return false, nil
}

// judge tells what an error of the socket says of the datagram before it.
func judge(err error) (arrived bool, failure error) {
	switch timeout := net.Error(nil); {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EACCES):
		return true, nil
	case errors.Is(err, unix.EMSGSIZE):
		return false, errTooLarge
	case errors.As(err, &timeout) && timeout.Timeout():
		return false, nil
	default:
		return false, err
	}
}

// Close lets go of the socket.
func (p *udpPath) Close() error { return p.conn.Close() }
