package appliance_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// publicKey is an SSH key without a known private key.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me"

func (d *testAppliance) update(cluster strfmt.UUID, params *models.V2ClusterUpdateParams) (*models.Cluster, error) {
	updated, err := d.Installer.V2UpdateCluster(d.Context(), &installer.V2UpdateClusterParams{ClusterID: cluster,
		ClusterUpdateParams: params})
	if err != nil {
		return nil, err
	}
	return updated.Payload, nil
}

func TestClusters_lifecycle(t *testing.T) {
	d := startAppliance(t)
	ctx := t.Context()
	cluster, other := d.cluster(),
		d.cluster(func(params *models.ClusterCreateParams) { params.Name = conv.Pointer("other") })
	got := d.get(cluster)
	require.Equal(t, []string{"site", "site.test", d.site.release.Version}, []string{got.Name, got.BaseDNSDomain,
		got.OpenshiftVersion})
	require.Equal(t, models.ClusterKindCluster, *got.Kind)
	require.Equal(t, "/api/assisted-install/v2/clusters/"+cluster.String(), *got.Href)
	require.True(t, got.PullSecretSet)

	list := func(params installer.V2ListClustersParams) []string {
		listed, err := d.Installer.V2ListClusters(ctx, &params)
		require.NoError(t, err)
		names := []string{}
		for _, cluster := range listed.Payload {
			names = append(names, cluster.Name)
		}
		return names
	}
	require.ElementsMatch(t, []string{"site", "other"}, list(installer.V2ListClustersParams{}))
	require.Len(t, list(installer.V2ListClustersParams{Owner: conv.Pointer("admin")}), 2)
	require.Empty(t, list(installer.V2ListClustersParams{Owner: conv.Pointer("somebody")}))
	someone := missingID()
	require.Empty(t, list(installer.V2ListClustersParams{OpenshiftClusterID: &someone}))
	require.Empty(t, list(installer.V2ListClustersParams{AmsSubscriptionIds: []string{someone.String()}}))
	requireRefusal(t, call(t, http.MethodGet, d.url+"/clusters?openshift_cluster_id=me", nil), 422,
		"openshift_cluster_id in query")

	updated, err := d.update(cluster, &models.V2ClusterUpdateParams{Name: conv.Pointer("west"),
		SSHPublicKey: conv.Pointer(publicKey), Tags: conv.Pointer("a,b")})
	require.NoError(t, err)
	require.Equal(t, []string{"west", "site.test", publicKey, "a,b"}, []string{updated.Name, updated.BaseDNSDomain,
		updated.SSHPublicKey, updated.Tags})
	_, err = d.update(cluster, &models.V2ClusterUpdateParams{Name: conv.Pointer("West")})
	refused(t, err, 400)
	_, err = d.update(missingID(), &models.V2ClusterUpdateParams{Name: conv.Pointer("west")})
	refused(t, err, 404)

	_, err = d.Installer.V2DeregisterCluster(ctx, &installer.V2DeregisterClusterParams{ClusterID: other})
	require.NoError(t, err)
	_, err = d.Installer.V2DeregisterCluster(ctx, &installer.V2DeregisterClusterParams{ClusterID: other})
	refused(t, err, 404)
	require.Equal(t, []string{"west"}, list(installer.V2ListClustersParams{}))
}

// A client sees the state in which the Assisted Installer creates clusters, and then the result of
// the validations.
func TestRegisterCluster_startsInsufficient(t *testing.T) {
	d := startAppliance(t)
	created, err := d.Installer.V2RegisterCluster(t.Context(), &installer.V2RegisterClusterParams{
		NewClusterParams: &models.ClusterCreateParams{Name: conv.Pointer("fresh"), PullSecret: conv.Pointer(pullSecret),
			OpenshiftVersion: conv.Pointer(d.site.release.Version), BaseDNSDomain: "site.test"}})
	require.NoError(t, err)
	require.Equal(t, []string{"insufficient", "Cluster is not ready for install"},
		[]string{*created.Payload.Status, *created.Payload.StatusInfo})
	require.False(t, time.Time(created.Payload.StatusUpdatedAt).IsZero())
	require.Equal(t, models.ClusterStatusPendingForInput, *d.get(*created.Payload.ID).Status)
}

