package appliance_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client/events"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/client/managed_domains"
	"github.com/openshift/assisted-service/client/manifests"
	"github.com/openshift/assisted-service/client/operators"
	"github.com/openshift/assisted-service/client/versions"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/web/api"
	"landfall/web/operation"
)

// TestOperations_documentedResponses calls all operations of one appliance. Each succeeds for the
// Assisted Installer's own client and returns each documented error that is possible.
// impossibleResponses lists the others with their reasons. The test fails if a new operation or
// response is not tested.
func TestOperations_documentedResponses(t *testing.T) {
	seen := newResponseLog()
	d := startRecordedAppliance(t, seen)
	operationsTest := &operationsTest{testAppliance: d, responseLog: seen}
	operationsTest.catalog()
	operationsTest.describe()
	operationsTest.hostsOfNoCluster()
	operationsTest.install()
	operationsTest.join()
	operationsTest.refusals()
	operationsTest.end()
	seen.requireComplete(t, withoutClient())
}

// withoutClient lists the operations that the published client lacks, because they are newer than
// the client or specific to the appliance.
func withoutClient() []string {
	return []string{"GetDetailedSupportedFeatures", "v2RegisterDisconnectedCluster", "v2GetOpenAPI"}
}

// operationsTest calls all operations of one appliance.
type operationsTest struct {
	*testAppliance
	responseLog        *responseLog
	fresh, done        strfmt.UUID // two clusters, one of them installed
	freshEnv, doneEnv  strfmt.UUID
	freshHost, hostEnv strfmt.UUID // a host without an inventory, and the infra-env without a cluster
}

// raw sends a request that the client cannot send and records the response.
func (d *operationsTest) raw(method, address string, body any) answer {
	d.Helper()
	return callWith(d.T, &http.Client{Transport: recordingTransport{d.responseLog, false}}, method, address, body)
}

// catalog calls the operations that concern no cluster.
func (d *operationsTest) catalog() {
	ctx := d.Context()
	_, err := d.Versions.V2ListComponentVersions(ctx, versions.NewV2ListComponentVersionsParams())
	require.NoError(d, err)
	_, err = d.Versions.V2ListSupportedOpenshiftVersions(ctx, versions.NewV2ListSupportedOpenshiftVersionsParams())
	require.NoError(d, err)
	_, err = d.Versions.V2ListReleaseSources(ctx, versions.NewV2ListReleaseSourcesParams())
	require.NoError(d, err)
	_, err = d.ManagedDomains.V2ListManagedDomains(ctx, managed_domains.NewV2ListManagedDomainsParams())
	require.NoError(d, err)
	_, err = d.Installer.V2GetClusterDefaultConfig(ctx, installer.NewV2GetClusterDefaultConfigParams())
	require.NoError(d, err)
	_, err = d.Installer.GetSupportedFeatures(ctx, installer.NewGetSupportedFeaturesParams().
		WithOpenshiftVersion("4.20"))
	require.NoError(d, err)
	_, err = d.Installer.GetSupportedArchitectures(ctx, installer.NewGetSupportedArchitecturesParams().
		WithOpenshiftVersion("4.20"))
	require.NoError(d, err)
	_, err = d.Operators.V2ListSupportedOperators(ctx, operators.NewV2ListSupportedOperatorsParams())
	require.NoError(d, err)
	_, err = d.Operators.V2ListOperatorProperties(ctx, operators.NewV2ListOperatorPropertiesParams().
		WithOperatorName("lvm"))
	require.NoError(d, err)
	_, err = d.Operators.V2ListBundles(ctx, operators.NewV2ListBundlesParams())
	require.NoError(d, err)
	_, err = d.Operators.V2GetBundle(ctx, operators.NewV2GetBundleParams().WithID("virtualization"))
	require.NoError(d, err)

	_, err = d.Operators.V2ListOperatorProperties(ctx, operators.NewV2ListOperatorPropertiesParams().
		WithOperatorName("coffee"))
	refused(d.T, err, 404)
	_, err = d.Operators.V2GetBundle(ctx, operators.NewV2GetBundleParams().WithID("coffee"))
	refused(d.T, err, 404)
	for _, address := range []string{"/support-levels/features/detailed?openshift_version=4.20", "/openapi"} {
		require.Equal(d, http.StatusOK, d.raw(http.MethodGet, d.url+address, nil).status, address)
	}
	for address, status := range map[string]int{
		"/support-levels/features": 422, "/support-levels/features?openshift_version=new": 400,
		"/support-levels/architectures": 422, "/support-levels/architectures?openshift_version=new": 400,
		"/support-levels/features/detailed": 422, "/support-levels/features/detailed?openshift_version=new": 400,
		"/operators/bundles?openshift_version=new":                       400,
		"/operators/bundles?openshift_version=4.20&cpu_architecture=z80": 422,
	} {
		requireRefusal(d.T, d.raw(http.MethodGet, d.url+address, nil), status)
	}
}

