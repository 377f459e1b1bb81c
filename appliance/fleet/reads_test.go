package fleet_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet"
)

// TestReads_ofAMember asks members which machines read their images: one that follows, one whose
// copy is damaged, and one that does not follow.
func TestReads_ofAMember(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	client := fleet.NewClient(credential(t, key, "leader"), clockwork.NewRealClock())
	t.Cleanup(client.Close)
	ask := func(reads func() (any, error)) (string, error) {
		peers := &fleet.Peers{Reads: reads, Refuse: refuse, Logger: quiet()}
		server := serve(t, credential(t, key, "follower"), http.HandlerFunc(peers.ServeHTTP))
		answer, err := client.Reads(t.Context(), fleet.Peer{Name: "follower", URL: server.URL})
		return string(answer), err
	}
	answer, err := ask(func() (any, error) { return map[string]int{"env": 1}, nil })
	require.NoError(t, err)
	require.JSONEq(t, `{"env": 1}`, answer)
	_, err = ask(func() (any, error) { return nil, errors.New("the row is damaged") })
	require.ErrorContains(t, err, "ask the member follower")
	_, err = ask(nil)
	require.ErrorContains(t, err, "ask the member follower")
}
