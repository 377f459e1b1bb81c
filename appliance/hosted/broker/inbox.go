package broker

import (
	"sync"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"landfall/appliance/hosted/cloudevent"
)

// inboxBytes is the size of received messages at which a session stops to read.
const inboxBytes = 2 * maxPacket

// inbox holds messages of an agent that are not stored yet. Messages that arrive while others are
// stored are stored together, with one sync of the disk.
type inbox struct {
	mu       sync.Mutex
	messages []received
	bytes    int           // the sum of the sizes of messages
	arrived  chan struct{} // has capacity 1
	taken    chan struct{} // has capacity 1
}

// received is a message of an agent with what its acknowledgement needs.
type received struct {
	client  *mqtt.Client
	id      uint16
	qos     byte
	message cloudevent.Message
}

func newInbox() *inbox {
	return &inbox{arrived: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

// signal sets a signal, unless it is set already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// receive puts a message into the inbox. It waits while the inbox is full.
func (s *Session) receive(client *mqtt.Client, packet packets.Packet, m cloudevent.Message) {
	in := s.inbox
	for {
		in.mu.Lock()
		if in.bytes <= inboxBytes {
			in.messages = append(in.messages, received{client, packet.PacketID, packet.FixedHeader.Qos, m})
			in.bytes += sizeOf(m)
			in.mu.Unlock()
			signal(in.arrived)
			return
		}
		in.mu.Unlock()
		select {
		case <-s.ctx.Done():
			return
		case <-in.taken:
		}
	}
}

// sizeOf returns the memory that a message needs, about. A packet may have a large payload, large
// properties, or neither.
func sizeOf(m cloudevent.Message) int {
	const overhead = 256
	size := overhead + len(m.Payload) + len(m.ContentType)
	for _, property := range m.Properties {
		size += overhead + len(property.Key) + len(property.Value)
	}
	return size
}

// handle passes the messages of the inbox to the handler, and acknowledges them, until the session
// ends.
func (s *Session) handle() {
	in := s.inbox
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-in.arrived:
		}
		in.mu.Lock()
		batch := in.messages
		in.messages, in.bytes = nil, 0
		in.mu.Unlock()
		signal(in.taken)
		messages := make([]cloudevent.Message, len(batch))
		for i, one := range batch {
			messages[i] = one.message
		}
		failed := s.broker.options.Handler.Received(s.ctx, s, messages)
		for i, one := range batch {
			s.acknowledge(one, failed[i])
		}
	}
}

// acknowledge tells the agent whether its message is stored.
func (s *Session) acknowledge(one received, failed error) {
	code := packets.CodeSuccess
	if failed != nil {
		code = packets.ErrImplementationSpecificError
		s.broker.options.Logger.Error("A message of a management cluster could not be stored. Its agent sends it "+
			"again.", "consumer", s.Consumer, "error", failed)
	}
	if one.qos == 0 {
		return
	}
	// The server ends the session if the connection is broken.
	_ = one.client.WritePacket(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: one.id,
		ReasonCode: code.Code})
}
