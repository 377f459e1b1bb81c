package maestro_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/authority"
	"landfall/appliance/hosted"
	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/record"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web"
	api "landfall/web/maestro"
)

type site struct {
	*hosted.Service
	t      testing.TB
	db     *store.DB
	clock  *clockwork.FakeClock
	server *httptest.Server
}

// noSite is a site without releases.
type noSite struct{}

func (noSite) Releases() []provider.Release           { return nil }
func (noSite) HostedSite() (controlplane.Site, error) { return controlplane.Site{}, nil }

func newSite(t testing.TB) *site {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(context.Background(), dir, store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := &site{t: t, db: db, clock: clockwork.NewFakeClockAt(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		Service: new(hosted.Service)}
	s.Provider, err = provider.Open(t.Context(), provider.Options{DB: db, Site: noSite{}, Clock: s.clock,
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	s.Maestro, err = maestro.New(t.Context(), maestro.Options{DB: db, Clock: s.clock})
	require.NoError(t, err)
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	box, err := key.Box("test", nil)
	require.NoError(t, err)
	clients, err := authority.LoadOrCreateClients(dir, box)
	require.NoError(t, err)
	s.Credentials = broker.NewCredentials(db, clients, s.clock)
	server := web.New(web.Options{})
	require.NoError(t, server.Register(api.Operations(s.Service)...))
	s.server = httptest.NewServer(server)
	t.Cleanup(s.server.Close)
	return s
}

// call sends a request and returns the status and the JSON of the answer.
func (s *site) call(method, path, body string) (int, map[string]any) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL+path, strings.NewReader(body))
	require.NoError(s.t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	var object map[string]any
	if len(text) > 0 {
		require.NoError(s.t, json.Unmarshal(text, &object), string(text))
	}
	return answer.StatusCode, object
}

func (s *site) list(query string) (total float64, names []string) {
	s.t.Helper()
	status, list := s.call("GET", api.Root+"/resource-bundles?"+query, "")
	require.Equal(s.t, http.StatusOK, status, list)
	require.Equal(s.t, "ResourceBundleList", list["kind"])
	for _, item := range list["items"].([]any) {
		metadata, _ := item.(map[string]any)["metadata"].(map[string]any)
		names = append(names, fmt.Sprint(metadata["name"]))
	}
	return list["total"].(float64), names
}

func find(text string) string { return "search=" + url.QueryEscape(text) }

func (s *site) bundle(consumer, cluster, name string, manifests ...string) string {
	s.t.Helper()
	b := &bundle.Bundle{Name: name, Consumer: consumer, Labels: map[string]string{bundle.LabelCluster: cluster}}
	for _, manifest := range append(manifests, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`) {
		b.Manifests = append(b.Manifests, json.RawMessage(manifest))
	}
	require.NoError(s.t, s.db.Update(s.t.Context(), func(tx *store.Tx) error {
		return bundle.Create(tx, b, s.clock.Now())
	}))
	s.clock.Advance(time.Second)
	return b.ID
}

func TestConsumers_createChangeDelete(t *testing.T) {
	s := newSite(t)
	status, made := s.call("POST", api.Root+"/consumers", `{"name":"mc1","labels":{"hall":"2"}}`)
	require.Equal(t, http.StatusCreated, status)
	require.Equal(t, "Consumer", made["kind"])
	id := made["id"].(string)
	status, failure := s.call("POST", api.Root+"/consumers", `{"name":"mc1"}`)
	require.Equal(t, http.StatusConflict, status)
	require.Equal(t, "maestro-6", failure["code"])
	status, failure = s.call("POST", api.Root+"/consumers", `{"name":"MC 1"}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, failure["reason"], "lower-case")
	status, changed := s.call("PATCH", api.Root+"/consumers/"+id, `{"labels":{}}`)
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, changed, "labels")
	status, _ = s.call("PATCH", api.Root+"/consumers/"+id, `{"name":"other"}`)
	require.Equal(t, http.StatusBadRequest, status)
	status, list := s.call("GET", api.Root+"/consumers?"+find("name = 'mc1'"), "")
	require.Equal(t, http.StatusOK, status)
	require.EqualValues(t, 1, list["total"])

	bundleID := s.bundle("mc1", "c1", "c1")
	status, failure = s.call("DELETE", api.Root+"/consumers/"+id, "")
	require.Equal(t, http.StatusForbidden, status, "a bundle refers to it")
	require.Equal(t, "4", failure["id"])
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		if err := bundle.Delete(tx, bundleID, "anna", s.clock.Now()); err != nil {
			return err
		}
		return bundle.Remove(tx, bundleID)
	}))
	status, _ = s.call("DELETE", api.Root+"/consumers/"+id, "")
	require.Equal(t, http.StatusNoContent, status)
	status, failure = s.call("GET", api.Root+"/consumers/"+id, "")
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, "maestro-7", failure["code"])
}

