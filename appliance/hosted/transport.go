package hosted

import (
	"context"
	"net"
	"path/filepath"

	"landfall/appliance/authority"
	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// clientsPurpose is the purpose with which the site's key seals the authority of consumers.
const clientsPurpose sitekey.Purpose = "hosted consumers"

// brokerPort is the default port of the broker.
const brokerPort = "8883"

// Transport configures the connection to management clusters.
type Transport struct {
	Dir  string // the data directory
	Main string // the address of the appliance's listener
	// Address is the broker's address; "": the default port at the address of Main.
	Address string
	// Listen opens a listener.
	Listen func(ctx context.Context, address string) (net.Listener, error)
	// Certificates are those of the broker; nil: the appliance has no TLS, and no broker.
	Certificates *authority.Certificates
}

// openTransport opens the connection to management clusters.
func (s *Service) openTransport(ctx context.Context, options Options) error {
	transport := options.Transport
	var err error
	if s.Maestro, err = maestro.New(ctx, maestro.Options{DB: options.DB, Clock: options.Clock, Logger: options.Logger,
		Identity: maestro.Identity(filepath.Join(transport.Dir, store.FileName), transport.Dir)}); err != nil {
		return err
	}
	box, err := options.Key.Box(clientsPurpose, nil)
	if err != nil {
		return err
	}
	clients, err := authority.LoadOrCreateClients(transport.Dir, box)
	if err != nil {
		return err
	}
	s.Credentials = broker.NewCredentials(options.DB, clients, options.Clock)
	if transport.Certificates == nil {
		options.Logger.Warn("Management clusters can't connect, because the appliance has no TLS. Set tls.enabled: " +
			"true.")
		return nil
	}
	s.Roots = transport.Certificates.Roots()
	listener, err := s.listen(ctx, options)
	if err != nil {
		return err
	}
	s.Broker, err = broker.New(broker.Options{Listener: listener, TLS: transport.Certificates.Config(),
		Credentials: s.Credentials, Handler: s.Maestro, Clock: options.Clock, Logger: options.Logger})
	return err
}

// listen opens the broker's listener. If the default port is taken and the configuration names no
// other one, it uses any free port, so that several appliances can run on one machine.
func (s *Service) listen(ctx context.Context, options Options) (net.Listener, error) {
	transport := options.Transport
	if transport.Address != "" {
		return transport.Listen(ctx, transport.Address)
	}
	host, _, err := net.SplitHostPort(transport.Main)
	if err != nil {
		return nil, err
	}
	listener, err := transport.Listen(ctx, net.JoinHostPort(host, brokerPort))
	if err == nil {
		return listener, nil
	}
	other, otherErr := transport.Listen(ctx, net.JoinHostPort(host, "0"))
	if otherErr != nil {
		return nil, err
	}
	options.Logger.Warn("The default port of the broker is taken, so another one is used until the next start. Set "+
		"hosted.broker_listen in the configuration.", "used", other.Addr().String())
	return other, nil
}

// connected reports whether a consumer's agent receives messages.
func (s *Service) connected(consumer string) bool {
	return s.Broker != nil && s.Broker.Connected(consumer)
}

// clockWrong reports whether a consumer's clock was set back.
func (s *Service) clockWrong(consumer string) bool {
	_, wrong := s.Maestro.ClockFaults()[consumer]
	return wrong
}

// Disconnect ends the connection of a consumer, for example after its certificate was revoked.
func (s *Service) Disconnect(consumer string) {
	if s.Broker != nil {
		s.Broker.Disconnect(consumer)
	}
}
