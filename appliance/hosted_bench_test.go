package appliance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkHostedCreations compares creations at the resource provider with creations of clusters,
// in alternating rounds. With a management cluster, a creation also writes two bundles.
func BenchmarkHostedCreations(b *testing.B) {
	b.Run("waiting", func(b *testing.B) { compareHosted(b, false) })
	b.Run("bundles", func(b *testing.B) { compareHosted(b, true) })
}

func compareHosted(b *testing.B, managed bool) {
	s := newSite(b)
	s.config.Hosted.Enabled, s.config.Hosted.BrokerListen = true, "127.0.0.1:0"
	secret := filepath.Join(b.TempDir(), "pull-secret.json")
	require.NoError(b, os.WriteFile(secret, []byte(pullSecret), 0o600))
	s.config.Mirror.PullSecret = secret
	address, _ := s.startQuietly(b)
	connections := make([]*rawClient, manyClients)
	for i := range connections {
		connections[i] = dial(b, address)
	}
	_, answer, err := connections[0].do(http.MethodGet, "/api/landfall/v1/hosted", nil)
	require.NoError(b, err)
	var overview struct{ Subscription string }
	require.NoError(b, json.Unmarshal(answer, &overview))
	if managed {
		status, answer, err := connections[0].do(http.MethodPost, "/api/landfall/v1/hosted/management-clusters",
			[]byte(`{"consumer":"mc1","base_domain":"hosted.example.com","address":"192.0.2.10"}`))
		require.NoError(b, err)
		require.Equal(b, http.StatusCreated, status, "%s", answer)
	}
	var serial atomic.Int64
	call := func(method string, next func(serial int) request) func(client, _ int) error {
		return func(client, _ int) error {
			r := next(int(serial.Add(1)))
			status, answer, err := connections[client].do(method, r.path, r.body)
			if err == nil && status != r.status {
				err = fmt.Errorf("%s answered %d: %s", r.path, status, answer)
			}
			return err
		}
	}
	cluster := call(http.MethodPost, s.clusterCreation)
	hosted := call(http.MethodPut, func(serial int) request {
		return request{fmt.Sprintf("/subscriptions/%s/resourceGroups/rg%d/providers/Microsoft.RedHatOpenShift/"+
			"hcpOpenShiftClusters/h%d?api-version=2024-06-10-preview", overview.Subscription, serial, serial),
			[]byte(`{"location":"site"}`), http.StatusCreated}
	})
	all := map[string]*workload{
		"clusters-1": {clients: 1, do: cluster},
		"hosted-1":   {clients: 1, do: hosted},
		"clusters-8": {clients: manyClients, do: cluster},
		"hosted-8":   {clients: manyClients, do: hosted},
	}
	names := []string{"clusters-1", "hosted-1", "clusters-8", "hosted-8"}
	for _, name := range names {
		all[name].runRound(b) // the first requests fill caches and do not count
		all[name].done, all[name].spent, all[name].cpu = 0, 0, 0
	}
	for b.Loop() {
		for _, name := range names {
			all[name].runRound(b)
		}
	}
	for _, name := range names {
		b.ReportMetric(all[name].rate(), name+"/s")
		b.ReportMetric(all[name].cpuEach(), name+"-CPU-ms")
	}
	b.ReportMetric(all["hosted-1"].rate()/all["clusters-1"].rate(), "ratio-1")
	b.ReportMetric(all["hosted-8"].rate()/all["clusters-8"].rate(), "ratio-8")
	b.ReportMetric(0, "ns/op") // the length of a round has no meaning
}
