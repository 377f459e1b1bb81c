package fleet_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet"
)

func TestForward_knowsWhatThePresentLeaderHasAnswered(t *testing.T) {
	key := newKey(t)
	revised := func(revision string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost { // its answer is lost
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Landfall-Revision", revision)
		}
	}
	one, two := newLeader(t, key, "one", revised("7")), newLeader(t, key, "two", revised("5"))
	f := newFollower(t, key, 10*time.Second)
	client := client(t)
	seen := func(wantRevision uint64, wantKnown bool) {
		t.Helper()
		revision, known := f.Seen()
		require.Equal(t, wantRevision, revision)
		require.Equal(t, wantKnown, known)
	}
	read := func() {
		t.Helper()
		status, _ := get(t, client, f.main.URL)
		require.Equal(t, http.StatusOK, status)
	}

	f.Lead(one.peer())
	seen(0, false)
	read()
	seen(7, true)
	f.Lead(fleet.Peer{})
	seen(7, false)
	f.Lead(two.peer())
	seen(7, false)
	read()
	seen(7, true)

	change, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.main.URL, strings.NewReader("{}"))
	require.NoError(t, err)
	status, _ := ask(t, client, change)
	require.Equal(t, http.StatusServiceUnavailable, status)
	seen(7, false)
	read()
	seen(7, true)
}