func TestBundles_searchesOfSeed(t *testing.T) {
	s := newSite(t)
	total, names := s.list(find("payload->'metadata'->'labels'->>'api.openshift.com/id'='c1'"))
	require.Zero(t, total, "an empty list, never 404")
	require.Empty(t, names)
	for _, consumer := range []string{"mc1", "mc2"} {
		s.call("POST", api.Root+"/consumers", `{"name":"`+consumer+`"}`)
	}
	s.bundle("mc1", "c1", "c1-00-namespaces")
	s.bundle("mc1", "c1", "c1")
	id := s.bundle("mc2", "c2", "c2")
	label := "payload->'metadata'->'labels'"
	for text, want := range map[string][]string{
		label + "->>'api.openshift.com/id'='c1'":                         {"c1-00-namespaces", "c1"},
		label + `@>'{"api.openshift.com/id":"c2"}'`:                      {"c2"},
		"consumer_name = 'mc2' and source='maestro'":                     {"c2"},
		label + "->>'api.openshift.com/id' in ('c1','c2') and version=1": {"c1-00-namespaces", "c1", "c2"},
		"id = '" + id + "'":                                              {"c2"},
		"id in ('" + id + "', '" + id + "')":                             {"c2"},
		"payload->'metadata'->>'name' like '%namespaces'":                {"c1-00-namespaces"},
		"payload->'data'->'manifests' is null":                           nil,
	} {
		total, names := s.list("orderBy=created_at&" + find(text))
		require.EqualValues(t, len(want), total, text)
		require.Equal(t, want, names, text)
	}
	for query, want := range map[string]int{"size=0": 0, "size=-1": 3, "size=2": 2, "size=2&page=2": 1, "page=9": 0} {
		total, names := s.list(query)
		require.EqualValues(t, 3, total, query)
		require.Len(t, names, want, query)
	}
	_, list := s.call("GET", api.Root+"/resource-bundles?fields=version&size=1", "")
	require.Len(t, list["items"].([]any)[0], 2, "the field and the ID")
	for query, want := range map[string]string{find("name ="): "23", find("color = 'red'"): "23", "page=0": "21",
		"size=x": "21", "orderBy=color": "21", find("version = '1'"): "23"} {
		status, failure := s.call("GET", api.Root+"/resource-bundles?"+query, "")
		require.Equal(t, http.StatusBadRequest, status, query)
		require.Equal(t, want, failure["id"], query)
	}
}

