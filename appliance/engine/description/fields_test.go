package description_test

import (
	"reflect"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/description"
	"landfall/appliance/fault"
)

// otherClusterFields lists the fields of requests that are not in the table, with the reason.
var otherClusterFields = map[string]string{
	"CPUArchitecture":          "cannot be changed: NewCluster",
	"HighAvailabilityMode":     "older form of ControlPlaneCount, of new clusters only: NewCluster",
	"OcpReleaseImage":          "cannot be changed: NewCluster",
	"OpenshiftVersion":         "cannot be changed: NewCluster",
	"ClusterNetworkCidr":       "older form of ClusterNetworks: singlenetworks.go",
	"ClusterNetworkHostPrefix": "older form of ClusterNetworks: singlenetworks.go",
	"MachineNetworkCidr":       "older form of MachineNetworks: singlenetworks.go",
	"ServiceNetworkCidr":       "older form of ServiceNetworks: singlenetworks.go",
}

// otherInfraEnvFields lists the fields of requests that are not in the table, with the reason.
var otherInfraEnvFields = map[string]string{
	"Name":            "cannot be changed: NewInfraEnv",
	"ClusterID":       "cannot be changed: NewInfraEnv",
	"CPUArchitecture": "cannot be changed: NewInfraEnv",
}

func TestFields_eachFieldOfRequestsIsInTheTable(t *testing.T) {
	t.Run("clusters", func(t *testing.T) {
		requireComplete(t, description.ClusterFields(), otherClusterFields, models.ClusterCreateParams{},
			models.V2ClusterUpdateParams{})
	})
	t.Run("infra-envs", func(t *testing.T) {
		requireComplete(t, description.InfraEnvFields(), otherInfraEnvFields, models.InfraEnvCreateParams{},
			models.InfraEnvUpdateParams{})
	})
}

func requireComplete[D any](t *testing.T, fields []description.Field[D], others map[string]string, requests ...any) {
	t.Helper()
	known, used := map[string]bool{}, map[string]bool{}
	for _, f := range fields {
		require.False(t, known[f.Name], "%s is in the table twice", f.Name)
		known[f.Name] = true
	}
	for _, request := range requests {
		of := reflect.TypeOf(request)
		for i := range of.NumField() {
			name := of.Field(i).Name
			require.NotEqual(t, known[name], others[name] != "",
				"%s.%s must be in the table or in the list of other fields, not in both", of.Name(), name)
			used[name] = true
		}
	}
	for _, f := range fields {
		require.True(t, used[f.Name], "no request has the field %s", f.Name)
	}
	for name := range others {
		require.True(t, used[name], "no request has the field %s", name)
	}
}

// fullInfraEnv returns a request with all fields.
func fullInfraEnv() *models.InfraEnvCreateParams {
	return &models.InfraEnvCreateParams{
		Name: conv.Pointer("site"), PullSecret: conv.Pointer(`{"auths":{"quay.io":{"auth":"YTpi"}}}`),
		OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64", ImageType: models.ImageTypeMinimalIso,
		AdditionalNtpSources: conv.Pointer("ntp.example.com"), SSHAuthorizedKey: conv.Pointer("# none\n"),
		IgnitionConfigOverride: `{"ignition":{"version":"3.2.0"}}`,
		Proxy:                  &models.Proxy{HTTPProxy: conv.Pointer("http://p:1")},
		KernelArguments: models.KernelArguments{{Operation: models.KernelArgumentOperationAppend,
			Value: "rd.debug"}},
		StaticNetworkConfig: []*models.HostStaticNetworkConfig{{NetworkYaml: "interfaces: []"}},
	}
}

