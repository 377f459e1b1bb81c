package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/tokens"
	"landfall/appliance/config"
	"landfall/ignition"
	"landfall/web/console"
)

// guarded is an appliance with authentication, and a caller of each kind.
type guarded struct {
	*Appliance
	callers map[string]caller
	cluster string // an infra-env and its cluster, to which the callers "agent" and "limited" belong
	env     string
}

type caller struct {
	role           access.Role
	agent, limited bool
	foreign        bool   // the scope is limited to another cluster
	header, token  string // "" for nobody
}

const testPullSecret = `{"auths":{"registry.example.com":{"auth":"dXNlcjpwYXNzd29yZA=="}}}`

// newGuarded opens an appliance with authentication. Its requests run in the process.
func newGuarded(t testing.TB) *guarded {
	t.Helper()
	return newGuardedAt(t, clockwork.NewRealClock())
}

// newGuardedAt is newGuarded with a clock. While the clock stands still, nothing is written in the
// background.
func newGuardedAt(t testing.TB, clock clockwork.Clock) *guarded {
	t.Helper()
	return newGuardedAmong(t, clock, surroundings{}, func(*config.Config) {})
}

// newGuardedAmong is newGuardedAt with what the appliance shares with others, and with a change of
// its configuration.
func newGuardedAmong(t testing.TB, clock clockwork.Clock, among surroundings,
	change func(*config.Config)) *guarded {
	t.Helper()
	settings := config.Default()
	settings.DataDir = t.TempDir()
	settings.Listen, settings.Kubernetes.Enabled = "127.0.0.1:0", true
	settings.Hosted.Enabled = true
	settings.ReleaseImages = []config.ReleaseImage{{OpenshiftVersion: "4.20.0", CPUArchitecture: "x86_64",
		Default: true,
		URL:     "quay.io/openshift-release-dev/ocp-release@sha256:" + strings.Repeat("0", 64)}}
	settings.Images.Agent = "registry.example.com/agent:v1"
	change(&settings)
	a, err := open(t.Context(), settings, slog.New(slog.DiscardHandler), "test", clock, among)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	g := &guarded{Appliance: a, callers: map[string]caller{"nobody": {}}}
	g.addToken(t, "viewer", access.Viewer, access.Scope{})
	g.addToken(t, "operator", access.Operator, access.Scope{})
	g.addToken(t, "admin", access.Administrator, access.Scope{})
	var cluster, env struct {
		ID string `json:"id"`
	}
	g.post(t, "/api/assisted-install/v2/clusters", map[string]any{"name": "own", "openshift_version": "4.20.0",
		"base_dns_domain": "example.com", "pull_secret": testPullSecret}, &cluster)
	g.post(t, "/api/assisted-install/v2/infra-envs", map[string]any{"name": "own", "cluster_id": cluster.ID,
		"pull_secret": testPullSecret, "openshift_version": "4.20.0"}, &env)
	g.cluster, g.env = cluster.ID, env.ID
	g.addToken(t, "limited", access.Administrator, access.Scope{Clusters: []string{g.cluster}})
	g.addToken(t, "limited to others", access.Administrator, access.Scope{Clusters: []string{uuid.NewString()}})
	elsewhere := g.callers["limited to others"]
	elsewhere.foreign = true
	g.callers["limited to others"] = elsewhere
	g.callers["agent"] = caller{agent: true, header: "X-Secret-Key", token: g.agentToken(t, g.env)}
	return g
}

func (g *guarded) addToken(t testing.TB, name string, role access.Role, scope access.Scope) {
	t.Helper()
	text, _, err := g.clients.tokens.Create(t.Context(), tokens.NewToken{Name: strings.ReplaceAll(name, " ", "-"),
		Role: role, Scope: scope})
	require.NoError(t, err)
	g.callers[name] = caller{role: role, limited: scope.Limited(), header: "Authorization", token: "Bearer " + text}
}

// agentToken returns the token in the discovery image of an infra-env.
func (g *guarded) agentToken(t testing.TB, infraEnvID string) string {
	t.Helper()
	recipe, err := g.engine.Recipe(t.Context(), infraEnvID)
	require.NoError(t, err)
	found, err := ignition.ReadDiscovery(recipe.Ignition)
	require.NoError(t, err)
	require.NotEmpty(t, found.PullSecretToken)
	return found.PullSecretToken
}

func (g *guarded) post(t testing.TB, path string, body, into any) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	w := g.request(t, http.MethodPost, path, string(text), g.callers["admin"])
	require.Less(t, w.Code, 300, w.Body.String())
	require.NoError(t, json.NewDecoder(w.Body).Decode(into))
}

// request calls the server in the process. The endless response of the feed ends soon.
func (g *guarded) request(t testing.TB, method, path, body string, as caller) *httptest.ResponseRecorder {
	t.Helper()
	ctx := t.Context()
	if name, _, _ := strings.Cut(path, "?"); name == console.FeedRoute {
		limited, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		ctx = limited
	}
	r := httptest.NewRequestWithContext(ctx, method, "https://127.0.0.1"+path, bytes.NewReader([]byte(body)))
	r.Header.Set("Content-Type", "application/json")
	if as.header != "" {
		r.Header.Set(as.header, as.token)
	}
	w := httptest.NewRecorder()
	serve(g.server, w, r)
	return w
}

// serve answers a request as net/http does: a handler ends an interrupted response with
// http.ErrAbortHandler.
func serve(handler http.Handler, w http.ResponseWriter, r *http.Request) {
	defer func() {
		if cause := recover(); cause != nil && cause != http.ErrAbortHandler {
			panic(cause)
		}
	}()
	handler.ServeHTTP(w, r)
}

// status calls an operation and returns the status of the response.
func (g *guarded) status(t testing.TB, method, path string, as caller) int {
	t.Helper()
	return g.request(t, method, path, "{}", as).Code
}

// fill replaces the parameters of a route. Clusters and infra-envs exist, other objects do not.
func (g *guarded) fill(route string) string {
	parts := strings.Split(route, "/")
	for i, part := range parts {
		switch part {
		case ":cluster_id":
			parts[i] = g.cluster
		case ":infra_env_id":
			parts[i] = g.env
		case ":version":
			parts[i] = "4.20"
		case ":arch":
			parts[i] = "x86_64"
		default:
			if strings.HasPrefix(part, ":") {
				parts[i] = uuid.NewString()
			}
		}
	}
	return strings.Join(parts, "/")
}
