package support

import (
	"maps"
	"slices"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// level is the support level of one feature for a query.
func level(q Query, id models.FeatureSupportLevelID) (models.SupportLevel, models.IncompatibilityReason) {
	for _, f := range Features(q) {
		if f.ID == id {
			return f.Level, f.Reason
		}
	}
	return "left out", ""
}

func TestFeatures(t *testing.T) {
	const (
		full, tech, dev, none, unsupported = models.SupportLevelSupported, models.SupportLevelTechPreview,
			models.SupportLevelDevPreview, models.SupportLevelUnavailable, models.SupportLevelUnsupported
		byVersion, byArch, byPlatform = models.IncompatibilityReasonOpenshiftVersion,
			models.IncompatibilityReasonCPUArchitecture, models.IncompatibilityReasonPlatform
	)
	for _, c := range []struct {
		id     models.FeatureSupportLevelID
		query  Query
		level  models.SupportLevel
		reason models.IncompatibilityReason
	}{
		{"SNO", Query{Version: "4.9", Architecture: "x86_64"}, full, ""},
		{"SNO", Query{Version: "4.12", Architecture: "s390x"}, none, byArch},
		{"SNO", Query{Version: "4.13.4", Architecture: "s390x"}, dev, ""},
		{"SNO", Query{Version: "4.14", Architecture: "ppc64le"}, full, ""},
		{"SNO", Query{Version: "4.14", Architecture: "x86_64", Platform: "vsphere"}, none, byPlatform},
		{"SINGLE_NODE_EXPANSION", Query{Version: "4.10", Architecture: "x86_64"}, none, byVersion},
		{"TNA", Query{Version: "4.18", Architecture: "x86_64"}, none, byVersion},
		{"TNA", Query{Version: "4.19.0-rc.1", Architecture: "x86_64"}, tech, ""},
		{"TNA", Query{Version: "4.20", Architecture: "x86_64", Platform: "none"}, none, byPlatform},
		{"TNA", Query{Version: "4.22", Architecture: "x86_64", Platform: "none"}, full, ""},
		{"TNF", Query{Version: "4.21", Architecture: "x86_64"}, tech, ""},
		{"TNF", Query{Version: "4.22", Architecture: "x86_64"}, full, ""},
		{"NON_STANDARD_HA_CONTROL_PLANE", Query{Version: "4.17", Architecture: "x86_64"}, none, byVersion},
		{"NON_STANDARD_HA_CONTROL_PLANE", Query{Version: "4.18", Architecture: "arm64"}, none, byArch},
		{"NON_STANDARD_HA_CONTROL_PLANE", Query{Version: "4.18", Architecture: "x86_64", Platform: "external"},
			full, ""},
		{"MINIMAL_ISO", Query{Version: "4.18", Architecture: "s390x"}, none, byArch},
		{"FULL_ISO", Query{Version: "4.18", Architecture: "x86_64", Platform: "external", External: "oci"}, none,
			models.IncompatibilityReasonOciExternalIntegrationDisabled},
		{"VIP_AUTO_ALLOC", Query{Version: "4.14", Architecture: "x86_64"}, dev, ""},
		{"VIP_AUTO_ALLOC", Query{Version: "4.15", Architecture: "x86_64"}, none, byVersion},
		{"CLUSTER_MANAGED_NETWORKING", Query{Version: "4.10", Architecture: "arm64"}, none, byArch},
		{"CLUSTER_MANAGED_NETWORKING", Query{Version: "4.11", Architecture: "aarch64"}, full, ""},
		{"USER_MANAGED_NETWORKING", Query{Version: "4.19", Architecture: "x86_64", Platform: "nutanix"}, none,
			byPlatform},
		{"PLATFORM_MANAGED_NETWORKING", Query{Version: "4.19", Architecture: "x86_64"}, "left out", ""},
		{"PLATFORM_MANAGED_NETWORKING", Query{Version: "4.19", Architecture: "x86_64", Platform: "none"}, full, ""},
		{"PLATFORM_MANAGED_NETWORKING", Query{Version: "4.19", Architecture: "x86_64", Platform: "baremetal"},
			unsupported, byPlatform},
		{"BAREMETAL_PLATFORM", Query{Version: "4.19", Architecture: "x86_64", Platform: "baremetal"}, "left out", ""},
		{"NUTANIX_INTEGRATION", Query{Version: "4.11", Architecture: "x86_64"}, dev, ""},
		{"SDN_NETWORK_TYPE", Query{Version: "4.15", Architecture: "x86_64"}, none, byVersion},
		{"DUAL_STACK_PRIMARY_IPV6", Query{Version: "4.12", Architecture: "x86_64"}, tech, ""},
		{"USER_MANAGED_LOAD_BALANCER", Query{Version: "4.15", Architecture: "x86_64"}, none, byVersion},
		{"LVM", Query{Version: "4.11", Architecture: "x86_64"}, dev, ""},
		{"CNV", Query{Version: "4.13", Architecture: "arm64"}, none, byArch},
		{"CNV", Query{Version: "4.14", Architecture: "arm64"}, dev, ""},
		{"ODF", Query{Version: "4.14", Architecture: "x86_64", Platform: "external", External: "oci"},
			none, byPlatform},
		{"LOKI", Query{Version: "4.16", Architecture: "x86_64"}, none, byVersion},
		{"SELF_NODE_REMEDIATION", Query{Version: "4.16", Architecture: "x86_64"}, tech, ""},
		// The version does not support the architecture, so no feature is supported.
		{"SNO", Query{Version: "4.9", Architecture: "arm64"}, none, ""},
	} {
		got, reason := level(c.query, c.id)
		require.Equal(t, c.level, got, "%s %+v", c.id, c.query)
		require.Equal(t, c.reason, reason, "%s %+v", c.id, c.query)
	}
}

func TestFeatures_incompatibilityIsMutual(t *testing.T) {
	table := map[models.FeatureSupportLevelID][]models.FeatureSupportLevelID{}
	for _, f := range features() {
		table[f.id] = slices.Concat(append(slices.Collect(maps.Values(f.againstBefore)), f.against)...)
	}
	// The Assisted Installer's tables have these exclusions in one direction only.
	oneSided := map[models.FeatureSupportLevelID][]models.FeatureSupportLevelID{
		models.FeatureSupportLevelIDLVM: {vipAllocation, clusterManaged},
	}
	for id, against := range table {
		for _, other := range against {
			require.Contains(t, table, other, "%s excludes a feature that is not in the table", id)
			if !slices.Contains(oneSided[id], other) {
				require.Contains(t, table[other], id, "%s is against %s", id, other)
			}
		}
	}
}

func TestArchitectures(t *testing.T) {
	require.Equal(t, models.SupportLevels{
		"X86_64_ARCHITECTURE": "supported", "ARM64_ARCHITECTURE": "supported", "S390X_ARCHITECTURE": "tech-preview",
		"PPC64LE_ARCHITECTURE":    "tech-preview",
		"MULTIARCH_RELEASE_IMAGE": "tech-preview",
	}, Architectures("4.12.9"))
	require.Equal(t, models.SupportLevels{
		"X86_64_ARCHITECTURE": "supported", "ARM64_ARCHITECTURE": "unavailable", "S390X_ARCHITECTURE": "unavailable",
		"PPC64LE_ARCHITECTURE":    "unavailable",
		"MULTIARCH_RELEASE_IMAGE": "unavailable",
	}, Architectures("4.9"))
}

func TestQueryCheck_invalid(t *testing.T) {
	require.NoError(t, Query{Version: "4.19", Architecture: "aarch64", Platform: "baremetal"}.Check())
	for want, q := range map[string]Query{
		`"four" is invalid`:                        {Version: "four", Architecture: "x86_64"},
		"not available for the architecture s390x": {Version: "4.11", Architecture: "s390x"},
		"not available for the architecture z80":   {Version: "4.11", Architecture: "z80"},
		"the platform nutanix is not available":    {Version: "4.19", Architecture: "arm64", Platform: "nutanix"},
		"the platform external is not available": {Version: "4.13", Architecture: "x86_64", Platform: "external",
			External: "oci"},
		`unknown platform "moon"`:                   {Version: "4.19", Architecture: "x86_64", Platform: "moon"},
		`the OpenShift version "4.19.x" is invalid`: {Version: "4.19.x", Architecture: "x86_64"},
	} {
		require.ErrorContains(t, q.Check(), want)
	}
}

func TestBundles(t *testing.T) {
	ids := func(bundles []Bundle) []string {
		found := []string{}
		for _, b := range bundles {
			found = append(found, b.ID)
		}
		return found
	}
	require.Equal(t, []string{"virtualization", "openshift-ai"}, ids(Bundles(nil, nil)))
	query := &Query{Version: "4.19", Architecture: "x86_64"}
	require.Equal(t, []string{"virtualization", "openshift-ai"}, ids(Bundles(query, nil)))
	require.Equal(t, []string{"openshift-ai"}, ids(Bundles(query, []models.FeatureSupportLevelID{"SNO"})),
		"node health checks need more nodes")
	require.Empty(t, ids(Bundles(&Query{Version: "4.19", Architecture: "arm64"}, nil)))
	single, ok := BundleByID("openshift-ai", []models.FeatureSupportLevelID{"SNO"})
	require.True(t, ok)
	require.Equal(t, []string{"lvm", "openshift-ai"}, single.Operators)
	_, ok = BundleByID("coffee", nil)
	require.False(t, ok)
	for _, bundle := range bundles(nil) {
		for _, name := range append(bundle.Operators, bundle.Optional...) {
			require.True(t, IsOperator(name), name)
		}
	}
}