// describe creates a cluster and an infra-env and calls the operations before an installation.
func (d *operationsTest) describe() {
	ctx := d.Context()
	d.fresh = d.cluster()
	d.freshEnv = d.infraEnv(&d.fresh)
	d.freshHost = d.host(d.freshEnv)
	d.get(d.fresh)
	_, err := d.Installer.V2ListClusters(ctx, installer.NewV2ListClustersParams())
	require.NoError(d, err)
	_, err = d.update(d.fresh, &models.V2ClusterUpdateParams{Name: conv.Pointer("fresh")})
	require.NoError(d, err)
	_, err = d.Installer.ListClusterHosts(ctx, installer.NewListClusterHostsParams().WithClusterID(d.fresh))
	require.NoError(d, err)
	require.Equal(d, http.StatusCreated, d.raw(http.MethodPost, d.url+"/clusters/disconnected",
		object{"name": "far", "openshift_version": "4.20"}).status)

	_, err = d.Installer.V2SetIgnoredValidations(ctx, installer.NewV2SetIgnoredValidationsParams().
		WithClusterID(d.fresh).WithIgnoredValidations(&models.IgnoredValidations{}))
	require.NoError(d, err)
	_, err = d.Installer.V2GetIgnoredValidations(ctx, installer.NewV2GetIgnoredValidationsParams().
		WithClusterID(d.fresh))
	require.NoError(d, err)
	require.NoError(d, d.override(d.fresh, `{"fips": true}`))
	d.installConfig(d.fresh)
	_, err = d.Installer.V2UpdateClusterUISettings(ctx, installer.NewV2UpdateClusterUISettingsParams().
		WithClusterID(d.fresh).WithUISettings("{}"))
	require.NoError(d, err)
	_, err = d.Installer.V2GetClusterUISettings(ctx, installer.NewV2GetClusterUISettingsParams().WithClusterID(d.fresh))
	require.NoError(d, err)
	_, err = d.Installer.V2GetPreflightRequirements(ctx, installer.NewV2GetPreflightRequirementsParams().
		WithClusterID(d.fresh))
	require.NoError(d, err)
	_, err = d.Installer.GetClusterSupportedPlatforms(ctx, installer.NewGetClusterSupportedPlatformsParams().
		WithClusterID(d.fresh))
	require.NoError(d, err)
	_, err = d.Operators.V2ListOfClusterOperators(ctx, operators.NewV2ListOfClusterOperatorsParams().
		WithClusterID(d.fresh))
	require.NoError(d, err)
	_, err = d.Operators.V2ListOfClusterOperators(ctx, operators.NewV2ListOfClusterOperatorsParams().
		WithClusterID(d.fresh).WithOperatorName(conv.Pointer("coffee")))
	refused(d.T, err, 404)

	_, err = d.addManifest(d.fresh, "openshift", "a.yaml", "a: 1")
	require.NoError(d, err)
	_, err = d.Manifests.V2UpdateClusterManifest(ctx, manifests.NewV2UpdateClusterManifestParams().
		WithClusterID(d.fresh).WithUpdateManifestParams(
		&models.UpdateManifestParams{Folder: "openshift", FileName: "a.yaml", UpdatedContent: encoded("a: 2")}))
	require.NoError(d, err)
	require.Equal(d, []string{"user openshift/a.yaml"}, d.listManifests(d.fresh, false))
	content, err := d.manifest(d.fresh, "openshift", "a.yaml")
	require.NoError(d, err)
	require.Equal(d, "a: 2", content)
	_, err = d.Manifests.V2DeleteClusterManifest(ctx, manifests.NewV2DeleteClusterManifestParams().
		WithClusterID(d.fresh).WithFolder(conv.Pointer("openshift")).WithFileName("a.yaml"))
	require.NoError(d, err)

	d.infraEnvOf(d.freshEnv)
	now := strfmt.NewDateTime()
	_, err = d.Events.V2TriggerEvent(ctx, events.NewV2TriggerEventParams().WithTriggerEventParams(&models.Event{
		Name: "seen", Severity: conv.Pointer("info"), Message: conv.Pointer("It was seen."), EventTime: &now,
		ClusterID: &d.fresh,
	}))
	require.NoError(d, err)
	_, err = d.Events.V2ListEvents(ctx, events.NewV2ListEventsParams().WithClusterID(&d.fresh))
	require.NoError(d, err)
}

