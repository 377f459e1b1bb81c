package notice

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
)

// servers is a source of failed servers.
type servers struct {
	failed []string
	err    error
}

func (v *servers) source() Source {
	return Source{Event: "server_error", Interval: time.Minute, Patience: 2 * time.Minute, Path: "/servers",
		Several: "servers report an error", Find: func(context.Context) (found []Condition, err error) {
			for _, name := range v.failed {
				found = append(found, Condition{ID: name, Name: name, Path: "/servers/" + name,
					Message: "The server " + name + " has an error."})
			}
			return found, v.err
		}}
}

// messages looks once at a time after the start, and returns the messages of all notifications.
func (s *site) messages(v *servers, after time.Duration) (messages []string) {
	s.Helper()
	s.clock.Advance(start.Add(after).Sub(s.clock.Now()))
	err := s.look(s.Context(), v.source())
	require.Equal(s, v.err, err)
	for _, n := range s.listed() {
		require.Equal(s, Attention, n.Kind)
		require.Equal(s, "server_error", n.Event)
		messages = append(messages, n.Message)
	}
	return messages
}

func TestCondition_reportedOnceWhenItLasts(t *testing.T) {
	s, v := newSite(t), &servers{}
	require.Empty(t, s.messages(v, 0))
	v.failed = []string{"a"}
	require.Empty(t, s.messages(v, time.Minute), "it may end by itself")
	v.failed = nil
	require.Empty(t, s.messages(v, 2*time.Minute))
	v.failed = []string{"a", "b"}
	require.Empty(t, s.messages(v, 3*time.Minute), "its time begins again")
	v.failed = []string{"a"}
	once := []string{"The server a has an error."}
	require.Equal(t, once, s.messages(v, 5*time.Minute))
	require.Equal(t, "https://landfall.test/servers/a", s.listed()[0].URL)
	require.Equal(t, once, s.messages(v, 6*time.Minute))
	s.close()
	s.open()
	require.Equal(t, once, s.messages(v, 7*time.Minute), "also after a restart")
}

func TestCondition_returnIsReportedAfterAnHour(t *testing.T) {
	s, v := newSite(t), &servers{failed: []string{"a"}}
	s.messages(v, 0)
	require.Len(t, s.messages(v, 2*time.Minute), 1)
	v.failed = nil
	s.messages(v, 3*time.Minute)
	v.failed = []string{"a"}
	require.Len(t, s.messages(v, 10*time.Minute), 1)
	require.Len(t, s.messages(v, 20*time.Minute), 1, "it comes and goes")
	v.failed = nil
	s.messages(v, 30*time.Minute)
	s.messages(v, 90*time.Minute)
	v.failed = []string{"a"}
	s.messages(v, 100*time.Minute)
	require.Len(t, s.messages(v, 102*time.Minute), 2)
}

func TestCondition_clockIsSetBack(t *testing.T) {
	s, v := newSite(t), &servers{failed: []string{"a"}}
	const years = 20 * 365 * 24 * time.Hour
	require.Empty(t, s.messages(v, 0))
	require.Empty(t, s.messages(v, time.Minute-years))
	require.Len(t, s.messages(v, 3*time.Minute-years), 1)
	v.failed = nil
	s.messages(v, 4*time.Minute-years)
	s.messages(v, -2*years)
	v.failed = []string{"a"}
	s.messages(v, time.Minute-2*years)
	require.Len(t, s.messages(v, 3*time.Minute-2*years), 2, "its end is long ago")
}

func TestCondition_lastsWhileItIsUnknown(t *testing.T) {
	s, v := newSite(t), &servers{failed: []string{"a"}}
	s.messages(v, 0)
	require.Len(t, s.messages(v, 2*time.Minute), 1)
	v.failed, v.err = nil, errors.New("the servers cannot be read")
	s.messages(v, 3*time.Minute)
	s.messages(v, 3*time.Hour)
	v.failed, v.err = []string{"a"}, nil
	require.Len(t, s.messages(v, 4*time.Hour), 1)
}

func TestCondition_manyShareANotification(t *testing.T) {
	s, v := newSite(t), &servers{}
	r := newReceiver(t, 200)
	_, err := s.Add(t.Context(), NewWebhook{Name: "chat", URL: r.URL, Secret: secret})
	require.NoError(t, err)
	for i := range 12 {
		v.failed = append(v.failed, "server-"+strconv.Itoa(i))
	}
	s.messages(v, 0)
	require.Equal(t, []string{"12 servers report an error: server-0, server-1, server-2 and 9 more."},
		s.messages(v, 2*time.Minute))
	require.Equal(t, "https://landfall.test/servers", s.listed()[0].URL)
	v.failed = append(v.failed, "x")
	s.messages(v, 3*time.Minute)
	require.Len(t, s.messages(v, 5*time.Minute), 2)
	_, err = s.sendDue(t.Context())
	require.NoError(t, err)
	require.Len(t, r.all(), 2)
	require.Less(t, r.all()[0].notification(t).ID, r.all()[1].notification(t).ID, "the ids sort by time")
}

// A condition is newer than an event that was not read yet when the appliance stopped.
func TestCondition_hidesNoEvent(t *testing.T) {
	s, v := newSite(t), &servers{failed: []string{"a"}}
	s.objects(lifecycle.ClusterInstalling)
	s.cluster(lifecycle.ClusterInstalled)
	_, err := s.collect(t.Context(), "")
	require.NoError(t, err)
	s.cluster(lifecycle.ClusterFailed)
	require.NoError(t, s.look(t.Context(), v.source()))
	s.clock.Advance(2 * time.Minute)
	require.NoError(t, s.look(t.Context(), v.source()))
	s.run()
	s.eventually(func() bool { return len(s.listed()) == 3 }, "the event becomes a notification")
	require.Equal(t, "server_error", s.listed()[0].Event)
	require.Equal(t, event.ClusterStatus, s.listed()[1].Event)
}

func TestCondition_lookedForAtIntervals(t *testing.T) {
	s := newSite(t)
	looks := make(chan time.Time)
	s.Sources = []Source{{Event: "disk_space_low", Interval: time.Minute,
		Find: func(ctx context.Context) ([]Condition, error) {
			select {
			case looks <- s.clock.Now():
			case <-ctx.Done():
			}
			return nil, nil
		}}}
	s.run()
	require.Equal(t, start, <-looks)
	require.NoError(t, s.clock.BlockUntilContext(t.Context(), 2)) // the deliveries wait, too
	s.clock.Advance(time.Minute)
	require.Equal(t, start.Add(time.Minute), <-looks)
}

func TestCondition_lookedForAfterTheStart(t *testing.T) {
	s, started, looked := newSite(t), make(chan struct{}), make(chan struct{})
	s.Started = func() <-chan struct{} { close(started); return started }
	find := func(context.Context) ([]Condition, error) {
		select {
		case <-started:
		default:
			t.Error("the appliance has not started")
		}
		close(looked)
		return nil, nil
	}
	s.Sources = []Source{{Event: "server_error", Interval: time.Minute, Find: find}}
	s.run()
	<-looked
	s.stop()

	s.Started = func() <-chan struct{} { return nil }
	s.run()
	s.stop()
}
