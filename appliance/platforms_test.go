package appliance_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate"
)

// kindOfCluster is a topology on a platform, with the expected roles of its hosts.
type kindOfCluster struct {
	name                       string
	asked                      models.ClusterCreateParams
	maker                      string
	fenced                     bool
	masters, arbiters, workers int
}

func kindsOfClusters() []kindOfCluster {
	managed := func(params models.ClusterCreateParams) models.ClusterCreateParams {
		params.APIVips, params.IngressVips = []*models.APIVip{{IP: "192.168.100.4"}},
			[]*models.IngressVip{{IP: "192.168.100.5"}}
		return params
	}
	on := func(kind models.PlatformType) *models.Platform { return &models.Platform{Type: &kind} }
	elsewhere := on(models.PlatformTypeExternal)
	elsewhere.External = &models.PlatformExternal{PlatformName: conv.Pointer("somecloud"),
		CloudControllerManager: conv.Pointer(models.PlatformExternalCloudControllerManagerExternal)}
	count := conv.Pointer[int64]
	return []kindOfCluster{
		{name: "workers", asked: managed(models.ClusterCreateParams{}), masters: 3, workers: 2},
		{name: "five", asked: managed(models.ClusterCreateParams{ControlPlaneCount: count(5)}), masters: 5},
		{name: "arbiter", asked: managed(models.ClusterCreateParams{ControlPlaneCount: count(2)}), masters: 2,
			arbiters: 1},
		{name: "fencing", asked: managed(models.ClusterCreateParams{ControlPlaneCount: count(2)}), masters: 2,
			fenced: true},
		{name: "none", asked: models.ClusterCreateParams{UserManagedNetworking: conv.Pointer(true)}, masters: 3},
		{name: "external", asked: models.ClusterCreateParams{Platform: elsewhere}, masters: 3},
		{name: "external-single", asked: models.ClusterCreateParams{Platform: elsewhere, ControlPlaneCount: count(1)},
			masters: 1},
		{name: "nutanix", asked: managed(models.ClusterCreateParams{Platform: on(models.PlatformTypeNutanix)}),
			maker: "Nutanix", masters: 3},
		{name: "vsphere", asked: managed(models.ClusterCreateParams{Platform: on(models.PlatformTypeVsphere)}),
			maker: "VMware, Inc.", masters: 3},
		{name: "vsphere-users", asked: models.ClusterCreateParams{Platform: on(models.PlatformTypeVsphere),
			UserManagedNetworking: conv.Pointer(true)}, maker: "VMware, Inc.", masters: 3},
		{name: "balancer", masters: 3, asked: managed(models.ClusterCreateParams{
			LoadBalancer:    &models.LoadBalancer{Type: models.LoadBalancerTypeUserManaged},
			MachineNetworks: []*models.MachineNetwork{{Cidr: "192.168.100.0/24"}},
		})},
	}
}

// TestTopologies_installOnTheirPlatforms installs each kind of cluster with simulated hosts on one
// appliance. All roles are automatic.
func TestTopologies_installOnTheirPlatforms(t *testing.T) {
	s := newSite(t)
	d := s.connect(t)
	t.Run("kinds", func(t *testing.T) {
		for _, kind := range kindsOfClusters() {
			t.Run(kind.name, func(t *testing.T) {
				t.Parallel()
				s.install(t, d, kind)
			})
		}
	})
}

func (s *site) install(t *testing.T, d *connection, kind kindOfCluster) {
	api := d.upstream(t)
	ctx := t.Context()
	params := kind.asked
	params.Name, params.BaseDNSDomain, params.OpenshiftVersion, params.PullSecret = &kind.name, "site.test",
		conv.Pointer(s.release.Version), conv.Pointer(pullSecret)
	created, err := api.Installer.V2RegisterCluster(ctx, &installer.V2RegisterClusterParams{NewClusterParams: &params})
	require.NoError(t, err)
	id := *created.Payload.ID
	env, err := api.Installer.RegisterInfraEnv(ctx,
		&installer.RegisterInfraEnvParams{InfraenvCreateParams: &models.InfraEnvCreateParams{
			Name: &kind.name, ClusterID: &id, PullSecret: conv.Pointer(pullSecret), OpenshiftVersion: s.release.Version,
		}})
	require.NoError(t, err)

	group := &simulate.HostGroup{
		URL: d.address, HTTP: d.trusted, Token: d.token,
		InfraEnvID: env.Payload.ID.String(), Count: kind.masters + kind.arbiters + kind.workers,
		Speed:    1000,
		Hardware: simulate.Hardware{Manufacturer: kind.maker},
	}
	ended := make(chan error, 1)
	groupCtx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { ended <- group.Run(groupCtx) }()

	cluster := func() *models.Cluster {
		got, err := api.Installer.V2GetCluster(ctx, &installer.V2GetClusterParams{ClusterID: id})
		require.NoError(t, err)
		return got.Payload
	}
	if kind.fenced {
		eventuallySlow(t, "the hosts have registered", func() bool { return len(cluster().Hosts) == group.Count })
		for i, h := range cluster().Hosts {
			setFencing(t, api, *env.Payload.ID, *h.ID, i)
		}
	}
	eventuallySlow(t, "the cluster becomes ready",
		func() bool { return *cluster().Status == models.ClusterStatusReady })
	_, err = api.Installer.V2InstallCluster(ctx, &installer.V2InstallClusterParams{ClusterID: id})
	require.NoError(t, err)
	eventuallySlow(t, "the cluster is installed", func() bool {
		got := cluster()
		require.NotEqual(t, models.ClusterStatusError, *got.Status, *got.StatusInfo)
		return *got.Status == models.ClusterStatusInstalled
	})
	require.NoError(t, <-ended)
	count := make(map[models.HostRole]int)
	for _, h := range cluster().Hosts {
		count[h.Role]++
		require.Equal(t, models.HostStatusInstalled, *h.Status)
	}
	requireValidFiles(t, d, cluster())
	require.Equal(t, [3]int{kind.masters, kind.arbiters, kind.workers}, [3]int{count[models.HostRoleMaster],
		count[models.HostRoleArbiter], count[models.HostRoleWorker]})
}

// setFencing sets the fencing credentials of a host.
func setFencing(t *testing.T, api *client.AssistedInstall, env, host strfmt.UUID, number int) {
	_, err := api.Installer.V2UpdateHost(t.Context(), &installer.V2UpdateHostParams{InfraEnvID: env, HostID: host,
		HostUpdateParams: &models.HostUpdateParams{
			FencingCredentials: &models.FencingCredentialsParams{
				Address:  conv.Pointer(fmt.Sprintf("redfish+https://192.168.101.%d/redfish/v1/Systems/1", number+1)),
				Username: conv.Pointer("admin"), Password: conv.Pointer("secret"),
			},
		}})
	require.NoError(t, err)
}

// eventuallySlow waits longer than [eventually], because the clusters are installed in parallel.
func eventuallySlow(t *testing.T, what string, yes func() bool) {
	t.Helper()
	require.Eventually(t, yes, 2*time.Minute, 100*time.Millisecond, what)
}