// infraEnvOf calls the operations of an infra-env.
func (d *operationsTest) infraEnvOf(env strfmt.UUID) {
	ctx := d.Context()
	_, err := d.Installer.ListInfraEnvs(ctx, installer.NewListInfraEnvsParams())
	require.NoError(d, err)
	_, err = d.getInfraEnv(env)
	require.NoError(d, err)
	_, err = d.infraEnvFile(installer.NewV2DownloadInfraEnvFilesParams().WithInfraEnvID(env).
		WithFileName("discovery.ign"))
	require.NoError(d, err)
	_, err = d.Installer.GetInfraEnvPresignedFileURL(ctx, installer.NewGetInfraEnvPresignedFileURLParams().
		WithInfraEnvID(env).WithFileName("discovery.ign"))
	require.NoError(d, err)
	_, err = d.Installer.GetInfraEnvDownloadURL(ctx, installer.NewGetInfraEnvDownloadURLParams().WithInfraEnvID(env))
	require.NoError(d, err)
	_, nothing, err := d.Installer.DownloadMinimalInitrd(ctx, installer.NewDownloadMinimalInitrdParams().
		WithInfraEnvID(env), io.Discard)
	require.NoError(d, err)
	require.NotNil(d, nothing)
	_, err = d.updateInfraEnv(env, &models.InfraEnvUpdateParams{StaticNetworkConfig: staticNetwork("192.0.2.2")})
	require.NoError(d, err)
	_, nothing, err = d.Installer.DownloadMinimalInitrd(ctx, installer.NewDownloadMinimalInitrdParams().
		WithInfraEnvID(env), io.Discard)
	require.NoError(d, err)
	require.Nil(d, nothing)
	_, err = d.updateInfraEnv(env,
		&models.InfraEnvUpdateParams{StaticNetworkConfig: []*models.HostStaticNetworkConfig{}})
	require.NoError(d, err)
	_, err = d.Installer.RegenerateInfraEnvSigningKey(ctx, installer.NewRegenerateInfraEnvSigningKeyParams().
		WithInfraEnvID(env))
	require.NoError(d, err)
}

