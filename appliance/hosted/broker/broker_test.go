package broker_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/appliance/simulate/workagent"
	"landfall/store"
)

func TestBroker_messagesInBothDirections(t *testing.T) {
	s := newSite(t)
	config, issued := s.issue("mc1")
	agent, session := s.start("mc1", config)
	require.Equal(t, "mc1", session.Consumer)
	hello := s.receive()
	require.Equal(t, cloudevent.ResyncRequest, hello.Action)
	require.NoError(t, session.Send(t.Context(), spec("mc1", "b1", 1)))
	status := s.receive()
	require.Equal(t, cloudevent.Status, status.SubResource)
	require.Equal(t, "b1", status.ResourceID)
	require.Equal(t, 1, agent.Known())
	connection := s.Connections()["mc1"]
	require.True(t, connection.Subscribed)
	require.NotEmpty(t, connection.Remote)
	require.NoError(t, s.db.View(func(tx *store.Tx) error {
		all, err := broker.ListCredentials(tx, "mc1")
		require.Len(t, all, 1)
		require.Equal(t, issued.Serial, all[0].Serial)
		require.False(t, all[0].Used.IsZero())
		return err
	}))
}

func TestBroker_failedCommitIsRepeated(t *testing.T) {
	s := newSite(t)
	config, _ := s.issue("mc1")
	_, session := s.start("mc1", config)
	s.receive()
	s.handler.setFail(errors.New("the disk is full"))
	require.NoError(t, session.Send(t.Context(), spec("mc1", "b1", 1)))
	first := s.receive()
	second := s.receive()
	require.Equal(t, first, second, "the agent sends it again")
	s.handler.setFail(nil)
	require.Equal(t, first, s.receive())
	require.NoError(t, session.Send(t.Context(), spec("mc1", "b2", 1)))
	require.Equal(t, "b2", s.receive().ResourceID, "the session continues")
}

func TestBroker_plainTextIsRefused(t *testing.T) {
	s := newSite(t)
	conn, err := net.Dial("tcp", s.Address().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("\x10\x0f\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x02a1"))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	answer := make([]byte, 64)
	n, _ := conn.Read(answer)
	require.NotEqual(t, byte(0x20), answer[0], "no CONNACK; got %d bytes", n)
	config, _ := s.issue("mc1")
	config.Certificates = nil
	agent := workagent.NewAgent("mc1", s.cluster("mc1"), s.clock, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.Error(t, agent.Session(ctx, workagent.Options{Address: s.Address().String(), TLS: config}),
		"no client certificate")
	old := &tls.Config{RootCAs: s.roots, MaxVersion: tls.VersionTLS11}
	_, err = tls.Dial("tcp", s.Address().String(), old)
	require.Error(t, err)
	require.Empty(t, s.Connections())

	config, _ = s.issue("mc1")
	_, session := s.start("mc1", config)
	s.receive()
	s.hold(session, "b1")
	s.requireDeleted()
}

func TestBroker_topicsOfOthersAreRefused(t *testing.T) {
	s := newSite(t)
	config, _ := s.issue("mc1")
	other, _ := s.issue("mc2")
	_, session := s.start("mc2", other)
	s.receive()
	// An agent that is configured as mc2, with the certificate of mc1.
	wrong := workagent.NewAgent("mc2", s.cluster("mc2"), s.clock, 0)
	err := wrong.Session(t.Context(), workagent.Options{Address: s.Address().String(), TLS: config})
	require.ErrorContains(t, err, "refused the subscription (codes [135])")
	require.NoError(t, session.Context().Err(), "the session of mc2 with the same client ID continues")
	require.Contains(t, s.Connections(), "mc2")
	require.NoError(t, session.Send(t.Context(), spec("mc2", "b1", 1)))
	require.Equal(t, "b1", s.receive().ResourceID)
	s.requireDeleted()
}

func TestBroker_expiredRotatedRemovedCertificates(t *testing.T) {
	s := newSite(t)
	first, issued := s.issue("mc1")
	_, session := s.start("mc1", first)
	s.receive()
	s.hold(session, "b1")
	second, _ := s.issue("mc1")
	require.NoError(t, s.credentials.Revoke(t.Context(), "mc1", issued.Serial, false))
	s.Disconnect("mc1")
	<-session.Context().Done()
	require.Eventually(t, func() bool {
		return strings.Contains(s.Refusals()["mc1"].Reason, "was revoked")
	}, time.Minute, 5*time.Millisecond, "the agent tries again with the revoked certificate")
	_, session = s.start("mc1", second)
	s.receive()
	require.Empty(t, s.Refusals())
	require.NoError(t, s.credentials.Revoke(t.Context(), "mc1", "", true))
	require.Error(t, s.credentials.Revoke(t.Context(), "mc1", "1234", false), "no such certificate")
	s.Disconnect("mc1")
	<-session.Context().Done()

	config, _ := s.issue("mc2")
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error { return bundle.DeleteConsumer(tx, "mc2") }))
	agent := workagent.NewAgent("mc2", s.cluster("mc2"), s.clock, 0)
	require.Error(t, agent.Session(t.Context(), workagent.Options{Address: s.Address().String(), TLS: config}))
	require.Eventually(t, func() bool { return strings.Contains(s.Refusals()["mc2"].Reason, "was removed") },
		time.Minute, 5*time.Millisecond, "the broker may note the refusal after the agent's error")
	s.requireDeleted()
}