func TestBundles_secretsAreHidden(t *testing.T) {
	s := newSite(t)
	s.call("POST", api.Root+"/consumers", `{"name":"mc1"}`)
	id := s.bundle("mc1", "c1", "c1",
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"pull"},"data":{"a":"cHc="},"stringData":{"b":"pw"}}`,
		`{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"name":"w"},"spec":{`+
			`"workload":{"manifests":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},`+
			`"data":{"a":"cHc="}}]}}}`)
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return bundle.PutStatus(tx, id, &bundle.Status{ResourceVersion: 1, SequenceID: "7", Data: json.RawMessage(
			`{"conditions":[],"resourceStatus":[{"resourceMeta":{"kind":"Secret"},"statusFeedback":{"values":[` +
				`{"name":"d","fieldValue":{"type":"JsonRaw","jsonRaw":"{\"a\":\"cHc=\"}"}}]}}]}`)})
	}))
	for _, path := range []string{"/resource-bundles/" + id, "/resource-bundles"} {
		_, answer := s.call("GET", api.Root+path, "")
		text, err := json.Marshal(answer)
		require.NoError(t, err)
		require.NotContains(t, string(text), "cHc=", path)
		require.NotContains(t, string(text), `"pw"`, path)
		require.Contains(t, string(text), `"(sealed)"`, path)
	}
	_, answer := s.call("GET", api.Root+"/resource-bundles/"+id, "")
	require.EqualValues(t, 1, answer["status"].(map[string]any)["ObservedVersion"])
	require.Equal(t, "7", answer["status"].(map[string]any)["SequenceID"])
}

func TestBundles_deleteAndUnsupportedMethods(t *testing.T) {
	s := newSite(t)
	s.call("POST", api.Root+"/consumers", `{"name":"mc1"}`)
	id := s.bundle("mc1", "c1", "c1")
	for _, method := range []string{"POST", "PATCH"} {
		status, failure := s.call(method, api.Root+"/resource-bundles/"+id, "{}")
		require.Equal(t, http.StatusMethodNotAllowed, status)
		require.Equal(t, "10", failure["id"])
	}
	for range 2 {
		status, _ := s.call("DELETE", api.Root+"/resource-bundles/"+id, "")
		require.Equal(t, http.StatusNoContent, status)
	}
	status, answer := s.call("GET", api.Root+"/resource-bundles/"+id, "")
	require.Equal(t, http.StatusOK, status, "the row stays until the agent reports")
	require.NotEmpty(t, answer["deleted_at"])
	status, answer = s.call("GET", api.Root+"/nothing", "")
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, "maestro-7", answer["code"])
	status, answer = s.call("GET", api.Root+"/errors/23", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "maestro-23", answer["code"])
}

func TestConsumers_credentialsAndHold(t *testing.T) {
	s := newSite(t)
	s.call("POST", api.Root+"/consumers", `{"name":"mc1"}`)
	status, issued := s.call("POST", api.Root+"/consumers/mc1/credentials", "")
	require.Equal(t, http.StatusCreated, status)
	require.Contains(t, issued["key"], "PRIVATE KEY")
	require.Equal(t, "sources/maestro/consumers/mc1/sourceevents", issued["source_events"])
	status, _ = s.call("DELETE", api.Root+"/consumers/mc1/credentials/"+issued["serial"].(string), "")
	require.Equal(t, http.StatusNoContent, status)
	status, _ = s.call("DELETE", api.Root+"/consumers/mc1/credentials/77", "")
	require.Equal(t, http.StatusNotFound, status)
	status, _ = s.call("POST", api.Root+"/consumers/mc1/hold", "")
	require.Equal(t, http.StatusNoContent, status)
	status, shown := s.call("GET", api.Root+"/consumers/mc1/connection", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "person", shown["hold"].(map[string]any)["cause"])
	require.NotEmpty(t, shown["credentials"].([]any)[0].(map[string]any)["revoked_at"])
	require.NotContains(t, shown, "connected")
	status, failure := s.call("POST", api.Root+"/consumers/mc1/findings/b1", `{"decision":"adopt"}`)
	require.Equal(t, http.StatusNotFound, status, failure)
	status, _ = s.call("DELETE", api.Root+"/consumers/mc1/hold", "")
	require.Equal(t, http.StatusNoContent, status)
	status, _ = s.call("DELETE", api.Root+"/consumers/mc1/hold", "")
	require.Equal(t, http.StatusNotFound, status)
}

func TestConsumers_certificatesEndWithTheCluster(t *testing.T) {
	s := newSite(t)
	add := func() {
		t.Helper()
		_, err := s.Provider.AddManagement(t.Context(), record.Management{Consumer: "mc1",
			BaseDomain: "hosted.example.com", Address: "192.0.2.1"})
		require.NoError(t, err)
	}
	add()
	status, _ := s.call("POST", api.Root+"/consumers/mc1/credentials", "")
	require.Equal(t, http.StatusCreated, status)
	status, _ = s.call("POST", api.Root+"/consumers/mc1/hold", "")
	require.Equal(t, http.StatusNoContent, status)
	status, failure := s.call("DELETE", api.Root+"/consumers/mc1", "")
	require.Equal(t, http.StatusConflict, status, failure)
	require.NoError(t, s.Provider.RemoveManagement(t.Context(), "mc1"))
	add()
	status, shown := s.call("GET", api.Root+"/consumers/mc1/connection", "")
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, shown["credentials"])
	require.NotContains(t, shown, "hold")
	broken := json.RawMessage("5") // can't be read, like a row on a damaged disk
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return store.NewBucket[json.RawMessage]("hosted-management", 1).Put(tx, "mc1", &broken)
	}))
	status, shown = s.call("GET", api.Root+"/consumers/mc1/connection", "")
	require.Equal(t, http.StatusOK, status, shown)
}

func TestConsumers_damagedHold(t *testing.T) {
	s := newSite(t)
	s.call("POST", api.Root+"/consumers", `{"name":"mc1"}`)
	broken := json.RawMessage("5") // can't be read, like a row on a damaged disk
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return store.NewBucket[json.RawMessage]("hosted-holds", 1).Put(tx, "mc1", &broken)
	}))
	status, shown := s.call("GET", api.Root+"/consumers/mc1/connection", "")
	require.Equal(t, http.StatusOK, status, shown)
	require.Contains(t, shown["hold"].(map[string]any)["reason"], "damaged")
	status, shown = s.call("DELETE", api.Root+"/consumers/mc1/hold", "")
	require.Equal(t, http.StatusNoContent, status, shown)
}
