package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"landfall/web"
	"landfall/web/operation"
)

// guarded returns a server for the names localhost and bastion.example.com with one operation.
func guarded(t *testing.T) *web.Server {
	t.Helper()
	server := web.New(web.Options{Hosts: web.NewHosts("https://Bastion.example.com:8090", "")})
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		require.NoError(t, server.Register(operation.Operation{Method: method, Path: "/a", Access: operation.Public(),
			Handler: func(c echo.Context) error { return c.NoContent(http.StatusNoContent) }}))
	}
	return server
}

func TestServer_refusesForeignHostNames(t *testing.T) {
	server := guarded(t)
	for host, want := range map[string]int{
		"localhost:8090": 204, "192.0.2.1:8090": 204, "192.0.2.1": 204, "[2001:db8::1]:8090": 204, "[::1]": 204,
		"bastion.example.com": 204, "BASTION.example.com.:8090": 204,
		"evil.example.net": 421, "evil.example.net:8090": 421, "localhost.evil.example.net": 421,
		"192.0.2.1.evil.example.net": 421, "": 421, "1e100": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/a", nil)
		r.Host = host
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, host)
	}
}

func TestServer_refusesRequestsOfForeignPages(t *testing.T) {
	server := guarded(t)
	for name, c := range map[string]struct {
		method  string
		headers map[string]string
		want    int
	}{
		"a program":                {http.MethodPost, nil, 204},
		"the own page":             {http.MethodPost, map[string]string{"Sec-Fetch-Site": "same-origin"}, 204},
		"the own page, old":        {http.MethodPost, map[string]string{"Origin": "https://localhost:8090"}, 204},
		"a foreign form":           {http.MethodPost, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"a foreign form, old":      {http.MethodPost, map[string]string{"Origin": "https://evil.example.net"}, 403},
		"a page without an origin": {http.MethodPost, map[string]string{"Origin": "null"}, 403},
		"another port":             {http.MethodPost, map[string]string{"Origin": "http://localhost:1"}, 403},
		"a link on a foreign page": {http.MethodGet, map[string]string{"Sec-Fetch-Site": "cross-site",
			"Sec-Fetch-Mode": "navigate"}, 204},
		"a foreign script":       {http.MethodGet, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"a foreign event source": {http.MethodGet, map[string]string{"Origin": "https://evil.example.net"}, 403},
		"a form as a navigation": {http.MethodPost, map[string]string{"Sec-Fetch-Site": "cross-site",
			"Sec-Fetch-Mode": "navigate"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "/a", nil)
			r.Host = "localhost:8090"
			for header, value := range c.headers {
				r.Header.Set(header, value)
			}
			w := httptest.NewRecorder()
			server.ServeHTTP(w, r)
			require.Equal(t, c.want, w.Code)
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
			require.Equal(t, "same-origin", w.Header().Get("Cross-Origin-Resource-Policy"))
			require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
		})
	}
}
