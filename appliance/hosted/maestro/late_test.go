package maestro

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/appliance/simulate/workagent"
	"landfall/store"
)

func TestConsumer_timeOfLastMessage(t *testing.T) {
	s := newSite(t)
	at := began.Add(time.Hour + 50*time.Second + time.Millisecond)
	for _, c := range []struct{ message, stored time.Time }{
		{at, at.Truncate(time.Second)},
		{at.Add(30 * time.Second), at.Truncate(time.Second)},
		{at.Add(time.Minute), at.Add(time.Minute).Truncate(time.Second)},
	} {
		s.update(func(tx *store.Tx) error {
			if err := noteSeen(tx, "mc1", c.message); err != nil {
				return err
			}
			consumer, err := bundle.GetConsumer(tx, "mc1")
			require.Equal(t, c.stored, consumer.Seen)
			return err
		})
	}
}

// passing is a connection that gives the messages to the test.
type passing chan cloudevent.Message

func (p passing) Send(ctx context.Context, m cloudevent.Message) error {
	select {
	case p <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (passing) End() {}

// A session asks for an ignored status by itself, until it comes.
func TestDelivery_asksAgainForIgnoredStatus(t *testing.T) {
	s := newSite(t)
	var log bytes.Buffer
	s.service.log = slog.New(slog.NewTextHandler(&log, nil))
	id := s.create("c1")
	s.connect()
	s.cut()
	s.edit(id, "2")
	agent := workagent.NewAgent("mc1", s.cluster, s.clock, -270*time.Second)
	session := make(passing)
	s.service.connect("mc1", session)
	t.Cleanup(func() {
		s.service.disconnect("mc1")
		s.service.running.Wait()
	})
	receive := func(messages []cloudevent.Message) {
		for _, err := range s.service.receive(t.Context(), "mc1", messages) {
			require.NoError(t, err)
		}
	}
	receive([]cloudevent.Message{agent.Hello()})
	receive(agent.Handle(<-session))
	asked := 0
	for ; s.status(id).ResourceVersion != 2; asked++ {
		require.Less(t, asked, 10)
		require.NoError(t, s.clock.BlockUntilContext(t.Context(), 1))
		s.clock.Advance(lateInterval)
		receive(agent.Handle(<-session))
	}
	require.Equal(t, 5, asked, "once a minute, until the clock has caught up")
	require.Empty(t, s.service.ClockFaults())
	require.Equal(t, 1, strings.Count(log.String(), "was ignored"), "not once a minute: %s", &log)
}
