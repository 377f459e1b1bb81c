package engine

import (
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/fault"
)

// newMultiHarness returns a harness with a multi-architecture release and one for x86_64.
func newMultiHarness(t *testing.T) *harness {
	t.Helper()
	b := newHarness(t)
	b.options.ReleaseList = append(b.options.ReleaseList, ReleaseImage{OpenshiftVersion: "4.20.8",
		CPUArchitecture: "multi",
		URL:             "quay.io/release:4.20.8-multi"})
	return b
}

// clusterFor registers a cluster of an architecture.
func (b *harness) clusterFor(architecture string, alter func(*models.ClusterCreateParams)) (*models.Cluster, error) {
	params := &models.ClusterCreateParams{
		Name: conv.Pointer("bench"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20"),
		PullSecret:      conv.Pointer(testPullSecret),
		CPUArchitecture: architecture,
	}
	if alter != nil {
		alter(params)
	}
	return b.RegisterCluster(b.Context(), params)
}

// imageFor registers an infra-env of an architecture. It belongs to no cluster if cluster is nil.
func (b *harness) imageFor(cluster *strfmt.UUID, architecture string, kind models.ImageType) (*models.InfraEnv, error) {
	return b.RegisterInfraEnv(b.Context(), &models.InfraEnvCreateParams{
		Name: conv.Pointer("bench_" + architecture), ClusterID: cluster, PullSecret: conv.Pointer(testPullSecret),
		OpenshiftVersion: "4.20",
		CPUArchitecture:  architecture, ImageType: kind,
	})
}

func TestMultiCluster_acceptsHostsOfEachArchitecture(t *testing.T) {
	b := newMultiHarness(t)
	cluster, err := b.clusterFor("multi", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"multi", "quay.io/release:4.20.8-multi"}, []string{cluster.CPUArchitecture,
		cluster.OcpReleaseImage})

	for _, architecture := range []string{"", "x86_64", "arm64"} {
		env, err := b.imageFor(cluster.ID, architecture, "")
		require.NoError(t, err)
		require.Equal(t, orText(architecture, "x86_64"), env.CPUArchitecture)
	}
	arm, err := b.imageFor(cluster.ID, "aarch64", "")
	require.NoError(t, err)
	require.Equal(t, "arm64", arm.CPUArchitecture, "spelling of the API")
	h := b.host(arm.ID.String(), 1)
	require.Equal(t, cluster.ID, h.require(lifecycle.HostPendingForInput).ClusterID)

	late := b.host(b.infraEnvOf(nil), 2)
	_, err = b.BindHost(t.Context(), late.env, late.id, cluster.ID.String())
	require.NoError(t, err)

	named, err := b.clusterFor("",
		func(params *models.ClusterCreateParams) { params.OpenshiftVersion = conv.Pointer("4.20.8-multi") })
	require.NoError(t, err)
	require.Equal(t, []string{"multi", "4.20.8"}, []string{named.CPUArchitecture, named.OpenshiftVersion})

	own, err := b.clusterFor("x86_64", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"x86_64", "quay.io/release:4.20.8"}, []string{own.CPUArchitecture, own.OcpReleaseImage},
		"the release of one architecture comes first")
	_, err = b.imageFor(own.ID, "arm64", "")
	b.requireRejected(err, fault.Invalid, "Specified CPU architecture (arm64) doesn't "+
		"match the cluster (x86_64); give the infra-env the architecture of cluster bench.")
	_, err = b.imageFor(cluster.ID, "mips", "")
	b.requireRejected(err, fault.Invalid, `There is no architecture "mips"`)
}

