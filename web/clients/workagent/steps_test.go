package workagent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance"
	"landfall/appliance/command/hcp"
	"landfall/appliance/config"
	"landfall/appliance/hosted/controlplane"
)

// running is an appliance with hosted clusters.
type running struct {
	t       *testing.T
	address string
}

func startAppliance(t *testing.T) *running {
	t.Helper()
	dir := t.TempDir()
	secret := filepath.Join(dir, "pull-secret.json")
	require.NoError(t, os.WriteFile(secret, []byte(`{"auths":{"registry.example.com":{"auth":"YTpi"}}}`), 0o600))
	settings := config.Default()
	settings.Listen, settings.BootListen, settings.DataDir = "127.0.0.1:0", "127.0.0.1:0", filepath.Join(dir, "data")
	settings.Auth, settings.TLS.Enabled = config.AuthNone, true
	settings.Hosted.Enabled, settings.Hosted.BrokerListen = true, "127.0.0.1:0"
	settings.Mirror.PullSecret = secret
	settings.ReleaseImages = []config.ReleaseImage{{OpenshiftVersion: "4.19.7", CPUArchitecture: "x86_64",
		URL: "registry.example.com/release:4.19.7-x86_64", Default: true}}
	a, err := appliance.New(t.Context(), settings, slog.New(slog.DiscardHandler), "test")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return &running{t, a.LocalURL()}
}

