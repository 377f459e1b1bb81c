package hosted_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/record"
	"landfall/store"
	"landfall/web"
	hostedapi "landfall/web/hosted"
)

// site serves the APIs of hosted clusters without authentication.
type site struct {
	*provider.Service
	t            testing.TB
	server       *httptest.Server
	clock        *clockwork.FakeClock
	subscription string
}

func (s *site) Releases() []provider.Release {
	return []provider.Release{{Version: "4.19.7", Image: "q/r@sha256:7", Default: true}}
}

func (s *site) HostedSite() (controlplane.Site, error) { return controlplane.Site{}, nil }

func newSite(t testing.TB) *site {
	t.Helper()
	db, err := store.Open(context.Background(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := &site{t: t, clock: clockwork.NewFakeClockAt(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	s.Service, err = provider.Open(t.Context(), provider.Options{DB: db, Site: s, Clock: s.clock,
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	seeded, err := s.Seeded()
	require.NoError(t, err)
	s.subscription = seeded.ID
	server := web.New(web.Options{Spelling: hostedapi.Spelling})
	require.NoError(t, server.Register(hostedapi.Operations(&hosted.Service{Provider: s.Service}, nil)...))
	s.server = httptest.NewServer(server)
	t.Cleanup(s.server.Close)
	return s
}

func (s *site) addManagement() {
	s.t.Helper()
	_, err := s.AddManagement(context.Background(), record.Management{Consumer: "mc1", BaseDomain: "hosted.example.com",
		Address: "192.168.1.10"})
	require.NoError(s.t, err)
}

// answer is an answer of the API.
type answer struct {
	*http.Response
	body []byte
}

func (a answer) json(t testing.TB) map[string]any {
	t.Helper()
	var value map[string]any
	require.NoError(t, json.Unmarshal(a.body, &value), "%s", a.body)
	return value
}

// at returns the value at a path of names and numbers.
func (a answer) at(t testing.TB, path ...any) any {
	t.Helper()
	var value any = a.json(t)
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, ok := value.(map[string]any)
			require.True(t, ok, "%v of %s", path, a.body)
			value = object[step]
		case int:
			list, ok := value.([]any)
			require.True(t, ok && len(list) > step, "%v of %s", path, a.body)
			value = list[step]
		}
	}
	return value
}

func (s *site) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, s.server.URL+path, strings.NewReader(body))
	require.NoError(s.t, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for pair := range slices.Chunk(headers, 2) {
		request.Header.Set(pair[0], pair[1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return errors.New("a redirect")
	}}
	response, err := client.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return answer{response, content}
}

const version = "?api-version=2024-06-10-preview"

func (s *site) resourceID(cluster string) string {
	return "/subscriptions/" + s.subscription + "/resourceGroups/Hall-2/providers/Microsoft.RedHatOpenShift/" +
		"hcpOpenShiftClusters/" + cluster
}

// put creates a cluster and returns its ID of Clusters Service.
func (s *site) put(cluster string) string {
	s.t.Helper()
	created := s.do("PUT", s.resourceID(cluster)+version, `{"location":"site"}`)
	require.Equal(s.t, http.StatusCreated, created.StatusCode, "%s", created.body)
	found := s.do("GET",
		"/api/clusters_mgmt/v1/clusters?search="+url.QueryEscape("name='"+strings.ToLower(cluster)+"'"), "")
	return found.at(s.t, "items", 0, "id").(string)
}

// report writes the report that a cluster is available.
func (s *site) report(cid string) {
	s.t.Helper()
	require.NoError(s.t, s.DB.Update(context.Background(), func(tx *store.Tx) error {
		return bundle.EachOfCluster(tx, cid, func(b *bundle.Bundle) error {
			var data bytes.Buffer
			fmt.Fprintf(&data, `{"conditions":[{"type":"Applied","status":"True","observedGeneration":%d}],
				"resourceStatus":[{"resourceMeta":{"kind":"HostedCluster"},"statusFeedback":{"values":[
				{"name":"generation","fieldValue":{"integer":1}},{"name":"status","fieldValue":{"jsonRaw":%q}}]}}]}`,
				b.Version, `{"conditions":[{"type":"Available","status":"True","observedGeneration":1}],
				"version":{"history":[{"state":"Completed","version":"4.19.7"}]},"kubeconfig":{"name":"k"},
				"controlPlaneEndpoint":{"host":"h","port":30123}}`)
			return bundle.PutStatus(tx, b.ID, &bundle.Status{ResourceVersion: b.Version, Received: s.clock.Now(),
				Data: data.Bytes()})
		})
	}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	require.Eventually(s.t, func() bool {
		return s.do("GET", "/api/clusters_mgmt/v1/clusters/"+cid, "").at(s.t, "state") == "ready"
	}, time.Minute, 5*time.Millisecond)
	cancel()
	require.NoError(s.t, <-ended)
}

func TestClustersService_bothPrefixesShowTheSame(t *testing.T) {
	s := newSite(t)
	s.addManagement()
	cid := s.put("edge1")
	for _, path := range []string{"", "/status", "/provision_shard", "/hypershift", "/inflight_checks", "/autoscaler",
		"/upgrade_policies", "/control_plane/upgrade_policies", "/node_pools", "/break_glass_credentials",
		"/external_auth_config/external_auths"} {
		one := s.do("GET", "/api/clusters_mgmt/v1/clusters/"+cid+path, "")
		other := s.do("GET", "/api/aro_hcp/v1alpha1/clusters/"+cid+path, "")
		require.Equal(t, http.StatusOK, one.StatusCode, path)
		require.JSONEq(t, string(one.body), strings.ReplaceAll(string(other.body), "/api/aro_hcp/v1alpha1",
			"/api/clusters_mgmt/v1"))
	}
	require.Equal(t, "ocm-landfall-"+cid+"-edge1",
		s.do("GET", "/api/clusters_mgmt/v1/clusters/"+cid+"/hypershift", "").at(t, "hcp_namespace"))
	for _, path := range []string{"/versions", "/versions/openshift-v4.19.7", "/provision_shards",
		"/provision_shards/mc1"} {
		require.Equal(t, http.StatusOK, s.do("GET", "/api/clusters_mgmt/v1"+path, "").StatusCode, path)
	}
}

func TestClustersService_badRequests(t *testing.T) {
	s := newSite(t)
	s.put("edge1")
	for path, status := range map[string]int{
		"/clusters/absent":                  404,
		"/clusters?search=colour='x'":       400,
		"/clusters?search=name='x":          400,
		"/clusters?order=colour":            400,
		"/clusters?page=0":                  400,
		"/clusters?size=x":                  400,
		"/clusters?search=name is null":     200,
		"/clusters?order=name desc,id":      200,
		"/clusters?search=properties.a='b'": 200,
		"/absent":                           404,
		"/versions/openshift-v9.9.9":        404,
		"/provision_shards/absent":          404,
	} {
		answer := s.do("GET", "/api/aro_hcp/v1alpha1"+strings.ReplaceAll(path, " ", "%20"), "")
		require.Equal(t, status, answer.StatusCode, "%s: %s", path, answer.body)
		if status >= 400 {
			require.Equal(t, "Error", answer.at(t, "kind"))
			require.Equal(t, fmt.Sprintf("CLUSTERS-MGMT-%d", status), answer.at(t, "code"))
		}
	}
}

func TestClustersService_pagesWithoutItems(t *testing.T) {
	s := newSite(t)
	s.put("edge1")
	for _, list := range []string{"/clusters", "/versions"} {
		for _, page := range []string{"size=0", "page=2", "page=9223372036854775807",
			"page=4611686018427387905&size=2"} {
			none := s.do("GET", "/api/clusters_mgmt/v1"+list+"?"+page, "")
			require.Equal(t, http.StatusOK, none.StatusCode, "%s of %s: %s", page, list, none.body)
			require.EqualValues(t, 1, none.at(t, "total"))
			require.Empty(t, none.at(t, "items"))
		}
	}
}

func TestProvider_answersOfAsynchronousOperations(t *testing.T) {
	s := newSite(t)
	s.addManagement()
	created := s.do("PUT", s.resourceID("edge1")+version, `{"location":"site"}`, "X-Ms-Client-Request-Id", "c-1",
		"X-Ms-Return-Client-Request-Id", "true", "Referer", "https://arm.example.com/subscriptions/x?y=z")
	require.Equal(t, http.StatusCreated, created.StatusCode)
	require.Empty(t, created.Header.Get("Location"), "a creation has no Location")
	require.Equal(t, "c-1", created.Header.Get("X-Ms-Client-Request-Id"))
	require.NotEmpty(t, created.Header.Get("X-Ms-Request-Id"))
	at := created.Header.Get("Azure-AsyncOperation")
	require.True(t, strings.HasPrefix(at, "https://arm.example.com/subscriptions/"+s.subscription), at)
	path := at[len("https://arm.example.com"):]
	status := s.do("GET", path, "")
	require.Equal(t, http.StatusOK, status.StatusCode)
	require.Equal(t, "Accepted", status.at(t, "status"))
	require.Equal(t, http.StatusNotFound, s.do("GET", path, "", "X-Ms-Client-Object-Id", "other").StatusCode)
	result := strings.Replace(path, "hcpOperationStatuses", "hcpOperationResults", 1)
	running := s.do("GET", result, "")
	require.Equal(t, http.StatusAccepted, running.StatusCode)
	require.NotEmpty(t, running.Header.Get("Location"))
	cid := s.do("GET", "/api/clusters_mgmt/v1/clusters", "").at(t, "items", 0, "id").(string)
	s.report(cid)
	require.Equal(t, http.StatusCreated, s.do("GET", result, "").StatusCode)
	require.Equal(t, "Succeeded", s.do("GET", path, "").at(t, "status"))

	patched := s.do("PATCH", s.resourceID("edge1")+version, `{"tags":{"a":"b"}}`)
	require.Equal(t, http.StatusAccepted, patched.StatusCode)
	require.NotEmpty(t, patched.Header.Get("Location"))
	require.Equal(t, "10", patched.Header.Get("Retry-After"))
	changed := patched.Header.Get("Location")[len(s.server.URL):]
	require.Equal(t, http.StatusOK, s.do("GET", changed, "").StatusCode)

	deleted := s.do("DELETE", s.resourceID("edge1")+version, "")
	require.Equal(t, http.StatusAccepted, deleted.StatusCode)
	require.Equal(t, http.StatusConflict, s.do("DELETE", s.resourceID("edge1")+version, "").StatusCode)
	require.Equal(t, http.StatusNoContent, s.do("DELETE", s.resourceID("edge2")+version, "").StatusCode)
}

// A body above the limit gets the error of the API, with and without its length.
func TestProvider_bodyAboveLimit(t *testing.T) {
	s := newSite(t)
	long := `{"location":"` + strings.Repeat("a", 4<<20) + `"}`
	for name, body := range map[string]io.Reader{"with length": strings.NewReader(long),
		"chunked": io.MultiReader(strings.NewReader(long))} {
		request, err := http.NewRequestWithContext(t.Context(), "PUT", s.server.URL+s.resourceID("e1")+version, body)
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err, name)
		content, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		answer := answer{response, content}
		require.Equal(t, http.StatusBadRequest, answer.StatusCode, "%s: %s", name, content)
		require.Equal(t, "InvalidResource", answer.at(t, "error", "code"), name)
		require.Equal(t, "InvalidResource", answer.Header.Get("X-Ms-Error-Code"))
	}
}

func TestMaestro_describesItself(t *testing.T) {
	s := newSite(t)
	document := s.do("GET", "/api/maestro/v1/openapi", "")
	require.Equal(t, http.StatusOK, document.StatusCode)
	require.Equal(t, "/api/maestro/v1", document.at(t, "servers", 0, "url"))
	for path, method := range map[string]string{"/resource-bundles": "get", "/resource-bundles/{id}": "delete",
		"/consumers": "post", "/consumers/{id}": "patch", "/errors/{id}": "get", "/openapi": "get"} {
		require.NotEmpty(t, document.at(t, "paths", path, method, "operationId"), path)
	}
}

func TestProvider_pagesFollowNextLink(t *testing.T) {
	s := newSite(t)
	for i := range 45 {
		s.do("PUT", s.resourceID(fmt.Sprintf("c%02d", i))+version, `{"location":"site"}`)
	}
	next := "/subscriptions/" + s.subscription + "/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters" + version
	var names []string
	for pages := 0; next != ""; pages++ {
		require.Less(t, pages, 3)
		page := s.do("GET", next, "")
		for _, value := range page.json(t)["value"].([]any) {
			names = append(names, value.(map[string]any)["name"].(string))
		}
		link, _ := page.json(t)["nextLink"].(string)
		next = strings.TrimPrefix(link, s.server.URL)
	}
	require.Len(t, slices.Compact(names), 45)
}

func TestProvider_listsOfSite(t *testing.T) {
	s := newSite(t)
	locations := "/subscriptions/" + s.subscription +
		"/providers/Microsoft.RedHatOpenShift/locations/x/hcpOpenShiftVersions"
	require.Equal(t, "4.19.7", s.do("GET", locations+version, "").at(t, "value", 0, "name"))
	require.Equal(t, http.StatusOK, s.do("GET", locations+"/4.19.7"+version, "").StatusCode)
	require.Equal(t, http.StatusNotFound, s.do("GET", locations+"/4.1.1"+version, "").StatusCode)
	require.NotEmpty(t, s.do("GET", "/providers/microsoft.redhatopenshift/operations", "").at(t, "value"))
	document := s.do("GET", "/subscriptions/"+s.subscription+"?api-version=2.0", "")
	require.Equal(t, "Registered", document.at(t, "state"))
}
