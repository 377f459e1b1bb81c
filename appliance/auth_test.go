package appliance_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	httptransport "github.com/go-openapi/runtime/client"
	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/agents"
	"landfall/appliance/audittrail"
	"landfall/appliance/config"
	"landfall/appliance/osimage"
	"landfall/appliance/simulate"
	"landfall/porttest"
	"landfall/web/access"
	"landfall/web/accounts"
	"landfall/web/console"
)

// withAuth enables authentication and TLS on a site.
func (s *site) withAuth() *site {
	s.config.TLS.Enabled, s.config.Auth = true, config.AuthLocal
	return s
}

// headerSender sends requests with a header.
type headerSender struct {
	name, value string
	base        http.RoundTripper
}

func (h headerSender) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, h.value)
	return h.base.RoundTrip(r)
}

// authenticated is a running appliance with authentication.
type authenticated struct {
	*site
	t       *testing.T
	url     string
	trusted *http.Client // verifies the appliance, and sends no credentials
	admin   *http.Client
	stop    func() // stops the appliance; nil if the test that started it has the function
}

const password = "correct horse battery staple"

// startAuthenticated starts a site and makes the first administrator with the setup code.
func startAuthenticated(t *testing.T, s *site) *authenticated {
	t.Helper()
	local, stop := s.withAuth().start(t)
	a := s.authenticated(t, local)
	a.stop = stop
	a.setUp(s.setupCode(t), password)
	return a
}

// authenticated returns a running site, which has no account yet.
func (s *site) authenticated(t *testing.T, local string) *authenticated {
	t.Helper()
	return &authenticated{site: s, t: t, url: strings.Replace(local, "http://", "https://", 1), trusted: s.trusting(t)}
}

func (s *site) setupCode(t testing.TB) string {
	t.Helper()
	code, err := os.ReadFile(filepath.Join(s.config.DataDir, "setup-code"))
	require.NoError(t, err)
	return strings.TrimSpace(string(code))
}

// setUp makes the first administrator and returns the token of the session.
func setUp(t testing.TB, client *http.Client, address, code, password string) string {
	t.Helper()
	var session access.Login
	callWith(t, client, http.MethodPost, address+console.BasePath+"/setup", object{"code": code, "name": "ada",
		"password": password, "kind": "token"}).read(t, http.StatusOK, &session)
	require.NotEmpty(t, session.Token)
	return session.Token
}

// setUp makes the first administrator and returns the token of the session.
func (a *authenticated) setUp(code, password string) string {
	a.t.Helper()
	token := setUp(a.t, a.trusted, a.url, code, password)
	a.admin = a.with(token)
	return token
}

// with returns a client that sends a person's or program's token.
func (a *authenticated) with(token string) *http.Client {
	return &http.Client{Transport: headerSender{"Authorization", "Bearer " + token, a.trusted.Transport}}
}

// agent returns a client that sends an agent's token.
func (a *authenticated) agent(token string) *http.Client {
	return &http.Client{Transport: headerSender{"X-Secret-Key", token, a.trusted.Transport}}
}

// program returns a client with a new token of a role.
func (a *authenticated) program(role string) (*http.Client, string) {
	a.t.Helper()
	var made access.Token
	a.call(a.admin, http.MethodPost, "/api/landfall/v1/tokens", object{"name": role, "role": role}).
		read(a.t, http.StatusCreated, &made)
	return a.with(made.Token), made.Token
}

func (a *authenticated) call(as *http.Client, method, path string, body any) answer {
	a.t.Helper()
	return callWith(a.t, as, method, a.url+path, body)
}

// head returns the status of an answer to a request without credentials.
func (a *authenticated) head(url string) int {
	a.t.Helper()
	response, err := a.trusted.Head(url)
	require.NoError(a.t, err)
	require.NoError(a.t, response.Body.Close())
	return response.StatusCode
}

// upstreamClient returns the Assisted Installer's own client, which sends a token as its users do.
func (a *authenticated) upstreamClient(token string) *client.AssistedInstall {
	base, err := url.Parse(a.url)
	require.NoError(a.t, err)
	return client.New(client.Config{
		URL:       &url.URL{Scheme: base.Scheme, Host: base.Host, Path: client.DefaultBasePath},
		Transport: a.trusted.Transport, AuthInfo: httptransport.BearerToken(token),
	})
}

