package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/cloudevent"
)

// newSessionOf returns a session of mc1 that nobody serves.
func newSessionOf(t *testing.T, b *Broker) *Session {
	t.Helper()
	conn, other := net.Pipe()
	t.Cleanup(func() { require.NoError(t, errors.Join(conn.Close(), other.Close())) })
	return newSession(b, "mc1", conn)
}

func TestOpen_stoppedBrokerTakesNoSession(t *testing.T) {
	b, err := New(Options{Clock: clockwork.NewFakeClock()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, b.open(ctx, newSessionOf(t, b)), "nothing would end the session")
	require.Empty(t, b.Connections())
}

func TestInbox_propertiesCountToo(t *testing.T) {
	b, err := New(Options{Clock: clockwork.NewFakeClock()})
	require.NoError(t, err)
	s := newSessionOf(t, b)
	m := cloudevent.Message{Properties: []cloudevent.Property{{Key: "ce-metadata", Value: strings.Repeat("x", 60_000)}}}
	for range inboxBytes/60_000 + 1 {
		if s.inbox.bytes <= inboxBytes {
			s.receive(new(mqtt.Client), packets.Packet{}, m)
		}
	}
	held := len(s.inbox.messages)
	s.End()
	s.receive(new(mqtt.Client), packets.Packet{}, m)
	require.Len(t, s.inbox.messages, held, "the inbox is full")
}

func TestRefusals_unknownNamesReplaceTheOldest(t *testing.T) {
	clock := clockwork.NewFakeClock()
	b, err := New(Options{Clock: clock})
	require.NoError(t, err)
	for i := range 2 * maxRefusals {
		b.refuse(fmt.Sprintf("stranger%d", i), "192.0.2.1:1", errors.New("unknown"))
		clock.Advance(time.Second)
	}
	b.refuse("mc1", "192.0.2.2:1", errors.New("revoked"))
	require.Len(t, b.Refusals(), maxRefusals)
	require.Equal(t, "revoked", b.Refusals()["mc1"].Reason)
}
