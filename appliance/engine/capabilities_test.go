package engine

import (
	"testing"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/description"
	"landfall/appliance/fault"
)

func TestCapabilities(t *testing.T) {
	b := newHarness(t)
	b.options.ReleaseList = append(b.options.ReleaseList, ReleaseImage{OpenshiftVersion: "4.20.8",
		CPUArchitecture: description.MultiCPU, URL: "quay.io/release:4.20.8-multi"})
	has := map[string]bool{}
	register := func(architecture string) (*models.Cluster, error) {
		return b.RegisterCluster(t.Context(), &models.ClusterCreateParams{
			Name: conv.Pointer("one"), OpenshiftVersion: conv.Pointer("4.20.8"), CPUArchitecture: architecture,
			PullSecret: conv.Pointer(testPullSecret),
		})
	}
	ignore := func(cluster *models.Cluster) error {
		_, err := b.IgnoreValidations(t.Context(), cluster.ID.String(),
			&models.IgnoredValidations{HostValidationIds: `["has-cpu-cores-for-role"]`})
		return err
	}
	free, err := register("multi")
	require.NoError(t, err, "all capabilities are granted by default")
	require.NoError(t, ignore(free))
	require.False(t, free.OrgSoftTimeoutsEnabled)

	b.options.Capable = func(capability string) bool { return has[capability] }
	_, err = register("multi")
	b.requireRejected(err, fault.Invalid, "capability.organization.bare_metal_installer_multiarch")
	plain, err := register("x86_64")
	require.NoError(t, err)
	b.requireRejected(ignore(plain), fault.Invalid, "capability.organization.ignore_validations")
	require.False(t, plain.OrgSoftTimeoutsEnabled)

	has = map[string]bool{capabilityMultiarch: true, capabilityIgnoreValidations: true, capabilitySoftTimeouts: true}
	several, err := register("multi")
	require.NoError(t, err)
	require.NoError(t, ignore(several))
	require.True(t, several.OrgSoftTimeoutsEnabled)
	require.True(t, b.WarnsOnly(several))
	require.False(t, b.WarnsOnly(plain), "clusters keep their setting")
}