// call sends a request and returns the status, the headers and the body.
func (r *running) call(method, path, body string) (int, http.Header, []byte) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, r.address+path, strings.NewReader(body))
	require.NoError(r.t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(r.t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	return response.StatusCode, response.Header, content
}

// get returns the value at a path of names in an answer; 0 is the first member of a list.
func (r *running) get(path string, names ...string) any {
	r.t.Helper()
	status, _, body := r.call(http.MethodGet, path, "")
	require.Equal(r.t, http.StatusOK, status, "%s: %s", path, body)
	var value any
	require.NoError(r.t, json.Unmarshal(body, &value))
	for _, name := range names {
		if list, ok := value.([]any); ok && name == "0" {
			require.NotEmpty(r.t, list, "%s: %s", path, body)
			value = list[0]
			continue
		}
		value = value.(map[string]any)[name]
	}
	return value
}

func (r *running) until(what string, condition func() bool) {
	r.t.Helper()
	require.Eventually(r.t, condition, patience, 50*time.Millisecond, what)
}

// connect starts the SDK's agent with the connection that the appliance hands out, its controllers
// and the operator of the management cluster.
func (r *running) connect(cluster *management) {
	r.t.Helper()
	status, _, manifests := r.call(http.MethodGet, "/api/landfall/v1/hosted/management-clusters/mc1/agent", "")
	require.Equal(r.t, http.StatusOK, status)
	options, err := hcp.AgentOptions(manifests)
	require.NoError(r.t, err)
	c := &controller{startAgent(r.t, options.Address, options.TLS), cluster, map[string]*appliedWork{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		last := ""
		for ctx.Err() == nil {
			for _, work := range []func(context.Context) error{c.reconcile, cluster.manifestWorks,
				cluster.operate} {
				if err := work(ctx); err != nil && ctx.Err() == nil && err.Error() != last {
					last = err.Error()
					r.t.Logf("the management cluster works again on: %s", last)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	r.t.Cleanup(func() {
		cancel()
		<-ended
		c.stop()
	})
}

// The fourteen steps of the document on a cluster's creation, over HTTP, TLS and MQTT, with the
// SDK's agent client. The management cluster is Landfall's own Kubernetes API. Its HyperShift
// operator and multicluster engine are stand-ins, so no control plane runs.
func TestHosted_fourteenStepsWithTheSDK(t *testing.T) {
	t.Run("nested", func(t *testing.T) { fourteenSteps(t, controlplane.Nested) })
	t.Run("flat", func(t *testing.T) { fourteenSteps(t, controlplane.Flat) })
}

func fourteenSteps(t *testing.T, layout string) {
	nested, bundleCount := layout == controlplane.Nested, 3
	if nested {
		bundleCount = 4 // with the one of the ManagedCluster
	}
	cluster := newManagement(t)
	r := startAppliance(t)
	const version = "?api-version=2024-06-10-preview"
	subscription := r.get("/api/landfall/v1/hosted", "subscription").(string)
	resourceID := "/subscriptions/" + subscription +
		"/resourceGroups/Hall-2/providers/Microsoft.RedHatOpenshift/hcpOpenShiftClusters/Edge1"
	status, _, body := r.call(http.MethodPost, "/api/landfall/v1/hosted/management-clusters",
		`{"consumer":"mc1","base_domain":"hosted.example.com","address":"192.0.2.10","profiles":["large"],
			"agent_image":"registry.example.com/maestro:v1","layout":"`+layout+`"}`)
	require.Equal(t, http.StatusCreated, status, "%s", body)

	step := func(name string, fn func()) {
		t.Run(name, func(*testing.T) { fn() })
		require.False(t, t.Failed(), name)
	}
	var answer struct {
		status int
		header http.Header
		body   []byte
	}
	var operation, cid, bundles string
	hosted := func() *unstructured.Unstructured {
		found := cluster.list("HostedCluster")
		if len(found) == 0 {
			return nil
		}
		return &found[0]
	}
	step("1: the request enters the appliance", func() {
		answer.status, answer.header, answer.body = r.call(http.MethodPut, resourceID+version, `{"location":"site"}`)
	})
	step("2: it is routed to the resource provider", func() {
		require.True(t, bytes.Contains(answer.body, []byte("hcpOpenShiftClusters/Edge1")), "%s", answer.body)
	})
	step("3: the login lets it pass", func() { require.Equal(t, http.StatusCreated, answer.status) })
	step("4: the resource and its operation are stored", func() {
		at, err := url.Parse(answer.header.Get("Azure-AsyncOperation"))
		require.NoError(t, err)
		operation = at.RequestURI()
		require.Equal(t, "Accepted", r.get(operation, "status"))
		require.Equal(t, "Accepted", r.get(resourceID+version, "properties", "provisioningState"))
		status, _, body := r.call(http.MethodPut, resourceID+"/nodePools/workers"+version,
			`{"location":"site","properties":{"platform":{"vmSize":"large"},"replicas":2}}`)
		require.Equal(t, http.StatusCreated, status, "%s", body)
	})
	step("5: Clusters Service has the cluster and its checks", func() {
		found := "/api/clusters_mgmt/v1/clusters?search=" + url.QueryEscape("azure.subscription_id='"+subscription+
			"' and azure.resource_group_name='Hall-2'")
		cid = r.get(found, "items", "0", "id").(string)
		require.Equal(t, "passed", r.get("/api/clusters_mgmt/v1/clusters/"+cid+"/inflight_checks", "items", "0", "state"))
	})
	step("6: the bundles are at Maestro", func() {
		bundles = "/api/maestro/v1/resource-bundles?search=" +
			url.QueryEscape("payload->'metadata'->'labels'->>'api.openshift.com/id'='"+cid+"'")
		require.EqualValues(t, bundleCount, r.get(bundles, "total"))
		require.Nil(t, hosted())
	})
	step("7: the agent connects over MQTT", func() {
		r.connect(cluster)
		r.until("the agent is connected", func() bool {
			return r.get("/api/landfall/v1/hosted", "management_clusters", "0", "connected_since") != nil
		})
	})
	step("8: the agent applies the bundles", func() {
		r.until("the HostedCluster is there", func() bool { return hosted() != nil })
		require.Equal(t, "ocm-landfall-"+cid, hosted().GetNamespace())
		r.until("the NodePool is there", func() bool { return len(cluster.list("NodePool")) == 1 })
		r.until("the agent has recorded them", func() bool {
			return len(cluster.list("AppliedManifestWork")) == bundleCount
		})
		works := cluster.list("ManifestWork")
		if nested {
			require.Len(t, works, bundleCount)
			require.Equal(t, controlplane.LocalCluster, works[0].GetNamespace())
			return
		}
		require.Empty(t, works)
	})
	step("9: HyperShift makes the control plane", func() {
		r.until("the HostedCluster is available", func() bool {
			return conditionOf(hosted(), "Available") == "True"
		})
	})
	step("10: the multicluster engine updates the ManagedCluster", func() {
		if !nested {
			require.Empty(t, cluster.list("ManagedCluster"), "a flat layout has none")
			return
		}
		r.until("the ManagedCluster is available", func() bool {
			found := cluster.list("ManagedCluster")
			return len(found) == 1 && found[0].GetName() == cid &&
				conditionOf(&found[0], "ManagedClusterConditionAvailable") == "True"
		})
	})
	step("11: the statuses come back to Maestro", func() {
		r.until("the status is stored", func() bool {
			return bytes.Contains(mustRead(r, bundles), []byte("controlPlaneEndpoint"))
		})
		if nested {
			r.until("the values within are stored", func() bool {
				return bytes.Contains(mustRead(r, bundles), []byte("ManagedClusterConditionAvailable"))
			})
		}
	})
	step("12: Clusters Service notices", func() {
		r.until("it is ready", func() bool {
			return r.get("/api/clusters_mgmt/v1/clusters/"+cid+"/status", "state") == "ready"
		})
	})
	step("13: the resource provider notices", func() {
		r.until("the operation has succeeded", func() bool { return r.get(operation, "status") == "Succeeded" })
	})
	step("14: the cluster is provisioned", func() {
		require.Equal(t, "Succeeded", r.get(resourceID+version, "properties", "provisioningState"))
		require.Regexp(t, `^https://api\.edge1\.hosted\.example\.com:\d+$`,
			r.get(resourceID+version, "properties", "api", "url"))
	})
	step("afterwards: the nodes and a kubeconfig", func() {
		r.until("the nodes are there", func() bool {
			return r.get(resourceID+"/nodePools/workers"+version, "properties", "provisioningState") == "Succeeded"
		})
		status, _, body := r.call(http.MethodPost, "/api/landfall/v1/hosted/clusters/"+cid+"/kubeconfigs", "")
		require.Equal(t, http.StatusAccepted, status, "%s", body)
		var asked struct{ Operation string }
		require.NoError(t, json.Unmarshal(body, &asked))
		path := "/api/landfall/v1/hosted/clusters/" + cid + "/kubeconfigs/" + asked.Operation
		r.until("it is issued", func() bool { return r.get(path, "status") == "Succeeded" })
		require.Contains(t, r.get(path, "kubeconfig"), "client-key-data")
	})
	require.Zero(t, cluster.deletes.Load(), "nobody asked to delete the HostedCluster")
	step("afterwards: the deletion leaves nothing", func() {
		status, _, body := r.call(http.MethodDelete, resourceID+version, "")
		require.Equal(t, http.StatusAccepted, status, "%s", body)
		r.until("it is gone", func() bool {
			status, _, _ := r.call(http.MethodGet, resourceID+version, "")
			return status == http.StatusNotFound
		})
		require.EqualValues(t, 1, cluster.deletes.Load())
		require.Nil(t, hosted())
		for _, kind := range []string{"NodePool", "ManifestWork", "ManagedCluster", "AppliedManifestWork"} {
			require.Empty(t, cluster.list(kind), kind)
		}
		for _, namespace := range cluster.list("Namespace") {
			require.NotContains(t, namespace.GetName(), cid)
		}
	})
}

func mustRead(r *running, path string) []byte {
	r.t.Helper()
	status, _, body := r.call(http.MethodGet, path, "")
	require.Equal(r.t, http.StatusOK, status, "%s", body)
	return body
}

// conditionOf returns the status of a condition, or "".
func conditionOf(object *unstructured.Unstructured, name string) string {
	if object == nil {
		return ""
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if fields, ok := c.(map[string]any); ok && fields["type"] == name {
			status, _ := fields["status"].(string)
			return status
		}
	}
	return ""
}
