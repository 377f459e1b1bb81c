package simulate

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// TestKubelets_hostsOfAnotherProcess requires that a host of another process's group becomes a
// node. A host of the own group, a host that has not booted from disk, and a host of another
// cluster's first installation must be ignored.
func TestKubelets_hostsOfAnotherProcess(t *testing.T) {
	spokes, err := NewSpokes(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, spokes.Close()) })
	host := func(id, name, kind string, stage models.HostStage) *models.Host {
		return &models.Host{
			ID: conv.Pointer(strfmt.UUID(id)), Kind: &kind, RequestedHostname: name,
			Progress:  &models.HostProgressInfo{CurrentStage: stage},
			Inventory: `{"interfaces":[{"ipv4_addresses":["192.0.2.7/24"],"ipv6_addresses":["2001:db8::7/64"]}]}`,
		}
	}
	joins := models.HostKindAddToExistingClusterHost
	list, err := json.Marshal([]*models.Cluster{
		{Kind: conv.Pointer(models.ClusterKindAddHostsCluster), Name: "one", BaseDNSDomain: "example.com",
			Hosts: []*models.Host{
				host("00000000-0000-0000-0000-000000000001", "elsewhere", joins, models.HostStageRebooting),
				host("00000000-0000-0000-0000-000000000002", "own", joins, models.HostStageRebooting),
				host("00000000-0000-0000-0000-000000000003", "early", joins, models.HostStageWritingImageToDisk),
			}},
		{Kind: conv.Pointer(models.ClusterKindCluster), Name: "two", BaseDNSDomain: "example.com",
			Hosts: []*models.Host{
				host("00000000-0000-0000-0000-000000000004", "first", models.HostKindHost, models.HostStageRebooting),
			}},
	})
	require.NoError(t, err)
	spokes.claim("00000000-0000-0000-0000-000000000002")

	asked := make(chan struct{})
	appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if _, err := w.Write(list); err != nil {
			t.Error(err)
		}
		asked <- struct{}{}
	}))
	t.Cleanup(appliance.Close)
	clock := clockwork.NewFakeClock()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- (&Kubelets{URL: appliance.URL, Spokes: spokes, Speed: 1, Clock: clock,
			Logger: slog.New(slog.DiscardHandler)}).Run(ctx)
	}()
	pass := func() {
		require.NoError(t, clock.BlockUntilContext(ctx, 1))
		clock.Advance(watchInterval)
		<-asked
	}

	one := spokes.Cluster("api.one.example.com")
	pass()
	require.Nil(t, one.Object(requestsPath, "", "csr-client-elsewhere"), "the host is still starting")
	for i := time.Duration(0); i <= joinedTime+3*watchInterval; i += watchInterval {
		pass()
		for _, name := range []string{"csr-client-elsewhere", "csr-serving-elsewhere"} {
			if csr := one.Object(requestsPath, "", name); csr != nil {
				csr.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Approved",
					"status": "True"}}}
				one.Put(requestsPath, csr.Object)
			}
		}
	}
	node := one.Object(nodesPath, "", "elsewhere")
	require.NotNil(t, node)
	require.True(t, isReady(node))
	require.Contains(t, node.Object["status"].(map[string]any)["addresses"], map[string]any{"type": "InternalIP",
		"address": "2001:db8::7"})
	for _, name := range []string{"own", "early"} {
		require.Nil(t, one.Object(requestsPath, "", "csr-client-"+name))
	}
	require.Nil(t, spokes.Cluster("api.two.example.com").Object(requestsPath, "", "csr-client-first"))
	cancel()
	require.NoError(t, <-ended)
}