// A link that fails without an end of the connection, such as a radio link.
func TestBroker_keepaliveLossEndsTheSession(t *testing.T) {
	s := newSite(t)
	config, _ := s.issue("mc1")
	conn, err := tls.Dial("tcp", s.Address().String(), config)
	require.NoError(t, err)
	defer conn.Close()
	source, _ := broker.Topics("mc1")
	var text bytes.Buffer
	hello := packets.Packet{ProtocolVersion: 5, FixedHeader: packets.FixedHeader{Type: packets.Connect},
		Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), Clean: true, Keepalive: 1, ClientIdentifier: "a"}}
	require.NoError(t, hello.ConnectEncode(&text))
	subscribe := packets.Packet{ProtocolVersion: 5, PacketID: 1,
		FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1},
		Filters:     packets.Subscriptions{{Filter: source, Qos: 1}}}
	require.NoError(t, subscribe.SubscribeEncode(&text))
	_, err = text.WriteTo(conn)
	require.NoError(t, err)
	session := s.session()
	<-session.Context().Done() // after one and a half times the keepalive
	require.Eventually(t, func() bool { return len(s.Connections()) == 0 }, time.Minute, time.Millisecond)
	require.ErrorIs(t, session.Send(t.Context(), spec("mc1", "b1", 1)), broker.ErrEnded)

	_, session = s.start("mc1", config)
	s.receive()
	s.hold(session, "b1")
	s.requireDeleted()
}

func TestBroker_takeoverStormIsCounted(t *testing.T) {
	s := newSite(t)
	config, _ := s.issue("mc1")
	_, session := s.start("mc1", config)
	s.receive()
	s.hold(session, "b1")
	agent, _ := s.start("mc1", config)
	for range 4 {
		s.session()
	}
	connection := s.Connections()
	require.LessOrEqual(t, len(connection), 1, "one session of a consumer at a time")
	require.Eventually(t, func() bool { return s.Connections()["mc1"].Replaced >= 3 }, time.Minute, time.Millisecond)
	require.Zero(t, agent.Known())
	s.requireDeleted()
}

func TestBroker_limitOfAgentIsObeyed(t *testing.T) {
	s := newSite(t)
	config, _ := s.issue("mc1")
	agent := workagent.NewAgent("mc1", s.cluster("mc1"), s.clock, 0)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- agent.Run(ctx, workagent.Options{Address: s.Address().String(), TLS: config, ReceiveMaximum: 3})
	}()
	session := s.session()
	for i := range 1000 {
		require.NoError(t, session.Send(t.Context(), spec("mc1", fmt.Sprintf("b%d", i), 1)))
		require.LessOrEqual(t, s.Connections()["mc1"].Waiting, 3)
	}
	require.Eventually(t, func() bool { return agent.Known() == 1000 }, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}

// MQTT allows messages before the acknowledgement of the subscription.
func TestBroker_messagesDuringSubscription(t *testing.T) {
	s := newSite(t)
	for i := range broker.Window {
		s.handler.first = append(s.handler.first, spec("mc1", fmt.Sprintf("b%d", i), 1))
	}
	config, _ := s.issue("mc1")
	agent, session := s.start("mc1", config)
	require.Eventually(t, func() bool { return agent.Known() == broker.Window }, time.Minute, time.Millisecond)
	require.NoError(t, session.Context().Err(), "the agent has kept its connection")
}

// The certificate is revoked after the handshake, before the broker knows the session.
func TestBroker_revocationDuringConnect(t *testing.T) {
	s := newSite(t)
	config, issued := s.issue("mc1")
	var once sync.Once
	revoke := func() {
		once.Do(func() {
			assert.NoError(t, s.credentials.Revoke(t.Context(), "mc1", issued.Serial, false))
			s.Disconnect("mc1")
		})
	}
	s.asked.Store(&revoke)
	agent := workagent.NewAgent("mc1", s.cluster("mc1"), s.clock, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.Error(t, agent.Session(ctx, workagent.Options{Address: s.Address().String(), TLS: config,
		Poll: time.Hour, Retry: time.Hour}))
	require.Contains(t, s.Refusals()["mc1"].Reason, "revoked")
}

// The MQTT server drops messages beyond 8,192 without an error.
func TestBroker_tenThousandMessagesAreDelivered(t *testing.T) {
	const count = 10_000
	s := newSite(t)
	config, _ := s.issue("mc1")
	agent, session := s.start("mc1", config)
	s.receive()
	go func() {
		for range count {
			<-s.handler.received
		}
	}()
	for i := range count {
		require.NoError(t, session.Send(t.Context(), spec("mc1", fmt.Sprintf("b%d", i), 1)))
	}
	require.Eventually(t, func() bool { return agent.Known() == count }, time.Minute, time.Millisecond)
	require.LessOrEqual(t, s.Connections()["mc1"].Waiting, broker.Window)
}
