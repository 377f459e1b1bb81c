package bmc

import (
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
			s, clock := newIdleSite(t), clockwork.NewFakeClock()
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
				require.Contains(t, server.History[0].Message, "was not possible within 1h0m0s and is not tried again")
				return
			}
			require.Equal(t, kind, server.Pending.Kind)
			require.False(t, server.Pending.Force)
		})
	}
}
