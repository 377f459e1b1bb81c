// Package broker is the MQTT 5 broker to which the work agents of management clusters connect.
//
// The MQTT server is github.com/mochi-mqtt/server/v2. This package owns the listener, so that a
// connection reaches the server only after the TLS handshake with a client certificate of a
// consumer. It uses neither the server's loop of timers nor its storage: there are no retained
// messages, no sessions that outlive a connection, no wills, and no topics except two of each
// consumer. Without a connection, the broker needs no CPU time.
//
//	sources/maestro/consumers/<consumer>/sourceevents   the agent subscribes
//	sources/maestro/consumers/<consumer>/agentevents    the agent publishes
//
// A message of an agent is acknowledged after the handler has stored it. A failed handler is a
// negative acknowledgement, and the agent sends the message again. Messages to an agent are paced:
// at most Window of them wait for their acknowledgement.
//
// Design: docs/design.md#hosted-control-planes.
package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	mqtt "github.com/mochi-mqtt/server/v2"

	"landfall/appliance/hosted/cloudevent"
)

// Window is the largest number of messages to an agent that wait for their acknowledgement. The
// MQTT server drops messages beyond 8,192.
const Window = 256

const (
	// windowBytes limits the payloads that wait for their acknowledgement. An agent that handles a
	// message may publish, and not read until that is acknowledged; the acknowledgement must fit in
	// the buffers of the connection behind the messages.
	windowBytes = 512 << 10
	// maxPacket is the largest packet of an agent in bytes. A status may contain whole objects.
	maxPacket = 4 << 20
	// maxHandshakes limits the connections whose client is not known yet.
	maxHandshakes = 64
	// maxRefusals limits the refused connections that are kept. Anybody can claim any name.
	maxRefusals = 64
	// handshakeTimeout limits the time until the client is known.
	handshakeTimeout = 20 * time.Second
	// maxKeepalive is the longest time between two packets of an agent that it may choose, in
	// seconds. After one and a half of it, the connection ends.
	maxKeepalive = 300
	// stormInterval is the time in which stormCount replaced connections are reported: two agents
	// with the same certificate replace each other's connections.
	stormInterval = 10 * time.Minute
	stormCount    = 3
)

// SourceID is the name of this source in topics and events. It is that of Maestro, so that agents
// need no other configuration.
const SourceID = "maestro"

// Topics returns the topics of a consumer: the one that its agent subscribes to, and the one on
// which it publishes.
func Topics(consumer string) (source, agent string) {
	base := "sources/" + SourceID + "/consumers/" + consumer + "/"
	return base + "sourceevents", base + "agentevents"
}

// Handler handles the messages of agents.
type Handler interface {
	// Connected is called when an agent has subscribed to its topic.
	Connected(s *Session)
	// Received is called with messages in their order, by one goroutine for each session. For each
	// message it returns nil if the message is stored and may be acknowledged. After an error, the
	// agent sends the message again.
	Received(ctx context.Context, s *Session, messages []cloudevent.Message) []error
	// Disconnected is called at the end of a session for which Connected was called.
	Disconnected(s *Session)
}

// Options configures a [Broker].
type Options struct {
	Listener    net.Listener
	TLS         *tls.Config // with the server's certificate
	Credentials *Credentials
	Handler     Handler
	Clock       clockwork.Clock
	Logger      *slog.Logger
}

// Broker is the MQTT broker.
type Broker struct {
	options Options
	server  *mqtt.Server
	inline  *mqtt.Client // the sender of messages to agents
	opening chan struct{}

	mu       sync.Mutex
	sessions map[string]*Session // by consumer
	replaced map[string][]time.Time
	refused  map[string]Refusal // by consumer
}

// Connection describes the connection of a consumer.
type Connection struct {
	Since  time.Time `json:"since"` // UTC
	Remote string    `json:"remote"`
	// Subscribed reports whether the agent receives messages.
	Subscribed bool `json:"subscribed"`
	// Waiting is the number of messages that wait for their acknowledgement.
	Waiting int `json:"waiting"`
	// Replaced is the number of connections within the last minutes that another connection of the
	// same consumer ended. More than a few mean that two agents use the same certificate.
	Replaced int `json:"replaced,omitempty"`
}

// Refusal is the last refused connection of a consumer.
type Refusal struct {
	At     time.Time `json:"at"` // UTC
	Remote string    `json:"remote"`
	Reason string    `json:"reason"`
}

