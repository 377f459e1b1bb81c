package replica_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/audittrail"
	"landfall/appliance/replica"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web"
	"landfall/web/console"
	"landfall/web/operation"
	"landfall/web/recording"
)

// second is a second appliance that receives a replica.
type second struct {
	t          *testing.T
	dir, files string
	trail      *audittrail.Trail
	logger     *slog.Logger
	server     *httptest.Server
	handler    atomic.Pointer[http.Handler]
	cut        atomic.Bool  // the line to it
	open       atomic.Int32 // connections
	// after is called after a request was served, and before it is answered; nil: nothing.
	after atomic.Pointer[func(r *http.Request)]
}

// newSecond starts a second appliance with its replica in a directory.
func newSecond(t *testing.T, dir string) *second {
	t.Helper()
	s := &second{t: t, dir: dir, files: t.TempDir(), logger: slog.New(slog.DiscardHandler)}
	s.trail = openTrail(t)
	require.NoError(t, os.WriteFile(s.token(), []byte(strings.Repeat("secret", 6)+"\n"), 0o600))
	s.restart()
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.cut.Load() {
			panic(http.ErrAbortHandler)
		}
		recorder := httptest.NewRecorder()
		(*s.handler.Load()).ServeHTTP(recorder, r)
		if after := s.after.Load(); after != nil {
			(*after)(r)
		}
		if s.cut.Load() {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes()) // the client may be gone
	}))
	s.server.EnableHTTP2 = true
	s.server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.open.Add(1)
		case http.StateClosed:
			s.open.Add(-1)
		}
	}
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	require.NoError(t, os.WriteFile(s.authority(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: s.server.Certificate().Raw}), 0o600))
	return s
}

// openTrail opens an audit trail in a new directory.
func openTrail(t *testing.T) *audittrail.Trail {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	trail, err := audittrail.Open(audittrail.Options{Dir: filepath.Join(dir, audittrail.DirName), DB: db, Key: key})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, trail.Close()) })
	return trail
}

func (s *second) token() string     { return filepath.Join(s.files, "token") }
func (s *second) authority() string { return filepath.Join(s.files, "ca.crt") }

func (s *second) operations() []operation.Operation {
	return console.ReplicaOperations(&replica.Receiver{Dir: s.dir, TokenFile: s.token()}, s.logger)
}

// restart starts the second appliance again: it forgets what is not in its directory.
func (s *second) restart() {
	s.t.Helper()
	routes := web.New(web.Options{Wrap: recording.New(s.trail).Wrap})
	require.NoError(s.t, routes.Register(s.operations()...))
	var handler http.Handler = routes
	s.handler.Store(&handler)
}

// target returns the replica on the second appliance.
func (s *second) target() replica.Remote {
	return replica.Remote{URL: s.server.URL, TokenFile: s.token(), CAFile: s.authority()}
}

func (s *second) options(o *replica.Options) { o.Settings.Target = s.target() }

func TestRemote_hasTheFormOfADirectory(t *testing.T) {
	data, dir := dirs(t)
	other := newSecond(t, dir)
	r := run(t, data, other.options)
	writeFiles(t, data, "file")
	for range 3 {
		r.updates(30)
		r.shipped()
		other.restart()
	}
	require.Equal(t, other.server.URL, r.service.State().Place)
	require.NotZero(t, r.service.State().Written)
	r.stop()
	found := verify(t, dir)
	require.Empty(t, found.Damage)
	require.True(t, found.Heartbeat.Stopped)
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, r.serial, s.check(t)[0])
	requireFiles(t, s, "file")

	r = run(t, data, to(dir)) // the medium comes home
	require.Greater(t, r.service.State().Generation, found.Owner.Generation)
	r.updates(3)
	r.shipped()
}

