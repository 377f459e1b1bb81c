package appliance_test

import (
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
	"github.com/openshift/assisted-service/client/operators"
	"github.com/openshift/assisted-service/client/versions"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func TestSupportLevels_areListed(t *testing.T) {
	d := startAppliance(t)
	features, err := d.Installer.GetSupportedFeatures(t.Context(),
		&installer.GetSupportedFeaturesParams{OpenshiftVersion: "4.14"})
	require.NoError(t, err)
	require.Equal(t, models.SupportLevelSupported, features.Payload.Features["SNO"])
	require.Equal(t, models.SupportLevelUnavailable, features.Payload.Features["TNA"])
	require.Equal(t, models.SupportLevelSupported, features.Payload.Features["CNV"])
	require.NotContains(t, features.Payload.Features, "PLATFORM_MANAGED_NETWORKING")
	require.Equal(t, models.SupportLevelDevPreview, features.Payload.Features["VIP_AUTO_ALLOC"])
	current, err := d.Installer.GetSupportedFeatures(t.Context(),
		&installer.GetSupportedFeaturesParams{OpenshiftVersion: "4.22"})
	require.NoError(t, err)
	for _, id := range []string{"VSPHERE_INTEGRATION", "NUTANIX_INTEGRATION", "EXTERNAL_PLATFORM",
		"EXTERNAL_PLATFORM_OCI", "TNA", "TNF", "USER_MANAGED_LOAD_BALANCER"} {
		require.Equal(t, models.SupportLevelSupported, current.Payload.Features[id], id)
	}
	onPlatform, err := d.Installer.GetSupportedFeatures(t.Context(), &installer.GetSupportedFeaturesParams{
		OpenshiftVersion: "4.14", CPUArchitecture: conv.Pointer("s390x"), PlatformType: conv.Pointer("none"),
	})
	require.NoError(t, err)
	require.Equal(t, models.SupportLevelUnavailable, onPlatform.Payload.Features["MINIMAL_ISO"])
	require.Equal(t, models.SupportLevelSupported, onPlatform.Payload.Features["PLATFORM_MANAGED_NETWORKING"])
	require.NotContains(t, onPlatform.Payload.Features, "NONE_PLATFORM")

	architectures, err := d.Installer.GetSupportedArchitectures(t.Context(),
		&installer.GetSupportedArchitecturesParams{OpenshiftVersion: "4.14"})
	require.NoError(t, err)
	require.Equal(t, models.SupportLevelSupported, architectures.Payload.Architectures["X86_64_ARCHITECTURE"])
	require.Equal(t, models.SupportLevelUnavailable, architectures.Payload.Architectures["ARM64_ARCHITECTURE"],
		"no release of it is configured")

	var detailed struct {
		Features  []models.Feature
		Operators []models.Operator
	}
	call(t, http.MethodGet, d.url+"/support-levels/features/detailed?openshift_version=4.19&platform_type=baremetal",
		nil).read(t, http.StatusOK, &detailed)
	require.NotEmpty(t, detailed.Features)
	for _, operator := range detailed.Operators {
		if *operator.Name == "odf" {
			require.Equal(t, []models.FeatureSupportLevelID{"LSO"}, operator.Dependencies)
			require.Contains(t, operator.Incompatibilities, models.FeatureSupportLevelIDSNO)
		}
	}

	for path, contains := range map[string]struct {
		status   int
		contains string
	}{
		"/support-levels/features": {422,
			"openshift_version in query is required"},
		"/support-levels/features?openshift_version=new": {400,
			`"new" is invalid`},
		"/support-levels/features?openshift_version=4.14&cpu_architecture=z80": {422,
			"cpu_architecture in query"},
		"/support-levels/features?openshift_version=4.14&platform_type=moon": {422,
			"platform_type in query"},
		"/support-levels/architectures": {422,
			"openshift_version in query is required"},
		"/support-levels/architectures?openshift_version=x": {400,
			`"x" is invalid`},
		"/support-levels/features/detailed": {422,
			"openshift_version in query is required"},
		"/support-levels/features/detailed?openshift_version=4.11&cpu_architecture=s390x": {400,
			"not available for the architecture s390x"},
		"/support-levels/features/detailed?openshift_version=4.19&cpu_architecture=arm64&platform_type=nutanix": {400,
			"nutanix is not available"},
		"/operators/bundles?openshift_version=4.11&cpu_architecture=s390x": {400,
			"not available for the architecture s390x"},
		"/operators/bundles/coffee": {404,
			`no bundle "coffee"`},
		"/supported-operators/coffee": {404,
			`no operator "coffee"`},
	} {
		requireRefusal(t, call(t, http.MethodGet, d.url+path, nil), contains.status, contains.contains)
	}
}

func TestSupport_operatorsAndVersions(t *testing.T) {
	d := startAppliance(t)
	ctx := t.Context()
	supported, err := d.Operators.V2ListSupportedOperators(ctx, &operators.V2ListSupportedOperatorsParams{})
	require.NoError(t, err)
	require.Len(t, supported.Payload, 28)
	require.Subset(t, supported.Payload, []string{"lso", "odf", "cnv", "lvm", "mce", "openshift-ai",
		"openshift-logging"})
	properties, err := d.Operators.V2ListOperatorProperties(ctx,
		&operators.V2ListOperatorPropertiesParams{OperatorName: "lvm"})
	require.NoError(t, err)
	require.Empty(t, properties.Payload)
	bundles, err := d.Operators.V2ListBundles(ctx, &operators.V2ListBundlesParams{})
	require.NoError(t, err)
	require.Len(t, bundles.Payload, 2)
	bundle, err := d.Operators.V2GetBundle(ctx, &operators.V2GetBundleParams{ID: "virtualization"})
	require.NoError(t, err)
	require.Contains(t, bundle.Payload.Operators, "cnv")

	cluster := d.cluster()
	olmOperators, err := d.Operators.V2ListOfClusterOperators(ctx,
		&operators.V2ListOfClusterOperatorsParams{ClusterID: cluster})
	require.NoError(t, err)
	require.Len(t, olmOperators.Payload, 2)
	one, err := d.Operators.V2ListOfClusterOperators(ctx, &operators.V2ListOfClusterOperatorsParams{ClusterID: cluster,
		OperatorName: conv.Pointer("cvo")})
	require.NoError(t, err)
	require.Len(t, one.Payload, 1)
	_, err = d.Operators.V2ListOfClusterOperators(ctx, &operators.V2ListOfClusterOperatorsParams{ClusterID: cluster,
		OperatorName: conv.Pointer("lvm")})
	refused(t, err, 404)
	_, err = d.Operators.V2ListOfClusterOperators(ctx,
		&operators.V2ListOfClusterOperatorsParams{ClusterID: missingID()})
	refused(t, err, 404)
	report := func(cluster strfmt.UUID, name string) error {
		_, err := d.Operators.V2ReportMonitoredOperatorStatus(ctx, &operators.V2ReportMonitoredOperatorStatusParams{
			ClusterID: cluster, ReportParams: &models.OperatorMonitorReport{Name: name,
				Status: models.OperatorStatusProgressing, StatusInfo: "working"},
		})
		return err
	}
	require.NoError(t, report(cluster, "cvo"))
	refused(t, report(cluster, "lvm"), 404)
	refused(t, report(missingID(), "cvo"), 404)

	platforms, err := d.Installer.GetClusterSupportedPlatforms(ctx,
		&installer.GetClusterSupportedPlatformsParams{ClusterID: cluster})
	require.NoError(t, err)
	require.Equal(t, []models.PlatformType{models.PlatformTypeNone}, platforms.Payload)
	_, err = d.Installer.GetClusterSupportedPlatforms(ctx,
		&installer.GetClusterSupportedPlatformsParams{ClusterID: missingID()})
	refused(t, err, 404)
	requirements, err := d.Installer.V2GetPreflightRequirements(ctx,
		&installer.V2GetPreflightRequirementsParams{ClusterID: cluster})
	require.NoError(t, err)
	require.EqualValues(t, 8, requirements.Payload.Ocp.Master.Quantitative.CPUCores)
	require.Len(t, requirements.Payload.Operators, 28)
	_, err = d.Installer.V2GetPreflightRequirements(ctx,
		&installer.V2GetPreflightRequirementsParams{ClusterID: missingID()})
	refused(t, err, 404)

	components, err := d.Versions.V2ListComponentVersions(ctx, &versions.V2ListComponentVersionsParams{})
	require.NoError(t, err)
	require.Equal(t, "test", components.Payload.ReleaseTag)
	require.ElementsMatch(t, []string{"assisted-installer-service", "discovery-agent", "assisted-installer",
		"assisted-installer-controller"}, slices.Collect(maps.Keys(components.Payload.Versions)))
	require.Equal(t, "landfall test", components.Payload.Versions["assisted-installer-service"])
	minor := strings.Join(strings.Split(d.site.release.Version, ".")[:2], ".")
	releases, err := d.Versions.V2ListSupportedOpenshiftVersions(ctx,
		&versions.V2ListSupportedOpenshiftVersionsParams{Version: &minor, OnlyLatest: conv.Pointer(true)})
	require.NoError(t, err)
	require.Contains(t, releases.Payload, d.site.release.Version)
	_, err = d.Versions.V2ListReleaseSources(ctx, &versions.V2ListReleaseSourcesParams{})
	require.NoError(t, err)
	domains, err := d.ManagedDomains.V2ListManagedDomains(ctx, &managed_domains.V2ListManagedDomainsParams{})
	require.NoError(t, err)
	require.Empty(t, domains.Payload)
	defaults, err := d.Installer.V2GetClusterDefaultConfig(ctx, &installer.V2GetClusterDefaultConfigParams{})
	require.NoError(t, err)
	require.EqualValues(t, 23, defaults.Payload.ClusterNetworkHostPrefix)
	require.Equal(t, models.Subnet("10.128.0.0/14"), defaults.Payload.ClusterNetworksIPV4[0].Cidr)
	require.Equal(t, models.Subnet("172.30.0.0/16"), defaults.Payload.ServiceNetworksIPV4[0].Cidr)
	require.Equal(t, []models.Subnet{"10.128.0.0/14", "fd01::/48"},
		[]models.Subnet{defaults.Payload.ClusterNetworksDualstack[0].Cidr,
			defaults.Payload.ClusterNetworksDualstack[1].Cidr})
	require.Equal(t, []int64{23, 64}, []int64{defaults.Payload.ClusterNetworksDualstack[0].HostPrefix,
		defaults.Payload.ClusterNetworksDualstack[1].HostPrefix})
	require.Equal(t, []models.Subnet{"172.30.0.0/16", "fd02::/112"},
		[]models.Subnet{defaults.Payload.ServiceNetworksDualstack[0].Cidr,
			defaults.Payload.ServiceNetworksDualstack[1].Cidr})
	require.Equal(t, []string{"localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4",
		"localhost6", "localhost6.localdomain6"}, defaults.Payload.ForbiddenHostnames)
}

func TestEvents_fromExternalPrograms(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	now := strfmt.NewDateTime()
	report := func(change func(*models.Event)) error {
		event := &models.Event{Name: "node_rebooted", Severity: conv.Pointer("info"),
			Message: conv.Pointer("It restarted."), EventTime: &now, ClusterID: &cluster}
		change(event)
		_, err := d.Events.V2TriggerEvent(t.Context(), &events.V2TriggerEventParams{TriggerEventParams: event})
		return err
	}
	require.NoError(t, report(func(e *models.Event) { e.Props = `{"reboots": 2}` }))
	require.NoError(t, report(func(e *models.Event) {
		e.Category, e.Message = models.EventCategoryMetrics,
			conv.Pointer("disk.speed")
	}))
	list := func(category ...string) []string {
		got, err := d.Events.V2ListEvents(t.Context(), &events.V2ListEventsParams{ClusterID: &cluster,
			Categories: category})
		require.NoError(t, err)
		var messages []string
		for _, event := range got.Payload {
			messages = append(messages, *event.Message)
		}
		return messages
	}
	require.Contains(t, list(), "It restarted.")
	require.NotContains(t, list(), "disk.speed")
	require.Equal(t, []string{"disk.speed"}, list(models.EventCategoryMetrics))

	someone := missingID()
	refused(t, report(func(e *models.Event) { e.ClusterID = &someone }), 404)
	refused(t, report(func(e *models.Event) { e.InfraEnvID = &someone }), 404)
	refused(t, report(func(e *models.Event) { e.HostID = &someone }), 404)
	refused(t, report(func(e *models.Event) { e.Props = "no" }), 400)
	refused(t, report(func(e *models.Event) { e.Message = conv.Pointer(strings.Repeat("x", 5000)) }), 400)
	good := object{"name": "x", "severity": "info", "message": "m", "event_time": now}
	requireRefusal(t, call(t, http.MethodPost, d.url+"/events", good.with(object{"severity": "loud"})),
		422, "severity in body should be one of")
	requireRefusal(t, call(t, http.MethodPost, d.url+"/events", good.with(object{"category": "gossip"})), 422,
		"category in body should be one of")
	requireRefusal(t, call(t, http.MethodPost, d.url+"/events", good.with(object{"message": nil})),
		422, "message in body is required")
	requireRefusal(t, call(t, http.MethodPost, d.url+"/events", good.with(object{"props": strings.Repeat(" ", 1<<17)})),
		400, "props are longer")
}
