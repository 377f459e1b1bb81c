package appliance_test

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/stretchr/testify/require"

	"landfall/appliance"
	"landfall/appliance/audittrail"
	"landfall/appliance/config"
	"landfall/appliance/simulate/pki"
	"landfall/web/access"
)

// certified is a running appliance that accepts client certificates of an authority.
type certified struct {
	*authenticated
	authority *pki.Pair
}

// startCertified starts a site. The change applies to its configuration.
func startCertified(t *testing.T, change func(*config.Config)) *certified {
	t.Helper()
	s := newSite(t)
	authority, err := pki.NewCA("programs", "site", pki.Year)
	require.NoError(t, err)
	s.config.TLS.ClientCAFile = filepath.Join(t.TempDir(), "programs.crt")
	require.NoError(t, os.WriteFile(s.config.TLS.ClientCAFile, authority.Cert, 0o600))
	if change != nil {
		change(&s.config)
	}
	return &certified{startAuthenticated(t, s), authority}
}

func (c *certified) issue(name, group string, validity time.Duration) *pki.Pair {
	c.t.Helper()
	pair, err := pki.NewClient(name, group, validity, c.authority)
	require.NoError(c.t, err)
	return pair
}

// as returns a client with a certificate, over HTTP/2 or HTTP/1.1. It sends the certificate also to
// a server that does not name its authority.
func (c *certified) as(pair *pki.Pair, http2 bool) *http.Client {
	c.t.Helper()
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	require.NoError(c.t, err)
	transport := c.trusted.Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &certificate, nil
	}
	transport.ForceAttemptHTTP2 = http2
	if !http2 {
		transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	client := &http.Client{Transport: transport}
	c.t.Cleanup(client.CloseIdleConnections)
	return client
}

func (c *certified) whoami(as *http.Client) (who access.Whoami) {
	c.t.Helper()
	c.call(as, http.MethodGet, "/api/landfall/v1/whoami", nil).read(c.t, http.StatusOK, &who)
	return who
}

// TestClientCertificates_api uses the REST API as programs with each role.
func TestClientCertificates_api(t *testing.T) {
	c := startCertified(t, nil)
	for group, role := range map[string]string{"landfall:viewer": "viewer", "landfall:operator": "operator",
		"landfall:admin": "admin", "system:masters": "admin"} {
		for _, http2 := range []bool{false, true} {
			as := c.as(c.issue("ci", group, pki.Day), http2)
			who := c.whoami(as)
			require.Equal(t, "program ci "+role, fmt.Sprintf("%s %s %s", who.Kind, who.Name, who.Role))
			created := c.call(as, http.MethodPost, apiPath+"/clusters", c.newCluster("site"))
			if role == "viewer" {
				requireRefusal(t, created, http.StatusForbidden, "requires the role operator, but program ci")
				continue
			}
			require.Equal(t, http.StatusCreated, created.status, "%s", created.body)
		}
	}
	var page audittrail.Page
	c.call(c.admin, http.MethodGet, "/api/landfall/v1/audit?operation=v2RegisterCluster", nil).
		read(t, http.StatusOK, &page)
	require.NotEmpty(t, page.Items)
	require.Equal(t, "ci", page.Items[0].Actor.Name)
	require.NotEmpty(t, page.Items[0].Actor.Certificate, "the serial number")
}

// TestClientCertificates_refusals goes through certificates that are not accepted. Each of them
// gets an answer with the reason.
func TestClientCertificates_refusals(t *testing.T) {
	c := startCertified(t, nil)
	foreign, err := pki.NewCA("foreign", "site", pki.Year)
	require.NoError(t, err)
	stranger, err := pki.NewClient("ci", "landfall:admin", pki.Day, foreign)
	require.NoError(t, err)
	server, err := pki.NewServer("ci", nil, nil, pki.Day, c.authority)
	require.NoError(t, err)
	self, err := pki.NewCA("ci", "landfall:admin", pki.Day)
	require.NoError(t, err)
	for name, x := range map[string]struct {
		pair   *pki.Pair
		status int
		reason string
	}{
		"foreign":     {stranger, http.StatusUnauthorized, "no authority in tls.client_ca_file signed"},
		"self-signed": {self, http.StatusUnauthorized, "extended key usage clientAuth"},
		"for servers": {server, http.StatusUnauthorized, "extended key usage clientAuth"},
		"expired":     {c.issue("ci", "landfall:admin", -time.Minute), http.StatusUnauthorized, "expired at"},
		"without a role": {c.issue("ci", "payments", pki.Day), http.StatusForbidden,
			"ci has no role at this appliance: none of the groups of ci is in tls.client_roles"},
	} {
		t.Run(name, func(t *testing.T) {
			as := c.as(x.pair, true)
			requireRefusal(t, c.call(as, http.MethodGet, apiPath+"/clusters", nil), x.status, x.reason)
			require.Equal(t, http.StatusOK, c.call(as, http.MethodGet, "/health", nil).status)
		})
	}
	requireRefusal(t, c.call(c.trusted, http.MethodGet, apiPath+"/clusters", nil), http.StatusUnauthorized,
		"or use a client certificate of an authority in tls.client_ca_file")
}

