package appliance

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/web/console"
)

// TestOrigins_endlessResponses requests the live feed and watches as pages of other sites do, which
// a browser lets read neither by EventSource nor by WebSocket.
func TestOrigins_endlessResponses(t *testing.T) {
	g := newGuarded(t)
	runUntilEnd(t, g.kubeServer.api.Run)
	<-g.kubeServer.api.Ready()
	socket := map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
	with := func(base map[string]string, more ...string) map[string]string {
		headers := map[string]string{}
		for name, value := range base {
			headers[name] = value
		}
		for i := 0; i < len(more); i += 2 {
			headers[more[i]] = more[i+1]
		}
		return headers
	}
	const foreign, own = "https://evil.example.net", "https://127.0.0.1"
	for _, path := range []string{console.FeedRoute, "/api/v1/namespaces?watch=true",
		"/apis/hive.openshift.io/v1/clusterdeployments?watch=1"} {
		for name, c := range map[string]struct {
			headers map[string]string
			refused bool
		}{
			"the own page":                {with(nil, "Origin", own, "Sec-Fetch-Site", "same-origin"), false},
			"an event source elsewhere":   {with(nil, "Origin", foreign), true},
			"a script elsewhere":          {with(nil, "Sec-Fetch-Site", "cross-site"), true},
			"a page in a sandbox":         {with(nil, "Origin", "null"), true},
			"a WebSocket elsewhere":       {with(socket, "Origin", foreign), true},
			"a WebSocket at another port": {with(socket, "Origin", own+":1"), true},
		} {
			t.Run(name+" "+path, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1"+path, nil)
				r.Header.Set("Authorization", g.callers["viewer"].token)
				for name, value := range c.headers {
					r.Header.Set(name, value)
				}
				w := httptest.NewRecorder()
				g.server.ServeHTTP(w, r)
				if c.refused {
					require.Equal(t, http.StatusForbidden, w.Code)
					require.Contains(t, w.Body.String(), "a page of another site sent this request")
					return
				}
				require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
			})
		}
	}
}
