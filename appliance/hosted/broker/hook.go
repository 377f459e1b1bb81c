package broker

import (
	"strconv"
	"sync/atomic"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"landfall/appliance/hosted/cloudevent"
)

// hook makes the decisions of the MQTT server.
type hook struct {
	mqtt.HookBase
	broker  *Broker
	clients atomic.Uint64 // number of connections
}

// ID implements mqtt.Hook.
func (h *hook) ID() string { return "landfall" }

// Provides implements mqtt.Hook.
func (h *hook) Provides(event byte) bool {
	switch event {
	case mqtt.OnConnect, mqtt.OnConnectAuthenticate, mqtt.OnACLCheck, mqtt.OnSubscribe, mqtt.OnSubscribed,
		mqtt.OnPublish, mqtt.OnQosPublish, mqtt.OnPacketRead:
		return true
	}
	return false
}

// OnConnect implements mqtt.Hook. The client ID is replaced: otherwise a consumer could end the
// connection of another one by connecting with its client ID.
func (h *hook) OnConnect(client *mqtt.Client, _ packets.Packet) error {
	s := sessionOf(client)
	if s == nil {
		return packets.ErrNotAuthorized
	}
	client.ID = s.Consumer + "#" + strconv.FormatUint(h.clients.Add(1), 10)
	// A will is published without a check of its topic.
	client.Properties.Will = mqtt.Will{}
	if keepalive := client.State.Keepalive; keepalive == 0 || keepalive > maxKeepalive {
		client.State.Keepalive, client.State.ServerKeepalive = maxKeepalive, true
	}
	if limit := int(client.Properties.Props.ReceiveMaximum); limit > 0 {
		s.window = min(s.window, limit)
	}
	// The session obeys the client's limit. The server's own count would never be freed of messages
	// that the server forgets (see OnPacketRead).
	client.State.Inflight.ResetSendQuota(0)
	return nil
}

// OnConnectAuthenticate implements mqtt.Hook. The TLS handshake has verified the client.
func (h *hook) OnConnectAuthenticate(client *mqtt.Client, _ packets.Packet) bool {
	return sessionOf(client) != nil
}

// OnACLCheck implements mqtt.Hook. write reports whether the client publishes.
func (h *hook) OnACLCheck(client *mqtt.Client, topic string, write bool) bool {
	s := sessionOf(client)
	if s == nil {
		return false
	}
	source, agent := Topics(s.Consumer)
	allowed := topic == source && !write || topic == agent && write
	if !allowed {
		h.broker.options.Logger.Warn("A management cluster used a topic that is not its own.", "consumer", s.Consumer,
			"topic", topic, "publishes", write)
	}
	return allowed
}

// OnSubscribe implements mqtt.Hook. A subscription without acknowledgements is refused by making
// its filter invalid.
func (h *hook) OnSubscribe(_ *mqtt.Client, packet packets.Packet) packets.Packet {
	for i := range packet.Filters {
		if packet.Filters[i].Qos == 0 {
			packet.Filters[i].Filter = ""
		}
	}
	return packet
}

// OnSubscribed implements mqtt.Hook. The session starts with the first accepted subscription.
func (h *hook) OnSubscribed(client *mqtt.Client, _ packets.Packet, codes []byte) {
	s := sessionOf(client)
	if s == nil {
		return
	}
	for _, code := range codes {
		if code == packets.CodeGrantedQos1.Code && s.subscribed.CompareAndSwap(false, true) {
			h.broker.options.Handler.Connected(s)
			return
		}
	}
}

// OnPublish implements mqtt.Hook. It is called before the acknowledgement. The message goes to no
// subscriber: rejecting the packet ends its way through the server, without an acknowledgement. The
// session acknowledges it when it is stored.
func (h *hook) OnPublish(client *mqtt.Client, packet packets.Packet) (packets.Packet, error) {
	s := sessionOf(client)
	if s == nil {
		return packet, nil // a message to an agent
	}
	m := cloudevent.Message{ContentType: packet.Properties.ContentType, Payload: packet.Payload}
	for _, property := range packet.Properties.User {
		m.Properties = append(m.Properties, cloudevent.Property{Key: property.Key, Value: property.Val})
	}
	s.receive(client, packet, m)
	return packet, packets.ErrRejectPacket
}

// OnQosPublish implements mqtt.Hook. It is called for each message to an agent, and for the
// acknowledgements to an agent.
func (h *hook) OnQosPublish(client *mqtt.Client, packet packets.Packet, _ int64, _ int) {
	if s := sessionOf(client); s != nil && packet.FixedHeader.Type == packets.Publish {
		s.sent(packet.PacketID, len(packet.Payload))
	}
}

// OnPacketRead implements mqtt.Hook. The server's own hook for acknowledgements is not used: the
// server keeps the packet IDs of both directions in one table, and forgets a message to an agent
// when the agent publishes with the same ID.
func (h *hook) OnPacketRead(client *mqtt.Client, packet packets.Packet) (packets.Packet, error) {
	if s := sessionOf(client); s != nil && packet.FixedHeader.Type == packets.Puback {
		s.acknowledged(packet.PacketID)
	}
	return packet, nil
}
