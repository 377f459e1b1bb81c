package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/health"
	"landfall/web"
)

func TestHealth_answersLikeKubernetes(t *testing.T) {
	passes := func(context.Context) error { return nil }
	var broken error
	checks := health.New(health.Check{Name: "ping", Run: passes},
		health.Check{Name: "store", Run: func(context.Context) error { return broken }})
	server := web.New(web.Options{})
	require.NoError(t, server.Register(healthOperations(checks, checks)...))
	for _, c := range []struct {
		name, path string
		broken     error
		status     int
		text       string
	}{
		{"passed", "/livez", nil, 200, "ok"},
		{"passed, verbose", "/readyz?verbose", nil, 200, "[+]ping ok\n[+]store ok\nreadyz check passed\n"},
		{"failed", "/readyz", errors.New("the disk is full"), 503,
			"[+]ping ok\n[-]store failed: the disk is full\nreadyz check failed\n"},
		{"without the failed check", "/readyz?exclude=store", errors.New("the disk is full"), 200, "ok"},
		{"excluded, verbose", "/livez?verbose&exclude=store", nil, 200,
			"[+]ping ok\n[+]\"store\" excluded: ok\nlivez check passed\n"},
		{"one check", "/livez/ping", errors.New("the disk is full"), 200, "ok"},
		{"one failed check", "/livez/store", errors.New("the disk is full"), 503,
			"[-]store failed: the disk is full\nlivez check failed\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			broken = c.broken
			recorder := httptest.NewRecorder()
			server.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, c.path, nil))
			require.Equal(t, c.status, recorder.Code)
			require.Equal(t, c.text, recorder.Body.String())
			require.Equal(t, "text/plain; charset=UTF-8", recorder.Header().Get("Content-Type"))
		})
	}
	recorder := httptest.NewRecorder()
	server.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/livez/nothing", nil))
	require.Equal(t, http.StatusNotFound, recorder.Code)
}
