package web

import (
	"errors"
	"fmt"
	"net"
	"slices"
)

// Adopt gives listeners that another process opened, such as systemd, to later calls of
// [Connections.Listen] with their addresses. It must be called before them. It returns the error of
// the function that returned the listeners.
func (l *Connections) Adopt(listeners []net.Listener, err error) error {
	l.adopted = listeners
	return err
}

// take returns the adopted listener for an address and removes it, or returns nil. A listener with
// the port of the address and another host is an error, since it may be open to other networks than
// the configuration permits.
func (l *Connections) take(address string) (net.Listener, error) {
	if len(l.adopted) == 0 {
		return nil, nil
	}
	wanted, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, nil // Listen reports it
	}
	for i, listener := range l.adopted {
		held, tcp := listener.Addr().(*net.TCPAddr)
		if !tcp || held.Port != wanted.Port {
			continue
		}
		everywhere := held.IP.IsUnspecified() && (wanted.IP == nil || wanted.IP.IsUnspecified())
		if !everywhere && !held.IP.Equal(wanted.IP) {
			return nil, fmt.Errorf("systemd listens on %s for the appliance, but the configuration has %s; make "+
				"ListenStream in landfall.socket and the configuration equal", held, address)
		}
		l.adopted = slices.Delete(l.adopted, i, i+1)
		return listener, nil
	}
	return nil, nil
}

// Unused closes the adopted listeners that nothing took, and returns an error that names them. On
// such a listener, clients would connect and never receive an answer.
func (l *Connections) Unused() error {
	var errs []error
	for _, listener := range l.adopted {
		errs = append(errs, fmt.Errorf("systemd listens on %s for the appliance, but no address in the configuration "+
			"has this port; change the configuration or ListenStream in landfall.socket", listener.Addr()),
			listener.Close())
	}
	l.adopted = nil
	return errors.Join(errs...)
}