// New returns a broker.
func New(options Options) (*Broker, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	capabilities := mqtt.NewDefaultServerCapabilities()
	capabilities.MinimumProtocolVersion = 5
	capabilities.MaximumPacketSize = maxPacket
	capabilities.MaximumClientWritesPending = 2 * Window
	capabilities.MaximumSessionExpiryInterval = 0
	capabilities.MaximumQos = 1
	capabilities.RetainAvailable = 0
	capabilities.SharedSubAvailable = 0
	capabilities.WildcardSubAvailable = 0
	capabilities.TopicAliasMaximum = 0
	capabilities.Compatibilities.NoInheritedPropertiesOnAck = true
	b := &Broker{
		options: options, opening: make(chan struct{}, maxHandshakes),
		sessions: map[string]*Session{}, replaced: map[string][]time.Time{}, refused: map[string]Refusal{},
		// The server's own log contains whole messages.
		server: mqtt.New(&mqtt.Options{Capabilities: capabilities, Logger: slog.New(slog.DiscardHandler),
			ClientNetReadBufferSize: 16 << 10, ClientNetWriteBufferSize: 16 << 10}),
	}
	b.inline = b.server.NewClient(nil, "local", "landfall", true)
	if err := b.server.AddHook(&hook{broker: b}, nil); err != nil {
		return nil, fmt.Errorf("prepare the broker: %w", err)
	}
	return b, nil
}

// Run serves agents until the context ends, and then ends their connections.
func (b *Broker) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() {
		<-ctx.Done()
		_ = b.options.Listener.Close() // ends Accept
		b.disconnectAll()
	})
	b.options.Logger.Info("The broker for management clusters listens.", "address", b.options.Listener.Addr().String())
	for {
		conn, err := b.options.Listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case err != nil && temporary(err):
			b.options.Logger.Warn("A connection to the broker could not be accepted.", "error", err)
			select {
			case <-ctx.Done():
			case <-b.options.Clock.After(time.Second):
			}
			continue
		case err != nil:
			return fmt.Errorf("accept connections of management clusters: %w", err)
		}
		select {
		case b.opening <- struct{}{}:
			running.Go(func() { b.serve(ctx, conn) })
		default:
			_ = conn.Close() // too many unknown clients
		}
	}
}

// temporary reports whether Accept may succeed later, for example with more file descriptors.
func temporary(err error) bool { return !errors.Is(err, net.ErrClosed) }

// serve serves one connection until it ends.
func (b *Broker) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(handshakeTimeout)) // the MQTT server sets another one
	remote := conn.RemoteAddr().String()
	secured, consumer, err := b.identify(ctx, conn)
	<-b.opening
	if err != nil {
		b.refuse(consumer, remote, err)
		return
	}
	session := newSession(b, consumer, secured)
	if !b.open(ctx, session) {
		session.End()
		return
	}
	defer b.close(session)
	// Disconnect did not find the session if the certificate was revoked since the handshake.
	if _, err := b.options.Credentials.Identify(secured.ConnectionState().PeerCertificates[0]); err != nil {
		b.refuse(consumer, remote, err)
		return
	}
	session.handling.Go(session.handle)
	b.options.Logger.Info("A management cluster has connected.", "consumer", consumer, "remote", remote)
	err = b.server.EstablishConnection("broker", session.conn)
	b.options.Logger.Info("A management cluster has disconnected.", "consumer", consumer, "remote", remote,
		"reason", errorText(err))
}

func errorText(err error) string {
	if err == nil {
		return "the agent ended the connection"
	}
	return err.Error()
}

// identify makes the TLS handshake and finds the consumer of the client's certificate.
func (b *Broker) identify(ctx context.Context, conn net.Conn) (secured *tls.Conn, consumer string, err error) {
	config := b.options.TLS.Clone()
	config.MinVersion, config.NextProtos = max(config.MinVersion, tls.VersionTLS12), nil
	// The certificate is verified below, so that the reason of a refusal can be shown.
	config.ClientAuth = tls.RequireAnyClientCert
	config.ClientCAs = b.options.Credentials.authority.Roots()
	config.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error {
		certificate, err := x509.ParseCertificate(raw[0])
		if err != nil {
			return err
		}
		consumer, err = b.options.Credentials.Identify(certificate)
		return err
	}
	config.SessionTicketsDisabled = true // a resumed session would skip the verification
	secured = tls.Server(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, consumer, fmt.Errorf("TLS handshake: %w", err)
	}
	if err := b.options.Credentials.noteUse(ctx, secured.ConnectionState().PeerCertificates[0]); err != nil {
		b.options.Logger.Warn("The use of a certificate could not be recorded.", "consumer", consumer, "error", err)
	}
	return secured, consumer, nil
}