// TestRemote_lineIsCut cuts the line, also after a request was served and before its answer. The
// generation goes on, and nothing is lost or doubled.
func TestRemote_lineIsCut(t *testing.T) {
	data, dir := dirs(t)
	other := newSecond(t, dir)
	r := run(t, data, func(o *replica.Options) {
		other.options(o)
		o.Settings.SnapshotInterval = time.Hour
	})
	r.updates(10)
	r.shipped()
	for range 3 {
		other.cut.Store(true)
		other.server.CloseClientConnections()
		require.Eventually(t, func() bool {
			r.updates(1)
			return r.service.State().Failure != ""
		}, time.Minute, time.Millisecond)
		require.Contains(t, r.service.State().Failure, "can't be reached in "+other.server.URL)
		other.restart()
		other.cut.Store(false)
		r.shipped()
	}
	r.stop()

	var lost atomic.Int32
	var follows atomic.Bool // a snapshot that was not complete begins again
	loseAnswers := func(request *http.Request) {
		if follows.Load() && strings.HasSuffix(request.URL.Path, "/frames") && lost.Add(1)%3 == 0 {
			panic(http.ErrAbortHandler)
		}
	}
	other.after.Store(&loseAnswers)
	r = run(t, data, func(o *replica.Options) {
		other.options(o)
		o.Settings.SnapshotInterval = time.Hour
	})
	r.shipped()
	follows.Store(true)
	for range 10 {
		r.updates(3)
		r.shipped()
	}
	follows.Store(false)
	r.stop()
	require.GreaterOrEqual(t, lost.Load(), int32(3))
	found := verify(t, dir)
	require.Empty(t, found.Damage)
	require.EqualValues(t, 2, found.Owner.Generation, "no generation was begun after a cut")
	s, err := restored(t, dir, time.Time{}, data)
	require.NoError(t, err)
	require.Equal(t, r.serial, s.check(t)[0])
}

// TestRemote_lateFrame sends a frame again, as a line may that was cut and came back.
func TestRemote_lateFrame(t *testing.T) {
	data, dir := dirs(t)
	other := newSecond(t, dir)
	var mu sync.Mutex
	var frames [][]byte
	inner := *other.handler.Load()
	var noting http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/frames") {
			text, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			mu.Lock()
			frames = append(frames, text)
			mu.Unlock()
			r.Body = io.NopCloser(bytes.NewReader(text))
		}
		inner.ServeHTTP(w, r)
	})
	other.handler.Store(&noting)
	r := run(t, data, other.options)
	for range 3 {
		r.updates(3)
		r.shipped()
	}
	r.stop()
	owner, err := replica.ReadOwner(dir)
	require.NoError(t, err)
	receiver := &replica.Receiver{Dir: dir, TokenFile: other.token()}
	session, err := receiver.Session(t.Context(), replica.SessionKey{Replica: owner.Replica, Owner: owner.ID,
		Generation: owner.Generation})
	require.NoError(t, err)
	mu.Lock()
	defer mu.Unlock()
	for _, frame := range frames {
		require.ErrorIs(t, session.Append(t.Context(), frame), replica.ErrNotContinued)
	}
	require.Empty(t, verify(t, dir).Damage)
}

// TestRemote_promoted takes over at the second appliance: the former appliance ends, and a person
// decides for it again from afar.
func TestRemote_promoted(t *testing.T) {
	data, dir := dirs(t)
	other := newSecond(t, dir)
	s, err := openSite(data, clockwork.NewRealClock())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	options := s.replicaOf(other.target(), clockwork.NewRealClock())
	service, err := replica.New(t.Context(), options)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- service.Run(t.Context()) }()
	signs, err := other.target().Signs(t.Context())
	require.NoError(t, err)
	require.Equal(t, "https://first.example.com", signs.Owner.Name)
	require.NoError(t, replica.Directory{Path: dir}.Claim(t.Context(), replica.Owner{ID: "promoted", Name: "on second",
		Since: time.Now()}))
	fenced, ok := errors.AsType[*replica.FencedError](<-ended)
	require.True(t, ok)
	require.ErrorContains(t, fenced, "the appliance on second took over from this one")
	require.ErrorContains(t, fenced, "landfall replica claim "+other.server.URL)
	require.NoError(t, service.Close())
	_, err = replica.New(t.Context(), options)
	require.ErrorAs(t, err, &fenced, "it does not start again")
	id, err := replica.ID(data)
	require.NoError(t, err)
	require.NoError(t, other.target().Claim(t.Context(), replica.Owner{ID: id, Name: "on first", Since: time.Now()}))
	service, err = replica.New(t.Context(), options)
	require.NoError(t, err)
	require.NoError(t, service.Close())
}

