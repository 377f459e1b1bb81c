package recording

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/audittrail"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web"
	"landfall/web/operation"
	"landfall/web/problem"
)

// testServer records the requests of its operations.
type testServer struct {
	*web.Server
	trail *audittrail.Trail
	dir   string // of the trail
}

func newTestServer(t *testing.T) *testServer {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	dir = filepath.Join(dir, audittrail.DirName)
	trail, err := audittrail.Open(audittrail.Options{Dir: dir, DB: db, Key: key, Bytes: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, trail.Close()) })
	return &testServer{web.New(web.Options{Wrap: New(trail).Wrap}), trail, dir}
}

func (s *testServer) handle(t *testing.T, o operation.Operation, handler echo.HandlerFunc) {
	t.Helper()
	o.Handler = handler
	require.NoError(t, s.Register(o))
}

func (s *testServer) call(t *testing.T, kind access.Kind, method, path string) int {
	t.Helper()
	request := httptest.NewRequest(method, path, nil)
	request.Header.Set("X-Request-Id", "r1")
	response := httptest.NewRecorder()
	s.ServeHTTP(response, request.WithContext(access.With(t.Context(), access.Identity{Kind: kind, Name: "ana"})))
	return response.Code
}

// recorded returns the items of the trail except the start, the newest first.
func (s *testServer) recorded(t *testing.T) []audittrail.Item {
	t.Helper()
	require.NoError(t, s.trail.Record(t.Context(), audittrail.Entry{Operation: "marker"})) // all earlier are written
	page, err := s.trail.List(t.Context(), audittrail.Filter{})
	require.NoError(t, err)
	return page.Items[1 : len(page.Items)-1]
}

func TestWrap_recordsChangesAndSecrets(t *testing.T) {
	admin := operation.For(access.Administrator)
	logs := admin.WithSecret().OrRole(access.Viewer, "q", "logs")
	cases := map[string]struct {
		rule             operation.Access
		id, method, path string
		kind             access.Kind
		recorded, secret bool
	}{
		"change":                 {admin, "x", "PATCH", "/a", access.Person, true, false},
		"deletion":               {admin, "x", "DELETE", "/a", access.Program, true, false},
		"change by anybody":      {operation.Public(), "x", "POST", "/a", access.Nobody, true, false},
		"login at a provider":    {operation.Public(), oidcLogin, "GET", "/a", access.Nobody, true, false},
		"read":                   {admin, "x", "GET", "/a", access.Person, false, false},
		"read of a secret":       {admin.WithSecret(), "x", "GET", "/a", access.Person, true, true},
		"read of logs":           {logs, "x", "GET", "/a?q=logs", access.Person, false, false},
		"reply of an agent":      {admin.OrAgents(), "x", "POST", "/a", access.Agent, false, false},
		"reply of an open agent": {admin.OrAgents(), "x", "POST", "/a", access.Open, false, false},
		"reply by a person":      {admin.OrAgents(), "x", "POST", "/a", access.Person, true, false},
		"registration":           {admin.OrAgents(), registration, "POST", "/a", access.Agent, true, false},
		"secret to an agent":     {admin.OrAgents().WithSecret(), "x", "GET", "/a", access.Agent, true, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(t)
			s.handle(t, operation.Operation{ID: c.id, Method: c.method, Path: "/a", Access: c.rule},
				func(c echo.Context) error { return c.NoContent(http.StatusAccepted) })
			require.Equal(t, http.StatusAccepted, s.call(t, c.kind, c.method, c.path))
			items := s.recorded(t)
			if !c.recorded {
				require.Empty(t, items)
				return
			}
			require.Len(t, items, 1)
			require.Equal(t, c.secret, items[0].Secret)
			require.Equal(t, http.StatusAccepted, items[0].Status)
			require.Equal(t, c.kind, items[0].Actor.Kind)
		})
	}
}

