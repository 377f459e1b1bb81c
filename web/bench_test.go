package web

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"landfall/web/operation"
)

func BenchmarkPoll(b *testing.B) {
	server := New(Options{})
	require.NoError(b, server.Register(operation.Operation{Method: http.MethodGet, Quiet: true,
		Path:    "/v2/infra-envs/:infra_env_id/hosts/:host_id/instructions",
		Access:  operation.Public(),
		Handler: func(c echo.Context) error { return c.NoContent(http.StatusOK) }}))
	request := httptest.NewRequest(http.MethodGet, "/v2/infra-envs/x/hosts/y/instructions", nil)
	request.Header.Set("X-Request-Id", "r-1")
	for b.Loop() {
		server.ServeHTTP(httptest.NewRecorder(), request)
	}
}
