package appliance

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/engine/record"
	"landfall/store"
	"landfall/web/console"
	"landfall/web/operation"
)

// walkRequests is the number of requests of the random walk.
const walkRequests = 4000

// walkTimeout ends endless responses.
const walkTimeout = 2 * time.Second

// walk sends random requests to an appliance with authentication. It has planted secrets, which
// only administrators may read.
type walk struct {
	*guarded
	own, foreign ids
	operations   []operation.Operation // sorted by route
	fields       []string              // names of fields in bodies
	callers      []string              // names, sorted
	answered     map[string]map[int]int
}

// planted begins each secret.
const planted = "Planted-0123456789-"

func newWalk(t testing.TB) *walk {
	t.Helper()
	g := newGuarded(t)
	w := &walk{guarded: g, callers: slices.Sorted(maps.Keys(g.callers)), answered: map[string]map[int]int{}}
	w.own = ids{g.cluster, g.env, g.newHost(t, g.env)}
	w.foreign = g.newObjects(t, "foreign")
	for _, at := range []ids{w.own, w.foreign} {
		w.plant(t, at)
	}
	for _, o := range g.server.Routes() {
		if (o.ID != "" || o.Access.CheckedBy != "") && o.Path != console.FeedRoute {
			w.operations = append(w.operations, o)
		}
	}
	slices.SortFunc(w.operations, func(a, b operation.Operation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})
	w.fields = append(fieldsOf(t, g), "username", "role", "code", "address", "password", "lifetime", "scope", "token")
	return w
}

// plant puts secrets into an object in all ways that need no installation, and a kubeconfig as an
// installation leaves it.
func (w *walk) plant(t testing.TB, at ids) {
	t.Helper()
	send := func(method, path string, body any) {
		text, err := json.Marshal(body)
		require.NoError(t, err)
		answer := w.request(t, method, path, string(text), w.guarded.callers["admin"])
		require.Less(t, answer.Code, 300, "%s %s: %s", method, path, answer.Body)
	}
	pull := base64.StdEncoding.EncodeToString([]byte("user:" + planted + "pull"))
	auths := `{"auths":{"registry.example.com":{"auth":"` + pull + `"}}}`
	proxy := "http://user:" + planted + "proxy@proxy.example.com:3128"
	const base = "/api/assisted-install/v2"
	send(http.MethodPatch, base+"/clusters/"+at.cluster, map[string]any{"pull_secret": auths, "http_proxy": proxy})
	send(http.MethodPatch, base+"/infra-envs/"+at.env, map[string]any{"pull_secret": auths,
		"proxy": map[string]string{"http_proxy": proxy}})
	network := map[string]any{"network_yaml": "interfaces: [{name: eth0, type: ethernet, 802.1x: {identity: me, " +
		"eap-methods: [tls], password: " + planted + "network}}]", "mac_interface_map": []map[string]string{{
		"mac_address": "52:54:00:00:" + at.env[:2] + ":" + at.env[2:4], "logical_nic_name": "eth0"}}}
	send(http.MethodPatch, base+"/infra-envs/"+at.env, map[string]any{"static_network_config": []any{network}})
	manifest := "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {password: " + planted + "manifest}\n"
	send(http.MethodPost, base+"/clusters/"+at.cluster+"/manifests", map[string]string{"folder": "manifests",
		"file_name": "secret.yaml", "content": base64.StdEncoding.EncodeToString([]byte(manifest))})
	send(http.MethodPatch, base+"/infra-envs/"+at.env+"/hosts/"+at.host+"/installer-args", map[string]any{
		"args": []string{"--append-karg", "password=" + planted + "karg"}})
	send(http.MethodPost, console.BMCsRoute, map[string]any{"name": "server-" + at.cluster[:8],
		"address": "https://192.0.2.1/redfish/v1/Systems/" + at.cluster, "username": "root",
		"password": planted + "bmc"})
	staged, err := w.db.Stage(t.Context(), strings.NewReader("users: [{user: {token: "+planted+"kubeconfig}}]"))
	require.NoError(t, err)
	require.NoError(t, w.db.Update(t.Context(), func(tx *store.Tx) error {
		return record.InstallerFiles.Put(tx, at.cluster+"/kubeconfig", staged, time.Now())
	}))
}

// fieldsOf returns the names of all fields in the API's description.
func fieldsOf(t testing.TB, g *guarded) []string {
	t.Helper()
	answer := g.request(t, http.MethodGet, "/api/assisted-install/v2/openapi", "", g.callers["admin"])
	require.Equal(t, http.StatusOK, answer.Code)
	var description any
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &description))
	names := map[string]bool{}
	var visit func(any)
	visit = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if properties, ok := v["properties"].(map[string]any); ok {
				for name := range properties {
					names[name] = true
				}
			}
			for _, part := range v {
				visit(part)
			}
		case []any:
			for _, part := range v {
				visit(part)
			}
		}
	}
	visit(description)
	require.Greater(t, len(names), 100)
	return slices.Sorted(maps.Keys(names))
}