func TestRemote_refusals(t *testing.T) {
	_, dir := dirs(t)
	other := newSecond(t, dir)
	wrong := filepath.Join(t.TempDir(), "wrong")
	require.NoError(t, os.WriteFile(wrong, []byte(strings.Repeat("wrong ", 8)), 0o600))
	short := filepath.Join(t.TempDir(), "short")
	require.NoError(t, os.WriteFile(short, []byte("short"), 0o600))
	for name, try := range map[string]struct {
		change func(*replica.Remote)
		want   string
	}{
		"credential":       {func(r *replica.Remote) { r.TokenFile = wrong }, "refuses the credential in " + wrong},
		"short credential": {func(r *replica.Remote) { r.TokenFile = short }, "it needs at least 32 random ones"},
		"no credential":    {func(r *replica.Remote) { r.TokenFile = "" }, "read the credential"},
		"plain HTTP": {func(r *replica.Remote) { r.URL = "http" + strings.TrimPrefix(r.URL, "https") },
			"name an https:// URL"},
		"authority": {func(r *replica.Remote) { r.CAFile = "" }, "certificate"},
		"not there": {func(r *replica.Remote) { r.URL = "https://127.0.0.1:1" }, "connect it again"},
	} {
		target := other.target()
		try.change(&target)
		_, err := target.Open(t.Context(), replica.Owner{ID: "one"})
		require.ErrorContains(t, err, try.want, name)
	}
	require.NoError(t, os.Rename(dir, dir+".away"))
	_, err := other.target().Open(t.Context(), replica.Owner{ID: "one"})
	require.ErrorContains(t, err, "could not write the replica")
	other.dir = ""
	other.restart()
	_, err = other.target().Open(t.Context(), replica.Owner{ID: "one"})
	require.ErrorContains(t, err, "receives no replica")
}

// TestReceiver_everyOperationNeedsCredential calls each operation without the credential: nothing
// is written, and the answer does not say where the credential is.
func TestReceiver_everyOperationNeedsCredential(t *testing.T) {
	_, dir := dirs(t)
	other := newSecond(t, dir)
	call := func(status int, credential string) {
		t.Helper()
		for _, o := range other.operations() {
			path := strings.NewReplacer(":replica", "one", ":owner", "two", ":generation", "1", ":sum",
				strings.Repeat("0a", 32)).Replace(o.Path)
			request := httptest.NewRequest(o.Method, path, strings.NewReader("{}"))
			request.Header.Set("Authorization", credential)
			response := httptest.NewRecorder()
			(*other.handler.Load()).ServeHTTP(response, request)
			require.Equal(t, status, response.Code, o.ID)
			require.NotContains(t, response.Body.String(), other.files, o.ID)
		}
	}
	call(http.StatusUnauthorized, "")
	call(http.StatusUnauthorized, "Bearer "+strings.Repeat("wrong ", 8))
	text, err := os.ReadFile(other.token())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(other.token(), []byte("short"), 0o600))
	call(http.StatusInternalServerError, "Bearer short")
	require.NoError(t, os.WriteFile(other.token(), text, 0o600))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	other.dir = ""
	other.restart()
	call(http.StatusNotFound, "Bearer "+strings.TrimSpace(string(text)))
}