// In an update, an absent field and a null field stay as they are; an empty field is cleared.
func TestClusterUpdate_absentNullAndEmptyDiffer(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster(func(params *models.ClusterCreateParams) {
		params.ControlPlaneCount, params.SSHPublicKey = nil, publicKey
		params.AdditionalNtpSource, params.HTTPProxy = conv.Pointer("10.0.0.1"), conv.Pointer("http://proxy:3128")
		params.APIVips, params.IngressVips = []*models.APIVip{{IP: "10.0.0.4"}}, []*models.IngressVip{{IP: "10.0.0.5"}}
	})
	type fields struct {
		SSHKey  string           `json:"ssh_public_key"`
		NTP     string           `json:"additional_ntp_source"`
		Proxy   string           `json:"http_proxy"`
		APIVips []map[string]any `json:"api_vips"`
	}
	read := func() (f fields) {
		call(t, http.MethodGet, d.url+"/clusters/"+cluster.String(), nil).read(t, http.StatusOK, &f)
		return f
	}
	before := read()
	for _, nothing := range []string{`{}`,
		`{"ssh_public_key": null, "additional_ntp_source": null, "http_proxy": null, "api_vips": null}`} {
		require.Equal(t, http.StatusCreated, call(t, http.MethodPatch, d.url+"/clusters/"+cluster.String(),
			nothing).status)
		require.Equal(t, before, read(), nothing)
	}
	require.Equal(t, http.StatusCreated, call(t, http.MethodPatch, d.url+"/clusters/"+cluster.String(),
		`{"ssh_public_key": "", "additional_ntp_source": "", "http_proxy": "", "api_vips": [], "ingress_vips": []}`).
		status)
	require.Equal(t, fields{APIVips: []map[string]any{}}, read())
}

func TestClusterUpdate_readOnlyFieldsUnknown(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	for _, field := range []string{"id", "status", "status_info", "href", "kind", "created_at", "hosts",
		"validations_info", "progress", "pull_secret_set", "openshift_cluster_id"} {
		requireRefusal(t, call(t, http.MethodPatch, d.url+"/clusters/"+cluster.String(), object{field: "x"}), 400,
			`the unknown field "`+field+`"`)
	}
}

func TestClusterUISettings_kept(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	get := func(cluster strfmt.UUID) (string, error) {
		got, err := d.Installer.V2GetClusterUISettings(t.Context(),
			&installer.V2GetClusterUISettingsParams{ClusterID: cluster})
		if err != nil {
			return "", err
		}
		return got.Payload, nil
	}
	_, err := get(missingID())
	refused(t, err, 404)
	_, err = d.Installer.V2UpdateClusterUISettings(t.Context(),
		&installer.V2UpdateClusterUISettingsParams{ClusterID: missingID(), UISettings: "{}"})
	refused(t, err, 404)
	settings, err := get(cluster)
	require.NoError(t, err)
	require.Empty(t, settings)
	put, err := d.Installer.V2UpdateClusterUISettings(t.Context(),
		&installer.V2UpdateClusterUISettingsParams{ClusterID: cluster, UISettings: `{"step": 3}`})
	require.NoError(t, err)
	require.Equal(t, `{"step": 3}`, put.Payload)
	settings, err = get(cluster)
	require.NoError(t, err)
	require.Equal(t, `{"step": 3}`, settings)
}