// attempt is a request of the walk.
type attempt struct {
	caller         int // in walk.callers
	method, target string
	header         string // content type
	body           string
}

// check sends a request, and requires an answer that the caller may have.
func (w *walk) check(t testing.TB, a attempt) {
	name := w.callers[a.caller%len(w.callers)]
	caller := w.guarded.callers[name]
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(
		a.method + " " + a.target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")))
	if err != nil {
		return // net/http answers 400
	}
	ctx, cancel := context.WithTimeout(t.Context(), walkTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(a.body)), int64(len(a.body))
	r.RemoteAddr, r.TLS = "192.0.2.7:4711", new(tls.ConnectionState)
	if a.header != "" {
		r.Header.Set("Content-Type", a.header)
	}
	if caller.header != "" {
		r.Header.Set(caller.header, caller.token)
	}
	answer := httptest.NewRecorder()
	serve(w.server, answer, r)
	if w.answered[name] == nil {
		w.answered[name] = map[int]int{}
	}
	w.answered[name][answer.Code]++
	what := fmt.Sprintf("%s %s as %s with %s %.2000q: %d %.500s", a.method, a.target, name, a.header, a.body,
		answer.Code, answer.Body)
	if answer.Code >= 500 {
		require.Contains(t, []int{http.StatusNotImplemented, http.StatusServiceUnavailable,
			http.StatusInsufficientStorage}, answer.Code, what)
	}
	o, found := w.server.Operation(r)
	if answer.Code < 300 && found && !o.Access.Public && o.Access.CheckedBy == "" {
		require.True(t, w.mayHave(o, caller, r), "%s of %s", what, o.ID)
	}
	if a.method == http.MethodGet && answer.Code == http.StatusOK && found && o.Access.CheckedBy == "" &&
		(o.Access.Secret || strings.Contains(answer.Body.String(), "/byapikey/")) {
		require.Equal(t, "no-store", answer.Header().Get("Cache-Control"), "%s of %s", what, o.ID)
	}
	readsSecrets := caller.role == access.Administrator || found && o.Access.Secret && caller.role >= o.Access.Role ||
		caller.agent && o.Access.Agents
	if readsSecrets {
		return
	}
	text := answer.Body.String() + fmt.Sprint(answer.Header())
	for _, form := range plantedForms() {
		if at := strings.Index(text, form); at >= 0 {
			require.Fail(t, "a secret was answered", "%.300s: …%.300q", what, text[max(at-150, 0):])
		}
	}
}

// plantedForms returns the beginning of the secrets as text and in base64, at each offset.
func plantedForms() []string {
	found := []string{planted}
	for offset := range 3 {
		coded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + planted))
		found = append(found, coded[4:len(coded)-4])
	}
	return found
}

// mayHave reports whether the rule of an operation permits a request. It looks for the IDs of the
// caller's objects in the path, and does not use the router.
func (w *walk) mayHave(o operation.Operation, caller caller, r *http.Request) bool {
	ofOwn := strings.Contains(r.URL.Path, w.own.cluster) || strings.Contains(r.URL.Path, w.own.env)
	switch {
	case caller.agent:
		return o.Access.Agents && (ofOwn || o.ID == "v2TriggerEvent")
	case caller.role == access.None:
		return o.Access.Links && r.URL.RawQuery != ""
	case caller.role < o.Access.RoleFor(r.URL.Query().Get):
		return false
	case caller.limited && o.Access.Scope == operation.OfPath:
		return !caller.foreign && ofOwn
	}
	return true
}