// The API accepts both spellings of arm64, and shows one of them.
func TestCluster_aarch64IsARM64(t *testing.T) {
	for _, asked := range []string{"aarch64", "arm64"} {
		t.Run(asked, func(t *testing.T) {
			b := newMultiHarness(t)
			b.options.ReleaseList = append(b.options.ReleaseList, ReleaseImage{OpenshiftVersion: "4.20.8",
				CPUArchitecture: "arm64", URL: "quay.io/release:4.20.8-arm64"})
			cluster, err := b.clusterFor(asked, nil)
			require.NoError(t, err)
			require.Equal(t, []string{"arm64", "quay.io/release:4.20.8-arm64"}, []string{cluster.CPUArchitecture,
				cluster.OcpReleaseImage})
			named, err := b.clusterFor(asked, func(params *models.ClusterCreateParams) {
				params.OcpReleaseImage = "quay.io/release:arm64"
			})
			require.NoError(t, err)
			require.Equal(t, "arm64", named.CPUArchitecture)
			for _, of := range []*models.Cluster{cluster, named} {
				env, err := b.imageFor(of.ID, asked, "")
				require.NoError(t, err)
				require.Equal(t, "arm64", env.CPUArchitecture)
			}
			unnamed, err := b.imageFor(cluster.ID, "", "")
			require.NoError(t, err)
			require.Equal(t, "arm64", unnamed.CPUArchitecture)
		})
	}
}

func TestFindRelease_fallsBackToMulti(t *testing.T) {
	for _, architecture := range []string{"arm64", "s390x", "ppc64le"} {
		t.Run(architecture, func(t *testing.T) {
			b := newMultiHarness(t)
			single := func(params *models.ClusterCreateParams) { params.ControlPlaneCount = conv.Pointer[int64](1) }
			users := func(params *models.ClusterCreateParams) { params.UserManagedNetworking = conv.Pointer(true) }
			for _, alter := range []func(*models.ClusterCreateParams){nil, users, single} {
				cluster, err := b.clusterFor(architecture, alter)
				require.NoError(t, err)
				require.Equal(t, "multi", cluster.CPUArchitecture)
			}
			_, err := newHarness(t).clusterFor(architecture, nil)
			b.requireRejected(err, fault.Invalid, `There is no release image for OpenShift "4.20" on `+architecture)
		})
	}
}

// TestCluster_mainframesManageTheirNetworks creates clusters of mainframes with a release for
// several architectures.
func TestCluster_mainframesManageTheirNetworks(t *testing.T) {
	for _, architecture := range []string{"s390x", "ppc64le"} {
		t.Run(architecture, func(t *testing.T) {
			b := newMultiHarness(t)
			cluster, err := b.clusterFor(architecture, nil)
			require.NoError(t, err)
			require.Equal(t, models.PlatformTypeNone, *cluster.Platform.Type)
			require.True(t, *cluster.UserManagedNetworking)
			_, err = b.imageFor(cluster.ID, architecture, "")
			require.NoError(t, err)
			_, err = b.clusterFor(architecture, func(params *models.ClusterCreateParams) {
				params.UserManagedNetworking = conv.Pointer(false)
			})
			b.requireRejected(err, fault.Invalid, "have user-managed networking; leave user_managed_networking out")
			_, err = b.clusterFor(architecture, func(params *models.ClusterCreateParams) {
				params.Platform = &models.Platform{Type: conv.Pointer(models.PlatformTypeBaremetal)}
			})
			b.requireRejected(err, fault.Invalid, `Platform "baremetal" is not available for `+architecture)
		})
	}
}