// hostsOfNoCluster registers, renames, binds and unbinds hosts.
func (d *operationsTest) hostsOfNoCluster() {
	ctx := d.Context()
	env, host := d.freshEnv, d.freshHost
	_, err := d.Installer.V2GetHost(ctx, installer.NewV2GetHostParams().WithInfraEnvID(env).WithHostID(host))
	require.NoError(d, err)
	_, err = d.Installer.V2ListHosts(ctx, installer.NewV2ListHostsParams().WithInfraEnvID(env))
	require.NoError(d, err)
	_, err = d.Installer.V2GetNextSteps(ctx, installer.NewV2GetNextStepsParams().WithInfraEnvID(env).WithHostID(host))
	require.NoError(d, err)
	_, err = d.Installer.V2PostStepReply(ctx, installer.NewV2PostStepReplyParams().WithInfraEnvID(env).WithHostID(host).
		WithReply(
			&models.StepReply{StepID: "ntp-synchronizer-0123abcd", StepType: models.StepTypeNtpSynchronizer,
				Output: "{}"}))
	require.NoError(d, err)
	_, err = d.Installer.V2UpdateHostLogsProgress(ctx, installer.NewV2UpdateHostLogsProgressParams().
		WithInfraEnvID(env).WithHostID(host).WithLogsProgressParams(
		&models.LogsProgressParams{LogsState: models.LogsStateRequested.Pointer()}))
	require.NoError(d, err)
	_, err = d.Installer.V2UpdateHost(ctx, installer.NewV2UpdateHostParams().WithInfraEnvID(env).WithHostID(host).
		WithHostUpdateParams(&models.HostUpdateParams{HostName: conv.Pointer("node")}))
	require.NoError(d, err)
	require.NoError(d, d.overrideIgnition(env, host, `{"ignition": {"version": "3.2.0"}}`))
	_, err = d.Installer.V2UpdateHostInstallerArgs(ctx, installer.NewV2UpdateHostInstallerArgsParams().
		WithInfraEnvID(env).WithHostID(host).WithInstallerArgsParams(
		&models.InstallerArgsParams{Args: []string{"--append-karg", "quiet"}}))
	require.NoError(d, err)
	_, err = d.Installer.V2ResetHostValidation(ctx, installer.NewV2ResetHostValidationParams().WithInfraEnvID(env).
		WithHostID(host).WithValidationID("container-images-available"))
	require.NoError(d, err)
	_, err = d.Installer.V2ResetHostValidation(ctx, installer.NewV2ResetHostValidationParams().WithInfraEnvID(env).
		WithHostID(host).WithValidationID("ntp-synced"))
	refused(d.T, err, 400)

	d.hostEnv = d.infraEnv(nil)
	d.group(d.hostEnv, 1)
	loose := *d.untilHost(d.hostEnv, models.HostStatusKnownUnbound).ID
	for action, status := range map[string]int{"unbind": 409, "reset": 409, "install": 404,
		"reset-validation/container-images-available": 409} {
		method := http.MethodPost
		if strings.Contains(action, "/") {
			method = http.MethodPatch
		}
		requireRefusal(d.T, d.raw(method, d.url+"/infra-envs/"+d.hostEnv.String()+"/hosts/"+loose.String()+"/actions/"+
			action, nil), status)
	}
	bind := func(cluster strfmt.UUID) error {
		_, err := d.Installer.BindHost(ctx, installer.NewBindHostParams().WithInfraEnvID(d.hostEnv).WithHostID(loose).
			WithBindHostParams(&models.BindHostParams{ClusterID: &cluster}))
		return err
	}
	refused(d.T, bind(missingID()), 400)
	bound := d.cluster()
	require.NoError(d, bind(bound))
	d.until(bound, models.ClusterStatusReady)
	_, err = d.Installer.UnbindHost(ctx, installer.NewUnbindHostParams().WithInfraEnvID(d.hostEnv).WithHostID(loose))
	require.NoError(d, err)
	d.untilHost(d.hostEnv, models.HostStatusKnownUnbound)
}

