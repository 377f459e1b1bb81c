package agents_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/access/machine"
	"landfall/appliance/agents"
	"landfall/appliance/engine/record"
)

// sealedSite is a site that is reached by HTTPS, with an infra-env whose images are sealed.
type sealedSite struct {
	*site
	env   string
	token string // in the sealed image
}

func newSealedSite(t *testing.T, during time.Duration, machines int) *sealedSite {
	t.Helper()
	s := &sealedSite{site: newSite(t)}
	s.url = "https://appliance.site.test:8090"
	s.start(s.issuer)
	s.env = s.infraEnv("sealed", "")
	_, err := s.agents.Seal(t.Context(), s.env, during, machines)
	require.NoError(t, err)
	row, err := record.ReadInfraEnv(s.db, s.env)
	require.NoError(t, err)
	s.token, err = s.issuer.Token(&row.AgentKeys, s.env, machine.ForConfig)
	require.NoError(t, err)
	return s
}

func (s *sealedSite) fetch(address string) error {
	_, err := s.agents.FetchConfig(s.Context(), agents.FetchRequest{Token: s.token, InfraEnvID: s.env,
		Address: address})
	return err
}

func TestFetchConfig_timeLimit(t *testing.T) {
	s := newSealedSite(t, time.Hour, 0)
	require.NoError(t, s.fetch("192.0.2.1"))
	s.clock.Advance(time.Hour - time.Second)
	require.NoError(t, s.fetch("192.0.2.2"))
	s.clock.Advance(time.Second)
	for _, address := range []string{"192.0.2.1", "192.0.2.3"} {
		var refusal *machine.Refusal
		require.ErrorAs(t, s.fetch(address), &refusal, address)
		require.True(t, refusal.Temporary, "the machine boots once the image is open again")
		require.Contains(t, refusal.Reason, "after its time limit")
	}
	require.Contains(t, s.refusals(s.env)[0], "A machine at 192.0.2.1 was refused.")
	_, err := s.agents.Seal(t.Context(), s.env, time.Hour, 0)
	require.NoError(t, err)
	require.NoError(t, s.fetch("192.0.2.3"))
}

// TestFetchConfig_clockGoesBack sets the clock to a time before the image was opened. Otherwise, a
// clock in 1970 would open a closed image for decades.
func TestFetchConfig_clockGoesBack(t *testing.T) {
	s := newSealedSite(t, time.Hour, 0)
	s.clock.Advance(-24 * time.Hour)
	require.ErrorContains(t, s.fetch("192.0.2.1"), "Set the clock, or open the image again.")
}

// TestFetchConfig_afterRestart restarts the appliance after the config was fetched. The machine
// whose answer broke off may fetch it again, and still is the only one.
func TestFetchConfig_afterRestart(t *testing.T) {
	s := newSealedSite(t, time.Hour, 1)
	require.NoError(t, s.fetch("192.0.2.1"))
	s.start(s.issuer)
	require.NoError(t, s.fetch("192.0.2.1"))
	require.ErrorContains(t, s.fetch("192.0.2.2"), "the limit of machines that fetched it is reached (1)")
}

// TestSeal_needsAuthenticationAndTLS seals images where machines could not fetch the config safely.
func TestSeal_needsAuthenticationAndTLS(t *testing.T) {
	s := newSite(t)
	env := s.infraEnv("plain", "")
	_, err := s.agents.Seal(t.Context(), env, time.Hour, 0)
	require.ErrorContains(t, err, "needs auth: local and TLS")
	s.start(nil)
	_, err = s.agents.Seal(t.Context(), env, time.Hour, 0)
	require.ErrorContains(t, err, "does not authenticate machines")
	sealed, err := s.agents.Sealed(env)
	require.NoError(t, err)
	require.False(t, sealed.Sealed)
}
