package broker_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/simulate/workagent"
	"landfall/store"
)

// faults are faults of connections, with their numbers (see appliance/hosted/faults_test.go).
// deleted are the hosted clusters that a person deleted: no other one may be deleted.
var faults = []struct {
	name    string
	deleted []string
	run     func(t *testing.T, s *site)
}{
	{"14 two agents with one client id (takeover storm): shown, no flapping state", nil, func(t *testing.T, s *site) {
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
		require.Eventually(t, func() bool { return s.Connections()["mc1"].Replaced >= 3 }, time.Minute,
			time.Millisecond)
		require.Zero(t, agent.Known())
	}},
	{"16 consumer publishes on the other's topic: ACL", nil, func(t *testing.T, s *site) {
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
	}},
	{"37 client certificate expired, rotated, of a removed consumer", nil, func(t *testing.T, s *site) {
		first, issued := s.issue("mc1")
		revoked := workagent.NewAgent("mc1", s.cluster("mc1"), s.clock, 0)
		connect := func() error { // once; an agent that goes on trying is refused again at any time
			return revoked.Session(t.Context(), workagent.Options{Address: s.Address().String(), TLS: first})
		}
		ended := make(chan error, 1)
		go func() { ended <- connect() }()
		session := s.session()
		s.receive()
		s.hold(session, "b1")
		second, _ := s.issue("mc1")
		require.NoError(t, s.credentials.Revoke(t.Context(), "mc1", issued.Serial, false))
		s.Disconnect("mc1")
		<-session.Context().Done()
		require.Error(t, <-ended)
		require.Error(t, connect())
		require.Eventually(t, func() bool {
			return strings.Contains(s.Refusals()["mc1"].Reason, "was revoked")
		}, time.Minute, 5*time.Millisecond, "the broker may note the refusal after the agent's error")
		_, session = s.start("mc1", second)
		s.receive()
		require.Empty(t, s.Refusals())
		require.NoError(t, s.credentials.Revoke(t.Context(), "mc1", "", true))
		require.Error(t, s.credentials.Revoke(t.Context(), "mc1", "1234", false), "no such certificate")
		s.Disconnect("mc1")
		<-session.Context().Done()

		config, _ := s.issue("mc2")
		require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
			return bundle.DeleteConsumer(tx, "mc2")
		}))
		agent := workagent.NewAgent("mc2", s.cluster("mc2"), s.clock, 0)
		require.Error(t, agent.Session(t.Context(), workagent.Options{Address: s.Address().String(), TLS: config}))
		require.Eventually(t, func() bool { return strings.Contains(s.Refusals()["mc2"].Reason, "was removed") },
			time.Minute, 5*time.Millisecond, "the broker may note the refusal after the agent's error")
	}},
	{"38 plain-text connect refused", nil, func(t *testing.T, s *site) {
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
	}},
	// A link that fails without an end of the connection, such as a radio link.
	{"39 keepalive loss without FIN", nil, func(t *testing.T, s *site) {
		config, _ := s.issue("mc1")
		conn, err := tls.Dial("tcp", s.Address().String(), config)
		require.NoError(t, err)
		defer conn.Close()
		source, _ := broker.Topics("mc1")
		var text bytes.Buffer
		hello := packets.Packet{ProtocolVersion: 5, FixedHeader: packets.FixedHeader{Type: packets.Connect},
			Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), Clean: true, Keepalive: 1,
				ClientIdentifier: "a"}}
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
	}},
}

func TestFaults(t *testing.T) {
	for _, test := range faults {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t)
			test.run(t, s)
			s.requireDeleted(test.deleted...)
		})
	}
}