// install installs one cluster, and cancels and resets another.
func (d *operationsTest) install() {
	ctx := d.Context()
	d.done, d.doneEnv = d.installing(1000)
	stopped, _ := d.installing(200)
	_, err := d.Installer.V2DeregisterCluster(ctx, installer.NewV2DeregisterClusterParams().WithClusterID(stopped))
	refused(d.T, err, 409)
	d.until(stopped, models.ClusterStatusInstalling)
	_, err = d.Installer.V2CancelInstallation(ctx, installer.NewV2CancelInstallationParams().WithClusterID(stopped))
	require.NoError(d, err)
	_, err = d.Installer.V2ResetCluster(ctx, installer.NewV2ResetClusterParams().WithClusterID(stopped))
	require.NoError(d, err)
	older, _ := d.installing(1000)
	d.until(d.done, models.ClusterStatusInstalled)

	host := *d.get(d.done).Hosts[0].ID
	_, err = d.Installer.V2UpdateHostInstallerArgs(ctx, installer.NewV2UpdateHostInstallerArgsParams().
		WithInfraEnvID(d.doneEnv).WithHostID(host).WithInstallerArgsParams(&models.InstallerArgsParams{}))
	refused(d.T, err, 409)
	_, err = d.Installer.V2UpdateHost(ctx, installer.NewV2UpdateHostParams().WithInfraEnvID(d.doneEnv).WithHostID(host).
		WithHostUpdateParams(&models.HostUpdateParams{HostName: conv.Pointer("late")}))
	refused(d.T, err, 409)
	_, err = d.update(d.done, &models.V2ClusterUpdateParams{Name: conv.Pointer("late")})
	refused(d.T, err, 409)
	_, err = d.addManifest(d.done, "openshift", "late.yaml", "a: 1")
	refused(d.T, err, 409)

	d.filesOf(d.done, d.doneEnv, host)
	d.reportsOf(d.done, d.doneEnv, host)
	_, err = d.Installer.TransformClusterToAddingHosts(ctx, installer.NewTransformClusterToAddingHostsParams().
		WithClusterID(d.done))
	require.NoError(d, err)
	d.until(older, models.ClusterStatusInstalled)
	_, err = d.Installer.TransformClusterToDay2(ctx, installer.NewTransformClusterToDay2Params().WithClusterID(older))
	require.NoError(d, err)
}

// installing starts the installation of a single-node cluster at a multiple of the real speed.
func (d *operationsTest) installing(speed float64) (cluster, env strfmt.UUID) {
	cluster = d.cluster()
	env = d.infraEnv(&cluster)
	d.startHostsAt(speed, env, 1)
	d.until(cluster, models.ClusterStatusReady)
	_, err := d.Installer.V2InstallCluster(d.Context(), installer.NewV2InstallClusterParams().WithClusterID(cluster))
	require.NoError(d, err)
	return cluster, env
}

// filesOf downloads the files of an installation.
func (d *operationsTest) filesOf(cluster, env, host strfmt.UUID) {
	ctx := d.Context()
	var kubeconfig bytes.Buffer
	_, err := d.Installer.V2DownloadClusterCredentials(ctx, installer.NewV2DownloadClusterCredentialsParams().
		WithClusterID(cluster).WithFileName("kubeconfig"), &kubeconfig)
	require.NoError(d, err)
	require.Contains(d, kubeconfig.String(), "api.site.site.test:6443")
	_, err = d.Installer.V2GetPresignedForClusterCredentials(ctx,
		installer.NewV2GetPresignedForClusterCredentialsParams().WithClusterID(cluster).WithFileName("kubeconfig"))
	require.NoError(d, err)
	_, err = d.Installer.V2GetCredentials(ctx, installer.NewV2GetCredentialsParams().WithClusterID(cluster))
	require.NoError(d, err)
	require.NotEmpty(d, d.files(cluster, "bootstrap.ign"))
	_, err = d.link(cluster, installer.V2GetPresignedForClusterFilesParams{FileName: "install-config.yaml"})
	require.NoError(d, err)
	_, err = d.Installer.V2GetHostIgnition(ctx, installer.NewV2GetHostIgnitionParams().WithInfraEnvID(env).
		WithHostID(host))
	require.NoError(d, err)
	_, err = d.Installer.V2DownloadHostIgnition(ctx, installer.NewV2DownloadHostIgnitionParams().WithInfraEnvID(env).
		WithHostID(host), io.Discard)
	require.NoError(d, err)
	require.NoError(d, d.uploadLogs(cluster, "host", &host, "of the host"))
	_, err = d.downloadLogs(cluster, "host", &host)
	require.NoError(d, err)
}

