package appliance_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/kube/apply"
)

// TestHub_documentedSamples applies the unmodified samples of the Assisted Installer's
// documentation and of the siteconfig operator.
func TestHub_documentedSamples(t *testing.T) {
	dir := os.Getenv("LANDFALL_REALDATA")
	if dir == "" {
		t.Skip("LANDFALL_REALDATA names no directory of real data")
	}
	refused := map[string]string{
		// The Secret has the type of a pull secret but contains a certificate, so every cluster
		// rejects it. The AgentClusterInstall in the same file is accepted.
		"hive-samples/agentClusterInstall-with-ignitionEndpoint.yaml": `The Secret "ignition-ca-certificate" is invalid: data[.dockerconfigjson]: Required value`,
	}
	d := newSite(t).openHub(t)
	for _, namespace := range []string{"spoke-cluster", "demo", "agents", "example-sno", "example-ai-sno",
		"example-ai-arbiter", "example-ai-3node", "example-ai-standard"} {
		_, err := d.try(t.Context(), "", "create", "namespace", namespace)
		require.NoError(t, err)
	}
	for _, directory := range []string{"hive-samples", "siteconfig"} {
		samples, err := filepath.Glob(filepath.Join(dir, directory, "*.yaml"))
		require.NoError(t, err)
		require.NotEmpty(t, samples)
		for _, sample := range samples {
			name := directory + "/" + filepath.Base(sample)
			t.Run(name, func(t *testing.T) {
				d.deleteSamples(t)            // several samples describe the same object as new
				var manifests strings.Builder // a ClusterInstance is rendered; other objects are unchanged
				read, err := apply.Read(apply.Sources{Paths: []string{sample}})
				require.NoError(t, err)
				require.NoError(t, apply.Print(&manifests, read.Objects))
				_, err = d.try(t.Context(), manifests.String(), "apply", "--validate=strict", "-f", "-")
				if reason := refused[name]; reason != "" {
					require.ErrorContains(t, err, reason)
					return
				}
				require.NoError(t, err)
			})
		}
	}
}

// deleteSamples deletes the samples' objects that cannot be updated to one another.
func (d *hub) deleteSamples(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"extensions.hive.openshift.io/v1beta1/namespaces/spoke-cluster/agentclusterinstalls",
		"agent-install.openshift.io/v1beta1/namespaces/spoke-cluster/infraenvs"} {
		address := d.address + "/apis/" + kind
		request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, address, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
		eventually(t, "the objects are deleted", func() bool {
			answer, err := http.Get(address)
			if err != nil {
				return false
			}
			defer answer.Body.Close()
			var list struct{ Items []any }
			return json.NewDecoder(answer.Body).Decode(&list) == nil && len(list.Items) == 0
		})
	}
}
