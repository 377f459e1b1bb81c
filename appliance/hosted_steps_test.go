package appliance_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/command/hcp"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/simulate/hypershift"
	"landfall/appliance/simulate/workagent"
)

// hostedSite is an appliance with hosted clusters.
type hostedSite struct {
	t       *testing.T
	address string
}

// newHostedSite starts an appliance with hosted clusters. urls are those for hosts; none: its own.
func newHostedSite(t *testing.T, urls ...string) *hostedSite {
	t.Helper()
	address, _ := hostedConfig(t, urls...).start(t)
	return &hostedSite{t, address}
}

// hostedConfig returns a site whose configuration enables hosted clusters.
func hostedConfig(t *testing.T, urls ...string) *site {
	t.Helper()
	s := newSite(t)
	s.config.URL = urls
	s.config.TLS.Enabled, s.config.Hosted.Enabled, s.config.Hosted.BrokerListen = true, true, "127.0.0.1:0"
	s.config.BootListen = "127.0.0.1:0"
	secret := filepath.Join(t.TempDir(), "pull-secret.json")
	require.NoError(t, os.WriteFile(secret, []byte(pullSecret), 0o600))
	s.config.Mirror.PullSecret = secret
	return s
}

// call sends a request and returns the status, the headers and the body.
func (s *hostedSite) call(method, path, body string) (int, http.Header, []byte) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, s.address+path, strings.NewReader(body))
	require.NoError(s.t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response.StatusCode, response.Header, content
}

// get returns the value at a path of names in an answer.
func (s *hostedSite) get(path string, names ...string) any {
	s.t.Helper()
	status, _, body := s.call("GET", path, "")
	require.Equal(s.t, http.StatusOK, status, "%s: %s", path, body)
	var value any
	require.NoError(s.t, json.Unmarshal(body, &value))
	for _, name := range names {
		if list, ok := value.([]any); ok && name == "0" {
			require.NotEmpty(s.t, list, "%s: %s", path, body)
			value = list[0]
			continue
		}
		value = value.(map[string]any)[name]
	}
	return value
}

// until waits until a condition is true.
func (s *hostedSite) until(what string, condition func() bool) {
	s.t.Helper()
	require.Eventually(s.t, condition, 2*time.Minute, 20*time.Millisecond, what)
}

// requireDeleted requires that a management cluster got HostedClusters, and that exactly those were
// deleted that somebody deleted.
func requireDeleted(t *testing.T, cluster *workagent.Cluster, names ...string) {
	t.Helper()
	there, deleted := cluster.HostedClusters()
	require.NotEmpty(t, append(there, deleted...))
	require.ElementsMatch(t, names, deleted, "deleted HostedClusters")
}

// The fourteen steps of the document on a cluster's creation, over HTTP, TLS and MQTT. The
// management cluster, its agents and HyperShift's operator are stand-ins.
func TestHosted_fourteenSteps(t *testing.T) {
	for layout, bundles := range map[string]int{controlplane.Flat: 3, controlplane.Nested: 4} {
		t.Run(layout, func(t *testing.T) {
			requireDeleted(t, fourteenSteps(t, layout, bundles), "edge1")
		})
	}
}

