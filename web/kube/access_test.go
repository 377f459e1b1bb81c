package kube_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/access"
	"landfall/appliance/kube/objects"
	"landfall/web/kube"
)

// callers are identities of all kinds.
var callers = map[string]access.Identity{
	"nobody":   {},
	"agent":    {Kind: access.Agent, InfraEnv: "x"},
	"link":     {Kind: access.Link},
	"viewer":   {Kind: access.Person, Name: "vera", Role: access.Viewer},
	"operator": {Kind: access.Program, Name: "ci", Role: access.Operator},
	"admin":    {Kind: access.Person, Name: "ada", Role: access.Administrator},
	"imitator": {Kind: access.Person, Name: "system:apiserver", Role: access.Viewer},
	"limited": {Kind: access.Person, Name: "leo", Role: access.Administrator,
		Scope: access.Scope{Clusters: []string{"x"}}},
}

// asCaller serves the API for one identity, as the guard does.
func asCaller(t *testing.T, s *site, caller access.Identity) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.server.ServeHTTP(w, r.WithContext(access.With(r.Context(), caller)))
	}))
	t.Cleanup(server.Close)
	return server
}

func statusOf(t *testing.T, method, url, body string, header http.Header) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

func TestAccess_statusByRole(t *testing.T) {
	s := newSite(t, func(o *kube.Options) { o.Open = false })
	const (
		secrets   = "/api/v1/namespaces/default/secrets"
		maps      = "/api/v1/namespaces/default/configmaps"
		clusters  = "/apis/hive.openshift.io/v1/namespaces/default/clusterdeployments"
		imageSets = "/apis/hive.openshift.io/v1/clusterimagesets"
	)
	object := func(kind, apiVersion string) string {
		return `{"kind":"` + kind + `","apiVersion":"` + apiVersion + `","metadata":{"generateName":"a"}}`
	}
	order := []string{"nobody", "agent", "link", "viewer", "operator", "admin", "limited"}
	for _, c := range []struct {
		method, path, body string
		want               []int // in the order of the callers
	}{
		{http.MethodGet, "/healthz", "", []int{200, 200, 200, 200, 200, 200, 200}},
		{http.MethodGet, "/version", "", []int{200, 200, 200, 200, 200, 200, 200}},
		{http.MethodGet, "/apis", "", []int{401, 401, 401, 200, 200, 200, 200}},
		{http.MethodGet, maps, "", []int{401, 401, 401, 200, 200, 200, 403}},
		{http.MethodGet, secrets, "", []int{401, 401, 401, 403, 403, 200, 403}},
		{http.MethodGet, secrets + "?watch=true&timeoutSeconds=1", "", []int{401, 401, 401, 403, 403, 200, 403}},
		{http.MethodPost, maps, object("ConfigMap", "v1"), []int{401, 401, 401, 403, 201, 201, 403}},
		{http.MethodPost, secrets, object("Secret", "v1"), []int{401, 401, 401, 403, 403, 201, 403}},
		{http.MethodGet, clusters, "", []int{401, 401, 401, 200, 200, 200, 403}},
		{http.MethodDelete, clusters + "/none", "", []int{401, 401, 401, 403, 404, 404, 403}},
		{http.MethodPost, imageSets, `{"kind":"ClusterImageSet","apiVersion":"hive.openshift.io/v1",` +
			`"metadata":{"generateName":"a"},"spec":{"releaseImage":"quay.io/a@sha256:` + strings.Repeat("0", 64) + `"}}`,
			[]int{401, 401, 401, 403, 403, 201, 403}},
		{http.MethodDelete, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/none", "",
			[]int{401, 401, 401, 403, 403, 404, 403}},
		{http.MethodGet, "/api/v1/pods", "", []int{401, 401, 401, 200, 200, 200, 403}},
		{http.MethodPost, "/api/v1/namespaces/default/pods", object("Pod", "v1"),
			[]int{401, 401, 401, 403, 403, 403, 403}},
		{http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			object("SelfSubjectAccessReview", "authorization.k8s.io/v1"), []int{401, 401, 401, 201, 201, 201, 201}},
		{http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
			object("SelfSubjectReview", "authentication.k8s.io/v1"), []int{401, 401, 401, 201, 201, 201, 201}},
	} {
		for i, name := range order {
			server := asCaller(t, s, callers[name])
			require.Equal(t, c.want[i], statusOf(t, c.method, server.URL+c.path, c.body, nil), "%s: %s %s", name,
				c.method, c.path)
		}
	}
	for _, name := range []string{"viewer", "operator", "imitator", "limited"} {
		server := asCaller(t, s, callers[name])
		require.Equal(t, http.StatusForbidden, statusOf(t, http.MethodGet, server.URL+secrets, "", nil), name)
		require.Equal(t, http.StatusForbidden, statusOf(t, http.MethodGet, server.URL+maps, "",
			http.Header{"Impersonate-User": {"ada"}, "Impersonate-Group": {"system:masters", "landfall:admin"}}), name)
	}
}

