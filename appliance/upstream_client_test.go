package appliance_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate"
	"landfall/isogen"
)

func TestInstallation_upstreamClient(t *testing.T) {
	for _, topology := range []struct {
		name          string
		controlPlanes int64
		hosts         int
		vips          bool
	}{
		{"three nodes", 3, 3, true},
		{"single node", 1, 1, false},
	} {
		test := func(t *testing.T, s *site) {
			d := s.connect(t)
			api := d.upstream(t).Installer
			ctx := t.Context()

			params := &models.ClusterCreateParams{
				Name: conv.Pointer("line"), BaseDNSDomain: "site.test",
				OpenshiftVersion: conv.Pointer(s.release.Version),
				PullSecret:       conv.Pointer(pullSecret), ControlPlaneCount: &topology.controlPlanes,
			}
			if topology.vips {
				params.APIVips = []*models.APIVip{{IP: "192.168.100.4"}}
				params.IngressVips = []*models.IngressVip{{IP: "192.168.100.5"}}
			}
			created, err := api.V2RegisterCluster(ctx, &installer.V2RegisterClusterParams{NewClusterParams: params})
			require.NoError(t, err)
			clusterID := *created.Payload.ID

			env, err := api.RegisterInfraEnv(ctx,
				&installer.RegisterInfraEnvParams{InfraenvCreateParams: &models.InfraEnvCreateParams{
					Name: conv.Pointer("line_infra-env"), ClusterID: &clusterID, PullSecret: conv.Pointer(pullSecret),
					OpenshiftVersion: s.release.Version,
				}})
			require.NoError(t, err)
			envID := *env.Payload.ID

			image, err := api.GetInfraEnvDownloadURL(ctx, &installer.GetInfraEnvDownloadURLParams{InfraEnvID: envID})
			require.NoError(t, err)
			requireDiscoveryISOWith(t, d.trusted, *image.Payload.URL)

			group := &simulate.HostGroup{URL: d.address, InfraEnvID: envID.String(), Count: topology.hosts, Speed: 1000,
				HTTP: d.trusted, Token: d.token, Spokes: s.spokes}
			groupEnded := make(chan error, 1)
			go func() { groupEnded <- group.Run(ctx) }()

			cluster := func() *models.Cluster {
				got, err := api.V2GetCluster(ctx, &installer.V2GetClusterParams{ClusterID: clusterID})
				require.NoError(t, err)
				return got.Payload
			}
			eventually(t, "the cluster becomes ready", func() bool {
				got := cluster()
				t.Logf("%s: %s", *got.Status, *got.StatusInfo)
				return *got.Status == models.ClusterStatusReady
			})
			hosts, err := api.V2ListHosts(ctx, &installer.V2ListHostsParams{InfraEnvID: envID})
			require.NoError(t, err)
			require.Len(t, hosts.Payload, topology.hosts)

			_, err = api.V2InstallCluster(ctx, &installer.V2InstallClusterParams{ClusterID: clusterID})
			require.NoError(t, err)
			eventually(t, "the cluster is installed", func() bool {
				got := cluster()
				require.NotEqual(t, models.ClusterStatusError, *got.Status, *got.StatusInfo)
				return *got.Status == models.ClusterStatusInstalled
			})
			require.NoError(t, <-groupEnded)

			var kubeconfig bytes.Buffer
			_, err = api.V2DownloadClusterCredentials(ctx,
				&installer.V2DownloadClusterCredentialsParams{ClusterID: clusterID, FileName: "kubeconfig"},
				&kubeconfig)
			require.NoError(t, err)
			require.Contains(t, kubeconfig.String(), "api.line.site.test:6443")
			credentials, err := api.V2GetCredentials(ctx, &installer.V2GetCredentialsParams{ClusterID: clusterID})
			require.NoError(t, err)
			require.Equal(t, "https://console-openshift-console.apps.line.site.test", credentials.Payload.ConsoleURL)
			require.NotEmpty(t, credentials.Payload.Password)
			require.EqualValues(t, 100, cluster().Progress.TotalPercentage)
			require.NotEqual(t, strfmt.UUID(""), cluster().OpenshiftClusterID)
		}
		t.Run(topology.name, func(t *testing.T) { openAndAuthenticated(t, test) })
	}
}

// requireDiscoveryISO downloads an image and checks the config in its embed area.
func requireDiscoveryISO(t *testing.T, address string) {
	t.Helper()
	requireDiscoveryISOWith(t, http.DefaultClient, address)
}

func requireDiscoveryISOWith(t *testing.T, client *http.Client, address string) {
	t.Helper()
	response, err := client.Get(address)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	var iso bytes.Buffer
	_, err = iso.ReadFrom(response.Body)
	require.NoError(t, err)
	require.EqualValues(t, response.ContentLength, iso.Len())
	payload, err := isogen.Embedded(bytes.NewReader(iso.Bytes()), int64(iso.Len()))
	require.NoError(t, err)
	require.Contains(t, string(payload.Ignition), "agent.service")
}