// TestClientCertificates_besideOtherCredentials checks that a token and a session precede a
// certificate, and that a page of another origin cannot use a browser's certificate.
func TestClientCertificates_besideOtherCredentials(t *testing.T) {
	c := startCertified(t, nil)
	as := c.as(c.issue("ci", "landfall:admin", pki.Day), true)
	_, token := c.program("viewer")
	both := &http.Client{Transport: headerSender{"Authorization", "Bearer " + token, as.Transport}}
	require.Equal(t, "viewer", c.whoami(both).Name)
	wrong := &http.Client{Transport: headerSender{"Authorization", "Bearer lf_wrong", as.Transport}}
	requireRefusal(t, c.call(wrong, http.MethodGet, apiPath+"/clusters", nil), http.StatusUnauthorized,
		"the token in the header Authorization is unknown")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url+apiPath+"/clusters", nil)
	require.NoError(t, err)
	request.Header.Set("Origin", "https://stranger.example.com")
	response, err := as.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusForbidden, response.StatusCode)
}

// TestClientCertificates_agentsName checks that a name does not make a program an agent.
func TestClientCertificates_agentsName(t *testing.T) {
	c := startCertified(t, nil)
	env := c.create("/infra-envs", c.newInfraEnv("site"))
	as := c.as(c.issue("agent of infra-env "+env, "landfall:viewer", pki.Day), true)
	require.Equal(t, "program", string(c.whoami(as).Kind))
	requireRefusal(t, c.call(as, http.MethodPost, apiPath+"/infra-envs/"+env+"/hosts",
		object{"host_id": "11111111-1111-4111-8111-111111111111"}), http.StatusForbidden, "")
}

func (c *certified) create(kind string, body any) string {
	c.t.Helper()
	var made struct{ ID strfmt.UUID }
	c.call(c.admin, http.MethodPost, apiPath+kind, body).read(c.t, http.StatusCreated, &made)
	return made.ID.String()
}

// TestClientCertificates_onlyIfConfigured checks that a listener does not ask for a certificate
// without authorities, so that browsers do not ask people for one.
func TestClientCertificates_onlyIfConfigured(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"configured":     nil,
		"not configured": func(c *config.Config) { c.TLS.ClientCAFile = "" },
	} {
		t.Run(name, func(t *testing.T) {
			c := startCertified(t, change)
			asked := false
			as := c.as(c.issue("ci", "landfall:admin", pki.Day), true)
			config := as.Transport.(*http.Transport).TLSClientConfig
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				asked = true
				return new(tls.Certificate), nil
			}
			require.Equal(t, http.StatusUnauthorized, c.call(as, http.MethodGet, apiPath+"/clusters", nil).status)
			require.Equal(t, change == nil, asked)
		})
	}
}

// TestClientCertificates_badStart checks that the appliance does not start with authorities that
// cannot be read.
func TestClientCertificates_badStart(t *testing.T) {
	s := newSite(t).withAuth()
	s.config.TLS.ClientCAFile = filepath.Join(t.TempDir(), "programs.crt")
	require.NoError(t, os.WriteFile(s.config.TLS.ClientCAFile, []byte("programs"), 0o600))
	_, err := appliance.New(t.Context(), s.config, slog.New(slog.DiscardHandler), "test")
	require.ErrorContains(t, err, "contains no certificate in PEM; write the certificates of the authorities")
}

