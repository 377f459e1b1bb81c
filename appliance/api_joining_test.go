package appliance_test

import (
	"net/http"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/google/uuid"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func (d *testAppliance) importCluster(name, api string) (*models.Cluster, error) {
	id := strfmt.UUID(uuid.NewString())
	imported, err := d.Installer.V2ImportCluster(d.Context(),
		&installer.V2ImportClusterParams{NewImportClusterParams: &models.ImportClusterParams{
			Name: &name, APIVipDnsname: &api, OpenshiftClusterID: &id, OpenshiftVersion: d.site.release.Version,
		}})
	if err != nil {
		return nil, err
	}
	return imported.Payload, nil
}

// untilHost waits for a status of the only host of an infra-env.
func (d *testAppliance) untilHost(env strfmt.UUID, status string) *models.Host {
	d.Helper()
	var host *models.Host
	eventually(d.T, "the host is "+status, func() bool {
		hosts, err := d.Installer.V2ListHosts(d.Context(), &installer.V2ListHostsParams{InfraEnvID: env})
		require.NoError(d, err)
		if len(hosts.Payload) != 1 {
			return false
		}
		host = hosts.Payload[0]
		d.Logf("%s: %s", *host.Status, *host.StatusInfo)
		return *host.Status == status
	})
	return host
}

func TestClusterImport_existingCluster(t *testing.T) {
	d := startAppliance(t)
	for name, example := range map[string]struct{ given, api, name, domain string }{
		"by its API's name": {"scale-up-edge", "api.edge.example.com", "edge", "example.com"},
		"by an address":     {"edge", "192.168.111.5", "edge", ""},
		"by another name":   {"edge", "api-int.edge.example.com", "edge", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, err := d.importCluster(example.given, example.api)
			require.NoError(t, err)
			require.Equal(t, []string{example.name, example.domain}, []string{cluster.Name, cluster.BaseDNSDomain})
			require.Equal(t, models.ClusterStatusAddingHosts, *cluster.Status)
			require.Equal(t, models.ClusterKindAddHostsCluster, *cluster.Kind)
			require.Equal(t, example.api, *cluster.APIVipDNSName)
			require.True(t, *cluster.Imported)
			require.Empty(t, cluster.OcpReleaseImage)
			require.Equal(t, *cluster.StatusInfo, *d.get(*cluster.ID).StatusInfo)
		})
	}
	for name, wrong := range map[string]struct{ name, api, contains string }{
		"an invalid name":    {"Edge_1", "192.168.111.5", `"Edge_1"`},
		"no address":         {"edge", " ", "api_vip_dnsname"},
		"an invalid address": {"edge", "api edge", `"api edge" is neither a DNS name nor an IP address`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.importCluster(wrong.name, wrong.api)
			refused(t, err, 400)
			requireRefusal(t, call(t, http.MethodPost, d.url+"/clusters/import",
				object{"name": wrong.name, "api_vip_dnsname": wrong.api, "openshift_cluster_id": missingID()}), 400,
				wrong.contains)
		})
	}
	requireRefusal(t, call(t, http.MethodPost, d.url+"/clusters/import", object{}), 422,
		"openshift_cluster_id in body is required")
}

func TestDisconnectedCluster_isReadOnly(t *testing.T) {
	d := startAppliance(t)
	var cluster models.Cluster
	call(t, http.MethodPost, d.url+"/clusters/disconnected", object{"name": "far", "openshift_version": "4.19.1"}).
		read(t, 201, &cluster)
	require.Equal(t, "DisconnectedCluster", *cluster.Kind)
	require.Equal(t, "unmonitored", *cluster.Status)
	require.Equal(t, "4.19.1", cluster.OpenshiftVersion)
	requireRefusal(t, call(t, http.MethodPost, d.url+"/clusters/"+cluster.ID.String()+"/actions/install", nil),
		409, "far is unmonitored")
	for name, wrong := range map[string]struct {
		body     object
		status   int
		contains string
	}{
		"no name":          {object{"openshift_version": "4.19"}, 422, "name in body is required"},
		"no version":       {object{"name": "far"}, 422, "openshift_version in body is required"},
		"an empty version": {object{"name": "far", "openshift_version": " "}, 400, "version is empty"},
		"an invalid name":  {object{"name": "Far", "openshift_version": "4.19"}, 400, `"Far"`},
	} {
		t.Run(name, func(t *testing.T) {
			requireRefusal(t, call(t, http.MethodPost, d.url+"/clusters/disconnected", wrong.body), wrong.status,
				wrong.contains)
		})
	}
}

func TestJoiningHost_importedCluster(t *testing.T) {
	openAndAuthenticated(t, joinImportedCluster)
}

