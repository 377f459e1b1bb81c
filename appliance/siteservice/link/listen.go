package link

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"syscall"
)

// ErrNoAddress is the error of an interface without the address that a service needs.
var ErrNoAddress = errors.New("the interface has no address yet")

// Network names the transport of a socket.
type Network string

// Transports.
const (
	UDP Network = "udp"
	TCP Network = "tcp"
)

// ListenError is a socket that can't be opened. Its text says what a person can do.
type ListenError struct {
	Network Network
	Address netip.AddrPort
	Holder  string // the program that has the port, or ""
	Program string // path of this program
	Unit    bool   // a service manager gives the program its rights
	Err     error
}

// Error implements error.
func (e *ListenError) Error() string {
	port := fmt.Sprintf("port %d/%s of %s", e.Address.Port(), e.Network, e.Address.Addr())
	switch {
	case errors.Is(e.Err, syscall.EADDRINUSE):
		holder := e.Holder
		if holder == "" {
			holder = "another program (ss -lnp shows it to root)"
		}
		return fmt.Sprintf("%s is taken by %s; stop it, or leave this service switched off here", port, holder)
	case errors.Is(e.Err, fs.ErrPermission), errors.Is(e.Err, syscall.EPERM):
		return fmt.Sprintf("the appliance has no right to open %s; %s", port, grant(e.Program, e.Unit))
	}
	return fmt.Sprintf("open %s: %v", port, e.Err)
}

// Unwrap returns the cause.
func (e *ListenError) Unwrap() error { return e.Err }

func explain(network Network, address netip.AddrPort, err error) error {
	failed := &ListenError{Network: network, Address: address, Err: err}
	if errors.Is(err, syscall.EADDRINUSE) {
		failed.Holder = holderOf(network, address.Port())
	}
	failed.Program, failed.Unit = self()
	return failed
}

// self returns the path of this program, and whether it is a service of systemd.
func self() (program string, unit bool) {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return program, os.Getenv("INVOCATION_ID") != ""
}

// grant says how to give the program the rights of the services. Systemd ignores the rights of a
// file in a unit without them.
func grant(program string, unit bool) string {
	if unit {
		return "add the lines for services of the site in docs/packages.md with: systemctl edit landfall.service, " +
			"and restart the appliance"
	}
	return "grant it with: setcap cap_net_bind_service,cap_net_raw+ep " + program + ", and restart the appliance"
}

// ListenUDP opens a UDP socket on an address.
func ListenUDP(ctx context.Context, address netip.AddrPort) (*net.UDPConn, error) {
	conn, err := new(net.ListenConfig).ListenPacket(ctx, "udp", address.String())
	if err != nil {
		return nil, explain(UDP, address, err)
	}
	return conn.(*net.UDPConn), nil
}

// ListenTCP opens a TCP socket on an address.
func ListenTCP(ctx context.Context, address netip.AddrPort) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address.String())
	if err != nil {
		return nil, explain(TCP, address, err)
	}
	return listener, nil
}

// ListenBroadcast opens a UDP socket on a port that receives the packets of one interface, those to
// the broadcast address included, and may send broadcasts there.
func ListenBroadcast(ctx context.Context, on Link, port uint16) (*net.UDPConn, error) {
	address := netip.AddrPortFrom(netip.IPv4Unspecified(), port)
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = bindToLink(fd, on.Name) })
		return errors.Join(err, failed)
	}}
	conn, err := config.ListenPacket(ctx, "udp4", address.String())
	if err != nil {
		return nil, explain(UDP, address, err)
	}
	return conn.(*net.UDPConn), nil
}
