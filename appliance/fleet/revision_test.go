package fleet_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet"
	"landfall/store"
	"landfall/store/wal/waltest"
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

// revised is a database of a leader whose shared log answers later than the followers get a record.
type revised struct {
	db              *store.DB
	wrote, answered chan struct{}
	fault           waltest.Fault
	handler         http.Handler // of the leader: it answers with the value
}

var revisedRows = store.NewBucket[string]("tests", 1)

func newRevised(t *testing.T, fault waltest.Fault) *revised {
	t.Helper()
	c := &revised{wrote: make(chan struct{}), answered: make(chan struct{}), fault: fault}
	first := true
	log := &waltest.Log{Next: func() waltest.Fault {
		if first {
			return waltest.None
		}
		return c.fault
	}, Wrote: func() {
		if first {
			first = false
			return
		}
		c.wrote <- struct{}{}
		<-c.answered
	}}
	var err error
	c.db, err = store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true, Shared: log})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.db.Close()) })
	require.NoError(t, c.put(t, "old"))
	leading := &fleet.Leading{Front: &fleet.Front{Leads: func() bool { return true }, Refuse: refuse}}
	c.handler = leading.Before(nil, nil, c.db, nil, func(netip.Addr) {})(http.HandlerFunc(c.answer))
	return c
}

func (c *revised) put(t *testing.T, value string) error {
	return c.db.Update(t.Context(), func(tx *store.Tx) error { return revisedRows.Put(tx, "a", &value) })
}

func (c *revised) answer(w http.ResponseWriter, _ *http.Request) {
	fleet.Stamp(c.db)(w.Header())
	_ = c.db.View(func(tx *store.Tx) error {
		value, err := revisedRows.Get(tx, "a")
		if err == nil {
			_, _ = io.WriteString(w, *value)
		}
		return err
	})
}

// read asks the leader as a client that has seen a revision.
func (c *revised) read(t *testing.T, header, revision string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	r.Header.Set(header, revision)
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w
}

// A follower has applied a record, and shown it to a client, before the leader learns that etcd has
// it.
func TestLeader_waitsForTheRevisionOfTheClient(t *testing.T) {
	for _, header := range []string{"Landfall-Revision", "Last-Event-ID"} {
		t.Run(header, func(t *testing.T) {
			c := newRevised(t, waltest.None)
			ended := make(chan error, 1)
			go func() { ended <- c.put(t, "new") }()
			<-c.wrote
			got := c.read(t, header, "1")
			require.Equal(t, "old", got.Body.String(), "a client that has not seen the change does not wait")
			require.Equal(t, "1", got.Header().Get("Landfall-Revision"))
			answer := make(chan *httptest.ResponseRecorder, 1)
			go func() { answer <- c.read(t, header, "2") }()
			close(c.answered)
			got = <-answer
			require.Equal(t, "new", got.Body.String())
			require.Equal(t, "2", got.Header().Get("Landfall-Revision"))
			require.NoError(t, <-ended)
			require.Equal(t, "new", c.read(t, header, "99").Body.String(), "no change is being written")
		})
	}
}

func TestLeader_refusesAClientThatHasSeenMoreThanItKnows(t *testing.T) {
	c := newRevised(t, waltest.NoAnswer)
	ended := make(chan error, 1)
	go func() { ended <- c.put(t, "new") }()
	<-c.wrote
	close(c.answered)
	require.Error(t, <-ended)
	got := c.read(t, "Landfall-Revision", "2")
	require.Equal(t, http.StatusServiceUnavailable, got.Code)
	require.Equal(t, "true", got.Header().Get("Landfall-Fleet-Not-Leader"), "a follower then asks the next leader")
}

func TestForward_tellsTheRevisionOfTheCopy(t *testing.T) {
	c := newRevised(t, waltest.None)
	for _, one := range []struct{ path, seen, want string }{
		{"/clusters", "", "1"},
		{"/clusters", "0", "1"},
		{"/clusters", "7", "7"},
		{"/hosts/1/instructions", "", ""}, // polls need none
	} {
		var got string
		forward := fleet.Inform(c.db, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = r.Header.Get("Landfall-Revision")
		}))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, one.path, http.NoBody)
		if one.seen != "" {
			r.Header.Set("Landfall-Revision", one.seen)
		}
		forward.ServeHTTP(httptest.NewRecorder(), r)
		require.Equal(t, one.want, got, one)
	}
}