func joinImportedCluster(t *testing.T, s *site) {
	d := s.connect(t).appliance(t, s)
	cluster, err := d.importCluster("edge", "api.edge.example.com")
	require.NoError(t, err)
	env := d.infraEnv(cluster.ID)
	d.group(env, 1)
	host := d.untilHost(env, models.HostStatusKnown)
	require.Equal(t, models.HostKindAddToExistingClusterHost, *host.Kind)
	update := func(params *models.HostUpdateParams) (*models.Host, error) {
		updated, err := d.Installer.V2UpdateHost(t.Context(), &installer.V2UpdateHostParams{InfraEnvID: env,
			HostID: *host.ID, HostUpdateParams: params})
		if err != nil {
			return nil, err
		}
		return updated.Payload, nil
	}
	updated, err := update(&models.HostUpdateParams{
		IgnitionEndpointToken: conv.Pointer("hunter2"),
		IgnitionEndpointHTTPHeaders: []*models.IgnitionEndpointHTTPHeadersParams{{Key: conv.Pointer("X-Site"),
			Value: conv.Pointer("edge")}},
	})
	require.NoError(t, err)
	require.True(t, updated.IgnitionEndpointTokenSet)
	_, err = update(&models.HostUpdateParams{IgnitionEndpointHTTPHeaders: []*models.IgnitionEndpointHTTPHeadersParams{
		{Key: conv.Pointer("X Site"), Value: conv.Pointer("edge")}}})
	refused(t, err, 400)
	_, err = d.update(*cluster.ID, &models.V2ClusterUpdateParams{PullSecret: conv.Pointer(pullSecret)})
	require.NoError(t, err)
	d.untilHost(env, models.HostStatusKnown)

	install := func(host strfmt.UUID) (*models.Host, error) {
		started, err := d.Installer.V2InstallHost(t.Context(), &installer.V2InstallHostParams{InfraEnvID: env,
			HostID: host})
		if err != nil {
			return nil, err
		}
		return started.Payload, nil
	}
	started, err := install(*host.ID)
	require.NoError(t, err)
	require.Equal(t, models.HostStatusInstalling, *started.Status)
	require.Equal(t, models.HostRoleWorker, started.Role)
	_, err = install(*host.ID)
	refused(t, err, 409)
	_, err = install(missingID())
	refused(t, err, 404)

	ignition, err := d.Installer.V2GetHostIgnition(t.Context(), &installer.V2GetHostIgnitionParams{InfraEnvID: env,
		HostID: *host.ID})
	require.NoError(t, err)
	require.Contains(t, ignition.Payload.Config, "http://api.edge.example.com:22624/config/worker")
	require.Contains(t, ignition.Payload.Config, "/etc/hostname")
	require.Contains(t, ignition.Payload.Config, "Bearer hunter2")
	require.Contains(t, ignition.Payload.Config, "X-Site")
	d.untilHost(env, models.HostStatusAddedToExistingCluster)

	reset, err := d.Installer.V2ResetHost(t.Context(), &installer.V2ResetHostParams{InfraEnvID: env, HostID: *host.ID})
	require.NoError(t, err)
	require.Equal(t, models.HostStatusResettingPendingUserAction, *reset.Payload.Status)
	require.Contains(t, d.events(*cluster.ID), "host_installation_reset")
}

func TestHostOfInstallation_noOwnInstallOrReset(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	env, loose := d.infraEnv(&cluster), d.infraEnv(nil)
	host, unbound := d.host(env), d.host(loose)
	for _, wrong := range []struct {
		env, host strfmt.UUID
		action    string
		status    int
		contains  string
	}{
		{env, host, "install", 409, "part of the installation of cluster site"},
		{loose, unbound, "install", 404, "belongs to no cluster"},
		{env, missingID(), "install", 404, "There is no host"},
		{env, host, "reset", 409, "is reset with it;"},
		{loose, unbound, "reset", 409, "belongs to no cluster"},
		{env, missingID(), "reset", 404, "There is no host"},
	} {
		requireRefusal(t, call(t, http.MethodPost, d.url+"/infra-envs/"+wrong.env.String()+"/hosts/"+
			wrong.host.String()+
			"/actions/"+wrong.action, nil), wrong.status, wrong.contains)
	}
	_, err := d.Installer.V2ResetHost(t.Context(), &installer.V2ResetHostParams{InfraEnvID: env, HostID: host})
	refused(t, err, 409)
}

func TestAddHosts_installedCluster(t *testing.T) {
	openAndAuthenticated(t, addHosts)
}

func addHosts(t *testing.T, s *site) {
	d := s.connect(t).appliance(t, s)
	cluster := d.cluster()
	open := func(id strfmt.UUID) error {
		_, err := d.Installer.TransformClusterToAddingHosts(t.Context(),
			&installer.TransformClusterToAddingHostsParams{ClusterID: id})
		return err
	}
	older := func(id strfmt.UUID) (*models.Cluster, error) {
		opened, err := d.Installer.TransformClusterToDay2(t.Context(),
			&installer.TransformClusterToDay2Params{ClusterID: id})
		if err != nil {
			return nil, err
		}
		return opened.Payload, nil
	}
	refused(t, open(missingID()), 404)
	_, err := older(missingID())
	refused(t, err, 404)
	refused(t, open(cluster), 409)

	d.group(d.infraEnv(&cluster), 1)
	d.until(cluster, models.ClusterStatusReady)
	_, err = d.Installer.V2InstallCluster(t.Context(), &installer.V2InstallClusterParams{ClusterID: cluster})
	require.NoError(t, err)
	d.until(cluster, models.ClusterStatusInstalled)
	opened, err := older(cluster)
	require.NoError(t, err)
	require.Equal(t, models.ClusterStatusAddingHosts, *opened.Status)
	require.Equal(t, models.ClusterKindAddHostsCluster, *opened.Kind)
	require.Equal(t, "api.site.site.test", *opened.APIVipDNSName)
	require.Equal(t, models.HostStatusInstalled, *opened.Hosts[0].Status)
	refused(t, open(cluster), 409)
	require.Equal(t, conv.Pointer("site"), &opened.Name)
}
