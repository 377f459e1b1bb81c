package appliance_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-openapi/runtime"
	httptransport "github.com/go-openapi/runtime/client"
	"github.com/openshift/assisted-service/client"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/authority"
	"landfall/appliance/config"
)

// openAndAuthenticated runs a test on two sites at the same time: without TLS and authentication,
// and with both.
func openAndAuthenticated(t *testing.T, test func(t *testing.T, s *site)) {
	t.Run("open", func(t *testing.T) {
		t.Parallel()
		test(t, newSite(t))
	})
	t.Run("authenticated", func(t *testing.T) {
		t.Parallel()
		s := newSite(t).withAuth()
		s.config.Egress.Allow = []string{"127.0.0.1"} // the other servers of the site
		test(t, s)
	})
}

// connection is a running appliance as an administrator's program reaches it.
type connection struct {
	address string
	token   string       // "" without authentication
	client  *http.Client // verifies the appliance and sends the token
	trusted *http.Client // verifies the appliance and sends no token
	stop    func()       // stops the appliance; nil if the test that started it has the function
}

// openConnection returns a connection to an appliance without TLS and authentication.
func openConnection(address string) *connection {
	return &connection{address: address, client: http.DefaultClient, trusted: http.DefaultClient}
}

// headerRevision is the header with the newest revision that an answer contains, or that a client
// has seen.
const headerRevision = "Landfall-Revision"

// remembering sends the newest revision that it has seen with each request, so that no member of a
// fleet answers with older data.
type remembering struct{ newest atomic.Uint64 }

// RoundTrip implements http.RoundTripper.
func (m *remembering) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(headerRevision, strconv.FormatUint(m.newest.Load(), 10))
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	revision, err := strconv.ParseUint(answer.Header.Get(headerRevision), 10, 64)
	for seen := m.newest.Load(); err == nil && revision > seen; seen = m.newest.Load() {
		m.newest.CompareAndSwap(seen, revision)
	}
	return answer, nil
}

// connect starts the site's appliance. With authentication, it makes the first administrator with
// the setup code, and a token.
func (s *site) connect(t *testing.T) *connection {
	t.Helper()
	if s.config.Auth == config.AuthNone {
		address, stop := s.start(t)
		c := openConnection(address)
		c.stop = stop
		return c
	}
	return startAuthenticated(t, s).connection()
}

// connection returns the connection of a program with the role admin.
func (a *authenticated) connection() *connection {
	a.t.Helper()
	program, token := a.program("admin")
	return &connection{address: a.url, token: token, client: program, trusted: a.trusted, stop: a.stop}
}

// upstream returns the Assisted Installer's own Go client, which sends the token as its users do.
func (c *connection) upstream(t *testing.T) *client.AssistedInstall {
	t.Helper()
	base, err := url.Parse(c.address)
	require.NoError(t, err)
	var sign runtime.ClientAuthInfoWriter = httptransport.PassThroughAuth
	if c.token != "" {
		sign = httptransport.BearerToken(c.token)
	}
	return client.New(client.Config{
		URL:       &url.URL{Scheme: base.Scheme, Host: base.Host, Path: client.DefaultBasePath},
		Transport: c.trusted.Transport,
		AuthInfo:  sign,
	})
}

// call sends a request to a path of the appliance, as the function call does.
func (c *connection) call(t *testing.T, method, path string, body any) answer {
	t.Helper()
	return callWith(t, c.client, method, c.address+path, body)
}

// create sends a description to a path of the Assisted Installer's API, and returns the new ID.
func (c *connection) create(t *testing.T, path string, description object) string {
	t.Helper()
	var made struct{ ID string }
	c.call(t, http.MethodPost, apiPath+path, description).read(t, http.StatusCreated, &made)
	return made.ID
}

// cluster returns a cluster from the API.
func (c *connection) cluster(t *testing.T, id string) *models.Cluster {
	t.Helper()
	cluster := new(models.Cluster)
	c.call(t, http.MethodGet, apiPath+"/clusters/"+id, nil).read(t, http.StatusOK, cluster)
	return cluster
}

// requireStatus waits until a cluster has the status.
func (c *connection) requireStatus(t *testing.T, id, status string) *models.Cluster {
	t.Helper()
	var cluster *models.Cluster
	eventually(t, "the cluster becomes "+status, func() bool {
		cluster = c.cluster(t, id)
		return *cluster.Status == status
	})
	return cluster
}

// events returns the messages of the events that a query selects, each on a line.
func (c *connection) events(t *testing.T, query string) string {
	t.Helper()
	var events []models.Event
	c.call(t, http.MethodGet, apiPath+"/events?"+query, nil).read(t, http.StatusOK, &events)
	var messages []string
	for _, event := range events {
		messages = append(messages, *event.Message)
	}
	return strings.Join(messages, "\n")
}

// appliance returns the connection with the Assisted Installer's own client.
func (c *connection) appliance(t *testing.T, s *site) *testAppliance {
	t.Helper()
	return &testAppliance{t, c.upstream(t), c, s, c.address + apiPath}
}

// writeKubeconfig writes a kubeconfig with the appliance's authority and the token.
func (c *connection) writeKubeconfig(t *testing.T, s *site, path string) {
	t.Helper()
	verify := ""
	if s.config.TLS.Enabled {
		certificate, err := os.ReadFile(filepath.Join(s.config.DataDir, authority.FileName))
		require.NoError(t, err)
		verify = "certificate-authority-data: " + base64.StdEncoding.EncodeToString(certificate)
	}
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil,
		"apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: %q, %s}}]\n"+
			"contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {token: %q}}]\n",
		c.address, verify, c.token), 0o600))
}