// The handler runs while the disk writes the begin, but what it changes is saved afterwards.
func TestWrap_changeIsSavedAfterItsBegin(t *testing.T) {
	s, rows := newTestServer(t), store.NewBucket[string]("rows", 1)
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	var recorded uint64 // number of the newest record when the change was saved
	s.handle(t, operation.Operation{ID: "x", Method: http.MethodPost, Path: "/a", DryRun: true,
		Access: operation.For(access.Operator)}, func(c echo.Context) error {
		value := fmt.Sprint(recorded)
		if err := db.Update(c.Request().Context(), func(tx *store.Tx) error {
			return rows.Put(tx, "a", &value)
		}); err != nil {
			return err
		}
		recorded = s.trail.Head().Sequence
		return c.NoContent(http.StatusAccepted)
	})
	for range 20 {
		before := s.trail.Head().Sequence
		require.Equal(t, http.StatusAccepted, s.call(t, access.Person, http.MethodPost, "/a"))
		require.Greater(t, recorded, before)
		require.Equal(t, http.StatusAccepted, s.recorded(t)[0].Status)
	}
	require.NoError(t, s.trail.Close())
	require.Equal(t, http.StatusServiceUnavailable, s.call(t, access.Person, http.MethodPost, "/a"))
	require.EqualValues(t, 20, db.Revision(), "nothing changes without a trail")
}

