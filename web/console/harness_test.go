package console

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/store"
	"landfall/web"
)

type appliance struct{}

func (appliance) Status(context.Context) (*Status, error) {
	return &Status{Version: "v1", URL: "http://bastion:8090"}, nil
}

type testServer struct {
	server *web.Server
	db     *store.DB
	clock  *clockwork.FakeClock
	images *images
	rows   store.Bucket[string]
}

func newTestServer(t *testing.T, ui fstest.MapFS) *testServer {
	t.Helper()
	s := &testServer{server: web.New(web.Options{}), clock: clockwork.NewFakeClock(), images: &images{},
		rows: store.NewBucket[string]("hosts", 1)}
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s.db = db
	page, err := PageOperations(ui)
	require.NoError(t, err)
	require.NoError(t, s.server.Register(slices.Concat(
		page, StatusOperations(appliance{}), ImageOperations(s.images, s.images), StaticNetworkOperations(networks{}),
		FeedOperations(Feed{
			Changes: db, Clock: s.clock, Draining: s.server.Draining(),
			ClusterOf: func(_ context.Context, kind, key string) (string, error) {
				return "cluster of " + kind + " " + key, nil
			},
		}),
	)...))
	return s
}

func (s *testServer) put(t *testing.T, key string) {
	t.Helper()
	value := "x"
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error { return s.rows.Put(tx, key, &value) }))
}

// get sends a request of an operator.
func (s *testServer) get(path string, header ...string) *httptest.ResponseRecorder {
	return s.getAs(access.Operator, path, header...)
}

func (s *testServer) getAs(role access.Role, path string, header ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request = request.WithContext(access.With(request.Context(), access.Identity{Role: role}))
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	recorder := httptest.NewRecorder()
	s.server.ServeHTTP(recorder, request)
	return recorder
}

// listen opens the feed. It returns a function that reads the next event and joins its fields with
// " | ".
func (s *testServer) listen(t *testing.T, last string) func() string {
	t.Helper()
	server := httptest.NewServer(s.server)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+FeedRoute, nil)
	require.NoError(t, err)
	request.Header.Set("Last-Event-ID", last)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, response.Body.Close()) })
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	lines := bufio.NewScanner(response.Body)
	return func() string {
		var fields []string
		for lines.Scan() && lines.Text() != "" {
			fields = append(fields, lines.Text())
		}
		return strings.Join(fields, " | ")
	}
}

func send(s *testServer, method, path, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, BasePath+path, strings.NewReader(body))
	recorder := httptest.NewRecorder()
	s.server.ServeHTTP(recorder, request)
	return recorder
}
