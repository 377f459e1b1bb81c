package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Listeners are the listeners of a member. They stay open while its role changes: the kernel
// accepts connections meanwhile, and the next role serves them.
type Listeners struct{ open map[string]*net.TCPListener }

// Listen opens listeners for addresses. listen opens one of them.
func Listen(ctx context.Context, listen func(context.Context, string) (net.Listener, error),
	addresses ...string) (*Listeners, error) {
	l := &Listeners{open: make(map[string]*net.TCPListener)}
	for _, address := range addresses {
		listener, err := listen(ctx, address)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		tcp, ok := listener.(*net.TCPListener)
		if !ok {
			return nil, errors.Join(fmt.Errorf("%s is no TCP address", address), listener.Close(), l.Close())
		}
		l.open[address] = tcp
	}
	return l, nil
}

// Addr returns the address of the listener for an address, or nil if there is none.
func (l *Listeners) Addr(address string) net.Addr {
	if listener, ok := l.open[address]; ok {
		return listener.Addr()
	}
	return nil
}

// Take returns further listeners on the same sockets, for one role. Closing them does not close the
// sockets.
func (l *Listeners) Take(addresses ...string) (taken []net.Listener, err error) {
	for _, address := range addresses {
		listener, err := again(l.open[address])
		if err != nil {
			for _, one := range taken {
				err = errors.Join(err, one.Close())
			}
			return nil, fmt.Errorf("listen on %s again: %w", address, err)
		}
		taken = append(taken, listener)
	}
	return taken, nil
}

func again(listener *net.TCPListener) (net.Listener, error) {
	file, err := listener.File()
	if err != nil {
		return nil, err
	}
	other, err := net.FileListener(file)
	return other, errors.Join(err, file.Close())
}

// Close closes the sockets.
func (l *Listeners) Close() error {
	var errs []error
	for _, listener := range l.open {
		errs = append(errs, listener.Close())
	}
	return errors.Join(errs...)
}