// fourteenSteps creates and deletes the hosted cluster edge1, and returns its management cluster.
func fourteenSteps(t *testing.T, layout string, ownBundles int) *workagent.Cluster {
	s := newHostedSite(t)
	const version = "?api-version=2024-06-10-preview"
	subscription := s.get("/api/landfall/v1/hosted", "subscription").(string)
	resourceID := "/subscriptions/" + subscription +
		"/resourceGroups/Hall-2/providers/Microsoft.RedHatOpenshift/hcpOpenShiftClusters/Edge1"
	status, _, body := s.call("POST", "/api/landfall/v1/hosted/management-clusters",
		`{"consumer":"mc1","base_domain":"hosted.example.com","address":"192.0.2.10","profiles":["large"],
			"agent_image":"registry.example.com/maestro:v1","layout":"`+layout+`"}`)
	require.Equal(t, http.StatusCreated, status, "%s", body)

	var operation, cid string
	step := func(name string, fn func()) {
		t.Run(name, func(*testing.T) { fn() })
		require.False(t, t.Failed(), name)
	}
	step("1 to 3: the request passes the listener, the routes and the login", func() {
		status, header, body := s.call("PUT", resourceID+version, `{"location":"site"}`)
		require.Equal(t, http.StatusCreated, status, "%s", body)
		at, err := url.Parse(header.Get("Azure-AsyncOperation"))
		require.NoError(t, err)
		operation = at.RequestURI()
	})
	step("4: the resource and its operation are stored", func() {
		require.Equal(t, "Accepted", s.get(operation, "status"))
		require.Equal(t, "Accepted", s.get(resourceID+version, "properties", "provisioningState"))
		status, _, body := s.call("PUT", resourceID+"/nodePools/workers"+version,
			`{"location":"site","properties":{"platform":{"vmSize":"large"},"replicas":2}}`)
		require.Equal(t, http.StatusCreated, status, "%s", body)
	})
	step("5: the checks are there", func() {
		found := "/api/clusters_mgmt/v1/clusters?search=" + url.QueryEscape("azure.subscription_id='"+subscription+
			"' and azure.resource_group_name='Hall-2'")
		cid = s.get(found, "items", "0", "id").(string)
		require.Equal(t, "passed", s.get("/api/clusters_mgmt/v1/clusters/"+cid+"/inflight_checks", "items", "0",
			"state"))
	})
	bundles := "/api/maestro/v1/resource-bundles?search=" +
		url.QueryEscape("payload->'metadata'->'labels'->>'api.openshift.com/id'='"+cid+"'")
	step("6: the bundles are there, and nobody has them", func() {
		require.EqualValues(t, ownBundles, s.get(bundles, "total"))
	})

	status, _, manifests := s.call("GET", "/api/landfall/v1/hosted/management-clusters/mc1/agent", "")
	require.Equal(t, http.StatusOK, status)
	options, err := hcp.AgentOptions(manifests)
	require.NoError(t, err)
	options.Poll, options.Retry = 20*time.Millisecond, 20*time.Millisecond
	operator, err := hypershift.New(3)
	require.NoError(t, err)
	cluster := workagent.NewCluster(operator)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	clock := clockwork.NewRealClock()
	go func() { ended <- workagent.NewAgent("mc1", cluster, clock, 0).Run(ctx, options) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	kinds := func() (all []string) {
		for _, object := range cluster.Objects() {
			all = append(all, object.Kind)
		}
		return all
	}
	step("7 and 8: the agent connects over MQTT with TLS, and applies the bundles", func() {
		s.until("the HostedCluster is there", func() bool {
			return slices.Contains(kinds(), "HostedCluster") && slices.Contains(kinds(), "NodePool")
		})
	})
	step("9 to 11: the operator works, and its statuses come back", func() {
		s.until("the cluster is being provisioned", func() bool {
			return s.get(operation, "status") != "Accepted"
		})
	})
	step("12 to 14: the cluster is available everywhere", func() {
		s.until("the operation has succeeded", func() bool { return s.get(operation, "status") == "Succeeded" })
		require.Equal(t, "Succeeded", s.get(resourceID+version, "properties", "provisioningState"))
		require.Regexp(t, `^https://api\.edge1\.hosted\.example\.com:\d+$`, s.get(resourceID+version, "properties", "api",
			"url"))
		require.Equal(t, "ready", s.get("/api/clusters_mgmt/v1/clusters/"+cid+"/status", "state"))
		s.until("the nodes are there", func() bool {
			return s.get(resourceID+"/nodePools/workers"+version, "properties", "provisioningState") == "Succeeded"
		})
	})
	step("afterwards: a kubeconfig", func() {
		status, _, body := s.call("POST", "/api/landfall/v1/hosted/clusters/"+cid+"/kubeconfigs", "")
		require.Equal(t, http.StatusAccepted, status, "%s", body)
		var asked struct{ Operation string }
		require.NoError(t, json.Unmarshal(body, &asked))
		path := "/api/landfall/v1/hosted/clusters/" + cid + "/kubeconfigs/" + asked.Operation
		s.until("it is issued", func() bool { return s.get(path, "status") == "Succeeded" })
		require.Contains(t, s.get(path, "kubeconfig"), "client-key-data")
	})
	requireDeleted(t, cluster)
	step("afterwards: the deletion leaves nothing", func() {
		status, _, body := s.call("DELETE", resourceID+version, "")
		require.Equal(t, http.StatusAccepted, status, "%s", body)
		s.until("it is gone", func() bool {
			status, _, _ := s.call("GET", resourceID+version, "")
			return status == http.StatusNotFound
		})
		require.NotContains(t, kinds(), "Namespace")
		for _, kind := range []string{"NodePool", "ManagedCluster", "ManifestWork"} {
			require.NotContains(t, kinds(), kind)
		}
	})
	return cluster
}

// The command line on the appliance's own machine uses the loopback by default.
func TestHosted_agentGetsHostOfURL(t *testing.T) {
	s := newHostedSite(t, "https://landfall.example.com:8090")
	status, _, body := s.call("POST", "/api/landfall/v1/hosted/management-clusters",
		`{"consumer":"mc1","base_domain":"hosted.example.com","address":"192.0.2.10",
			"agent_image":"registry.example.com/maestro:v1"}`)
	require.Equal(t, http.StatusCreated, status, "%s", body)
	require.Contains(t, s.address, "127.0.0.1")
	status, _, body = s.call("GET", "/api/landfall/v1/hosted/management-clusters/mc1/agent", "")
	require.Equal(t, http.StatusOK, status, "%s", body)
	require.Contains(t, string(body), "brokerHost: landfall.example.com:")
}

// Without a configured URL, the appliance's URL is that of an address of its machine, which
// management clusters may not reach.
func TestHosted_onlyConfiguredURLReplacesBrokerName(t *testing.T) {
	for name, c := range map[string]struct {
		urls  []string
		named string
	}{
		"derived":    {nil, "appliance"},
		"configured": {[]string{"https://landfall.example.com:8090"}, "landfall.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHostedSite(t, c.urls...)
			const clusters = "/api/landfall/v1/hosted/management-clusters"
			status, _, body := s.call("POST", clusters, `{"consumer":"mc1","base_domain":"hosted.example.com",
				"address":"192.0.2.10","agent_image":"registry.example.com/maestro:v1"}`)
			require.Equal(t, http.StatusCreated, status, "%s", body)
			request, err := http.NewRequestWithContext(t.Context(), "GET", s.address+clusters+"/mc1/agent", nil)
			require.NoError(t, err)
			request.Host = "appliance"
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			defer response.Body.Close()
			body, err = io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Contains(t, string(body), "brokerHost: appliance:")
			_, _, body = s.call("GET", clusters+"/mc1/agent", "")
			require.Contains(t, string(body), "brokerHost: "+c.named+":")
		})
	}
}

