package api

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-openapi/swag"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine"
)

// defaultConfig answers what a new cluster has when nothing is said. Nothing is deleted for inactivity here, so the field
// for that stays out.
func (s *Service) defaultConfig(c echo.Context) error {
	v4 := &models.ClusterNetwork{Cidr: engine.DefaultClusterNetwork, HostPrefix: engine.DefaultClusterHostPrefix}
	v6 := &models.ClusterNetwork{Cidr: "fd01::/48", HostPrefix: 64}
	service := &models.ServiceNetwork{Cidr: engine.DefaultServiceNetwork}
	return c.JSON(http.StatusOK, &models.ClusterDefaultConfig{
		ClusterNetworkCidr: engine.DefaultClusterNetwork, ClusterNetworkHostPrefix: engine.DefaultClusterHostPrefix,
		ServiceNetworkCidr:  engine.DefaultServiceNetwork,
		ClusterNetworksIPV4: []*models.ClusterNetwork{v4}, ServiceNetworksIPV4: []*models.ServiceNetwork{service},
		ClusterNetworksDualstack: []*models.ClusterNetwork{v4, v6}, ServiceNetworksDualstack: []*models.ServiceNetwork{service, {Cidr: "fd02::/112"}},
		NtpSource: strings.Join(s.Engine.NTPSources, ","), ForbiddenHostnames: []string{"localhost", "localhost.localdomain"},
	})
}

// versions answers the releases that clusters can be made of, by version.
func (s *Service) versions(c echo.Context) error {
	versions := models.OpenshiftVersions{}
	wanted := c.QueryParam("version")
	for _, image := range s.Engine.ReleaseList {
		if wanted != "" && !strings.HasPrefix(image.OpenshiftVersion, wanted) {
			continue
		}
		version, ok := versions[image.OpenshiftVersion]
		if !ok {
			level := image.SupportLevel
			if level == "" {
				level = models.OpenshiftVersionSupportLevelProduction
			}
			version = models.OpenshiftVersion{DisplayName: swag.String(image.OpenshiftVersion), SupportLevel: &level}
		}
		version.CPUArchitectures = append(version.CPUArchitectures, image.CPUArchitecture)
		version.Default = version.Default || image.Default
		versions[image.OpenshiftVersion] = version
	}
	if c.QueryParam("only_latest") == "true" {
		keepLatest(versions)
	}
	return c.JSON(http.StatusOK, versions)
}

// keepLatest leaves the newest patch of each minor version.
func keepLatest(versions models.OpenshiftVersions) {
	latest := make(map[string]string)
	for version := range versions {
		minor := strings.Join(strings.SplitN(version, ".", 3)[:min(2, strings.Count(version, ".")+1)], ".")
		if held, ok := latest[minor]; !ok || newer(version, held) {
			latest[minor] = version
		}
	}
	for version := range versions {
		if !slices.Contains(slices.Collect(maps.Values(latest)), version) {
			delete(versions, version)
		}
	}
}

// newer compares two versions by their numbers.
func newer(a, b string) bool {
	left, right := strings.FieldsFunc(a, isSeparator), strings.FieldsFunc(b, isSeparator)
	for i := range min(len(left), len(right)) {
		x, errX := strconv.Atoi(left[i])
		y, errY := strconv.Atoi(right[i])
		switch {
		case errX != nil || errY != nil:
			if left[i] != right[i] {
				return left[i] > right[i]
			}
		case x != y:
			return x > y
		}
	}
	return len(left) < len(right) // 4.20.0 is newer than 4.20.0-rc.1
}

func isSeparator(r rune) bool { return r == '.' || r == '-' }

func (s *Service) componentVersions(c echo.Context) error {
	return c.JSON(http.StatusOK, &models.ListVersions{ReleaseTag: s.Versions["landfall"], Versions: s.Versions})
}

func (s *Service) managedDomains(c echo.Context) error {
	return c.JSON(http.StatusOK, models.ListManagedDomains{})
}

func (s *Service) releaseSources(c echo.Context) error {
	return c.JSON(http.StatusOK, models.ReleaseSources{})
}

func (s *Service) supportedOperators(c echo.Context) error {
	return c.JSON(http.StatusOK, []string{})
}

func (s *Service) bundles(c echo.Context) error { return c.JSON(http.StatusOK, []string{}) }

// supportedFeatures says which features of the API this appliance has. One that is not named counts as supported for the
// API's clients, so those that are not there are named.
func (s *Service) supportedFeatures(c echo.Context) error {
	features := make(map[string]models.SupportLevel)
	for _, feature := range []string{
		"SNO", "USER_MANAGED_NETWORKING", "CLUSTER_MANAGED_NETWORKING", "DUAL_STACK", "DUAL_STACK_VIPS", "CUSTOM_MANIFEST",
		"BAREMETAL_PLATFORM", "NONE_PLATFORM", "FULL_ISO", "OVN_NETWORK_TYPE", "X86_64_ARCHITECTURE", "ARM64_ARCHITECTURE",
	} {
		features[feature] = models.SupportLevelSupported
	}
	for _, feature := range []string{
		"VIP_AUTO_ALLOC", "MINIMAL_ISO", "SDN_NETWORK_TYPE", "NUTANIX_INTEGRATION", "VSPHERE_INTEGRATION", "EXTERNAL_PLATFORM_OCI", "EXTERNAL_PLATFORM",
		"NON_STANDARD_HA_CONTROL_PLANE", "TNA", "TNF", "SINGLE_NODE_EXPANSION", "MULTIARCH_RELEASE_IMAGE",
		"AMD_GPU", "AUTHORINO", "CLUSTER_OBSERVABILITY", "CNV", "FENCE_AGENTS_REMEDIATION", "KMM", "KUBE_DESCHEDULER", "LOKI", "LSO", "LVM",
		"MCE", "METALLB", "MTV", "NMSTATE", "NODE_FEATURE_DISCOVERY", "NODE_HEALTHCHECK", "NODE_MAINTENANCE", "NUMA_RESOURCES", "NVIDIA_GPU",
		"OADP", "ODF", "OPENSHIFT_AI", "OPENSHIFT_LOGGING", "OSC", "PIPELINES", "SERVERLESS", "SERVICEMESH", "SELF_NODE_REMEDIATION",
	} {
		features[feature] = models.SupportLevelUnavailable
	}
	return c.JSON(http.StatusOK, map[string]any{"features": features})
}

func (s *Service) supportedArchitectures(c echo.Context) error {
	architectures := make(map[string]models.SupportLevel)
	for _, image := range s.Engine.ReleaseList {
		name := strings.ToUpper(image.CPUArchitecture)
		if image.CPUArchitecture == "aarch64" {
			name = "ARM64"
		}
		architectures[name+"_ARCHITECTURE"] = models.SupportLevelSupported
	}
	return c.JSON(http.StatusOK, map[string]any{"architectures": architectures})
}