// random makes a request from random numbers.
func (w *walk) random(r *rand.Rand) attempt {
	o := w.operations[r.IntN(len(w.operations))]
	a := attempt{caller: r.IntN(len(w.callers)), method: o.Method, header: "application/json"}
	if o.Method == operation.Any || r.IntN(20) == 0 {
		a.method = pick(r, "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "get", "X")
	}
	path := w.path(r, o, a.method)
	if r.IntN(3) == 0 {
		var query []string
		for range r.IntN(4) {
			name := pick(r, w.parameters(o)...)
			query = append(query, name+"="+pick(r, w.text(r), url.QueryEscape(w.text(r)), w.own.cluster, w.own.env,
				w.foreign.cluster, w.foreign.env, "true", "-1", "99999999999999999999", "kubeconfig", "all"))
		}
		path += "?" + strings.Join(query, pick(r, "&", "&&", ";"))
	}
	a.target = path
	if a.method != http.MethodGet {
		a.body = w.body(r)
		a.header = pick(r, "application/json", "application/json", "application/json", "application/json; charset=x",
			"text/plain", "multipart/form-data; boundary=x", "application/merge-patch+json", "", "\x01", "a/b;;=")
	}
	return a
}

// path returns the path of an operation with random values and tricks. The requests of the walk do
// not delete its own objects.
func (w *walk) path(r *rand.Rand, o operation.Operation, method string) string {
	at := []ids{w.own, w.own, w.foreign, {uuid.NewString(), uuid.NewString(), uuid.NewString()}}[r.IntN(4)]
	if method == http.MethodDelete && !strings.Contains(o.Path, "/short-url") {
		at = ids{uuid.NewString(), uuid.NewString(), uuid.NewString()}
	}
	parts := strings.Split(o.Path, "/")
	for i, part := range parts {
		if !strings.HasPrefix(part, ":") && part != "*" {
			continue
		}
		parts[i] = at.path(part)
		if r.IntN(6) == 0 || strings.HasPrefix(parts[i], ":") {
			parts[i] = url.PathEscape(w.text(r))
		}
		if r.IntN(12) == 0 {
			parts[i] = pick(r, "..", ".", "%2e%2e", "%2f", "..%2f..", "%00", "%ff", "", parts[i]+"%2f..%2f"+at.env,
				parts[i]+";x=1", parts[i]+"%20", strings.ToUpper(parts[i]), parts[i]+".iso", "%252e", "*", "%5c", "{}")
		}
	}
	path := strings.Join(parts, "/")
	switch r.IntN(25) {
	case 0:
		path = strings.Replace(path, "/", "//", r.IntN(5))
	case 1:
		path += pick(r, "/", "/..", "/../../clusters", ";x", "%00", "/.", "//")
	case 2:
		path = strings.Replace(path, "/v2/", pick(r, "/v2/../v2/", "/V2/", "/v2/./", "/v2%2f", "/v2/;/", "/v2//"), 1)
	case 3:
		path = pick(r, "/..", "/.", "//", "/%2e%2e", "/apis/..") + path
	}
	return path
}

func (w *walk) parameters(o operation.Operation) []string {
	names := []string{"api_key", "image_token", "file_name", "cluster_id", "x", ""}
	for _, p := range o.Parameters {
		names = append(names, p.Name, p.Name)
	}
	return names
}

// body returns a random JSON text, or something similar.
func (w *walk) body(r *rand.Rand) string {
	if r.IntN(20) == 0 {
		return pick(r, "", "{", "[]", "null", "\xff\xfe", `"`, `{"a":`, strings.Repeat("[", 20_000), "1e999999",
			`{"name":"a","name":"b"}`, "\x00", strings.Repeat(`{"a":`, 5_000))
	}
	object := map[string]any{}
	for range r.IntN(6) {
		object[pick(r, w.fields...)] = w.value(r, 0)
	}
	text, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), `"HUGE"`, pick(r, "1e400", strings.Repeat("9", 400), "-0", "1e-400"))
}

func (w *walk) value(r *rand.Rand, depth int) any {
	switch r.IntN(9) {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return pick[any](r, 0, -1, 1.5, int64(1)<<62, "HUGE", 65536, 4096)
	case 3, 4, 5:
		return w.text(r)
	case 6:
		if depth < 3 {
			list := make([]any, r.IntN(4))
			for i := range list {
				list[i] = w.value(r, depth+1)
			}
			return list
		}
	case 7:
		if depth < 3 {
			object := map[string]any{}
			for range r.IntN(4) {
				object[pick(r, w.fields...)] = w.value(r, depth+1)
			}
			return object
		}
	}
	return pick(r, w.own.cluster, w.own.env, w.own.host, w.foreign.cluster, w.foreign.env, w.foreign.host)
}

