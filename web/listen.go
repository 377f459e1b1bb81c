package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Listen opens the TCP address ("host:port") on which the appliance serves. Its error is one
// sentence that names the address and the remedy. It distinguishes a port in use, a port that needs
// more rights, and an address of another machine.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return listener, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil,
			fmt.Errorf("another program already listens on %s; stop that program, or choose another address with "+
				"--listen",
				address)
	case errors.Is(err, syscall.EACCES):
		return nil,
			fmt.Errorf("this user does not have the rights to listen on %s; choose a port above 1023 with "+
				"--listen", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil,
			fmt.Errorf("%s is not an address of this machine; choose an address of this machine with --listen, or "+
				"0.0.0.0 for all",
				address)
	}
	return nil, fmt.Errorf("cannot listen on %s: %w; choose an address of this machine and a free port with --listen",
		address, err)
}
