package fleet_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet"
	"landfall/store"
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

// An answer of the leader passes through a follower whose copy lags.
func TestStamp_keepsNewerRevision(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		return store.NewBucket[int]("tests", 1).Put(tx, "a", new(int))
	}))
	stamp := fleet.Stamp(db)
	for before, want := range map[string]string{"": "1", "0": "1", "99": "99"} {
		header := http.Header{}
		if before != "" {
			header.Set("Landfall-Revision", before)
		}
		stamp(header)
		require.Equal(t, want, header.Get("Landfall-Revision"))
	}
}
