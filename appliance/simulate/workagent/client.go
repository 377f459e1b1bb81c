package workagent

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/cloudevent"
)

// Options configures [Agent.Run].
type Options struct {
	// Address is the broker's address.
	Address string
	TLS     *tls.Config // with the client's certificate and the broker's authority
	// Poll is the time between two checks of statuses; 0: 10 s.
	Poll time.Duration
	// Retry is the time until the agent connects again; 0: 5 s.
	Retry time.Duration
	// Grace is the time after which the objects of unknown ManifestWorks are deleted; 0: never.
	Grace time.Duration
	// ReceiveMaximum is the number of messages that the agent takes before it acknowledges them; 0:
	// no limit.
	ReceiveMaximum uint16
	// ClientID is the MQTT client ID; "": that of the real agent.
	ClientID string
	// Ended is called with the reason when a connection could not be made or has ended; nil: not
	// called.
	Ended func(reason error)
}

const (
	keepalive = 60      // seconds
	never     = 1 << 62 // a duration
)

// Run connects to the broker, again and again, until the context ends.
func (a *Agent) Run(ctx context.Context, options Options) error {
	if options.Poll == 0 {
		options.Poll = 10 * time.Second
	}
	if options.Retry == 0 {
		options.Retry = 5 * time.Second
	}
	if options.Grace == 0 {
		options.Grace = never
	}
	if options.ClientID == "" {
		options.ClientID = a.consumer + "-work-agent-client"
	}
	for {
		if err := a.Session(ctx, options); err != nil && ctx.Err() == nil && options.Ended != nil {
			options.Ended(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.clock.After(options.Retry):
		}
	}
}

// session is a connection to the broker.
type session struct {
	agent *Agent
	conn  net.Conn
	read  *bufio.Reader

	mu    sync.Mutex
	next  uint16
	queue [][]byte // encoded packets, which the writer sends
	wake  chan struct{}
	// unsent are the published messages that were not acknowledged yet. After a negative
	// acknowledgement they are sent again.
	unsent map[uint16]cloudevent.Message
}

// Session serves one connection until it ends. Its error says why.
func (a *Agent) Session(ctx context.Context, options Options) error {
	dialer := &tls.Dialer{Config: options.TLS}
	conn, err := dialer.DialContext(ctx, "tcp", options.Address)
	if err != nil {
		return fmt.Errorf("connect to the broker: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		<-ctx.Done()
		_ = conn.Close()
	})
	s := &session{agent: a, conn: conn, read: bufio.NewReaderSize(conn, 64<<10), wake: make(chan struct{}, 1),
		unsent: map[uint16]cloudevent.Message{}}
	running.Go(func() {
		defer cancel()
		s.send(ctx)
	})
	source, _ := broker.Topics(a.consumer)
	if err := s.connect(options, source); err != nil {
		return err
	}
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-a.clock.After(options.Poll):
			}
			if s.publish(a.Poll(options.Grace)...) != nil || s.write(packets.Packet{
				FixedHeader: packets.FixedHeader{Type: packets.Pingreq}}) != nil {
				return
			}
		}
	})
	if err := s.publish(a.Hello()); err != nil {
		return err
	}
	for {
		packet, err := s.packet()
		if err != nil {
			return err
		}
		if err := s.process(packet); err != nil {
			return err
		}
	}
}

// connect starts the session and subscribes.
func (s *session) connect(options Options, topic string) error {
	if err := s.write(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect},
		Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), Clean: true, Keepalive: keepalive,
			ClientIdentifier: options.ClientID},
		Properties: packets.Properties{ReceiveMaximum: options.ReceiveMaximum}}); err != nil {
		return err
	}
	if ack, err := s.packet(); err != nil || ack.FixedHeader.Type != packets.Connack || ack.ReasonCode != 0 {
		return fmt.Errorf("the broker refused the connection (code %d): %w", ack.ReasonCode, err)
	}
	if err := s.write(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, PacketID: 1,
		Filters: packets.Subscriptions{{Filter: topic, Qos: 1}}}); err != nil {
		return err
	}
	s.next = 1
	for {
		ack, err := s.packet()
		if err == nil && ack.FixedHeader.Type == packets.Publish { // may come before the acknowledgement
			if err := s.process(ack); err != nil {
				return err
			}
			continue
		}
		if err != nil || ack.FixedHeader.Type != packets.Suback || !bytes.Equal(ack.ReasonCodes, []byte{1}) {
			return fmt.Errorf("the broker refused the subscription (codes %v): %w", ack.ReasonCodes, err)
		}
		return nil
	}
}

