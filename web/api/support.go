package api

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/architecture"
	"landfall/appliance/engine/support"
	"landfall/web/operation"
	"landfall/web/problem"
)

// supportOperations returns the operations on support levels.
func (s *Service) supportOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "GetClusterSupportedPlatforms", Method: http.MethodGet, Path: clusterPath + "/supported-platforms",
			Access: operation.For(access.Viewer), Handler: s.supportedPlatforms, FromCopy: true,
			Summary: "List the platforms that a cluster's hosts support",
			Status:  200, Answer: []models.PlatformType{}, Errors: []int{401, 403, 404, 500}},
		{ID: "GetSupportedArchitectures", Method: http.MethodGet, Path: "/v2/support-levels/architectures",
			Access: operation.For(access.Viewer).OfAll(), Handler: s.supportedArchitectures, FromCopy: true,
			Summary: "Show the support level of each architecture",
			Parameters: []operation.Parameter{
				{Name: "openshift_version", Required: true},
			},
			Status: 200, Answer: architectureLevels{}, Errors: []int{400, 401, 403, 404, 503}},
		{ID: "GetSupportedFeatures", Method: http.MethodGet, Path: "/v2/support-levels/features",
			Access: operation.For(access.Viewer).OfAll(), Handler: s.supportedFeatures, FromCopy: true,
			Summary: "Show the support level of each feature",
			Parameters: []operation.Parameter{
				{Name: "openshift_version", Required: true},
				{Name: "cpu_architecture", Values: []string{"x86_64", "aarch64", "arm64", "ppc64le", "s390x", "multi"}},
				{Name: "platform_type", Values: []string{"baremetal", "none", "nutanix", "vsphere", "external"}},
				{Name: "external_platform_name"},
			},
			Status: 200, Answer: featureLevels{}, Errors: []int{400, 401, 403, 404, 503}},
		{ID: "GetDetailedSupportedFeatures", Method: http.MethodGet, Path: "/v2/support-levels/features/detailed",
			Access: operation.For(access.Viewer).OfAll(), Handler: s.detailedFeatures, FromCopy: true,
			Summary: "Show the features and operators with their incompatibilities",
			Parameters: []operation.Parameter{
				{Name: "openshift_version", Required: true},
				{Name: "cpu_architecture", Values: []string{"x86_64", "arm64", "ppc64le", "s390x", "multi"}},
				{Name: "platform_type", Values: []string{"baremetal", "none", "nutanix", "vsphere", "external"}},
				{Name: "external_platform_name"},
			},
			Status: 200, Answer: detailedLevels{}, Errors: []int{400, 401, 403, 500}},
	}
}

// Response types that the models of the API lack.
type (
	featureLevels struct {
		Features models.SupportLevels `json:"features"`
	}
	architectureLevels struct {
		Architectures models.SupportLevels `json:"architectures"`
	}
	detailedLevels struct {
		Features  []models.Feature  `json:"features"`
		Operators []models.Operator `json:"operators"`
	}
)

// supportQuery reads the query for support levels.
func supportQuery(c echo.Context) (support.Query, error) {
	q := support.Query{Architecture: architecture.X86.API(), External: c.QueryParam("external_platform_name")}
	version, err := required(c, "openshift_version")
	if err != nil {
		return q, err
	}
	if err := support.CheckVersion(version); err != nil {
		return q, problem.BadRequest("%s", err)
	}
	q.Version = version
	arch, err := oneOf(c, "cpu_architecture", "x86_64", "aarch64", "arm64", "ppc64le", "s390x", "multi")
	if err != nil {
		return q, err
	}
	if arch != "" {
		q.Architecture = arch
	}
	platform, err := oneOf(c, "platform_type", "baremetal", "none", "nutanix", "vsphere", "external")
	q.Platform = models.PlatformType(platform)
	return q, err
}

// supportedFeatures returns the support level of each feature.
func (s *Service) supportedFeatures(c echo.Context) error {
	q, err := supportQuery(c)
	if err != nil {
		return err
	}
	levels := models.SupportLevels{}
	for _, feature := range support.Features(q) {
		levels[string(feature.ID)] = feature.Level
	}
	return c.JSON(http.StatusOK, map[string]models.SupportLevels{"features": levels})
}

// detailedFeatures returns the support level of each feature and operator with its
// incompatibilities.
func (s *Service) detailedFeatures(c echo.Context) error {
	q, err := supportQuery(c)
	if err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return problem.BadRequest("%s", err)
	}
	features, operators := []*models.Feature{}, []*models.Operator{}
	for _, f := range support.Features(q) {
		if f.Operator == "" {
			features = append(features, &models.Feature{FeatureSupportLevelID: f.ID, SupportLevel: f.Level,
				Reason: f.Reason, Incompatibilities: f.Incompatibilities})
			continue
		}
		operators = append(operators, &models.Operator{
			FeatureSupportLevelID: f.ID, SupportLevel: f.Level, Reason: f.Reason,
			Incompatibilities: f.Incompatibilities,
			Name:              &f.Operator, Dependencies: f.Dependencies,
		})
	}
	return c.JSON(http.StatusOK, map[string]any{"features": features, "operators": operators})
}

// supportedArchitectures returns the support level of each architecture. An architecture without a
// configured release is unavailable.
func (s *Service) supportedArchitectures(c echo.Context) error {
	version, err := required(c, "openshift_version")
	if err != nil {
		return err
	}
	if err := support.CheckVersion(version); err != nil {
		return problem.BadRequest("%s", err)
	}
	levels := support.Architectures(version)
	for id, a := range map[models.ArchitectureSupportLevelID]architecture.Architecture{
		models.ArchitectureSupportLevelIDX8664ARCHITECTURE:     architecture.X86,
		models.ArchitectureSupportLevelIDARM64ARCHITECTURE:     architecture.ARM,
		models.ArchitectureSupportLevelIDS390XARCHITECTURE:     architecture.Z,
		models.ArchitectureSupportLevelIDPPC64LEARCHITECTURE:   architecture.Power,
		models.ArchitectureSupportLevelIDMULTIARCHRELEASEIMAGE: architecture.Multi,
	} {
		if !s.hasRelease(a) {
			levels[string(id)] = models.SupportLevelUnavailable
		}
	}
	return c.JSON(http.StatusOK, map[string]models.SupportLevels{"architectures": levels})
}

// hasRelease reports whether a single- or multi-architecture release is configured for an
// architecture.
func (s *Service) hasRelease(a architecture.Architecture) bool {
	for _, image := range s.Engine.ReleaseList() {
		if of := architecture.Of(image.CPUArchitecture); of == architecture.Multi || of == a {
			return true
		}
	}
	return false
}

func (s *Service) supportedPlatforms(c echo.Context) error {
	platforms, err := s.Engine.SupportedPlatforms(clusterID(c))
	return answer(c, http.StatusOK, platforms, err)
}