var testSite = &description.Site{NTPSources: []string{"ntp.site"},
	Releases: []description.Release{{OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64"}}}

func TestInfraEnv_createParamsDescribeItAgain(t *testing.T) {
	first, err := description.NewInfraEnv(testSite, fullInfraEnv(), "id", nil)
	require.NoError(t, err)
	params, err := first.CreateParams()
	require.NoError(t, err)
	require.NoError(t, description.CheckNewInfraEnv(params))
	second, err := description.NewInfraEnv(testSite, params, "id", nil)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Equal(t, "# none", first.API.SSHAuthorizedKey)
}

func TestNewInfraEnv_reportsAllFaults(t *testing.T) {
	site := &description.Site{AgentImage: true, Releases: []description.Release{{OpenshiftVersion: "4.20.8",
		CPUArchitecture: "s390x"}}}
	params := fullInfraEnv()
	params.CPUArchitecture = "s390x"
	params.KernelArguments[0].Value = ""
	_, err := description.NewInfraEnv(site, params, "id", nil)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "MINIMAL_ISO is not available with OpenShift 4.20.8 on s390x")
	require.ErrorContains(t, err, "Kernel argument 0 needs an operation")
}

func TestInfraEnv_updateLeavesAbsentFields(t *testing.T) {
	described, err := description.NewInfraEnv(testSite, fullInfraEnv(), "id", nil)
	require.NoError(t, err)
	before := *described
	require.NoError(t, testSite.UpdateInfraEnv(described, &models.InfraEnvUpdateParams{}))
	require.Equal(t, &before, described)
	require.NoError(t, testSite.UpdateInfraEnv(described, &models.InfraEnvUpdateParams{
		SSHAuthorizedKey: conv.Pointer(""), KernelArguments: models.KernelArguments{},
		StaticNetworkConfig: []*models.HostStaticNetworkConfig{}, Proxy: &models.Proxy{NoProxy: conv.Pointer("*")}}))
	require.Empty(t, described.API.SSHAuthorizedKey)
	require.Nil(t, described.API.KernelArguments)
	require.Empty(t, described.API.StaticNetworkConfig)
	require.Equal(t, "http://p:1", *described.API.Proxy.HTTPProxy)
	require.Equal(t, "*", *described.API.Proxy.NoProxy)
}

func TestInfraEnvUpdateParams(t *testing.T) {
	full := fullInfraEnv()
	update := description.InfraEnvUpdateParams(full)
	require.Equal(t, &models.InfraEnvUpdateParams{
		PullSecret: *full.PullSecret, OpenshiftVersion: &full.OpenshiftVersion, ImageType: full.ImageType,
		AdditionalNtpSources: full.AdditionalNtpSources, SSHAuthorizedKey: full.SSHAuthorizedKey,
		IgnitionConfigOverride: full.IgnitionConfigOverride, Proxy: full.Proxy,
		KernelArguments: full.KernelArguments, StaticNetworkConfig: full.StaticNetworkConfig,
	}, update)
}

func TestClusterCreateParams(t *testing.T) {
	update := &models.V2ClusterUpdateParams{Name: conv.Pointer("demo"), BaseDNSDomain: conv.Pointer("example.com"),
		SSHPublicKey: conv.Pointer("key"), ControlPlaneCount: conv.Pointer[int64](3),
		SchedulableMasters: conv.Pointer(true), APIVips: []*models.APIVip{{IP: "192.168.10.4"}},
		APIVipDNSName: conv.Pointer("only in updates")}
	require.Equal(t, &models.ClusterCreateParams{Name: update.Name, BaseDNSDomain: "example.com",
		SSHPublicKey: "key", ControlPlaneCount: update.ControlPlaneCount,
		SchedulableMasters: update.SchedulableMasters, APIVips: update.APIVips},
		description.ClusterCreateParams(update))
}

func TestCluster_updateResetsVIPsWithDHCP(t *testing.T) {
	described, err := description.NewCluster(testSite, &models.ClusterCreateParams{Name: conv.Pointer("demo"),
		OpenshiftVersion: conv.Pointer("4.20"), PullSecret: conv.Pointer(`{"auths":{"quay.io":{"auth":"YTpi"}}}`),
		APIVips: []*models.APIVip{{IP: "192.168.10.4"}}, IngressVips: []*models.IngressVip{{IP: "192.168.10.5"}}},
		func() strfmt.UUID { return "id" })
	require.NoError(t, err)
	require.Len(t, described.API.APIVips, 1)
	require.NoError(t, described.Update(&models.V2ClusterUpdateParams{VipDhcpAllocation: conv.Pointer(false)}))
	require.False(t, described.VIPsReset)
	require.NoError(t, described.Update(&models.V2ClusterUpdateParams{VipDhcpAllocation: conv.Pointer(true)}))
	require.True(t, described.VIPsReset)
	require.Empty(t, described.API.APIVips)
}
