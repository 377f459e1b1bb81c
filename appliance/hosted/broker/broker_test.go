package broker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/broker"
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
