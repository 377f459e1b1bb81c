package hosted

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/maestro"
)

func TestConnection_sentenceOfClock(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	require.Equal(t, "Its clock was set back to 2026-03-01T12:00:00Z. Its reports count again when it shows "+
		"2026-03-02T12:00:00Z; the missed ones are asked for then.",
		problemOfClock(maestro.ClockFault{Agent: at, Until: at.Add(24 * time.Hour)}))
}

func TestConnection_sentenceOfCertificate(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	used := func(days int) broker.Credential {
		return broker.Credential{Used: now.AddDate(-4, 0, 0), Until: now.AddDate(0, 0, days)}
	}
	unused, revoked := broker.Credential{Until: now.AddDate(5, 0, 0)}, used(900)
	revoked.Revoked = now
	const problem = "The certificate of its agent is valid until 2026-03-11. Write new manifests with landfall hcp " +
		"consumers agent, and apply them."
	for name, test := range map[string]struct {
		all  []broker.Credential
		want string
	}{
		"none":                     {nil, ""},
		"never connected":          {[]broker.Credential{{Until: now.AddDate(0, 0, 10)}}, ""},
		"ends in a year":           {[]broker.Credential{used(365)}, ""},
		"ends soon":                {[]broker.Credential{used(10)}, problem},
		"replaced":                 {[]broker.Credential{used(10), used(900)}, ""},
		"the next is not used yet": {[]broker.Credential{used(10), unused}, problem},
		"the next was revoked":     {[]broker.Credential{used(10), revoked}, problem},
	} {
		require.Equal(t, test.want, problemOfEnd(test.all, now), name)
	}
}