func TestInstallation_cancelResetComplete(t *testing.T) {
	d := startAppliance(t)
	ctx := t.Context()
	cluster := d.cluster()
	cancel := func(id strfmt.UUID) (*models.Cluster, error) {
		got, err := d.Installer.V2CancelInstallation(ctx, &installer.V2CancelInstallationParams{ClusterID: id})
		if err != nil {
			return nil, err
		}
		return got.Payload, nil
	}
	reset := func(id strfmt.UUID) (*models.Cluster, error) {
		got, err := d.Installer.V2ResetCluster(ctx, &installer.V2ResetClusterParams{ClusterID: id})
		if err != nil {
			return nil, err
		}
		return got.Payload, nil
	}
	install := func(id strfmt.UUID) error {
		_, err := d.Installer.V2InstallCluster(ctx, &installer.V2InstallClusterParams{ClusterID: id})
		return err
	}
	complete := func(id strfmt.UUID) error {
		_, err := d.Installer.V2CompleteInstallation(ctx, &installer.V2CompleteInstallationParams{ClusterID: id,
			CompletionParams: &models.CompletionParams{IsSuccess: conv.Pointer(true)}})
		return err
	}
	refused(t, install(cluster), 409)
	refused(t, complete(cluster), 409)
	_, err := cancel(cluster)
	refused(t, err, 409)
	_, err = reset(cluster)
	refused(t, err, 409)

	d.group(d.infraEnv(&cluster), 1)
	d.until(cluster, models.ClusterStatusReady)
	require.NoError(t, install(cluster))
	refused(t, install(cluster), 409)
	_, err = d.update(cluster, &models.V2ClusterUpdateParams{Name: conv.Pointer("late")})
	refused(t, err, 409)
	_, err = d.Installer.V2DeregisterCluster(ctx, &installer.V2DeregisterClusterParams{ClusterID: cluster})
	refused(t, err, 409)
	d.until(cluster, models.ClusterStatusInstalling)
	cancelled, err := cancel(cluster)
	require.NoError(t, err)
	require.Equal(t, models.ClusterStatusCancelled, *cancelled.Status)
	again, err := reset(cluster)
	require.NoError(t, err)
	require.Contains(t, []string{models.ClusterStatusInsufficient, models.ClusterStatusPendingForInput}, *again.Status)
	require.Empty(t, again.OpenshiftClusterID)
	require.Subset(t, d.events(cluster), []string{"cluster_installation_canceled", "cluster_installation_reset"})
}

func TestController_reportsAreChecked(t *testing.T) {
	d := startAppliance(t)
	ctx := t.Context()
	cluster := d.cluster()
	stage := func(stage models.FinalizingStage) error {
		_, err := d.Installer.V2UpdateClusterFinalizingProgress(ctx, &installer.V2UpdateClusterFinalizingProgressParams{
			ClusterID: cluster, FinalizingProgress: &models.ClusterFinalizingProgress{FinalizingStage: stage},
		})
		return err
	}
	require.NoError(t, stage(models.FinalizingStageAddingRouterCa))
	require.Empty(t, d.get(cluster).Progress.FinalizingStage, "the cluster is not being installed")
	requireRefusal(t, call(t, http.MethodPut, d.url+"/clusters/"+cluster.String()+"/progress",
		object{"finalizing_stage": "Resting"}), 422, "finalizing_stage")

	_, err := d.Installer.V2UpdateClusterLogsProgress(ctx, &installer.V2UpdateClusterLogsProgressParams{
		ClusterID: cluster, LogsProgressParams: &models.LogsProgressParams{
			LogsState: models.LogsStateCollecting.Pointer()},
	})
	require.NoError(t, err)
	require.Equal(t, models.LogsStateCollecting, d.get(cluster).LogsInfo)
	requireRefusal(t, call(t, http.MethodPut, d.url+"/clusters/"+cluster.String()+"/logs-progress",
		object{"logs_state": "resting"}), 422, "logs_state")

	upload := func(certificate string) answer {
		return call(t, http.MethodPost, d.url+"/clusters/"+cluster.String()+"/uploads/ingress-cert",
			text2jsonOf(certificate))
	}
	requireRefusal(t, upload("x"), 400, "not in PEM form")
	requireRefusal(t, upload(""), 400, "is empty")
	requireRefusal(t, upload(testPEM), 400, "no kubeconfig yet")
	var hosts []json.RawMessage
	call(t, http.MethodGet, d.url+"/clusters/"+cluster.String()+"/hosts", nil).read(t, 200, &hosts)
	require.Empty(t, hosts)
}
