package appliance_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/agents"
	"landfall/appliance/simulate"
	"landfall/web/console"
)

// network connects other machines with a site's appliance in plain HTTP. Its URL stays the same
// when the appliance restarts.
type network struct {
	url string

	mu        sync.Mutex
	appliance http.Handler // nil while the network is down
	last      string       // the end of the path of the request at which the network goes down
	down      chan struct{}
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := new(network)
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	n.url = server.URL
	return n
}

// ServeHTTP implements http.Handler.
func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	if n.last != "" && strings.HasSuffix(r.URL.Path, n.last) {
		n.appliance, n.last = nil, ""
		close(n.down)
	}
	appliance := n.appliance
	n.mu.Unlock()
	if appliance == nil {
		panic(http.ErrAbortHandler) // net/http closes the connection
	}
	r.RemoteAddr = "192.0.2.7:4711" // not of this machine
	appliance.ServeHTTP(w, r)
}

// connect ends the interruption.
func (n *network) connect(s *site) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.appliance = s.running.Handler()
}

// interruptAt interrupts the network at the next request to a path with an end. The channel is
// closed then.
func (n *network) interruptAt(end string) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last, n.down = end, make(chan struct{})
	return n.down
}

// status sends a request of another machine, and returns the status of the answer.
func (n *network) status(t *testing.T, method, path string, header http.Header) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, n.url+path, strings.NewReader("{}"))
	require.NoError(t, err)
	request.Header = header
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// acceptTokenless accepts the machines of an infra-env without a token.
func (c *connection) acceptTokenless(t *testing.T, env strfmt.UUID, seconds int) {
	t.Helper()
	c.call(t, http.MethodPost, console.BasePath+"/infra-envs/"+env.String()+"/agent-tokens/accept-none",
		object{"seconds": seconds}).read(t, http.StatusOK, new(agents.Tokens))
}

// startOpen starts a site without TLS and authentication, whose machines use the network.
func startOpen(t *testing.T, s *site, n *network) (d *testAppliance, stop func()) {
	t.Helper()
	s.config.URL = []string{n.url}
	address, stop := s.start(t)
	n.connect(s)
	return openConnection(address).appliance(t, s), stop
}

// switchOn restarts a stopped site with TLS and authentication.
func switchOn(t *testing.T, s *site, n *network) *connection {
	t.Helper()
	s.config.URL = nil
	c := startAuthenticated(t, s).connection()
	n.connect(s)
	return c
}

// requireTokenless waits until the appliance has refused a host of the infra-env.
func (c *connection) requireTokenless(t *testing.T, env strfmt.UUID) {
	t.Helper()
	eventually(t, "an event names a refused machine", func() bool {
		return strings.Contains(c.events(t, "infra_env_id="+env.String()), "booted a discovery image without a token")
	})
	var found struct {
		InfraEnvs []agents.Tokens `json:"infra_envs"`
	}
	c.call(t, http.MethodGet, console.BasePath+"/tokenless-hosts", nil).read(t, http.StatusOK, &found)
	require.Len(t, found.InfraEnvs, 1)
}