// reportsOf sends the reports of the controller in a cluster with the upstream client. The
// controller of the simulated group uses another client.
func (d *operationsTest) reportsOf(cluster, env, host strfmt.UUID) {
	ctx := d.Context()
	_, err := d.Operators.V2ReportMonitoredOperatorStatus(ctx, operators.NewV2ReportMonitoredOperatorStatusParams().
		WithClusterID(cluster).WithReportParams(
		&models.OperatorMonitorReport{Name: "cvo", Status: models.OperatorStatusAvailable}))
	require.NoError(d, err)
	_, err = d.Installer.V2UpdateClusterFinalizingProgress(ctx,
		installer.NewV2UpdateClusterFinalizingProgressParams().WithClusterID(cluster).WithFinalizingProgress(
			&models.ClusterFinalizingProgress{FinalizingStage: models.FinalizingStageDone}))
	require.NoError(d, err)
	_, err = d.Installer.V2UpdateClusterLogsProgress(ctx, installer.NewV2UpdateClusterLogsProgressParams().
		WithClusterID(cluster).WithLogsProgressParams(
		&models.LogsProgressParams{LogsState: models.LogsStateCollecting.Pointer()}))
	require.NoError(d, err)
	_, err = d.Installer.V2UploadClusterIngressCert(ctx, installer.NewV2UploadClusterIngressCertParams().
		WithClusterID(cluster).WithIngressCertParams(testPEM))
	require.NoError(d, err)
	_, err = d.Installer.V2UpdateHostInstallProgress(ctx, installer.NewV2UpdateHostInstallProgressParams().
		WithInfraEnvID(env).WithHostID(host).WithHostProgress(
		&models.HostProgress{CurrentStage: models.HostStageDone}))
	require.NoError(d, err)
	_, err = d.Installer.V2CompleteInstallation(ctx, installer.NewV2CompleteInstallationParams().WithClusterID(cluster).
		WithCompletionParams(&models.CompletionParams{IsSuccess: conv.Pointer(true)}))
	require.NoError(d, err)
}

// join adds a host to a cluster that was installed elsewhere.
func (d *operationsTest) join() {
	ctx := d.Context()
	cluster, err := d.importCluster("edge", "api.edge.example.com")
	require.NoError(d, err)
	env := d.infraEnv(cluster.ID)
	_, err = d.update(*cluster.ID, &models.V2ClusterUpdateParams{PullSecret: conv.Pointer(pullSecret)})
	require.NoError(d, err)
	d.group(env, 1)
	host := *d.untilHost(env, models.HostStatusKnown).ID
	_, err = d.Installer.V2InstallHost(ctx, installer.NewV2InstallHostParams().WithInfraEnvID(env).WithHostID(host))
	require.NoError(d, err)
	_, err = d.Installer.V2InstallHost(ctx, installer.NewV2InstallHostParams().WithInfraEnvID(env).WithHostID(host))
	refused(d.T, err, 409)
	d.untilHost(env, models.HostStatusAddedToExistingCluster)
	_, err = d.Installer.V2ResetHost(ctx, installer.NewV2ResetHostParams().WithInfraEnvID(env).WithHostID(host))
	require.NoError(d, err)
}

