package web

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"landfall/web/operation"
)

// handle registers a handler for tests.
func handle(t testing.TB, server *Server, method, path string, handler echo.HandlerFunc) {
	t.Helper()
	require.NoError(t, server.Register(operation.Operation{Method: method, Path: path, Access: operation.Public(),
		Handler: handler}))
}

func get(server http.Handler, path string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	server.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder
}

// recordedLog returns a logger and a function that returns the logged lines.
func recordedLog(level slog.Level) (*slog.Logger, func() []map[string]any) {
	var lines bytes.Buffer
	logger := slog.New(LogHandler(slog.NewJSONHandler(&lines, &slog.HandlerOptions{Level: level})))
	return logger, func() []map[string]any {
		var records []map[string]any
		for decoder := json.NewDecoder(&lines); ; {
			record := map[string]any{}
			if decoder.Decode(&record) != nil {
				return records
			}
			records = append(records, record)
		}
	}
}