// TestSwitchedOn_duringInstallation enables TLS and authentication while the hosts of a cluster are
// being installed. They booted an image without a token, know only an http:// URL, and are not on
// the appliance's machine. A person accepts them before or after the restart.
func TestSwitchedOn_duringInstallation(t *testing.T) {
	for name, early := range map[string]bool{"accepted before the restart": true, "accepted after it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, n := newSite(t), newNetwork(t)
			d, stop := startOpen(t, s, n)
			cluster := d.cluster(func(params *models.ClusterCreateParams) {
				params.ControlPlaneCount = conv.Pointer[int64](3)
				params.APIVips = []*models.APIVip{{IP: "192.168.100.4"}}
				params.IngressVips = []*models.IngressVip{{IP: "192.168.100.5"}}
			})
			env := d.infraEnv(&cluster)
			d.group(env, 3)
			d.until(cluster, models.ClusterStatusReady)
			down := n.interruptAt("/downloads/ignition") // while the installers run
			_, err := d.Installer.V2InstallCluster(t.Context(), &installer.V2InstallClusterParams{ClusterID: cluster})
			require.NoError(t, err)
			<-down
			if early {
				d.acceptTokenless(t, env, 3600)
			}
			stop()

			c := switchOn(t, s, n)
			if !early {
				c.requireTokenless(t, env)
				c.acceptTokenless(t, env, 3600)
			}
			c.appliance(t, s).eventuallySlow(cluster, models.ClusterStatusInstalled)

			tokenless := http.Header{"X-Secret-Key": {""}}
			register := apiPath + "/infra-envs/" + env.String() + "/hosts"
			require.Equal(t, http.StatusBadRequest, n.status(t, http.MethodPost, apiPath+"/clusters", http.Header{}),
				"people must use HTTPS")
			require.Equal(t, http.StatusPermanentRedirect, n.status(t, http.MethodGet, apiPath+"/clusters", tokenless),
				"it is no operation of machines")
			require.Equal(t, http.StatusBadRequest, n.status(t, http.MethodPost, register,
				http.Header{"X-Secret-Key": {"token"}}), "a machine with a token knows the authority")
			require.Equal(t, http.StatusBadRequest, n.status(t, http.MethodPost, register,
				http.Header{"X-Secret-Key": {""}, "Authorization": {"Bearer " + c.token}}))
			later := c.appliance(t, s).infraEnv(nil)
			require.Equal(t, http.StatusUnauthorized, n.status(t, http.MethodPost,
				apiPath+"/infra-envs/"+later.String()+"/hosts", tokenless), "all its images contain tokens")
			c.acceptTokenless(t, env, 0)
			require.Equal(t, http.StatusServiceUnavailable, n.status(t, http.MethodPost, register, tokenless))
		})
	}
}

// TestSwitchedOn_duringJoining enables TLS and authentication while a host joins an installed
// cluster.
func TestSwitchedOn_duringJoining(t *testing.T) {
	s, n := newSite(t), newNetwork(t)
	d, stop := startOpen(t, s, n)
	cluster := d.cluster()
	d.group(d.infraEnv(&cluster), 1)
	d.until(cluster, models.ClusterStatusReady)
	_, err := d.Installer.V2InstallCluster(t.Context(), &installer.V2InstallClusterParams{ClusterID: cluster})
	require.NoError(t, err)
	d.until(cluster, models.ClusterStatusInstalled)
	_, err = d.Installer.TransformClusterToAddingHosts(t.Context(),
		&installer.TransformClusterToAddingHostsParams{ClusterID: cluster})
	require.NoError(t, err)
	joining, err := d.registerInfraEnv(func(params *models.InfraEnvCreateParams) {
		params.Name, params.ClusterID = conv.Pointer("joining"), &cluster
	})
	require.NoError(t, err)
	env := *joining.ID
	group := &simulate.HostGroup{URL: d.address, InfraEnvID: env.String(), Count: 1, First: 2, Speed: 1000,
		Spokes: s.spokes}
	ended := make(chan error, 1)
	go func() { ended <- group.Run(t.Context()) }()
	host := d.untilHost(env, models.HostStatusKnown)
	down := n.interruptAt("/downloads/ignition")
	_, err = d.Installer.V2InstallHost(t.Context(), &installer.V2InstallHostParams{InfraEnvID: env, HostID: *host.ID})
	require.NoError(t, err)
	<-down
	stop()

	c := switchOn(t, s, n)
	c.requireTokenless(t, env)
	c.acceptTokenless(t, env, 3600)
	c.appliance(t, s).untilHost(env, models.HostStatusAddedToExistingCluster)
	require.NoError(t, <-ended)
}
