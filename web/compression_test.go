package web

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"landfall/web/operation"
	"landfall/web/problem"
)

type texts map[string]string

func longList() texts { return texts{"text": strings.Repeat("a cluster ", 1000)} }

// compressing returns a server with operations of all kinds.
func compressing(t testing.TB) *Server {
	t.Helper()
	server := New(Options{})
	add := func(path string, change func(*operation.Operation), handler echo.HandlerFunc) {
		o := operation.Operation{Method: http.MethodGet, Path: path, Access: operation.Public(), Handler: handler,
			Answer: texts{}, Head: true}
		if change != nil {
			change(&o)
		}
		require.NoError(t, server.Register(o))
	}
	long := func(c echo.Context) error { return c.JSON(http.StatusOK, longList()) }
	add("/long", nil, long)
	add("/short", nil, func(c echo.Context) error { return c.JSON(http.StatusOK, texts{"a": "b"}) })
	add("/tagged", nil, func(c echo.Context) error {
		c.Response().Header().Set("ETag", `"7"`)
		return long(c)
	})
	add("/failing", nil, func(echo.Context) error { return problem.NotFound("%s", strings.Repeat("nothing ", 500)) })
	add("/nothing", nil, func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	add("/secret", func(o *operation.Operation) { o.Access = o.Access.WithSecret() }, long)
	add("/token", nil, func(c echo.Context) error {
		operation.HasSecret(c)
		return long(c)
	})
	add("/poll", func(o *operation.Operation) { o.Quiet = true }, long)
	add("/file", func(o *operation.Operation) { o.Answer = operation.File{} }, long)
	add("/text", nil, func(c echo.Context) error { return c.String(http.StatusOK, strings.Repeat("text ", 1000)) })
	return server
}

func ask(server *Server, method, path, accepted string) *http.Response {
	request := httptest.NewRequest(method, path, nil)
	request.Header.Set("Accept-Encoding", accepted)
	recorder := httptest.NewRecorder()
	server.ServeHTTP(recorder, request)
	return recorder.Result()
}

func TestCompression_longJSON(t *testing.T) {
	server := compressing(t)
	response := ask(server, http.MethodGet, "/long", "br, gzip")
	require.Equal(t, "gzip", response.Header.Get("Content-Encoding"))
	require.Equal(t, "Accept-Encoding", response.Header.Get("Vary"))
	require.Empty(t, response.Header.Get("Content-Length"))
	packed, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Less(t, len(packed), 1000)
	reader, err := gzip.NewReader(strings.NewReader(string(packed)))
	require.NoError(t, err)
	var got texts
	require.NoError(t, json.NewDecoder(reader).Decode(&got))
	require.Equal(t, longList(), got)
	require.Equal(t, `"7-gzip"`, ask(server, http.MethodGet, "/tagged", "gzip").Header.Get("ETag"),
		"each form has a tag of its own")
	require.Equal(t, `"7"`, ask(server, http.MethodGet, "/tagged", "").Header.Get("ETag"))
}

func TestCompression_othersUnchanged(t *testing.T) {
	server := compressing(t)
	for name, c := range map[string]struct {
		method, path, accepted string
		status                 int
	}{
		"client without gzip": {"GET", "/long", "", 200},
		"client refuses gzip": {"GET", "/long", "gzip;q=0", 200},
		"other encoding":      {"GET", "/long", "br", 200},
		"short answer":        {"GET", "/short", "gzip", 200},
		"error":               {"GET", "/failing", "gzip", 404},
		"no content":          {"GET", "/nothing", "gzip", 204},
		"secret":              {"GET", "/secret", "gzip", 200},
		"secret for some":     {"GET", "/token", "gzip", 200},
		"secret, no gzip":     {"GET", "/token", "", 200},
		"poll of an agent":    {"GET", "/poll", "gzip", 200},
		"file":                {"GET", "/file", "gzip", 200},
		"text":                {"GET", "/text", "gzip", 200},
		"unknown path":        {"GET", "/unknown", "gzip", 404},
	} {
		t.Run(name, func(t *testing.T) {
			response := ask(server, c.method, c.path, c.accepted)
			require.Equal(t, c.status, response.StatusCode)
			require.Empty(t, response.Header.Get("Content-Encoding"))
			require.Empty(t, response.Header.Get("No-Gzip-Compression"), "it is for the server only")
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			if c.path == "/long" {
				require.Contains(t, string(body), "a cluster a cluster")
			}
			if c.status == http.StatusNotFound {
				require.True(t, json.Valid(body), "%s", body)
			}
		})
	}
}

func BenchmarkCompression(b *testing.B) {
	server := compressing(b)
	for _, accepted := range []string{"", "gzip"} {
		b.Run("accepted="+accepted, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ask(server, http.MethodGet, "/long", accepted)
			}
		})
	}
}