func TestInfraEnv_imageTypeByArchitecture(t *testing.T) {
	for _, architecture := range []string{"s390x", "ppc64le"} {
		t.Run(architecture, func(t *testing.T) {
			b := newMultiHarness(t)
			cluster, err := b.clusterFor(architecture,
				func(params *models.ClusterCreateParams) { params.UserManagedNetworking = conv.Pointer(true) })
			require.NoError(t, err)
			for _, owner := range []*strfmt.UUID{nil, cluster.ID} {
				env, err := b.imageFor(owner, architecture, "")
				require.NoError(t, err)
				require.Equal(t, models.ImageTypeFullIso, *env.Type)
				made, err := b.imageFor(owner, architecture, models.ImageTypeMinimalIso)
				changed, changeErr := b.UpdateInfraEnv(t.Context(), env.ID.String(),
					&models.InfraEnvUpdateParams{ImageType: models.ImageTypeMinimalIso})
				if architecture == "s390x" {
					says := "MINIMAL_ISO is not available with OpenShift 4.20 on s390x; choose"
					if owner != nil {
						says = "MINIMAL_ISO is not available with OpenShift 4.20.8 on s390x, platform none; choose"
					}
					b.requireRejected(err, fault.Invalid, says)
					b.requireRejected(changeErr, fault.Invalid, "MINIMAL_ISO is not available with OpenShift 4.20")
					continue
				}
				require.NoError(t, err)
				require.NoError(t, changeErr)
				require.Equal(t, []models.ImageType{models.ImageTypeMinimalIso, models.ImageTypeMinimalIso},
					[]models.ImageType{*made.Type, *changed.Type})
			}
		})
	}
}

func TestMultiCluster_featuresOfArchitectures(t *testing.T) {
	users := func(params *models.ClusterCreateParams) { params.UserManagedNetworking = conv.Pointer(true) }
	update := func(b *harness, cluster *models.Cluster, params *models.V2ClusterUpdateParams) error {
		_, err := b.UpdateCluster(t.Context(), cluster.ID.String(), params)
		return err
	}
	t.Run("cluster-managed networking", func(t *testing.T) {
		b := newMultiHarness(t)
		cluster, err := b.clusterFor("s390x", users)
		require.NoError(t, err)
		require.NoError(t, update(b, cluster,
			&models.V2ClusterUpdateParams{UserManagedNetworking: conv.Pointer(false)}),
			"no hosts of this architecture yet")
		require.NoError(t, update(b, cluster, &models.V2ClusterUpdateParams{UserManagedNetworking: conv.Pointer(true)}))
		_, err = b.imageFor(cluster.ID, "s390x", "")
		require.NoError(t, err)
		b.requireRejected(update(b, cluster, &models.V2ClusterUpdateParams{UserManagedNetworking: conv.Pointer(false)}),
			fault.Invalid, "CLUSTER_MANAGED_NETWORKING is not available with OpenShift 4.20.8 on s390x")
	})
	t.Run("operator", func(t *testing.T) {
		b := newMultiHarness(t)
		cluster, err := b.clusterFor("s390x", users)
		require.NoError(t, err)
		require.NoError(t, update(b, cluster,
			&models.V2ClusterUpdateParams{OlmOperators: []*models.OperatorCreateParams{{Name: "odf"}, {Name: "cnv"},
				{Name: "mce"}}}))
		_, err = b.imageFor(cluster.ID, "s390x", "")
		b.requireRejected(err, fault.Invalid,
			"OpenShift Virtualization is not available with OpenShift 4.20.8 on s390x")
		late, err := b.imageFor(nil, "s390x", "")
		require.NoError(t, err)
		h := b.host(late.ID.String(), 1)
		_, err = b.BindHost(t.Context(), h.env, h.id, cluster.ID.String())
		b.requireRejected(err, fault.Invalid, "does not support hosts of s390x")
	})
	t.Run("platform", func(t *testing.T) {
		b := newMultiHarness(t)
		oracle := func(params *models.ClusterCreateParams) {
			params.Platform = external("oci", models.PlatformExternalCloudControllerManagerExternal)
		}
		cluster, err := b.clusterFor("x86_64", oracle)
		require.NoError(t, err)
		_, err = b.imageFor(cluster.ID, "x86_64", models.ImageTypeFullIso)
		b.requireRejected(err, fault.Invalid, "FULL_ISO")
		env, err := b.imageFor(cluster.ID, "x86_64", models.ImageTypeMinimalIso)
		require.NoError(t, err)
		_, err = b.UpdateInfraEnv(t.Context(), env.ID.String(),
			&models.InfraEnvUpdateParams{ImageType: models.ImageTypeFullIso})
		b.requireRejected(err, fault.Invalid, "FULL_ISO")
	})
}