func TestAuth_setupCodeMakesOneAdministrator(t *testing.T) {
	s := newSite(t)
	local, _ := s.withAuth().start(t)
	setup, login := local+"/api/landfall/v1/setup", local+"/api/landfall/v1/login"
	require.Equal(t, http.StatusUnauthorized, call(t, http.MethodGet, local+apiPath+"/clusters", nil).status)
	file := filepath.Join(s.config.DataDir, "setup-code")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	code := s.setupCode(t)

	body := object{"code": "0000-0000-0000-0000", "name": "ada", "password": password, "kind": "token"}
	requireRefusal(t, call(t, http.MethodPost, setup, body), http.StatusUnauthorized, "the setup code is wrong")
	body = body.with(object{"code": code})
	requireRefusal(t, call(t, http.MethodPost, setup, body.with(object{"password": "short"})), http.StatusBadRequest,
		"at least 8")
	var session access.Login
	call(t, http.MethodPost, setup, body).read(t, http.StatusOK, &session)
	require.Equal(t, "admin", session.Role.String())
	require.NoFileExists(t, file)
	requireRefusal(t, call(t, http.MethodPost, setup, body), http.StatusNotFound, "there is no setup code")

	requireRefusal(t, call(t, http.MethodPost, login, object{"name": "ada", "password": "wrong"}),
		http.StatusUnauthorized, "the name or the password is wrong")
	var browser access.Login
	call(t, http.MethodPost, login, object{"name": "ada", "password": password}).read(t, http.StatusOK, &browser)
	require.Empty(t, browser.Token, "browsers get a cookie")
}

// TestAuth_installation installs a cluster with an operator's token and the Assisted Installer's
// own client. The agents, the installer and the controller send the token of the image.
func TestAuth_installation(t *testing.T) {
	s := newSite(t)
	s.config.Kubernetes.Enabled = true
	a := startAuthenticated(t, s)
	operator, token := a.program("operator")
	viewer, _ := a.program("viewer")
	api := a.upstreamClient(token).Installer
	ctx := t.Context()

	created, err := api.V2RegisterCluster(ctx, &installer.V2RegisterClusterParams{
		NewClusterParams: &models.ClusterCreateParams{Name: conv.Pointer("site"), BaseDNSDomain: "site.test",
			OpenshiftVersion: conv.Pointer(s.release.Version), PullSecret: conv.Pointer(pullSecret),
			ControlPlaneCount: conv.Pointer[int64](1)}})
	require.NoError(t, err)
	cluster := *created.Payload.ID
	env, err := api.RegisterInfraEnv(ctx, &installer.RegisterInfraEnvParams{
		InfraenvCreateParams: &models.InfraEnvCreateParams{Name: conv.Pointer("site"), ClusterID: &cluster,
			PullSecret: conv.Pointer(pullSecret), OpenshiftVersion: s.release.Version}})
	require.NoError(t, err)
	envID := *env.Payload.ID
	image, err := api.GetInfraEnvDownloadURL(ctx, &installer.GetInfraEnvDownloadURLParams{InfraEnvID: envID})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.head(*image.Payload.URL), "the URL of the image contains its token")

	group := &simulate.HostGroup{URL: a.url, InfraEnvID: envID.String(), Count: 1, Speed: 1000,
		HTTP: a.trusted, Token: token, Spokes: s.spokes}
	ended := make(chan error, 1)
	go func() { ended <- group.Run(ctx) }()
	status := func(wanted string) func() bool {
		return func() bool {
			got, err := api.V2GetCluster(ctx, &installer.V2GetClusterParams{ClusterID: cluster})
			require.NoError(t, err)
			require.NotEqual(t, models.ClusterStatusError, *got.Payload.Status, *got.Payload.StatusInfo)
			return *got.Payload.Status == wanted
		}
	}
	eventually(t, "the cluster becomes ready", status(models.ClusterStatusReady))
	_, err = api.V2InstallCluster(ctx, &installer.V2InstallClusterParams{ClusterID: cluster})
	require.NoError(t, err)
	eventually(t, "the cluster is installed", status(models.ClusterStatusInstalled))
	require.NoError(t, <-ended)

	path := apiPath + "/clusters/" + cluster.String()
	require.Equal(t, http.StatusOK, a.call(viewer, http.MethodGet, path, nil).status)
	requireRefusal(t, a.call(viewer, http.MethodPost, path+"/actions/reset", nil), http.StatusForbidden,
		"requires the role operator")
	for _, secret := range []string{"/credentials", "/downloads/credentials?file_name=kubeconfig"} {
		require.Equal(t, http.StatusForbidden, a.call(operator, http.MethodGet, path+secret, nil).status, secret)
		got := a.call(a.admin, http.MethodGet, path+secret, nil)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
	}
	require.Equal(t, http.StatusOK, a.call(viewer, http.MethodGet,
		"/apis/hive.openshift.io/v1/namespaces/default/clusterdeployments", nil).status)
	require.Equal(t, http.StatusUnauthorized, a.call(a.trusted, http.MethodGet,
		"/apis/hive.openshift.io/v1/namespaces/default/clusterdeployments", nil).status)

	var change agents.Change
	a.call(a.admin, http.MethodPost, console.BasePath+"/infra-envs/"+envID.String()+"/agent-tokens/revoke", nil).
		read(t, http.StatusOK, &change)
	require.Empty(t, change.Hosts, "an installed host needs no token")
	require.Equal(t, http.StatusUnauthorized, a.head(*image.Payload.URL), "the token in the URL is revoked")
}