func (b *Broker) refuse(consumer, remote string, err error) {
	b.options.Logger.Warn("A connection of a management cluster was refused.", "consumer", consumer, "remote", remote,
		"error", err)
	if consumer == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused[consumer] = Refusal{b.options.Clock.Now().UTC(), remote, err.Error()}
	if len(b.refused) > maxRefusals {
		oldest := consumer
		for other, refusal := range b.refused {
			if refusal.At.Before(b.refused[oldest].At) {
				oldest = other
			}
		}
		delete(b.refused, oldest)
	}
}

// open makes a session the one of its consumer. It ends the previous session and waits for its end.
// It returns false if the broker is stopping: disconnectAll may not know the session.
func (b *Broker) open(ctx context.Context, s *Session) bool {
	for {
		b.mu.Lock()
		if ctx.Err() != nil {
			b.mu.Unlock()
			return false
		}
		before := b.sessions[s.Consumer]
		if before == nil {
			b.sessions[s.Consumer] = s
			delete(b.refused, s.Consumer)
			b.mu.Unlock()
			return true
		}
		b.mu.Unlock()
		b.noteReplaced(s)
		before.End()
		<-before.closed
	}
}

// noteReplaced counts the replaced connections of a consumer.
func (b *Broker) noteReplaced(s *Session) {
	now := b.options.Clock.Now()
	b.mu.Lock()
	recent := append(b.recentlyReplaced(s.Consumer, now), now)
	b.replaced[s.Consumer] = recent
	b.mu.Unlock()
	if len(recent) == stormCount {
		b.options.Logger.Error("Two agents seem to use the certificate of one consumer: their connections replace "+
			"each other. Stop one of them.", "consumer", s.Consumer, "remote", s.Remote)
	}
}

// recentlyReplaced returns the times at which connections of a consumer were replaced. The caller
// holds the lock.
func (b *Broker) recentlyReplaced(consumer string, now time.Time) []time.Time {
	recent := b.replaced[consumer]
	for len(recent) > 0 && now.Sub(recent[0]) > stormInterval {
		recent = recent[1:]
	}
	if len(recent) > 2*stormCount {
		recent = recent[len(recent)-2*stormCount:]
	}
	return recent
}

// close ends a session.
func (b *Broker) close(s *Session) {
	s.End()
	s.handling.Wait()
	if s.subscribed.Load() {
		b.options.Handler.Disconnected(s)
	}
	b.mu.Lock()
	if b.sessions[s.Consumer] == s {
		delete(b.sessions, s.Consumer)
	}
	b.mu.Unlock()
	close(s.closed)
}

func (b *Broker) disconnectAll() {
	b.mu.Lock()
	open := maps.Clone(b.sessions)
	b.mu.Unlock()
	for _, s := range open {
		s.End()
	}
}

// Disconnect ends the connection of a consumer, for example after its certificate was revoked.
func (b *Broker) Disconnect(consumer string) {
	b.mu.Lock()
	s := b.sessions[consumer]
	b.mu.Unlock()
	if s != nil {
		s.End()
	}
}

// Connections returns the connected consumers by name.
func (b *Broker) Connections() map[string]Connection {
	now := b.options.Clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]Connection, len(b.sessions))
	for consumer, s := range b.sessions {
		all[consumer] = Connection{Since: s.Since, Remote: s.Remote, Subscribed: s.subscribed.Load(),
			Waiting: s.waiting(), Replaced: len(b.recentlyReplaced(consumer, now))}
	}
	return all
}

// Connected reports whether a consumer's agent receives messages.
func (b *Broker) Connected(consumer string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[consumer]
	return s != nil && s.subscribed.Load()
}

// Refusals returns the last refused connection of each consumer that is not connected.
func (b *Broker) Refusals() map[string]Refusal {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.refused)
}

// Close closes the listener. Run does the same at its end.
func (b *Broker) Close() error {
	if err := b.options.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the broker: %w", err)
	}
	return nil
}

// Address returns the address of the listener.
func (b *Broker) Address() net.Addr { return b.options.Listener.Addr() }
