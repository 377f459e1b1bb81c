package registry_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/people"
	"landfall/appliance/registry"
	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/overlay"
	simulated "landfall/appliance/simulate/registry"
	"landfall/logtest"
	"landfall/store"
	"landfall/web"
	webregistry "landfall/web/registry"
)

// site is a registry with media in a folder.
type site struct {
	testing.TB
	dir      string // the folder with the media
	data     string
	clock    *clockwork.FakeClock
	open     medium.Opener
	free     func(string) (int64, error)
	bytes    int64 // limit of the registry
	shared   *overlay.Shared
	deadline time.Duration
	leftOut  func(client string, image *registry.LeftOutError)
	db       *store.DB
	registry *registry.Registry
	server   *httptest.Server
	stop     func()
}

// newSite returns a site whose registry does not run yet.
func newSite(t testing.TB) *site {
	t.Helper()
	// The times of new files are after the clock, so they count as those of another clock.
	clock := clockwork.NewFakeClockAt(time.Now().Add(-time.Hour))
	return &site{TB: t, dir: t.TempDir(), data: t.TempDir(), clock: clock, open: medium.OpenFile}
}

// path returns the path of a medium.
func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// write writes an archive of oc-mirror.
func (s *site) write(name string, a *simulated.Archive) {
	s.Helper()
	require.NoError(s, a.WriteFile(s.path(name)))
}

// start runs the registry with the folder as its medium, and waits until it was read.
func (s *site) start() {
	s.Helper()
	s.await(s.run())
}

// run runs the registry with the folder as its medium. The channel is closed when it was read.
func (s *site) run() (changed <-chan struct{}) {
	s.Helper()
	logger := logtest.New(s, slog.LevelInfo)
	db, err := store.Open(s.Context(), s.data, store.Options{NoSync: true})
	require.NoError(s, err)
	s.db = db
	s.registry, err = registry.Open(s.Context(), registry.Options{DB: db, Media: []string{s.dir}, Open: s.open,
		Dir: filepath.Join(s.data, "registry"), Free: s.free, Bytes: s.bytes,
		Shared: s.shared, ReadDeadline: s.deadline, Clock: s.clock, Logger: logger})
	require.NoError(s, err)
	changed = s.registry.Changed()
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.registry.Run(ctx) }()
	handler := web.New(web.Options{Logger: logger})
	require.NoError(s, handler.Register(webregistry.Operations(webregistry.Options{Registry: s.registry,
		Anonymous: true, Logger: logger, Login: logIn,
		LeftOut: func(_ context.Context, client string, image *registry.LeftOutError) { s.leftOut(client, image) },
	})...))
	s.server = httptest.NewServer(handler)
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		s.server.Close()
		cancel()
		require.NoError(s, <-ended)
		require.NoError(s, s.registry.Close())
		require.NoError(s, db.Close())
	}
	s.Cleanup(s.stop)
	return changed
}

// await waits for a change of the known media.
func (s *site) await(changed <-chan struct{}) {
	s.Helper()
	select {
	case <-changed:
	case <-time.After(time.Minute):
		require.FailNow(s, "the media did not change")
	}
}

// host returns host:port of the registry.
func (s *site) host() string { return strings.TrimPrefix(s.server.URL, "http://") }

// answer is an answer of the registry.
type answer struct {
	*http.Response
	body []byte
	err  error // of reading the body
}

// message returns the code and the message of an error answer.
func (a answer) message(t testing.TB) (code, message string) {
	t.Helper()
	var failure struct {
		Errors []struct{ Code, Message string }
	}
	require.NoError(t, json.Unmarshal(a.body, &failure), "%s", a.body)
	require.Len(t, failure.Errors, 1)
	return failure.Errors[0].Code, failure.Errors[0].Message
}

// send sends a request. The headers are pairs of names and values.
func (s *site) send(method, path string, body io.Reader, headers ...string) answer {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), method, s.server.URL+path, body)
	require.NoError(s, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(s, err)
	defer func() { _ = response.Body.Close() }() // it was read
	data, err := io.ReadAll(response.Body)
	return answer{response, data, err}
}

func (s *site) get(path string, headers ...string) answer {
	s.Helper()
	return s.send(http.MethodGet, path, nil, headers...)
}

// newArchive returns an archive with a release payload.
func newArchive(t testing.TB) (*simulated.Archive, *simulated.Pushed) {
	t.Helper()
	a := &simulated.Archive{Written: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	pushed, err := a.AddPayload(t.Context(), simulated.Payload{})
	require.NoError(t, err)
	return a, pushed
}

// remove removes the medium, as if it was unplugged.
func (s *site) remove(name string) {
	s.Helper()
	require.NoError(s, os.Rename(s.path(name), filepath.Join(s.data, name)))
	s.look()
}

// put plugs a removed medium in again.
func (s *site) put(name string) {
	s.Helper()
	require.NoError(s, os.Rename(filepath.Join(s.data, name), s.path(name)))
	s.look()
}

// look makes the registry look at the media, and waits for a change.
func (s *site) look() {
	s.Helper()
	changed := s.registry.Changed()
	s.registry.Look()
	s.await(changed)
}

// Credentials of an operator.
const operator, password = "ana", "a password: with a colon"

// logIn knows one operator.
func logIn(_ context.Context, _, name, given string) (access.Identity, error) {
	if name != operator || given != password {
		return access.Identity{}, people.ErrCredentials
	}
	return access.Identity{Kind: access.Person, Name: name, Role: access.Operator}, nil
}