// TestAuth_endedSessionsAndTokens also checks that a change of the password ends the sessions.
func TestAuth_endedSessionsAndTokens(t *testing.T) {
	a := startAuthenticated(t, newSite(t))
	viewer, _ := a.program("viewer")
	whoami := func(as *http.Client) int { return a.call(as, http.MethodGet, "/api/landfall/v1/whoami", nil).status }
	require.Equal(t, http.StatusOK, whoami(viewer))
	require.Equal(t, http.StatusNoContent, a.call(a.admin, http.MethodDelete, "/api/landfall/v1/tokens/viewer",
		nil).status)
	require.Equal(t, http.StatusUnauthorized, whoami(viewer))

	require.Equal(t, http.StatusOK, whoami(a.admin))
	requireRefusal(t, a.call(a.admin, http.MethodDelete, "/api/landfall/v1/users/ada", nil), http.StatusConflict,
		"the last administrator")
	require.Equal(t, http.StatusNoContent, a.call(a.admin, http.MethodPut, "/api/landfall/v1/users/ada/password",
		object{"old": password, "new": password + "!"}).status)
	require.Equal(t, http.StatusUnauthorized, whoami(a.admin))
}

func TestAuth_streamsEndWithTheirToken(t *testing.T) {
	s := newSite(t)
	s.config.Kubernetes.Enabled = true
	a := startAuthenticated(t, s)
	awaitReady(t, func() answer { return a.call(a.trusted, http.MethodGet, "/readyz", nil) })
	operator, _ := a.program("operator")
	admin, _ := a.program("admin")
	paths := []string{"/api/landfall/v1/feed", "/api/v1/namespaces?watch=true", "/api/v1/watch/namespaces",
		"/apis/hive.openshift.io/v1/clusterdeployments?watch=1"}
	open := func(as *http.Client, path string) io.ReadCloser {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+path, nil)
		require.NoError(t, err)
		response, err := as.Do(request)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, response.Body.Close()) })
		require.Equal(t, http.StatusOK, response.StatusCode, path)
		return response.Body
	}
	var streams []io.Reader
	for _, path := range paths {
		streams = append(streams, open(operator, path))
	}
	valid := open(admin, paths[0])
	require.Equal(t, http.StatusNoContent, a.call(a.admin, http.MethodDelete, "/api/landfall/v1/tokens/operator",
		nil).status)
	for _, stream := range streams {
		_, err := io.Copy(io.Discard, stream) // does not return while the stream goes on
		require.NoError(t, err)
	}
	a.call(a.admin, http.MethodPost, apiPath+"/clusters", object{"name": "later",
		"openshift_version": s.release.Version, "base_dns_domain": "site.test",
		"pull_secret": pullSecret}).read(t, http.StatusCreated, new(object))
	lines := bufio.NewScanner(valid)
	for lines.Scan() && lines.Text() != "event: change" {
	}
	require.NoError(t, lines.Err(), "streams of valid tokens go on")
	require.Equal(t, "event: change", lines.Text())
}

