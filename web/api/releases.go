package api

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/engine/description"
	"landfall/web/operation"
)

// releaseOperations returns the operations on releases and versions.
func (s *Service) releaseOperations() []operation.Operation {
	return []operation.Operation{
		{ID: "v2ListComponentVersions", Method: http.MethodGet, Path: "/v2/component-versions",
			Access: operation.For(access.Viewer).OfAll(), Handler: s.componentVersions,
			Summary: "Show the versions of the service's components",
			Status:  200, Answer: models.ListVersions{}},
		{ID: "V2ListManagedDomains", Method: http.MethodGet, Path: "/v2/domains",
			Access: operation.For(access.Viewer).OfAll(), Handler: s.managedDomains, FromCopy: true,
			Summary: "List the DNS domains that the service manages",
			Status:  200, Answer: models.ListManagedDomains{}, Errors: []int{500}},
		{ID: "v2ListSupportedOpenshiftVersions", Method: http.MethodGet, Path: "/v2/openshift-versions",
			Access: operation.For(access.Viewer).OfAll(), Handler: s.versions, FromCopy: true,
			Summary: "List the available OpenShift releases",
			Parameters: []operation.Parameter{
				{Name: "version"},
				{Name: "only_latest", Type: operation.Flag},
			},
			Status: 200, Answer: models.OpenshiftVersions{}, Errors: []int{400, 500, 503}},
		{ID: "v2ListReleaseSources", Method: http.MethodGet, Path: "/v2/release-sources",
			Access: operation.For(access.Viewer).OfAll(), Handler: s.releaseSources, FromCopy: true,
			Summary: "List the channels of the release sources",
			Status:  200, Answer: models.ReleaseSources{}},
	}
}

// versions returns the configured releases by their versions.
func (s *Service) versions(c echo.Context) error {
	versions := models.OpenshiftVersions{}
	wanted := c.QueryParam("version")
	for _, image := range s.Engine.ReleaseList() {
		if !strings.Contains(image.OpenshiftVersion, wanted) {
			continue
		}
		name, architectures := image.OpenshiftVersion, []string{image.CPUArchitecture}
		if image.CPUArchitecture == models.ClusterCPUArchitectureMulti {
			name, architectures = description.MultiVersion(name), description.Architectures()
		}
		version, ok := versions[name]
		if !ok {
			level := image.SupportLevel
			if level == "" {
				level = models.OpenshiftVersionSupportLevelProduction
			}
			version = models.OpenshiftVersion{DisplayName: &name, SupportLevel: &level}
		}
		version.CPUArchitectures = append(version.CPUArchitectures, architectures...)
		version.Default = version.Default || image.Default
		versions[name] = version
	}
	if flag(c, "only_latest") {
		keepLatest(versions)
	}
	return c.JSON(http.StatusOK, versions)
}

// keepLatest deletes all but the newest patch release of each minor version.
func keepLatest(versions models.OpenshiftVersions) {
	latest := make(map[string]string)
	for version := range versions {
		minor := strings.Join(strings.SplitN(version, ".", 3)[:min(2, strings.Count(version, ".")+1)], ".")
		if version == description.MultiVersion(version) {
			minor = description.MultiVersion(minor) // a multi-architecture release has its own entry
		}
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

// newer reports whether version a is newer than version b.
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

// componentVersions returns the version of the appliance, which is the service, and the images of
// the programs on hosts that the configuration names. An image is "" if it comes from the release
// payload of each cluster.
func (s *Service) componentVersions(c echo.Context) error {
	images := s.Engine.Images()
	return c.JSON(http.StatusOK, &models.ListVersions{ReleaseTag: s.Version, Versions: models.Versions{
		"assisted-installer-service": "landfall " + s.Version, "discovery-agent": images.Agent,
		"assisted-installer": images.Installer, "assisted-installer-controller": images.Controller,
	}})
}

// managedDomains returns an empty list, because the appliance manages no DNS domains.
func (s *Service) managedDomains(c echo.Context) error {
	return c.JSON(http.StatusOK, models.ListManagedDomains{})
}

// releaseSources returns an empty list, because releases come from the configuration only.
func (s *Service) releaseSources(c echo.Context) error {
	return c.JSON(http.StatusOK, models.ReleaseSources{})
}