// process handles a packet of the broker.
func (s *session) process(packet packets.Packet) error {
	switch packet.FixedHeader.Type {
	case packets.Publish:
		m := cloudevent.Message{ContentType: packet.Properties.ContentType, Payload: packet.Payload}
		for _, property := range packet.Properties.User {
			m.Properties = append(m.Properties, cloudevent.Property{Key: property.Key, Value: property.Val})
		}
		if err := s.write(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback},
			PacketID: packet.PacketID}); err != nil {
			return err
		}
		return s.publish(s.agent.Handle(m)...)
	case packets.Puback:
		s.mu.Lock()
		m, waits := s.unsent[packet.PacketID]
		delete(s.unsent, packet.PacketID)
		s.mu.Unlock()
		if waits && packet.ReasonCode >= packets.ErrUnspecifiedError.Code {
			<-s.agent.clock.After(10 * time.Millisecond)
			return s.publish(m)
		}
	case packets.Disconnect:
		return fmt.Errorf("the broker ended the connection (code %d)", packet.ReasonCode)
	}
	return nil
}

// publish sends messages to the source.
func (s *session) publish(messages ...cloudevent.Message) error {
	_, topic := broker.Topics(s.agent.consumer)
	for _, m := range messages {
		s.mu.Lock()
		s.next = max(s.next+1, 2) // 0 is not an ID
		id := s.next
		s.unsent[id] = m
		s.mu.Unlock()
		properties := packets.Properties{ContentType: m.ContentType}
		for _, property := range m.Properties {
			properties.User = append(properties.User, packets.UserProperty{Key: property.Key, Val: property.Value})
		}
		if err := s.write(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1}, PacketID: id,
			TopicName: topic, Payload: m.Payload, Properties: properties}); err != nil {
			return err
		}
	}
	return nil
}

// write queues a packet for the writer. Reading must not wait for writing: the broker stops to read
// while it can't write.
func (s *session) write(packet packets.Packet) error {
	packet.ProtocolVersion = 5
	var text bytes.Buffer
	var err error
	switch packet.FixedHeader.Type {
	case packets.Connect:
		err = packet.ConnectEncode(&text)
	case packets.Subscribe:
		err = packet.SubscribeEncode(&text)
	case packets.Publish:
		err = packet.PublishEncode(&text)
	case packets.Puback:
		err = packet.PubackEncode(&text)
	case packets.Pingreq:
		err = packet.PingreqEncode(&text)
	}
	if err != nil {
		return fmt.Errorf("encode an MQTT packet: %w", err)
	}
	s.mu.Lock()
	s.queue = append(s.queue, text.Bytes())
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// send writes queued packets until the session ends.
func (s *session) send(ctx context.Context) {
	for {
		s.mu.Lock()
		queue := s.queue
		s.queue = nil
		s.mu.Unlock()
		if _, err := (*net.Buffers)(&queue).WriteTo(s.conn); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
	}
}

// packet reads a packet.
func (s *session) packet() (packet packets.Packet, err error) {
	packet.ProtocolVersion = 5
	first, err := s.read.ReadByte()
	if err != nil {
		return packet, err
	}
	if err := packet.FixedHeader.Decode(first); err != nil {
		return packet, err
	}
	size, _, err := packets.DecodeLength(s.read)
	if err != nil {
		return packet, err
	}
	packet.FixedHeader.Remaining = size
	body := make([]byte, size)
	if _, err := io.ReadFull(s.read, body); err != nil {
		return packet, err
	}
	switch packet.FixedHeader.Type {
	case packets.Connack:
		err = packet.ConnackDecode(body)
	case packets.Suback:
		err = packet.SubackDecode(body)
	case packets.Publish:
		err = packet.PublishDecode(body)
	case packets.Puback:
		err = packet.PubackDecode(body)
	case packets.Disconnect:
		err = packet.DisconnectDecode(body)
	case packets.Pingresp:
	default:
		err = errors.New("an unexpected MQTT packet")
	}
	return packet, err
}
