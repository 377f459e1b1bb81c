package appliance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"landfall/web/operation"
)

// ids are the objects in the path of a machine's request.
type ids struct{ cluster, env, host string }

func (i ids) path(route string) string {
	return strings.NewReplacer(":cluster_id", i.cluster, ":infra_env_id", i.env, ":host_id", i.host,
		":validation_id", "any", ":id", uuid.NewString(), ":version", "4.20", ":arch", "x86_64").Replace(route)
}

// newObjects creates a cluster with an infra-env and a host.
func (g *guarded) newObjects(t testing.TB, name string) ids {
	t.Helper()
	var cluster, env struct{ ID string }
	g.post(t, "/api/assisted-install/v2/clusters", map[string]any{"name": name, "openshift_version": "4.20.0",
		"base_dns_domain": "example.com", "pull_secret": testPullSecret}, &cluster)
	g.post(t, "/api/assisted-install/v2/infra-envs", map[string]any{"name": name, "cluster_id": cluster.ID,
		"pull_secret": testPullSecret, "openshift_version": "4.20.0"}, &env)
	return ids{cluster.ID, env.ID, g.newHost(t, env.ID)}
}

func (g *guarded) newHost(t testing.TB, env string) string {
	t.Helper()
	host := uuid.NewString()
	g.post(t, "/api/assisted-install/v2/infra-envs/"+env+"/hosts", map[string]any{"host_id": host,
		"discovery_agent_version": "agent"}, new(any))
	return host
}

func agent(token string) caller { return caller{agent: true, header: "X-Secret-Key", token: token} }

// TestAgentToken_onAllOperations sends the token of an agent to every operation, with its own
// objects, those of another cluster, and missing ones.
func TestAgentToken_onAllOperations(t *testing.T) {
	g := newGuarded(t)
	own := ids{g.cluster, g.env, g.newHost(t, g.env)}
	foreign := g.newObjects(t, "foreign")
	missing := ids{uuid.NewString(), uuid.NewString(), uuid.NewString()}
	caller := g.callers["agent"]
	permitted := 0
	routes := g.server.Routes()
	for _, route := range slices.SortedFunc(maps.Keys(routes), destructiveLast) {
		o := routes[route]
		if o.Access.Public || o.Access.CheckedBy != "" || o.Method == operation.Any || o.ID == "v2TriggerEvent" {
			continue
		}
		call := func(at ids) int { return g.status(t, route.Method, at.path(o.Path), caller) }
		where := fmt.Sprintf("%s %s", route.Method, o.Path)
		if !o.Access.Agents {
			for _, at := range []ids{own, foreign, missing} {
				require.Equal(t, http.StatusForbidden, call(at), where)
			}
			continue
		}
		permitted++
		require.NotContains(t, []int{401, 403}, call(own), where)
		require.Equal(t, http.StatusForbidden, call(foreign), where)
		status := call(missing)
		require.True(t, status >= 400 && status < 500, "%d for %s", status, where)
		if strings.Contains(o.Path, ":host_id") {
			require.Equal(t, http.StatusForbidden, call(ids{env: foreign.env, host: own.host}), where)
			require.Contains(t, []int{400, 404, 422}, call(ids{env: own.env, host: foreign.host}), where)
		}
		query := url.Values{"cluster_id": {own.cluster}, "infra_env_id": {own.env}, "host_id": {own.host}}
		require.Equal(t, http.StatusForbidden, g.status(t, route.Method, foreign.path(o.Path)+"?"+query.Encode(),
			caller), "%s with own objects in the query", where)
	}
	require.Equal(t, 20, permitted, "v2TriggerEvent is the 21st")
}

// TestAgentToken_reportsOwnEvents reports events about own and foreign objects.
func TestAgentToken_reportsOwnEvents(t *testing.T) {
	g := newGuarded(t)
	own := ids{g.cluster, g.env, g.newHost(t, g.env)}
	foreign := g.newObjects(t, "foreign")
	missing := ids{uuid.NewString(), uuid.NewString(), uuid.NewString()}
	refused := []int{http.StatusForbidden, http.StatusNotFound}
	for _, c := range []struct {
		about    ids
		statuses []int
	}{
		{own, []int{201}}, {ids{cluster: own.cluster}, []int{201}}, {ids{env: own.env}, []int{201}},
		{ids{own.cluster, own.env, ""}, []int{201}},
		{foreign, refused}, {ids{cluster: foreign.cluster}, refused}, {ids{env: foreign.env}, refused},
		{ids{host: foreign.host}, refused}, {ids{own.cluster, own.env, foreign.host}, refused},
		{ids{own.cluster, foreign.env, own.host}, refused}, {ids{foreign.cluster, own.env, own.host}, refused},
		{missing, refused}, {ids{cluster: missing.cluster}, refused}, {ids{env: missing.env}, refused},
		{ids{host: missing.host}, refused},
	} {
		for _, name := range []string{"agent", "limited"} {
			w := g.request(t, http.MethodPost, "/api/assisted-install/v2/events", eventAbout(t, c.about),
				g.callers[name])
			require.Contains(t, c.statuses, w.Code, "%s about %+v: %s", name, c.about, w.Body)
		}
		w := g.request(t, http.MethodPost, "/api/assisted-install/v2/events", eventAbout(t, c.about),
			g.callers["admin"])
		require.NotEqual(t, http.StatusForbidden, w.Code)
	}
}

