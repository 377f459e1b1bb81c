package bmc

import (
	"fmt"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
)

// A BMC can be reached again long after an action was ordered.
func TestAction_expires(t *testing.T) {
	for kind, c := range map[ActionKind]struct {
		age     time.Duration
		pending bool
	}{
		ActionReset:    {age: actionTimeout},
		ActionShutdown: {age: 48 * time.Hour},
		ActionPowerOff: {age: actionTimeout - time.Second, pending: true},
		ActionBoot:     {age: actionTimeout, pending: true},
		ActionEject:    {age: actionTimeout, pending: true},
	} {
		t.Run(string(kind), func(t *testing.T) {
			s, clock := newIdleSite(t), clockwork.NewFakeClockAt(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			s.manager.clock = clock
			_, err := s.manager.Ensure(bg, "n1", Desired{Name: "n1", Address: "http://127.0.0.1:1", Username: operator,
				Password: secret, InfraEnvID: infraEnv})
			require.NoError(t, err)
			if kind == ActionBoot {
				_, err = s.manager.Boot(bg, "n1", "", true)
			} else {
				_, err = s.manager.RequestAction(bg, "n1", kind)
			}
			require.NoError(t, err)
			clock.Advance(c.age)
			(&worker{m: s.manager, id: "n1"}).runNext(t.Context())
			server, err := s.manager.Server("n1")
			require.NoError(t, err)
			if !c.pending {
				require.Nil(t, server.Pending)
				require.Contains(t, server.History[0].Message, `The action "`+string(kind)+`" of 2026-03-01 12:00:00 UTC `+
					"was not done within an hour and is not tried again")
				return
			}
			require.Equal(t, kind, server.Pending.Kind)
			require.False(t, server.Pending.Force)
		})
	}
}

// The history names each action that was dropped, and does not call a restart impossible that may
// have been carried out.
func TestAction_expiresAgain(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := &row{}
	for hour := range 2 {
		r.Pending = &Action{Kind: ActionReset, At: now.Add(time.Duration(hour) * actionTimeout)}
		r.dropAction(r.Pending.At.Add(actionTimeout))
	}
	for hour := range 2 {
		r.Pending = &Action{Kind: ActionReset, At: now.Add(time.Duration(hour) * actionTimeout)}
		r.Restarting = true
		r.dropAction(r.Pending.At.Add(actionTimeout))
		require.False(t, r.Restarting)
	}
	const (
		dropped = `The action "reset" of 2026-03-01 %s UTC was not done within an hour and is not tried again; repeat ` +
			"it if it is still necessary."
		unknown = "The BMC was asked to restart the server, as ordered at 2026-03-01 %s UTC, but the outcome is not " +
			"known. The server is not restarted a second time; check it, and restart it again if necessary."
	)
	var messages []string
	for _, event := range r.History {
		messages = append(messages, event.Message)
	}
	require.Equal(t, []string{fmt.Sprintf(dropped, "12:00:00"), fmt.Sprintf(dropped, "13:00:00"),
		fmt.Sprintf(unknown, "12:00:00"), fmt.Sprintf(unknown, "13:00:00")}, messages)
}