// An agent keeps the port of the broker that its manifests name.
func TestHosted_showsOtherPortOfBroker(t *testing.T) {
	config := hostedConfig(t)
	address, stop := config.start(t)
	s := &hostedSite{t, address}
	status, _, body := s.call("POST", "/api/landfall/v1/hosted/management-clusters",
		`{"consumer":"mc1","base_domain":"hosted.example.com","address":"192.0.2.10",
			"agent_image":"registry.example.com/maestro:v1"}`)
	require.Equal(t, http.StatusCreated, status, "%s", body)
	_, _, manifests := s.call("GET", "/api/landfall/v1/hosted/management-clusters/mc1/agent", "")
	options, err := hcp.AgentOptions(manifests)
	require.NoError(t, err)
	const connection = "/api/maestro/v1/consumers/mc1/connection"
	require.Nil(t, s.get(connection, "problem"))
	stop()
	_, port, err := net.SplitHostPort(options.Address)
	require.NoError(t, err)
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
	require.NoError(t, err)
	defer taken.Close()
	s.address, _ = config.start(t)
	problem := s.get(connection, "problem")
	require.Contains(t, problem, "Set hosted.broker_listen to an address with the port "+port)
	require.Equal(t, problem, s.get("/api/landfall/v1/hosted", "management_clusters", "0", "problems", "0"))
	_, _, manifests = s.call("GET", "/api/landfall/v1/hosted/management-clusters/mc1/agent", "")
	require.NotContains(t, string(manifests), ":"+port, "no agent has used the port")
	require.Nil(t, s.get(connection, "problem"))
}

// The list of management clusters says what is wrong with a connection.
func TestHosted_showsRefusedConnection(t *testing.T) {
	s := newHostedSite(t)
	status, _, body := s.call("POST", "/api/landfall/v1/hosted/management-clusters",
		`{"consumer":"mc1","base_domain":"hosted.example.com","address":"192.0.2.10",
			"agent_image":"registry.example.com/maestro:v1"}`)
	require.Equal(t, http.StatusCreated, status, "%s", body)
	problems := func() any { return s.get("/api/landfall/v1/hosted", "management_clusters", "0", "problems") }
	_, _, manifests := s.call("GET", "/api/landfall/v1/hosted/management-clusters/mc1/agent", "")
	options, err := hcp.AgentOptions(manifests)
	require.NoError(t, err)
	const consumer = "/api/maestro/v1/consumers/mc1"
	serial := s.get(consumer+"/connection", "credentials", "0", "serial").(string)
	status, _, body = s.call("GET", "/api/landfall/v1/hosted/management-clusters/mc1/agent", "")
	require.Equal(t, http.StatusOK, status, "%s", body)
	status, _, body = s.call("DELETE", consumer+"/credentials/"+serial, "")
	require.Equal(t, http.StatusNoContent, status, "%s", body)
	require.Nil(t, problems())
	agent := workagent.NewAgent("mc1", workagent.NewCluster(nil), clockwork.NewRealClock(), 0)
	require.Error(t, agent.Session(t.Context(), options))
	s.until("the refusal is shown", func() bool { return problems() != nil })
	require.Contains(t, problems().([]any)[0], "Its last connection was refused at ")
	require.Contains(t, problems().([]any)[0], "was revoked")
}