// TestAuth_scopeLimitsListsAndChanges checks a token for one of two clusters.
func TestAuth_scopeLimitsListsAndChanges(t *testing.T) {
	a := startAuthenticated(t, newSite(t))
	var ids []string
	for _, name := range []string{"mine", "other"} {
		var made struct{ ID strfmt.UUID }
		a.call(a.admin, http.MethodPost, apiPath+"/clusters", a.newCluster(name)).read(t, http.StatusCreated, &made)
		ids = append(ids, made.ID.String())
		a.call(a.admin, http.MethodPost, apiPath+"/infra-envs", a.newInfraEnv(name).with(object{
			"cluster_id": made.ID})).read(t, http.StatusCreated, &made)
		ids = append(ids, made.ID.String())
	}
	var made access.Token
	a.call(a.admin, http.MethodPost, "/api/landfall/v1/tokens", object{"name": "limited", "role": "operator",
		"clusters": []string{ids[0]}}).read(t, http.StatusCreated, &made)
	for path, body := range map[string]object{
		"tokens": {"name": "named", "role": "operator", "clusters": []string{"mine"}},
		"users": {"name": "named", "role": "operator", "password": "correct horse battery",
			"infra_envs": []string{"mine"}},
	} {
		requireRefusal(t, a.call(a.admin, http.MethodPost, "/api/landfall/v1/"+path, body), http.StatusBadRequest,
			`"mine" is not the ID of a`, "list -o wide shows the IDs")
	}
	limited := a.with(made.Token)
	for _, kind := range []string{"/clusters", "/infra-envs"} {
		var list []struct{ Name string }
		a.call(limited, http.MethodGet, apiPath+kind, nil).read(t, http.StatusOK, &list)
		require.Len(t, list, 1, kind)
		require.Equal(t, "mine", list[0].Name)
	}
	for path, want := range map[string]int{
		"/clusters/" + ids[0]: 200, "/infra-envs/" + ids[1]: 200, "/events?cluster_id=" + ids[0]: 200,
		"/clusters/" + ids[2]: 403, "/infra-envs/" + ids[3]: 403, "/events?cluster_id=" + ids[2]: 403,
		"/events?infra_env_id=" + ids[3]: 403, "/openshift-versions": 200,
	} {
		require.Equal(t, want, a.call(limited, http.MethodGet, apiPath+path, nil).status, path)
	}
	require.Equal(t, http.StatusForbidden, a.call(limited, http.MethodPost, apiPath+"/clusters",
		a.newCluster("third")).status)
	for caller, want := range map[*http.Client][]string{a.admin: {"mine", "other"}, limited: nil} {
		var images map[string][]osimage.Image
		a.call(caller, http.MethodGet, consolePath+"/os-images", nil).read(t, http.StatusOK, &images)
		require.Equal(t, 2, images["os_images"][0].InUseBy)
		require.ElementsMatch(t, want, images["os_images"][0].Users)
	}
}

// TestAuth_overridesAreForAdministrators checks the free text of Ignition configs and
// install-configs in answers.
func TestAuth_overridesAreForAdministrators(t *testing.T) {
	a := startAuthenticated(t, newSite(t))
	operator, _ := a.program("operator")
	const secret = "planted-secret"
	override := `{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/` + secret + `"}]}}`
	var cluster, env struct{ ID strfmt.UUID }
	a.call(a.admin, http.MethodPost, apiPath+"/clusters", a.newCluster("site")).read(t, http.StatusCreated, &cluster)
	a.call(a.admin, http.MethodPost, apiPath+"/infra-envs", a.newInfraEnv("site").with(object{
		"ignition_config_override": override})).read(t, http.StatusCreated, &env)
	patched := a.call(a.admin, http.MethodPatch, apiPath+"/clusters/"+cluster.ID.String()+"/install-config",
		`"{\"imageDigestSources\":[{\"source\":\"`+secret+`.example.com/a\",\"mirrors\":[\"m.example.com/a\"]}]}"`)
	require.Equal(t, http.StatusCreated, patched.status, "%s", patched.body)
	for _, path := range []string{"/infra-envs", "/infra-envs/" + env.ID.String(), "/clusters",
		"/clusters/" + cluster.ID.String()} {
		require.NotContains(t, string(a.call(operator, http.MethodGet, apiPath+path, nil).body), secret, path)
	}
	body := a.call(operator, http.MethodGet, apiPath+"/infra-envs/"+env.ID.String(), nil).body
	require.Contains(t, string(body), "only administrators can read it")
	require.Contains(t, string(a.call(a.admin, http.MethodGet, apiPath+"/infra-envs/"+env.ID.String(), nil).body),
		secret)
}

