package appliance_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/bmc"
	"landfall/appliance/simulate"
	"landfall/appliance/simulate/redfish"
	"landfall/web/console"
)

// TestBMC_installsServer boots a simulated server from the appliance's image by Redfish and
// installs it. The image must be ejected when the server reboots. The server is restarted if it
// boots from the image again.
func TestBMC_installsServer(t *testing.T) {
	t.Run("as it should", func(t *testing.T) {
		openAndAuthenticated(t, func(t *testing.T, s *site) { installOverBMC(t, s, nil) })
	})
	t.Run("with the wrong boot order", func(t *testing.T) {
		openAndAuthenticated(t, func(t *testing.T, s *site) {
			server, stand := installOverBMC(t, s, simulate.Faults{{Kind: simulate.WrongBootOrder}})
			require.False(t, server.Booted.Repaired.IsZero())
			require.Equal(t, "disk", stand.Boots()[1].From)
		})
	})
}

func installOverBMC(t *testing.T, s *site, faults simulate.Faults) (*bmc.Server, *redfish.BMC) {
	d := s.connect(t)
	api := d.upstream(t).Installer
	ctx := t.Context()
	one := int64(1)
	created, err := api.V2RegisterCluster(ctx,
		&installer.V2RegisterClusterParams{NewClusterParams: &models.ClusterCreateParams{
			Name: conv.Pointer("edge"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer(s.release.Version),
			PullSecret: conv.Pointer(pullSecret), ControlPlaneCount: &one,
		}})
	require.NoError(t, err)
	_, err = api.RegisterInfraEnv(ctx,
		&installer.RegisterInfraEnvParams{InfraenvCreateParams: &models.InfraEnvCreateParams{
			Name: conv.Pointer("edge"), ClusterID: created.Payload.ID, PullSecret: conv.Pointer(pullSecret),
			OpenshiftVersion: s.release.Version, ImageType: models.ImageTypeMinimalIso,
		}})
	require.NoError(t, err)

	const mac = "52:54:00:00:07:01"
	machines := &simulate.Servers{First: 7, Planned: []simulate.Planned{{Hostname: "edge-0", MAC: mac}}, Speed: 1000,
		Faults: faults}
	if faults != nil {
		machines.Speed = 200 // slow enough that the appliance corrects the boot order first
	}
	profile, _ := redfish.ProfileByName("dell-idrac9-old")
	stand := redfish.New(redfish.Options{
		Profile: profile, Username: "root", Password: "calvin", MACs: []string{mac}, PowerDelay: 100 * time.Millisecond,
		Dir: t.TempDir(),
		Boot: func(ctx context.Context, image *redfish.Image) {
			if err := machines.Boot(ctx, 7, image.Path); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		},
		FromDisk: func(ctx context.Context) {
			if err := machines.FromDisk(ctx, 7); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		},
	})
	require.NoError(t, stand.Listen("127.0.0.1:0", nil))
	t.Cleanup(func() {
		require.NoError(t, stand.Close())
		machines.Close()
	})
	server := d.callBMC(t, http.MethodPost, "", &console.BMCCreate{Name: "edge-0",
		Address: "redfish-virtualmedia+" + stand.URL(), Username: "root", Password: "calvin", InfraEnvID: "edge"})
	d.callBMC(t, http.MethodPost, "/edge-0/actions/boot", struct{}{})

	cluster := func() *models.Cluster {
		got, err := api.V2GetCluster(ctx, &installer.V2GetClusterParams{ClusterID: *created.Payload.ID})
		require.NoError(t, err)
		return got.Payload
	}
	eventually(t, "the cluster becomes ready", func() bool { return *cluster().Status == models.ClusterStatusReady })
	require.NotEmpty(t, stand.Inserted())
	_, err = api.V2InstallCluster(ctx, &installer.V2InstallClusterParams{ClusterID: *created.Payload.ID})
	require.NoError(t, err)
	eventually(t, "the cluster is installed", func() bool { return *cluster().Status == models.ClusterStatusInstalled })
	eventually(t, "the image is ejected", func() bool {
		server = d.callBMC(t, http.MethodGet, "/edge-0", nil)
		return !server.Booted.Ejected.IsZero()
	})
	require.Empty(t, stand.Inserted())
	require.Equal(t, bmc.PowerOn, server.Power)
	require.Equal(t, cluster().Hosts[0].ID.String(), server.Booted.Host.ID)
	require.Equal(t, "edge-0", cluster().Hosts[0].RequestedHostname)
	require.Equal(t, redfish.Started{From: "cd", Image: server.Booted.ImageURL}, stand.Boots()[0])
	return server, stand
}

func (c *connection) callBMC(t *testing.T, method, path string, body any) *bmc.Server {
	t.Helper()
	answered := c.call(t, method, console.BMCsRoute+path, body)
	require.Less(t, answered.status, 300, "%s", answered.body)
	server := new(bmc.Server)
	require.NoError(t, json.Unmarshal(answered.body, server))
	return server
}
