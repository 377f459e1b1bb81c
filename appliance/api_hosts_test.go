package appliance_test

import (
	"net/http"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func TestHosts_lifecycle(t *testing.T) {
	d := startAppliance(t)
	ctx := t.Context()
	cluster := d.cluster()
	env := d.infraEnv(&cluster)
	host := d.host(env)
	got, err := d.Installer.V2GetHost(ctx, &installer.V2GetHostParams{InfraEnvID: env, HostID: host})
	require.NoError(t, err)
	require.Equal(t, models.HostStatusDiscovering, *got.Payload.Status)
	listed, err := d.Installer.V2ListHosts(ctx, &installer.V2ListHostsParams{InfraEnvID: env})
	require.NoError(t, err)
	require.Len(t, listed.Payload, 1)

	update := func(host strfmt.UUID, params *models.HostUpdateParams) (*models.Host, error) {
		updated, err := d.Installer.V2UpdateHost(ctx, &installer.V2UpdateHostParams{InfraEnvID: env, HostID: host,
			HostUpdateParams: params})
		if err != nil {
			return nil, err
		}
		return updated.Payload, nil
	}
	updated, err := update(host, &models.HostUpdateParams{
		HostName: conv.Pointer("node-1"), HostRole: conv.Pointer("master"),
		MachineConfigPoolName: conv.Pointer("infra"),
		NodeLabels:            []*models.NodeLabelParams{{Key: conv.Pointer("zone"), Value: conv.Pointer("edge")}},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"node-1", "master", "infra", `{"zone":"edge"}`},
		[]string{updated.RequestedHostname, string(updated.Role), updated.MachineConfigPoolName, updated.NodeLabels})
	_, err = update(host, &models.HostUpdateParams{HostName: conv.Pointer("Node_1")})
	refused(t, err, 400)
	_, err = update(host, &models.HostUpdateParams{DisksSelectedConfig: []*models.DiskConfigParams{
		{ID: conv.Pointer("/dev/sda"), Role: models.DiskRoleInstall}}})
	refused(t, err, 409)
	_, err = update(missingID(), &models.HostUpdateParams{HostName: conv.Pointer("node-1")})
	refused(t, err, 404)

	hosts := func(query string) int {
		var hosts []models.Host
		call(t, http.MethodGet, d.url+"/clusters/"+cluster.String()+"/hosts"+query, nil).read(t, http.StatusOK, &hosts)
		return len(hosts)
	}
	require.Equal(t, 1, hosts(""))
	require.Equal(t, 1, hosts("?role=master&status=discovering"))
	require.Zero(t, hosts("?role=worker"))
	require.Zero(t, hosts("?status=known"))

	_, err = d.Installer.V2DeregisterHost(ctx, &installer.V2DeregisterHostParams{InfraEnvID: env, HostID: host})
	require.NoError(t, err)
	_, err = d.Installer.V2DeregisterHost(ctx, &installer.V2DeregisterHostParams{InfraEnvID: env, HostID: host})
	refused(t, err, 404)
}

func TestHosts_bindAndUnbind(t *testing.T) {
	openAndAuthenticated(t, bindAndUnbind)
}

func bindAndUnbind(t *testing.T, s *site) {
	d := s.connect(t).appliance(t, s)
	ctx := t.Context()
	cluster := d.cluster()
	env, own := d.infraEnv(nil), d.infraEnv(&cluster)
	bind := func(env, host, cluster strfmt.UUID) (*models.Host, error) {
		bound, err := d.Installer.BindHost(ctx, &installer.BindHostParams{InfraEnvID: env, HostID: host,
			BindHostParams: &models.BindHostParams{ClusterID: &cluster}})
		if err != nil {
			return nil, err
		}
		return bound.Payload, nil
	}
	unbind := func(env, host strfmt.UUID) (*models.Host, error) {
		taken, err := d.Installer.UnbindHost(ctx, &installer.UnbindHostParams{InfraEnvID: env, HostID: host})
		if err != nil {
			return nil, err
		}
		return taken.Payload, nil
	}
	d.group(env, 1)
	host := *d.untilHost(env, models.HostStatusKnownUnbound).ID
	_, err := bind(env, host, missingID())
	refused(t, err, 400)
	_, err = bind(env, missingID(), cluster)
	refused(t, err, 404)
	requireRefusal(t, d.call(t, http.MethodPost, apiPath+"/infra-envs/"+env.String()+"/hosts/"+host.String()+
		"/actions/unbind", nil), 409, "belongs to no cluster")
	silent := d.host(env)
	requireRefusal(t, d.call(t, http.MethodPost, apiPath+"/infra-envs/"+env.String()+"/hosts/"+silent.String()+
		"/actions/bind", object{"cluster_id": cluster}), 409, "discovering-unbound")
	_, err = d.Installer.V2DeregisterHost(ctx, &installer.V2DeregisterHostParams{InfraEnvID: env, HostID: silent})
	require.NoError(t, err)

	bound, err := bind(env, host, cluster)
	require.NoError(t, err)
	require.Equal(t, cluster, *bound.ClusterID)
	require.Equal(t, models.HostStatusBinding, *bound.Status)
	requireRefusal(t, d.call(t, http.MethodPost, apiPath+"/infra-envs/"+env.String()+"/hosts/"+host.String()+
		"/actions/bind",
		object{"cluster_id": cluster}), 409, "unbind it first")
	d.until(cluster, models.ClusterStatusReady)

	taken, err := unbind(env, host)
	require.NoError(t, err)
	require.Equal(t, models.HostStatusUnbinding, *taken.Status)
	d.untilHost(env, models.HostStatusKnownUnbound)
	require.Subset(t, d.events(cluster), []string{"host_bind_succeeded", "host_unbind_succeeded"})

	fixed := d.host(own)
	requireRefusal(t, d.call(t, http.MethodPost, apiPath+"/infra-envs/"+own.String()+"/hosts/"+fixed.String()+
		"/actions/unbind", nil), 409, "belongs to a cluster")
}

func TestAgents_instructionsAndReplies(t *testing.T) {
	d := startAppliance(t)
	ctx := t.Context()
	env := d.infraEnv(nil)
	host := d.host(env)
	steps, err := d.Installer.V2GetNextSteps(ctx, &installer.V2GetNextStepsParams{InfraEnvID: env, HostID: host})
	require.NoError(t, err)
	require.Equal(t, models.StepTypeInventory, steps.Payload.Instructions[0].StepType)
	_, err = d.Installer.V2GetNextSteps(ctx, &installer.V2GetNextStepsParams{InfraEnvID: env, HostID: missingID()})
	refused(t, err, 404)
	requireRefusal(t, call(t, http.MethodGet, d.url+"/infra-envs/"+env.String()+"/hosts/"+host.String()+
		"/instructions?timestamp=noon", nil), 400, `timestamp is "noon"`)
	reply := func(host strfmt.UUID, output string) error {
		_, err := d.Installer.V2PostStepReply(ctx, &installer.V2PostStepReplyParams{InfraEnvID: env, HostID: host,
			Reply: &models.StepReply{
				StepID: "ntp-synchronizer-0123abcd", StepType: models.StepTypeNtpSynchronizer, Output: output,
			}})
		return err
	}
	require.NoError(t, reply(host, `{"ntp_sources": [{"source_name": "10.0.0.1", "source_state": "synced"}]}`))
	refused(t, reply(host, "no report"), 400)
	refused(t, reply(missingID(), "{}"), 404)

	progress := func(host strfmt.UUID, stage models.HostStage) error {
		_, err := d.Installer.V2UpdateHostInstallProgress(ctx, &installer.V2UpdateHostInstallProgressParams{
			InfraEnvID: env, HostID: host, HostProgress: &models.HostProgress{CurrentStage: stage},
		})
		return err
	}
	refused(t, progress(missingID(), models.HostStageRebooting), 404)
	_, err = d.Installer.V2UpdateHostLogsProgress(ctx, &installer.V2UpdateHostLogsProgressParams{
		InfraEnvID: env, HostID: host, LogsProgressParams: &models.LogsProgressParams{
			LogsState: models.LogsStateRequested.Pointer()},
	})
	require.NoError(t, err)
	_, err = d.Installer.V2RegisterHost(ctx, &installer.V2RegisterHostParams{InfraEnvID: missingID(),
		NewHostParams: &models.HostCreateParams{HostID: &host}})
	refused(t, err, 404)
	requireRefusal(t, call(t, http.MethodPost, d.url+"/infra-envs/"+env.String()+"/hosts", object{"host_id": "me"}),
		422, "host_id")
}