// TestAuth_auditNamesThePerson also checks that the page's question for the caller, before the
// login, is not recorded.
func TestAuth_auditNamesThePerson(t *testing.T) {
	a := startAuthenticated(t, newSite(t))
	require.Equal(t, http.StatusUnauthorized, a.call(a.trusted, http.MethodGet, "/api/landfall/v1/whoami", nil).status)
	require.Equal(t, http.StatusUnauthorized, a.call(a.trusted, http.MethodPost, apiPath+"/clusters", nil).status)
	require.Equal(t, http.StatusUnauthorized, a.call(a.trusted, http.MethodPost, "/api/landfall/v1/login",
		object{"name": "ada", "password": "wrong"}).status)
	require.Equal(t, http.StatusOK, a.call(a.trusted, http.MethodPost, "/api/landfall/v1/login",
		object{"name": "ada", "password": password}).status)
	var page audittrail.Page
	a.call(a.admin, http.MethodGet, "/api/landfall/v1/audit", nil).read(t, http.StatusOK, &page)
	var got []string
	for _, item := range page.Items {
		if item.Operation != "" {
			got = append(got, fmt.Sprintf("%s %s %d", item.Actor.Name, item.Operation, item.Status))
		}
	}
	require.Equal(t, []string{"ada logIn 200", " logIn 401", " v2RegisterCluster 401", "ada setUp 200"}, got)
}

// TestAuth_strangersAddOnlyCountedRefusals sends many requests without credentials to the APIs that
// check their clients themselves. They must not push older records out of the audit trail.
func TestAuth_strangersAddOnlyCountedRefusals(t *testing.T) {
	s := newSite(t)
	s.config.Registry.Listen, s.config.Registry.TLS = porttest.Reserve(t), false
	s.config.Kubernetes.Enabled = true
	a := startAuthenticated(t, s)
	registry := "http://" + s.config.Registry.Listen
	eventually(t, "the Kubernetes API runs", func() bool {
		return a.call(a.admin, http.MethodGet, "/api/v1/namespaces", nil).status == http.StatusOK
	})
	const requests = 100
	for _, flood := range []struct {
		method, url string
		status      int
	}{
		{http.MethodPost, a.url + "/api/v1/namespaces/default/configmaps", http.StatusUnauthorized},
		{http.MethodPost, a.url + "/apis/hive.openshift.io/v1/clusterimagesets", http.StatusUnauthorized},
		{http.MethodGet, a.url + "/api/v1/secrets", http.StatusUnauthorized},
		{http.MethodPost, registry + "/v2/site/app/blobs/uploads/", http.StatusUnauthorized},
		{http.MethodPost, a.url + "/api/accounts_mgmt/v1/cluster_authorizations", http.StatusUnauthorized},
		{http.MethodPost, a.url + accounts.TokenPath, http.StatusBadRequest},
		{http.MethodPost, a.url + "/api/landfall/v1/logout", http.StatusNoContent},
	} {
		for range requests {
			got := callWith(t, a.trusted, flood.method, flood.url, nil)
			require.Equal(t, flood.status, got.status, "%s %s: %s", flood.method, flood.url, got.body)
		}
	}
	pushed, err := http.NewRequestWithContext(t.Context(), http.MethodPost, registry+"/v2/site/app/blobs/uploads/", nil)
	require.NoError(t, err)
	pushed.SetBasicAuth("ada", password)
	response, err := http.DefaultClient.Do(pushed)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusAccepted, response.StatusCode)
	var session access.Login
	a.call(a.trusted, http.MethodPost, "/api/landfall/v1/login", object{"name": "ada", "password": password,
		"kind": "token"}).read(t, http.StatusOK, &session)
	require.Equal(t, http.StatusNoContent,
		a.call(a.with(session.Token), http.MethodPost, "/api/landfall/v1/logout", nil).status)

	var page audittrail.Page
	a.call(a.admin, http.MethodGet, "/api/landfall/v1/audit?limit=1000", nil).read(t, http.StatusOK, &page)
	require.Less(t, len(page.Items), requests, "the refused requests are counted")
	accepted := map[string]string{}
	for _, item := range page.Items {
		if item.Status < http.StatusBadRequest {
			accepted[item.Operation] = item.Actor.Name
		}
	}
	require.Equal(t, "ada", accepted["the registry"])
	require.Equal(t, "ada", accepted["logOut"])
}