func TestWrap_kubernetesAPI(t *testing.T) {
	s := newTestServer(t)
	for _, path := range []string{"/api/v1/*", "/apis/*"} {
		s.handle(t, operation.Operation{Method: operation.Any, Path: path, Access: operation.CheckedBy("the API")},
			func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	}
	for _, request := range [][2]string{
		{"GET", "/api/v1/namespaces/a/configmaps"}, {"GET", "/apis/x/v1/namespaces/a/secretstores?watch=true"},
		{"GET", "/api/v1/namespaces/a/secrets?limit=500"}, {"GET", "/api/v1/secrets"},
		{"GET", "/api/v1/namespaces/a/secrets/b"}, {"POST", "/apis/x/v1/namespaces/a/things"},
	} {
		s.call(t, access.Program, request[0], request[1])
	}
	items := s.recorded(t)
	require.Len(t, items, 4)
	require.Equal(t, "/apis/x/v1/namespaces/a/things", items[0].Path)
	require.Equal(t, "the API", items[0].Operation)
	for _, item := range items[1:] {
		require.True(t, item.Secret, item.Path)
	}
}

// TestWrap_strangersAtTheKubernetesAPI sends many requests without credentials. They are counted.
func TestWrap_strangersAtTheKubernetesAPI(t *testing.T) {
	s := newTestServer(t)
	s.handle(t, operation.Operation{Method: operation.Any, Path: "/api/v1/*", Access: operation.CheckedBy("the API")},
		func(c echo.Context) error { return c.NoContent(http.StatusUnauthorized) })
	for range 300 {
		s.call(t, access.Nobody, http.MethodGet, "/api/v1/secrets")
		s.call(t, access.Nobody, http.MethodPost, "/api/v1/namespaces/a/things")
	}
	items := s.recorded(t)
	require.Less(t, len(items), 20, "the refused requests are counted")
	require.Equal(t, audittrail.Refused, items[0].Kind)
}

// TestWrap_admitting calls an operation that checks its clients itself. Many refused requests are
// one record, and what a client does often is recorded only if the handler admits it.
func TestWrap_admitting(t *testing.T) {
	s := newTestServer(t)
	s.handle(t, operation.Operation{ID: "x", Method: http.MethodPost, Path: "/a",
		Access: operation.CheckedBy("the API").Admitting()}, func(c echo.Context) error {
		switch c.QueryParam("as") {
		case "stranger":
			return problem.Unauthorized("no")
		case "answered":
			return c.NoContent(http.StatusForbidden)
		case "owner":
			if err := Admit(c.Request().Context()); err != nil {
				return err
			}
		}
		return c.NoContent(http.StatusAccepted)
	})
	require.Equal(t, http.StatusAccepted, s.call(t, access.Nobody, http.MethodPost, "/a?as=owner"))
	for range 100 {
		require.Equal(t, http.StatusUnauthorized, s.call(t, access.Nobody, http.MethodPost, "/a?as=stranger"))
		require.Equal(t, http.StatusForbidden, s.call(t, access.Nobody, http.MethodPost, "/a?as=answered"))
		require.Equal(t, http.StatusAccepted, s.call(t, access.Nobody, http.MethodPost, "/a?as=frequent"))
	}
	items := s.recorded(t)
	require.Less(t, len(items), 20, "the refused requests are counted")
	require.Equal(t, http.StatusAccepted, items[len(items)-1].Status)
	require.False(t, items[len(items)-1].Secret)
	require.NoError(t, s.trail.Close())
	require.Equal(t, http.StatusServiceUnavailable, s.call(t, access.Nobody, http.MethodPost, "/a?as=owner"))
}

// A handler may answer frequent requests without admitting their clients.
func TestWrap_answerWithoutAdmissionIsNoRefusal(t *testing.T) {
	s := newTestServer(t)
	s.handle(t, operation.Operation{ID: "x", Method: http.MethodPost, Path: "/a",
		Access: operation.CheckedBy("the API").Admitting()},
		func(c echo.Context) error { return c.NoContent(http.StatusAccepted) })
	require.Equal(t, http.StatusAccepted, s.call(t, access.Nobody, http.MethodPost, "/a"))
	require.Empty(t, s.recorded(t))
}

func TestWrap_describesRequestWithoutSecrets(t *testing.T) {
	s := newTestServer(t)
	s.handle(t, operation.Operation{ID: "x", Method: http.MethodPost,
		Path: "/clusters/:cluster_id/by/:token/:code/:file", Access: operation.For(access.Viewer),
	}, func(c echo.Context) error {
		Created(c.Request().Context(), "thing_id", "t1")
		return c.NoContent(http.StatusCreated)
	})
	s.call(t, access.Person, http.MethodPost, "/clusters/c1/by/hunter2/hunter2/hunter2.iso?api_key=hunter2")
	item := s.recorded(t)[0]
	require.Equal(t, audittrail.Entry{Operation: "x", Method: "POST", Path: "/clusters/c1/by/:token/:code/:file",
		Objects: map[string]string{"cluster_id": "c1", "thing_id": "t1"}, Request: "r1", Status: 201}, item.Entry)
}

func TestWrap_recordsOutcomeOfFailures(t *testing.T) {
	s := newTestServer(t)
	rule := operation.For(access.Viewer)
	s.handle(t, operation.Operation{ID: "conflict", Method: http.MethodPost, Path: "/a", Access: rule},
		func(echo.Context) error { return problem.New(http.StatusConflict, "no") })
	s.handle(t, operation.Operation{ID: "panic", Method: http.MethodPost, Path: "/b", Access: rule},
		func(echo.Context) error { panic("x") })
	require.Equal(t, http.StatusConflict, s.call(t, access.Person, http.MethodPost, "/a"))
	require.Equal(t, http.StatusInternalServerError, s.call(t, access.Person, http.MethodPost, "/b"))
	items := s.recorded(t)
	require.Equal(t, http.StatusConflict, items[1].Status)
	require.Equal(t, http.StatusInternalServerError, items[0].Status)
}

func TestWrap_withoutRecordNothingRuns(t *testing.T) {
	s := newTestServer(t)
	ran := false
	s.handle(t, operation.Operation{ID: "x", Method: http.MethodPost, Path: "/a",
		Access: operation.For(access.Viewer)}, func(c echo.Context) error {
		ran = true
		return c.NoContent(http.StatusOK)
	})
	require.NoError(t, s.trail.Close())
	require.Equal(t, http.StatusServiceUnavailable, s.call(t, access.Person, http.MethodPost, "/a"))
	require.False(t, ran)
}

// The client has the answer of its login before the trail turns out to be unwritable.
func TestWrap_loginWithoutSpaceIsRecordedLater(t *testing.T) {
	s := newTestServer(t)
	s.handle(t, operation.Operation{ID: "logIn", Method: http.MethodPost, Path: "/a", Access: operation.Public()},
		func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	away := s.dir + ".away"
	require.NoError(t, os.Rename(s.dir, away)) // the next file of the trail cannot be created
	for written := error(nil); written == nil; {
		written = s.trail.Record(t.Context(), audittrail.Entry{Path: strings.Repeat("a", 1000)})
	}
	require.Equal(t, http.StatusOK, s.call(t, access.Nobody, http.MethodPost, "/a"))
	require.NoError(t, os.Rename(away, s.dir))
	require.Equal(t, "logIn", s.recorded(t)[0].Operation)
}

func TestRefused_isRecorded(t *testing.T) {
	s := newTestServer(t)
	o := operation.Operation{ID: "x", Method: http.MethodGet, Path: "/a", Access: operation.For(access.Viewer)}
	s.handle(t, o, func(c echo.Context) error {
		ctx := access.WithFailure(c.Request().Context(), errors.New("the token has expired"))
		c.SetRequest(c.Request().WithContext(ctx))
		New(s.trail).Refused(c, o, http.StatusForbidden)
		return problem.New(http.StatusForbidden, "no")
	})
	s.call(t, access.Person, http.MethodGet, "/a")
	item := s.recorded(t)[0]
	require.Equal(t, audittrail.Refused, item.Kind)
	require.Equal(t, http.StatusForbidden, item.Status)
	require.Equal(t, "the token has expired", item.Text)
	require.Equal(t, "ana", item.Actor.Name)
}