// text returns a text that often has a meaning.
func (w *walk) text(r *rand.Rand) string {
	return pick(r, "", "a", "name", "4.20.0", "x86_64", "full-iso", "10.0.0.0/8", "192.0.2.1", "::1", "fd00::/64",
		"example.com", "http://user:word@proxy.example.com", "https://192.0.2.1/", "52:54:00:00:00:01", testPullSecret,
		"{}", "[]", "null", "-----BEGIN CERTIFICATE-----", "ssh-ed25519 AAAA", "../../etc/passwd", "\x00", "\xff\xfe",
		"\u202e", "💥", "%", "%2f", "' OR 1=1", "<script>", strings.Repeat("a", 3000), "2026-01-01T00:00:00Z", "auto",
		"admin", "sealed:1:AAAA", "kubeconfig", "discovery.ign", "manifests", "info", "user", uuid.Nil.String(),
		base64.StdEncoding.EncodeToString([]byte("kind: ConfigMap")), w.guarded.callers["agent"].token)
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// TestOperations_randomRequests sends random requests to every operation as each kind of caller.
func TestOperations_randomRequests(t *testing.T) {
	w := newWalk(t)
	r := rand.New(rand.NewPCG(17, 5))
	for range walkRequests {
		w.check(t, w.random(r))
	}
	for _, name := range w.callers {
		refused := w.answered[name][401] + w.answered[name][403]
		t.Logf("%s: number of answers by status: %v", name, w.answered[name])
		require.Positive(t, w.answered[name][200], "%s calls public operations", name)
		require.True(t, refused > 0 || name == "admin", "%s is refused", name)
	}
	// The planted secrets are found if an operation shows them.
	answer := w.request(t, http.MethodGet, "/api/assisted-install/v2/clusters/"+w.own.cluster+
		"/downloads/credentials?file_name=kubeconfig", "", w.guarded.callers["admin"])
	require.Contains(t, answer.Body.String(), planted)
}

// TestOperations_readsShowNoSecrets sends each reading request with the IDs of existing objects as
// each kind of caller, and follows the live feed from the first change on.
func TestOperations_readsShowNoSecrets(t *testing.T) {
	w := newWalk(t)
	known := []string{w.newRehearsal(t)}
	var list map[string][]struct{ ID string }
	answer := w.request(t, http.MethodGet, console.BMCsRoute, "", w.guarded.callers["admin"])
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &list), answer.Body)
	for _, servers := range list {
		require.Len(t, servers, 2)
		known = append(known, servers[0].ID)
	}
	for caller := range w.callers {
		for _, o := range w.operations {
			if o.Method != http.MethodGet || o.Endless != nil {
				continue
			}
			for _, id := range known {
				path := strings.Split(o.Path, "/")
				for i, part := range path {
					if path[i] = w.own.path(part); part == ":id" {
						path[i] = id
					}
				}
				query := url.Values{}
				for _, parameter := range o.Parameters {
					if len(parameter.Values) > 0 {
						query.Set(parameter.Name, parameter.Values[len(id)%len(parameter.Values)])
					}
				}
				w.check(t, attempt{caller, o.Method, strings.Join(path, "/") + "?" + query.Encode(), "", ""})
				if !strings.Contains(o.Path, ":id") {
					break
				}
			}
		}
		w.followFeed(t, w.callers[caller])
	}
	const v2 = "/api/assisted-install/v2/"
	for _, path := range []string{"clusters/" + w.own.cluster + "/downloads/credentials?file_name=kubeconfig",
		"infra-envs/" + w.own.env + "/downloads/files?file_name=discovery.ign", "infra-envs/" + w.own.env} {
		answer := w.request(t, http.MethodGet, v2+path, "", w.guarded.callers["admin"])
		require.Equal(t, http.StatusOK, answer.Code, "%s: %s", path, answer.Body)
		require.Equal(t, "no-store", answer.Header().Get("Cache-Control"), path)
	}
}

// newRehearsal starts a rehearsal, which fails, and returns its ID.
func (w *walk) newRehearsal(t *testing.T) string {
	t.Helper()
	path := "/api/landfall/v1/clusters/" + w.own.cluster + "/rehearsals"
	var report struct{ ID, State string }
	w.post(t, path, map[string]any{}, &report)
	ticks := time.NewTicker(10 * time.Millisecond)
	defer ticks.Stop()
	for report.State != "done" {
		<-ticks.C
		answer := w.request(t, http.MethodGet, path+"/"+report.ID, "", w.guarded.callers["admin"])
		require.Equal(t, http.StatusOK, answer.Code, answer.Body)
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &report))
	}
	return report.ID
}

// followFeed reads the live feed from the first change on.
func (w *walk) followFeed(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), walkTimeout/10)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1"+console.FeedRoute, nil)
	r.Header.Set("Last-Event-ID", "1")
	caller := w.guarded.callers[name]
	if caller.header != "" {
		r.Header.Set(caller.header, caller.token)
	}
	answer := httptest.NewRecorder()
	serve(w.server, answer, r)
	require.Equal(t, caller.role == access.None, answer.Code != http.StatusOK, "%s: %d", name, answer.Code)
	if answer.Code == http.StatusOK && !caller.foreign {
		require.Contains(t, answer.Body.String(), "data: ", name)
	}
	for _, form := range plantedForms() {
		require.NotContains(t, answer.Body.String(), form, name)
	}
}

// FuzzOperations sends requests with any method, path, query and body.
func FuzzOperations(f *testing.F) {
	w := newWalk(f)
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		a := w.random(r)
		f.Add(uint8(a.caller), a.method, a.target, a.header, a.body)
	}
	f.Fuzz(func(t *testing.T, caller uint8, method, target, header, body string) {
		w.check(t, attempt{int(caller), method, target, header, body})
	})
}
