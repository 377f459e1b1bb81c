package api

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/support"
	"landfall/web/problem"
)

// lacking are the features of OpenShift that this appliance can't install yet, whatever OpenShift's
// support for them is.
func lacking() []models.FeatureSupportLevelID {
	return []models.FeatureSupportLevelID{
		models.FeatureSupportLevelIDVIPAUTOALLOC, models.FeatureSupportLevelIDNUTANIXINTEGRATION,
		models.FeatureSupportLevelIDVSPHEREINTEGRATION,
		models.FeatureSupportLevelIDEXTERNALPLATFORM, models.FeatureSupportLevelIDEXTERNALPLATFORMOCI,
		models.FeatureSupportLevelIDTNA, "TNF",
		models.FeatureSupportLevelIDUSERMANAGEDLOADBALANCER,
	}
}

// supportQuery reads what a support level is asked for.
func supportQuery(c echo.Context) (support.Query, error) {
	q := support.Query{Architecture: "x86_64", External: c.QueryParam("external_platform_name")}
	version, err := required(c, "openshift_version")
	if err != nil {
		return q, err
	}
	if err := support.CheckVersion(version); err != nil {
		return q, problem.BadRequest("%s", err)
	}
	q.Version = version
	architecture, err := oneOf(c, "cpu_architecture", "x86_64", "aarch64", "arm64", "ppc64le", "s390x", "multi")
	if err != nil {
		return q, err
	}
	if architecture != "" {
		q.Architecture = architecture
	}
	platform, err := oneOf(c, "platform_type", "baremetal", "none", "nutanix", "vsphere", "external")
	q.Platform = models.PlatformType(platform)
	return q, err
}

// supportedFeatures answers the level of each feature.
func (s *Service) supportedFeatures(c echo.Context) error {
	q, err := supportQuery(c)
	if err != nil {
		return err
	}
	levels := models.SupportLevels{}
	for _, feature := range support.Features(q, lacking()) {
		levels[string(feature.ID)] = feature.Level
	}
	return c.JSON(http.StatusOK, map[string]models.SupportLevels{"features": levels})
}

// detailedFeatures answers the level of each feature and operator with what stands against it.
func (s *Service) detailedFeatures(c echo.Context) error {
	q, err := supportQuery(c)
	if err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return problem.BadRequest("%s", err)
	}
	features, operators := []*models.Feature{}, []*models.Operator{}
	for _, f := range support.Features(q, lacking()) {
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

// supportedArchitectures answers the level of each architecture; one for which no release is
// configured is not available here.
func (s *Service) supportedArchitectures(c echo.Context) error {
	version, err := required(c, "openshift_version")
	if err != nil {
		return err
	}
	if err := support.CheckVersion(version); err != nil {
		return problem.BadRequest("%s", err)
	}
	levels := support.Architectures(version)
	for id, names := range map[models.ArchitectureSupportLevelID][]string{
		models.ArchitectureSupportLevelIDX8664ARCHITECTURE:     {"x86_64"},
		models.ArchitectureSupportLevelIDARM64ARCHITECTURE:     {"arm64", "aarch64"},
		models.ArchitectureSupportLevelIDS390XARCHITECTURE:     {"s390x"},
		models.ArchitectureSupportLevelIDPPC64LEARCHITECTURE:   {"ppc64le"},
		models.ArchitectureSupportLevelIDMULTIARCHRELEASEIMAGE: {"multi"},
	} {
		if !s.hasRelease(names) {
			levels[string(id)] = models.SupportLevelUnavailable
		}
	}
	return c.JSON(http.StatusOK, map[string]models.SupportLevels{"architectures": levels})
}

// hasRelease tells whether a release is configured for one of the architectures, of its own or for
// several.
func (s *Service) hasRelease(architectures []string) bool {
	for _, image := range s.Engine.ReleaseList() {
		if image.CPUArchitecture == models.ClusterCPUArchitectureMulti || slices.Contains(architectures,
			image.CPUArchitecture) {
			return true
		}
	}
	return false
}

func (s *Service) supportedPlatforms(c echo.Context) error {
	platforms, err := s.Engine.SupportedPlatforms(clusterID(c))
	return answer(c, http.StatusOK, platforms, err)
}

// supportedOperators names the operators that clusters can be installed with here.
func (s *Service) supportedOperators(c echo.Context) error {
	return c.JSON(http.StatusOK, support.Operators())
}

// operatorProperties answers what can be set of an operator: nothing of any.
func (s *Service) operatorProperties(c echo.Context) error {
	name := c.Param("operator_name")
	if !support.IsOperator(name) {
		return problem.NotFound("there is no operator %q", name)
	}
	return c.JSON(http.StatusOK, models.OperatorProperties{})
}

func featureIDs(c echo.Context) []models.FeatureSupportLevelID {
	var ids []models.FeatureSupportLevelID
	for _, id := range list(c, "feature_ids") {
		ids = append(ids, models.FeatureSupportLevelID(id))
	}
	return ids
}

// bundles answers the sets of operators all of which can be installed here.
func (s *Service) bundles(c echo.Context) error {
	var query *support.Query
	if c.QueryParam("openshift_version") != "" {
		q, err := supportQuery(c)
		if err != nil {
			return err
		}
		if err := q.Check(); err != nil {
			return problem.BadRequest("%s", err)
		}
		query = &q
	}
	return c.JSON(http.StatusOK, support.Bundles(query, featureIDs(c), lacking()))
}

func (s *Service) bundle(c echo.Context) error {
	bundle, ok := support.BundleByID(c.Param("id"), featureIDs(c))
	if !ok {
		return problem.NotFound("there is no bundle %q", c.Param("id"))
	}
	return c.JSON(http.StatusOK, bundle)
}