// refusals sends each operation the requests that every operation rejects.
func (d *operationsTest) refusals() {
	unknown := missingID().String()
	takes := bodies()
	for _, operation := range slices.Concat(api.Operations(), api.Additions()) {
		requireRefusal(d.T, d.raw(otherMethod(operation), d.at(operation, unknown, unknown, unknown), nil),
			http.StatusMethodNotAllowed)
		d.responseLog.seen[sentResponse{operation.ID, http.StatusMethodNotAllowed, false}] = true
		body := takes[operation.ID]
		if strings.Contains(operation.Path, "_id") {
			if operation.ID == "V2UploadLogs" {
				refused(d.T, d.uploadLogs(missingID(), "controller", nil, "x"), 404)
			} else {
				requireRefusal(d.T, d.raw(operation.Method, d.at(operation, unknown, unknown, unknown), body), 404)
			}
			requireRefusal(d.T, d.raw(operation.Method, d.at(operation, "me", "me", "me"), body), 422)
		}
		fresh := d.at(operation, d.fresh.String(), d.freshEnv.String(), d.freshHost.String())
		if fields, ok := body.(object); ok {
			lacking := maps.Clone(fields)
			for name := range fields {
				lacking[name] = nil
			}
			d.raw(operation.Method, fresh, lacking)
		}
		if body != nil && !slices.Contains(anyText, operation.ID) {
			requireRefusal(d.T, d.raw(operation.Method, fresh, ""), 400)
		}
	}
	for _, wrong := range []struct {
		method, path string
		body         any
		status       int
	}{
		{"GET", "/clusters?openshift_cluster_id=me", nil, 422},
		{"GET", "/infra-envs?cluster_id=me", nil, 422},
		{"GET", "/events?cluster_id=me", nil, 422},
		{"POST", "/events", object{"name": "x", "severity": "info", "message": "m",
			"event_time": "2026-01-01T00:00:00Z", "cluster_id": unknown}, 404},
		{"POST", "/infra-envs", object{"name": "env", "pull_secret": pullSecret, "cluster_id": unknown}, 404},
		{"POST", "/clusters/" + d.fresh.String() + "/logs?logs_type=host", nil, 400},
		{"GET", "/clusters/" + d.fresh.String() + "/logs?logs_type=controller", nil, 409},
		{"GET", "/clusters/" + d.fresh.String() + "/downloads/files-presigned?file_name=passwd", nil, 400},
		{"GET", "/infra-envs/" + d.freshEnv.String() +
			"/downloads/files?file_name=discovery.ign&ipxe_script_type=boot-order-control", nil, 400},
		{"PATCH", "/clusters/" + d.fresh.String() + "/manifests", object{"folder": "openshift",
			"file_name": "gone.yaml", "updated_file_name": "b.yaml"}, 404},
		{"POST", "/infra-envs/" + d.freshEnv.String() + "/hosts/" + d.freshHost.String() + "/actions/install",
			nil, 409},
	} {
		requireRefusal(d.T, d.raw(wrong.method, d.url+wrong.path, wrong.body), wrong.status)
	}
	d.requestEarly()
}

// otherMethod returns a method that no operation of the path has.
func otherMethod(operation operation.Operation) string {
	methods := []string{http.MethodPut, http.MethodDelete, http.MethodPost, http.MethodPatch}
	for _, other := range slices.Concat(api.Operations(), api.Additions()) {
		if other.Path == operation.Path {
			methods = slices.DeleteFunc(methods, func(method string) bool { return method == other.Method })
		}
	}
	return methods[0]
}

// requestEarly requests the data of an installed cluster from a cluster that is not installed.
func (d *operationsTest) requestEarly() {
	for _, action := range []string{"install", "cancel", "reset", "allow-add-hosts", "allow-add-workers"} {
		requireRefusal(d.T, d.raw(http.MethodPost, d.url+"/clusters/"+d.fresh.String()+"/actions/"+action, nil), 409)
	}
	requireRefusal(d.T, d.raw(http.MethodPost, d.url+"/clusters/"+d.fresh.String()+"/actions/complete-installation",
		object{"is_success": true}), 409)
	for _, file := range []string{
		"/credentials", "/downloads/credentials?file_name=kubeconfig",
		"/downloads/credentials-presigned?file_name=kubeconfig",
		"/downloads/files?file_name=bootstrap.ign", "/downloads/files-presigned?file_name=bootstrap.ign",
	} {
		requireRefusal(d.T, d.raw(http.MethodGet, d.url+"/clusters/"+d.fresh.String()+file, nil), 409)
	}
	requireRefusal(d.T, d.raw(http.MethodGet, d.url+"/infra-env/"+d.freshEnv.String()+"/hosts/"+d.freshHost.String()+
		"/downloads/ignition", nil), 409)
}

// end deletes the test's objects.
func (d *operationsTest) end() {
	ctx := d.Context()
	deregister := func() error {
		_, err := d.Installer.DeregisterInfraEnv(ctx, installer.NewDeregisterInfraEnvParams().
			WithInfraEnvID(d.freshEnv))
		return err
	}
	refused(d.T, deregister(), 409)
	_, err := d.Installer.V2DeregisterHost(ctx, installer.NewV2DeregisterHostParams().WithInfraEnvID(d.freshEnv).
		WithHostID(d.freshHost))
	require.NoError(d, err)
	require.NoError(d, deregister())
	_, err = d.Installer.V2DeregisterCluster(ctx, installer.NewV2DeregisterClusterParams().WithClusterID(d.fresh))
	require.NoError(d, err)
}