func eventAbout(t *testing.T, about ids) string {
	t.Helper()
	event := map[string]any{"name": "reported", "severity": "info", "message": "Something happened.",
		"event_time": "2026-01-01T00:00:00Z", "category": "user"}
	for key, id := range map[string]string{"cluster_id": about.cluster, "infra_env_id": about.env,
		"host_id": about.host} {
		if id != "" {
			event[key] = id
		}
	}
	text, err := json.Marshal(event)
	require.NoError(t, err)
	return string(text)
}

// TestLists_ofOwnObjects lists clusters, infra-envs and events with a limited scope.
func TestLists_ofOwnObjects(t *testing.T) {
	g := newGuarded(t)
	foreign := g.newObjects(t, "foreign")
	for _, path := range []string{"/clusters", "/clusters?with_hosts=true", "/infra-envs",
		"/infra-envs?cluster_id=" + foreign.cluster, "/events", "/events?cluster_id=" + foreign.cluster,
		"/events?host_id=" + foreign.host, "/events?infra_env_id=" + foreign.env} {
		list := func(name string) string {
			return g.request(t, http.MethodGet, "/api/assisted-install/v2"+path, "", g.callers[name]).Body.String()
		}
		require.Contains(t, list("admin"), foreign.cluster, path)
		for _, name := range []string{"limited", "limited to others"} {
			for _, id := range []string{foreign.host, `"id":"` + foreign.cluster, `"id":"` + foreign.env} {
				if !strings.Contains(path, id) {
					require.NotContains(t, list(name), id, path)
				}
			}
		}
	}
	for _, path := range []string{"/clusters", "/infra-envs", "/events?cluster_id=" + g.cluster} {
		w := g.request(t, http.MethodGet, "/api/assisted-install/v2"+path, "", g.callers["limited"])
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Contains(t, w.Body.String(), g.cluster, path)
	}
}

// TestAgentToken_inLinks sends the tokens of agents and images in the parameter api_key.
func TestAgentToken_inLinks(t *testing.T) {
	g := newGuarded(t)
	foreign := g.newObjects(t, "foreign")
	image, err := g.engine.ImageToken(g.env)
	require.NoError(t, err)
	routes := g.server.Routes()
	for route, o := range routes {
		if o.Access.Public || o.Access.CheckedBy != "" || o.Method == operation.Any {
			continue
		}
		call := func(at ids, token string) int {
			return g.status(t, route.Method, at.path(o.Path)+"?api_key="+url.QueryEscape(token), caller{})
		}
		own := ids{g.cluster, g.env, uuid.NewString()}
		if !o.Access.Links {
			require.Equal(t, http.StatusUnauthorized, call(own, image), "%s %s", route.Method, o.Path)
			continue
		}
		require.Contains(t, []int{401, 404}, call(foreign, image), "%s %s", route.Method, o.Path)
		for _, token := range []string{g.callers["agent"].token, g.callers["admin"].token, "x", image + "x"} {
			require.Contains(t, []int{401, 404}, call(own, token), "%s %s", route.Method, o.Path)
		}
		if strings.Contains(o.Path, ":infra_env_id") {
			require.NotEqual(t, http.StatusUnauthorized, call(own, image), "%s %s", route.Method, o.Path)
		} else {
			require.Equal(t, http.StatusNotFound, call(own, image), "%s %s", route.Method, o.Path)
		}
	}
}

// TestAgentToken_ofOthers sends the tokens of a deleted infra-env, of another appliance, of an
// image, of a person, and altered ones.
func TestAgentToken_ofOthers(t *testing.T) {
	g, another := newGuarded(t), newGuarded(t)
	gone := g.newObjects(t, "gone")
	deleted := g.agentToken(t, gone.env)
	for _, path := range []string{"/infra-envs/" + gone.env + "/hosts/" + gone.host, "/infra-envs/" + gone.env} {
		require.Equal(t, http.StatusNoContent, g.status(t, http.MethodDelete, "/api/assisted-install/v2"+path,
			g.callers["admin"]))
	}
	image, err := g.engine.ImageToken(g.env)
	require.NoError(t, err)
	own := g.callers["agent"].token
	for name, c := range map[string]struct {
		token    string
		statuses []int
	}{
		"of a deleted infra-env": {deleted, []int{503}}, // it may come back with a backup
		"of another appliance":   {another.callers["agent"].token, []int{401, 503}},
		"of an image":            {image, []int{401}},
		"of an administrator":    {g.callers["admin"].token, []int{401}},
		"altered":                {own[:len(own)-8] + "AAAA" + own[len(own)-4:], []int{401}},
		"without a signature":    {own[:strings.LastIndexByte(own, '.')+1], []int{401}},
		"long":                   {strings.Repeat("a", 20_000), []int{401}},
		"with another algorithm": {"eyJhbGciOiJub25lIn0." + strings.Split(own, ".")[1] + ".", []int{401}},
		"empty":                  {"", []int{401, 403, 503}},
	} {
		for route, o := range g.server.Routes() {
			if !o.Access.Agents {
				continue
			}
			path := ids{g.cluster, g.env, uuid.NewString()}.path(o.Path)
			require.Contains(t, c.statuses, g.status(t, route.Method, path, agent(c.token)), "%s: %s %s", name,
				route.Method, o.Path)
		}
	}
}