// TestReceiver_failureIsLogged takes the directory away: the log of the second appliance says so
// once. The audit trail has each opening.
func TestReceiver_failureIsLogged(t *testing.T) {
	_, dir := dirs(t)
	other := newSecond(t, dir)
	var log bytes.Buffer
	other.logger = slog.New(slog.NewTextHandler(&log, nil))
	other.restart()
	require.NoError(t, os.Rename(dir, dir+".away"))
	for range 3 {
		_, err := other.target().Open(t.Context(), replica.Owner{ID: "one"})
		require.ErrorContains(t, err, "could not write the replica")
	}
	require.Equal(t, 1, strings.Count(log.String(), "was not written"))
	require.Contains(t, log.String(), dir)
	require.NoError(t, os.Rename(dir+".away", dir))
	session, err := other.target().Open(t.Context(), replica.Owner{ID: "one"})
	require.NoError(t, err)
	require.NoError(t, session.Beat(t.Context(), replica.Heartbeat{Generation: session.Generation()}))
	page, err := other.trail.List(t.Context(), audittrail.Filter{})
	require.NoError(t, err)
	opened := map[string]int{}
	for _, item := range page.Items {
		opened[item.Operation]++
	}
	require.Equal(t, 4, opened["openReceivedReplica"])
	require.Zero(t, opened["receiveReplicaHeartbeat"])
}

// TestRemote_closesConnections asks for the signs of life, and opens a replica that refuses: no
// connection stays.
func TestRemote_closesConnections(t *testing.T) {
	_, dir := dirs(t)
	other := newSecond(t, dir)
	require.NoError(t, os.Rename(dir, dir+".away"))
	_, err := other.target().Open(t.Context(), replica.Owner{ID: "one"})
	require.ErrorContains(t, err, "could not write the replica")
	require.NoError(t, os.Rename(dir+".away", dir))
	_, err = other.target().Signs(t.Context())
	require.NoError(t, err)
	require.NoError(t, other.target().Claim(t.Context(), replica.Owner{ID: "one", Since: time.Now()}))
	require.Eventually(t, func() bool { return other.open.Load() == 0 }, time.Minute, time.Millisecond)
}

// TestRemote_silentLine lets a line lose everything without a sign, as a router does that was
// restarted. The next request uses another connection.
func TestRemote_silentLine(t *testing.T) {
	_, dir := dirs(t)
	other := newSecond(t, dir)
	target := other.target()
	address, lose := relay(t, other.server.Listener.Addr().String())
	target.URL, target.Silence = "https://"+address, 100*time.Millisecond
	session, err := target.Open(t.Context(), replica.Owner{ID: "one"})
	require.NoError(t, err)
	beat := replica.Heartbeat{Generation: session.Generation()}
	require.NoError(t, session.Beat(t.Context(), beat))
	lose()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // less than a request may last
	defer cancel()
	_, away := errors.AsType[*replica.AwayError](session.Beat(ctx, beat))
	require.True(t, away)
	require.NoError(t, session.Beat(ctx, beat))
}

// relay copies between its address and another one. lose makes it lose what it gets on the present
// connections, which stay open.
func relay(t *testing.T, to string) (address string, lose func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var group sync.WaitGroup
	var mu sync.Mutex
	var connections []net.Conn
	var lost []*atomic.Bool
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			loses := new(atomic.Bool)
			mu.Lock()
			connections, lost = append(connections, client, server), append(lost, loses)
			mu.Unlock()
			for _, ends := range [][2]net.Conn{{client, server}, {server, client}} {
				group.Go(func() {
					part := make([]byte, 4096)
					for {
						n, err := ends[0].Read(part)
						if err != nil {
							_ = ends[1].Close()
							return
						}
						if !loses.Load() {
							_, _ = ends[1].Write(part[:n]) // a failure ends the reading
						}
					}
				})
			}
		}
	})
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		mu.Lock()
		for _, connection := range connections {
			_ = connection.Close()
		}
		mu.Unlock()
		group.Wait()
	})
	return listener.Addr().String(), func() {
		mu.Lock()
		defer mu.Unlock()
		for _, each := range lost {
			each.Store(true)
		}
	}
}

// TestRemote_randomKills kills an appliance at random moments, and takes the directory of the
// second appliance away at others.
func TestRemote_randomKills(t *testing.T) {
	dir := t.TempDir()
	w := &walk{t: t, random: rand.New(rand.NewPCG(*seed, 7)), dir: dir}
	require.NoError(t, os.Mkdir(w.replica(), 0o700))
	w.second = newSecond(t, w.replica())
	for range 4 {
		w.live()
		w.checkNewest()
		w.checkRandomTimes(1)
	}
	require.Empty(t, verify(t, w.replica()).Damage)
}
