package broker

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"landfall/appliance/hosted/cloudevent"
)

// ErrEnded is returned by Send when the session has ended.
var ErrEnded = errors.New("the management cluster has disconnected")

// Session is one connection of a consumer's agent.
type Session struct {
	Consumer string
	Remote   string
	Since    time.Time // UTC

	broker   *Broker
	topic    string
	conn     *sessionConn
	ctx      context.Context // ends with the session
	cancel   context.CancelFunc
	closed   chan struct{} // closed after everything of the session has ended
	handling sync.WaitGroup
	inbox    *inbox

	subscribed atomic.Bool
	sending    sync.Mutex // one message at a time, so that the slots belong to it

	mu     sync.Mutex
	window int
	sizes  map[uint16]int // of the messages that wait for their acknowledgement, by packet ID
	bytes  int            // the sum of sizes
	freed  chan struct{}  // has capacity 1: a slot became free
}

// sessionConn is the connection of a session, by which the MQTT server's hooks find the session.
type sessionConn struct {
	net.Conn
	session *Session
}

func newSession(b *Broker, consumer string, conn net.Conn) *Session {
	s := &Session{Consumer: consumer, Remote: conn.RemoteAddr().String(), Since: b.options.Clock.Now().UTC(), broker: b,
		window: Window, sizes: map[uint16]int{}, closed: make(chan struct{}), inbox: newInbox(),
		freed: make(chan struct{}, 1)}
	s.topic, _ = Topics(consumer)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.conn = &sessionConn{conn, s}
	return s
}

// sessionOf returns the session of a client of the MQTT server, or nil for the local sender.
func sessionOf(client *mqtt.Client) *Session {
	if conn, ok := client.Net.Conn.(*sessionConn); ok {
		return conn.session
	}
	return nil
}

// Context ends with the session.
func (s *Session) Context() context.Context { return s.ctx }

// End ends the connection. The agent connects again and resyncs.
func (s *Session) End() {
	s.cancel()
	_ = s.conn.Close() // it was closed before, or its client is gone
}

// waiting returns the number of messages that wait for their acknowledgement.
func (s *Session) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sizes)
}

// full reports whether a message must wait.
func (s *Session) full(size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sizes) >= s.window || len(s.sizes) > 0 && s.bytes+size > windowBytes
}

// Send sends a message to the agent. It waits while Window messages, or windowBytes, wait for their
// acknowledgement. It returns ErrEnded if the session has ended; whether the agent received the
// message is then unknown, and the agent's next request to resync tells.
func (s *Session) Send(ctx context.Context, m cloudevent.Message) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	for s.full(len(m.Payload)) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return ErrEnded
		case <-s.freed:
		}
	}
	if s.ctx.Err() != nil {
		return ErrEnded
	}
	properties := packets.Properties{ContentType: m.ContentType}
	for _, property := range m.Properties {
		properties.User = append(properties.User, packets.UserProperty{Key: property.Key, Val: property.Value})
	}
	if err := s.broker.server.InjectPacket(s.broker.inline, packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1},
		PacketID:    1, // the server assigns another one for the agent
		TopicName:   s.topic, Payload: m.Payload, Properties: properties,
	}); err != nil {
		return errors.Join(ErrEnded, err)
	}
	return nil
}

// sent notes a message that waits for its acknowledgement.
func (s *Session) sent(id uint16, size int) {
	s.mu.Lock()
	s.sizes[id] = size
	s.bytes += size
	s.mu.Unlock()
}

// acknowledged frees the slot of a message.
func (s *Session) acknowledged(id uint16) {
	s.mu.Lock()
	s.bytes -= s.sizes[id]
	delete(s.sizes, id)
	s.mu.Unlock()
	signal(s.freed)
}
