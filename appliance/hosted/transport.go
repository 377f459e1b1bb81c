package hosted

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"

	"landfall/appliance/authority"
	"landfall/appliance/fault"
	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/record"
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
// other one, it uses any free port, so that several appliances can run on one machine. No agent
// gets a name with such a port, because the next start has another one.
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
	s.taken = true
	options.Logger.Warn("The default port of the broker is taken, so another one is used until the next start. Free "+
		"it or set hosted.broker_listen in the configuration; until then no agent gets a certificate.", "used",
		other.Addr().String())
	return other, nil
}

// CheckPort returns an error if the broker has a port only until the next start, so that no agent
// may know it.
func (s *Service) CheckPort() error {
	if !s.taken {
		return nil
	}
	return fault.New(fault.Conflict, "The broker's port %s is taken. Free it or set hosted.broker_listen, and restart "+
		"the appliance.", brokerPort)
}

// BrokerProblem says that the agent of a management cluster can't find the broker by the name that
// it knows, or returns "".
func (s *Service) BrokerProblem(m *record.Management) string {
	if s.Broker == nil || m.Broker == "" || s.connected(m.Consumer) {
		return ""
	}
	_, known, err := net.SplitHostPort(m.Broker)
	_, port, listenErr := net.SplitHostPort(s.Broker.Address().String())
	if err != nil || listenErr != nil || known == port {
		return ""
	}
	advice := "Set hosted.broker_listen to an address with the port " + known
	if s.taken && known == brokerPort {
		advice = "Free the port " + known + ", which another program uses, or set hosted.broker_listen"
	}
	return "Its agent knows the broker as " + m.Broker + ", but the broker has the port " + port + ". " + advice +
		", and restart the appliance."
}

// logBrokerProblems logs which agents can't find the broker.
func (s *Service) logBrokerProblems(log *slog.Logger) error {
	all, err := s.Provider.Managements()
	for _, m := range all {
		if problem := s.BrokerProblem(m); problem != "" {
			log.Warn("A management cluster can't connect.", "consumer", m.Consumer, "reason", problem)
		}
	}
	return err
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
