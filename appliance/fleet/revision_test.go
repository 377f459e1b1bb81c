package fleet_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
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
	db     *store.DB
	log    *waltest.Log
	wrote  chan struct{}
	answer func() // lets the log answer
	fault  waltest.Fault
	// handlers are those of the leader, by the way to them. They answer with the value.
	handlers map[string]http.Handler
}

var revisedRows = store.NewBucket[string]("tests", 1)

func newRevised(t *testing.T, fault waltest.Fault) *revised {
	t.Helper()
	answered := make(chan struct{})
	c := &revised{wrote: make(chan struct{}), answer: sync.OnceFunc(func() { close(answered) }), fault: fault}
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
		<-answered
	}}
	c.log = log
	var err error
	c.db, err = store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true, Shared: log})
	require.NoError(t, err)
	t.Cleanup(func() {
		c.answer() // also if the test fails
		require.NoError(t, c.db.Close())
	})
	require.NoError(t, c.put(t, "old"))
	leading := &fleet.Leading{Front: &fleet.Front{Leads: func() bool { return true }, Refuse: refuse}}
	read := http.HandlerFunc(c.serve)
	others := func(fleet.Listener) http.Handler { return read }
	main := leading.Before(others, nil, c.db, nil, func(netip.Addr) {})(read)
	c.handlers = map[string]http.Handler{
		"main listener":  main,
		"other listener": leading.Guard(c.db)(read),
		"other listener of a member": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asMember(r, "b", fleet.Kubernetes)
			main.ServeHTTP(w, r)
		}),
	}
	return c
}

// asMember makes a request one that a member has forwarded from one of its listeners.
func asMember(r *http.Request, name string, at fleet.Listener) {
	own := &x509.Certificate{Subject: pkix.Name{CommonName: name}}
	r.TLS = &tls.ConnectionState{ServerName: "member.fleet.landfall.internal",
		PeerCertificates: []*x509.Certificate{own}, VerifiedChains: [][]*x509.Certificate{{own}}}
	r.Header.Set("Landfall-Fleet-Client", "192.0.2.1:50000")
	r.Header.Set("Landfall-Fleet-Listener", string(at))
}

func (c *revised) put(t *testing.T, value string) error {
	return c.db.Update(t.Context(), func(tx *store.Tx) error { return revisedRows.Put(tx, "a", &value) })
}

func (c *revised) serve(w http.ResponseWriter, _ *http.Request) {
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
func (c *revised) read(t *testing.T, by, header, revision string) *httptest.ResponseRecorder {
	t.Helper()
	return c.readWithin(t.Context(), by, header, revision)
}

func (c *revised) readWithin(ctx context.Context, by, header, revision string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
	r.Header.Set(header, revision)
	w := httptest.NewRecorder()
	c.handlers[by].ServeHTTP(w, r)
	return w
}

// A follower has applied a record, and shown it to a client, before the leader learns that etcd has
// it.
func TestLeader_waitsForTheRevisionOfTheClient(t *testing.T) {
	for _, one := range []struct{ by, header string }{
		{"main listener", "Landfall-Revision"},
		{"main listener", "Last-Event-ID"},
		{"other listener", "Landfall-Revision"},
		{"other listener of a member", "Landfall-Revision"},
	} {
		t.Run(one.by+" "+one.header, func(t *testing.T) {
			c := newRevised(t, waltest.None)
			ended := make(chan error, 1)
			go func() { ended <- c.put(t, "new") }()
			<-c.wrote
			got := c.read(t, one.by, one.header, "1")
			require.Equal(t, "old", got.Body.String(), "a client that has not seen the change does not wait")
			require.Equal(t, "1", got.Header().Get("Landfall-Revision"))
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			got = c.readWithin(gone, one.by, one.header, "2")
			require.Equal(t, http.StatusServiceUnavailable, got.Code, "a client that has seen the change waits")
			answer := make(chan *httptest.ResponseRecorder, 1)
			go func() { answer <- c.read(t, one.by, one.header, "2") }()
			c.answer()
			got = <-answer
			require.Equal(t, "new", got.Body.String())
			require.Equal(t, "2", got.Header().Get("Landfall-Revision"))
			require.NoError(t, <-ended)
			require.Equal(t, "new", c.read(t, one.by, one.header, "99").Body.String(), "no change is being written")
			require.Len(t, c.log.After(0), 2, "a wait writes nothing")
		})
	}
}

func TestLeader_refusesAClientThatHasSeenMoreThanItKnows(t *testing.T) {
	c := newRevised(t, waltest.NoAnswer)
	ended := make(chan error, 1)
	go func() { ended <- c.put(t, "new") }()
	<-c.wrote
	c.answer()
	require.Error(t, <-ended)
	got := c.read(t, "main listener", "Landfall-Revision", "2")
	require.Equal(t, http.StatusServiceUnavailable, got.Code)
	require.Equal(t, "true", got.Header().Get("Landfall-Fleet-Not-Leader"), "a follower then asks the next leader")
}

// failing is a context that makes an update fail after something has happened.
type failing struct {
	context.Context
	first func()
}

func (c failing) Err() error {
	c.first()
	return errors.New("etcd has no space left")
}

// The update of the leader may fail with a later change than that which the client has seen.
func TestLeader_answersIfItHasWhatTheClientHasSeen(t *testing.T) {
	c := newRevised(t, waltest.None)
	ended := make(chan error, 1)
	go func() { ended <- c.put(t, "new") }()
	<-c.wrote
	got := c.readWithin(failing{t.Context(), sync.OnceFunc(func() {
		c.answer()
		require.NoError(t, <-ended)
	})}, "main listener", "Landfall-Revision", "2")
	require.Equal(t, http.StatusOK, got.Code)
	require.Equal(t, "new", got.Body.String())
}

func TestLeader_hasNoSuchListener(t *testing.T) {
	leading := &fleet.Leading{Front: &fleet.Front{Leads: func() bool { return true }, Refuse: refuse}}
	none := func(fleet.Listener) http.Handler { return nil }
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	asMember(r, "b", fleet.Boot)
	w := httptest.NewRecorder()
	leading.Before(none, nil, nil, nil, func(netip.Addr) {})(http.NotFoundHandler()).ServeHTTP(w, r)
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), `the leader has no listener "boot"`)
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
