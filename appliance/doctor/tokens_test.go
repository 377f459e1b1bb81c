package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/agents"
)

// testAgents has one infra-env with hosts without a token.
type testAgents struct {
	enabled bool
	tokens  []agents.Tokens
}

func (a testAgents) Enabled() bool                       { return a.enabled }
func (a testAgents) Tokenless() ([]agents.Tokens, error) { return a.tokens, nil }

func TestTokenFindings(t *testing.T) {
	hosts := []agents.Host{{ID: "1", Name: "node-1"}, {ID: "2"}}
	until := time.Date(2026, 3, 1, 16, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		agents   testAgents
		status   Status
		result   string
		contains string
	}{
		"before authentication is enabled": {testAgents{false, []agents.Tokens{{Name: "site", TokenlessHosts: hosts}}},
			Green, "2: node-1, 2", "Before you set auth to local"},
		"accepted before authentication is enabled": {testAgents{false, []agents.Tokens{{Name: "site",
			TokenlessHosts: hosts, TokenlessUntil: &until}}}, Green,
			"2: node-1, 2; machines without a token will be accepted until 2026-03-01T16:00:00Z", ""},
		"accepted without such hosts": {testAgents{true, []agents.Tokens{{Name: "site",
			TokenlessUntil: &until}}}, Amber,
			"none; machines without a token are accepted until 2026-03-01T16:00:00Z", "end the permission"},
		"refused": {testAgents{true, []agents.Tokens{{Name: "site", TokenlessHosts: hosts}}},
			Amber, "2: node-1, 2; the appliance refuses them", "Boot these hosts"},
		"accepted for some time": {testAgents{true, []agents.Tokens{{Name: "site", TokenlessHosts: hosts,
			TokenlessUntil: &until}}}, Amber,
			"2: node-1, 2; machines without a token are accepted until 2026-03-01T16:00:00Z", "end the permission"},
	} {
		t.Run(name, func(t *testing.T) {
			findings, err := NewService(Options{Agents: c.agents}).tokenFindings()
			require.NoError(t, err)
			require.Len(t, findings, 1)
			require.Equal(t, "hosts of site", findings[0].Subject)
			require.Equal(t, c.status, findings[0].Status)
			require.Equal(t, c.result, findings[0].Result)
			require.Contains(t, findings[0].Advice, c.contains)
		})
	}
	none, err := NewService(Options{}).tokenFindings()
	require.NoError(t, err)
	require.Empty(t, none)
}
