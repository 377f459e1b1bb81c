package traffic

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"landfall/web"
	"landfall/web/operation"
	"landfall/web/problem"
)

func TestMeter_countsByOperationAndStatus(t *testing.T) {
	meter := New()
	wrap := func(o operation.Operation) echo.HandlerFunc { return meter.Wrap(o, o.Handler) }
	server := web.New(web.Options{Wrap: wrap})
	require.NoError(t, server.Register(
		operation.Operation{ID: "getThing", Method: http.MethodGet, Path: "/api/landfall/v1/things/:id",
			Access: operation.Public(), Handler: func(c echo.Context) error {
				switch c.Param("id") {
				case "none":
					return problem.NotFound("there is no such thing")
				case "panic":
					panic("broken")
				case "half":
					c.Response().WriteHeader(http.StatusPartialContent)
					panic(http.ErrAbortHandler)
				}
				return c.NoContent(http.StatusNoContent)
			}},
		operation.Operation{Method: operation.Any, Path: "/apis/*", Access: operation.Public(),
			Endless: func(*http.Request) bool { return true },
			Handler: func(c echo.Context) error { return c.NoContent(http.StatusOK) }},
	))
	for _, path := range []string{"/api/landfall/v1/things/1", "/api/landfall/v1/things/2",
		"/api/landfall/v1/things/none", "/api/landfall/v1/things/panic", "/apis/apps/v1", "/unknown"} {
		server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		server.ServeHTTP(httptest.NewRecorder(),
			httptest.NewRequest(http.MethodGet, "/api/landfall/v1/things/half", nil))
	})
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(meter))
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP landfall_http_requests_total Requests that have ended, by operation and HTTP status. An operation without an ID has its path.
# TYPE landfall_http_requests_total counter
landfall_http_requests_total{code="200",operation="/apis/*"} 1
landfall_http_requests_total{code="204",operation="getThing"} 2
landfall_http_requests_total{code="206",operation="getThing"} 1
landfall_http_requests_total{code="404",operation="getThing"} 1
landfall_http_requests_total{code="500",operation="getThing"} 1
`), "landfall_http_requests_total"))
	require.Equal(t, 2, testutil.CollectAndCount(meter, "landfall_http_request_duration_seconds"))
}