// TestKubectl_withClientCertificate uses kubectl with certificates of each role, with a limited
// one, and with wrong ones.
func TestKubectl_withClientCertificate(t *testing.T) {
	const limitedTo = "11111111-1111-4111-8111-111111111111"
	c := startCertified(t, func(settings *config.Config) {
		settings.Kubernetes.Enabled, settings.Kubernetes.ImageSettles = true, 300*time.Millisecond
		settings.TLS.ClientRoles.Operator = append(settings.TLS.ClientRoles.Operator, "deck 1")
		settings.TLS.ClientGroupScopes = []config.GroupScope{{Group: "deck 1", Clusters: []string{limitedTo}}}
	})
	program, err := kubectlProgram.program()
	require.NoError(t, err)
	own, err := os.ReadFile(filepath.Join(c.config.DataDir, "ca.crt"))
	require.NoError(t, err)
	encoded := func(text []byte) string { return base64.StdEncoding.EncodeToString(text) }
	configure := func(d *hub, pair *pki.Pair, token string) {
		require.NoError(t, os.WriteFile(filepath.Join(d.dir, "kubeconfig"), fmt.Appendf(nil,
			"apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: %q, "+
				"certificate-authority-data: %s}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"+
				"users: [{name: a, user: {client-certificate-data: %s, client-key-data: %s, token: %q}}]\n",
			c.url, encoded(own), encoded(pair.Cert), encoded(pair.Key), token), 0o600))
	}
	as := func(pair *pki.Pair, token string) *hub {
		d := &hub{site: c.site, connection: &connection{address: c.url}, dir: t.TempDir(), program: program}
		configure(d, pair, token)
		return d
	}
	awaitReady(t, func() answer { return c.call(c.trusted, http.MethodGet, "/readyz", nil) })
	const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine, namespace: default}\ndata: {a: b}\n"
	for _, x := range []struct {
		role            string
		applies, reveal bool
	}{{"viewer", false, false}, {"operator", true, false}, {"admin", true, true}} {
		kubectl := as(c.issue("system:apiserver", "landfall:"+x.role, pki.Day), "")
		kubectl.kubectl(t, "get", "namespaces")
		require.Contains(t, kubectl.kubectl(t, "auth", "whoami"), "certificate:system:apiserver")
		require.Contains(t, kubectl.kubectl(t, "auth", "whoami"), "landfall:"+x.role)
		for verb, want := range map[string]bool{"get": true, "create": x.applies, "delete": x.applies} {
			answer, _ := kubectl.try(t.Context(), "", "auth", "can-i", verb, "configmaps")
			require.Equal(t, want, strings.HasPrefix(answer, "yes"), "%s %s: %s", x.role, verb, answer)
		}
		_, err := kubectl.try(t.Context(), configMap, "apply", "-f", "-")
		requireAllowed(t, x.applies, err, x.role)
		_, err = kubectl.try(t.Context(), "", "get", "secrets")
		requireAllowed(t, x.reveal, err, x.role)
	}
	limited := as(c.issue("ci", "deck 1", pki.Day), "")
	_, err = limited.try(t.Context(), "", "get", "namespaces")
	require.ErrorContains(t, err, "certificates for only some clusters cannot use the Kubernetes API")
	require.Contains(t, limited.kubectl(t, "auth", "whoami"), "landfall:limited")

	_, token := c.program("viewer")
	require.Contains(t, as(c.issue("ci", "landfall:admin", pki.Day), token).kubectl(t, "auth", "whoami"),
		"token:viewer", "a token precedes a certificate")
	for reason, pair := range map[string]*pki.Pair{
		"expired at": c.issue("ci", "landfall:admin", -time.Minute),
		"ci has no role at this appliance: none of the groups of ci is in tls.client_roles": c.issue("ci", "payments",
			pki.Day),
	} {
		kubectl := as(pair, "")
		_, err := kubectl.try(t.Context(), "", "get", "namespaces")
		require.Error(t, err, "kubectl shows no reason while it reads which kinds exist")
		configure(kubectl, c.issue("ci", "landfall:viewer", pki.Day), "")
		kubectl.kubectl(t, "get", "namespaces")
		configure(kubectl, pair, "")
		_, err = kubectl.try(t.Context(), "", "get", "namespaces")
		require.ErrorContains(t, err, reason)
	}
}