func TestAccessReview_agreesWithTheAPI(t *testing.T) {
	s := newSite(t, func(o *kube.Options) { o.Open = false })
	for _, c := range []struct {
		caller, verb, group, resource string
		want                          bool
	}{
		{"viewer", "list", "hive.openshift.io", "clusterdeployments", true},
		{"viewer", "create", "hive.openshift.io", "clusterdeployments", false},
		{"viewer", "get", "", "secrets", false},
		{"viewer", "*", "", "configmaps", false},
		{"operator", "create", "hive.openshift.io", "clusterdeployments", true},
		{"operator", "create", "hive.openshift.io", "clusterimagesets", false},
		{"operator", "get", "", "secrets", false},
		{"operator", "impersonate", "", "users", false},
		{"admin", "get", "", "secrets", true},
		{"admin", "update", "apps", "deployments", false},
		{"limited", "list", "", "configmaps", false},
	} {
		server := asCaller(t, s, callers[c.caller])
		review := authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"},
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: "default", Verb: c.verb, Group: c.group, Resource: c.resource,
			}},
		}
		body, err := json.Marshal(review)
		require.NoError(t, err)
		response, err := http.Post(server.URL+"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			"application/json", strings.NewReader(string(body)))
		require.NoError(t, err)
		require.NoError(t, json.NewDecoder(response.Body).Decode(&review))
		require.NoError(t, response.Body.Close())
		require.Equal(t, c.want, review.Status.Allowed, "%s %s %s", c.caller, c.verb, c.resource)
		if !c.want {
			require.NotEmpty(t, review.Status.Reason)
		}
	}
}

// TestAccess_namespaceOfAdministrators deletes namespaces whose objects an operator may not delete.
func TestAccess_namespaceOfAdministrators(t *testing.T) {
	s := newSite(t, func(o *kube.Options) { o.Open = false })
	operator, admin := asCaller(t, s, callers["operator"]), asCaller(t, s, callers["admin"])
	const (
		namespaces = "/api/v1/namespaces"
		owner      = `[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"gone"}]`
	)
	post := func(server *httptest.Server, path, body string) int {
		return statusOf(t, http.MethodPost, server.URL+path, body, nil)
	}
	secret := func(metadata string) string {
		return `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"pull"` + metadata + `}}`
	}
	for name, c := range map[string]struct {
		path, body string
		want       int
	}{
		"empty":     {},
		"maps":      {"/configmaps", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`, 0},
		"secrets":   {"/secrets", secret(""), http.StatusForbidden},
		"generated": {"/secrets", secret(`,"labels":{"landfall.io/made-for-cluster":"true"}`), 0},
		"kubeconfig": {"/secrets", secret(`,"ownerReferences":[{"apiVersion":"hive.openshift.io/v1",` +
			`"kind":"ClusterDeployment","name":"a","uid":"1"}]`), 0},
		"machines": {"", `{"kind":"BareMetalHost","apiVersion":"metal3.io/v1alpha1","metadata":{"name":"a"}}`,
			http.StatusForbidden},
	} {
		require.Equal(t, http.StatusCreated, post(operator, namespaces,
			`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"`+name+`"}}`), name)
		switch at := namespaces + "/" + name + c.path; {
		case c.path == "" && c.body != "":
			at = "/apis/metal3.io/v1alpha1/namespaces/" + name + "/baremetalhosts"
			fallthrough
		case c.body != "":
			require.Equal(t, http.StatusCreated, post(admin, at, c.body), name)
		}
		require.Equal(t, http.StatusForbidden, statusOf(t, http.MethodPatch, operator.URL+namespaces+"/"+name,
			`{"metadata":{"ownerReferences":`+owner+`}}`, http.Header{"Content-Type": {"application/merge-patch+json"}}))
		require.Equal(t, cmp.Or(c.want, http.StatusOK),
			statusOf(t, http.MethodDelete, operator.URL+namespaces+"/"+name, "", nil), name)
		if c.want != 0 {
			require.Equal(t, http.StatusOK,
				statusOf(t, http.MethodDelete, admin.URL+namespaces+"/"+name, "", nil), name)
		}
		s.gone(t, objects.Namespaces, "", name)
	}
}
