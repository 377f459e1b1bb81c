package fleet_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet"
)

func TestLeading_eachDirectoryHasItsTrail(t *testing.T) {
	dir, single := t.TempDir(), (*fleet.Leading)(nil)
	require.Empty(t, single.Trail(dir))
	former, again := &fleet.Leading{Member: "a", Directory: "1"}, &fleet.Leading{Member: "a", Directory: "2"}
	require.NotEqual(t, former.Trail(dir), again.Trail(dir))
	require.NoError(t, (&fleet.State{Member: "a", ID: "1", Ended: true}).Write(dir))
	require.Equal(t, former.Trail(dir), single.Trail(dir), "after the end of the fleet")
}

// A leader is not cut off from the network as long as requests come, on whichever listener.
func TestLeading_requestsOfAllListenersCount(t *testing.T) {
	var single *fleet.Leading
	require.Nil(t, single.Count())
	require.Nil(t, single.Guard(nil))
	front := &fleet.Front{Leads: func() bool { return false }, Refuse: refuse}
	leading := &fleet.Leading{Front: front}
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for i, handler := range []http.Handler{leading.Guard(nil)(answer), leading.Count()(answer)} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
		require.EqualValues(t, i+1, front.Requests())
		require.Equal(t, []int{http.StatusServiceUnavailable, http.StatusNoContent}[i], w.Code)
	}
}
