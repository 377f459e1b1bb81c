package cluster

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"landfall/appliance/command/action"
	"landfall/web/console"
)

// The controller of an AgentClusterInstall repeats a failed preparation.
func TestAwait_failedPreparation(t *testing.T) {
	const deployments = `{"items":[{"metadata":{"namespace":"site"},"spec":{"clusterName":"other"}},
		{"metadata":{"namespace":"site"},"spec":{"clusterName":"east","clusterInstallRef":{"name":"east"}}}]}`
	const failure = "the installation of the cluster east could not be prepared: no such image"
	const events = `{"debugInfo":{"eventsURL":"http://192.0.2.1:8090/api/assisted-install/v2/events?cluster_id=`
	installedBy := func(spec, status string) map[string]string {
		return map[string]string{"hive.openshift.io/v1/clusterdeployments": deployments,
			"extensions.hive.openshift.io/v1beta1/namespaces/site/agentclusterinstalls/east": `{
				"metadata":{"name":"east"},"spec":` + spec + `,"status":` + status + `}`}
	}
	for name, c := range map[string]struct {
		answers map[string]string // of the Kubernetes API
		says    string
		fails   bool
	}{
		"no Kubernetes API": {nil, "", true},
		"on hold":           {installedBy(`{"holdInstallation":true}`, `{}`), "", true},
		"by its AgentClusterInstall": {installedBy(`{}`, events+`1"}}`),
			"landfall: " + failure + "; the installation starts again by itself\n", false},
		"by an AgentClusterInstall without a status": {installedBy(`{}`, `{}`),
			"landfall: " + failure + "; the installation starts again by itself\n", false},
		"AgentClusterInstall of another cluster": {installedBy(`{}`, events+`2"}}`), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			reads, changes := 0, make(chan int, 3)
			mux := http.NewServeMux()
			mux.HandleFunc("GET /api/assisted-install/v2/clusters/{id}", func(w http.ResponseWriter, _ *http.Request) {
				cluster := models.Cluster{Name: "east", Status: conv.Pointer(models.ClusterStatusReady)}
				cluster.LastInstallationPreparation = models.LastInstallationPreparation{
					Status: models.LastInstallationPreparationStatusFailed, Reason: "no such image"}
				reads++
				if changes <- reads; reads == 3 {
					cluster.Status = conv.Pointer(models.ClusterStatusInstalled)
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(cluster)
			})
			mux.HandleFunc("GET "+console.FeedRoute, func(w http.ResponseWriter, r *http.Request) {
				for {
					_ = http.NewResponseController(w).Flush()
					select {
					case <-r.Context().Done():
						return
					case <-changes:
						_, _ = w.Write([]byte("data: {\"kind\":\"clusters\"}\n\n"))
					}
				}
			})
			for path, answer := range c.answers {
				mux.HandleFunc("GET /apis/"+path, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					_, _ = w.Write([]byte(answer))
				})
			}
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)
			t.Setenv("LANDFALL_URL", server.URL)
			var errOut bytes.Buffer
			cmd := &cobra.Command{}
			cmd.SetErr(&errOut)
			cmd.SetOut(&errOut)
			cmd.SetContext(t.Context())
			err := await(cmd, action.New(), "1", installed, 0)
			if c.fails {
				require.EqualError(t, err, failure)
				return
			}
			require.NoError(t, err)
			require.Contains(t, errOut.String(), c.says)
		})
	}
}

func TestAwait_failedOperators(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"name":"east","status":"installed","monitored_operators":[
			{"name":"odf","operator_type":"olm","status":"available"},
			{"name":"cnv","operator_type":"olm","status":"failed"}]}`))
	}))
	t.Cleanup(server.Close)
	t.Setenv("LANDFALL_URL", server.URL)
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	cmd.SetErr(new(bytes.Buffer))
	cmd.SetContext(t.Context())
	require.NoError(t, await(cmd, action.New(), "1", installed, 0))
	require.Equal(t, "The cluster east is installed after 0s.\nIt is degraded. Failed OLM operators: cnv. landfall "+
		"operator list --cluster east shows the causes.\n", out.String())
}
