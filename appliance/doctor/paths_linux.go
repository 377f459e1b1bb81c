package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tracePort is the first port of traceroute. The machine or its firewall rejects a datagram to this
// port, because no service listens there. The rejection proves the arrival and needs no privileges.
const tracePort = 33434

// attempts is the number of equal parts of the timeout; Arrives waits for an answer in each part
// but the last.
const attempts = 3

// udpPath implements Path with a connected UDP socket (ip(7): IP_MTU_DISCOVER, IP_MTU; ipv6(7)).
type udpPath struct {
	conn    *net.UDPConn
	address netip.Addr
	headers int
	v6      bool
}

func openPath(address netip.Addr) (Path, error) {
	p := &udpPath{address: address, headers: 20 + 8, v6: address.Is6()}
	level, option, always, errorQueue := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO, unix.IP_RECVERR
	if p.v6 {
		p.headers, level, option, always, errorQueue = 40+8, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER,
			unix.IPV6_PMTUDISC_DO, unix.IPV6_RECVERR
	}
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			if failed = unix.SetsockoptInt(int(fd), level, option, always); failed == nil {
				failed = unix.SetsockoptInt(int(fd), level, errorQueue, 1)
			}
		})
		return errors.Join(err, failed)
	}}
	conn, err := dialer.Dial("udp", net.JoinHostPort(address.String(), strconv.Itoa(tracePort)))
	if err != nil {
		return nil, err
	}
	p.conn = conn.(*net.UDPConn)
	return p, nil
}

// MTU returns the kernel's MTU of the path.
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

// Arrives sends a datagram and waits for its rejection.
func (p *udpPath) Arrives(ctx context.Context, size int, timeout time.Duration) (bool, error) {
	for range attempts - 1 {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if _, err := p.conn.Write(make([]byte, size-p.headers)); err != nil {
			if arrived, err := p.arrival(err); arrived || err != nil {
				return arrived, err
			}
		}
		if err := p.conn.SetReadDeadline(time.Now().Add(timeout / attempts)); err != nil {
			return false, err
		}
		if _, err := p.conn.Read(make([]byte, 1)); err != nil {
			if arrived, err := p.arrival(err); arrived || err != nil {
				return arrived, err
			}
			continue
		}
		return true, nil // a service listens on the port and answered
	}
	return false, nil
}

// arrival reports whether an error of the socket proves the arrival of the datagram. The kernel
// records the sender of the rejection. If the sender is another machine, the datagram did not
// arrive.
func (p *udpPath) arrival(err error) (arrived bool, failure error) {
	switch timeout := net.Error(nil); {
	case errors.Is(err, unix.EMSGSIZE):
		return false, errTooLarge
	case errors.As(err, &timeout) && timeout.Timeout():
		return false, nil
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EACCES):
		sender, err := p.rejecter()
		if err != nil || sender == p.address {
			return err == nil, err
		}
		return false, fmt.Errorf("%s on the path rejects datagrams", sender)
	default:
		return false, err
	}
}

// rejecter returns the sender of the last ICMP error (struct sock_extended_err and the address
// after it; ip(7): IP_RECVERR).
func (p *udpPath) rejecter() (netip.Addr, error) {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return netip.Addr{}, err
	}
	control := make([]byte, 512)
	var n int
	var failed error
	err = raw.Control(func(fd uintptr) {
		_, n, _, _, failed = unix.Recvmsg(int(fd), make([]byte, 1), control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	})
	if err = errors.Join(err, failed); err != nil {
		return netip.Addr{}, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return netip.Addr{}, err
	}
	const extended = 16 // bytes of the error, before the address
	for _, message := range messages {
		switch data := message.Data; {
		case message.Header.Level == unix.IPPROTO_IP && message.Header.Type == unix.IP_RECVERR &&
			len(data) >= extended+unix.SizeofSockaddrInet4:
			return netip.AddrFrom4([4]byte(data[extended+4 : extended+8])), nil
		case message.Header.Level == unix.IPPROTO_IPV6 && message.Header.Type == unix.IPV6_RECVERR &&
			len(data) >= extended+unix.SizeofSockaddrInet6:
			return netip.AddrFrom16([16]byte(data[extended+8 : extended+24])), nil
		}
	}
	return netip.Addr{}, errors.New("the kernel did not report the sender of the ICMP error")
}

// Close closes the socket.
func (p *udpPath) Close() error { return p.conn.Close() }
