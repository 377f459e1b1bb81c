package api

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
)

// defaultConfig answers what a new cluster has when nothing is said. Nothing is deleted for
// inactivity here, so the field for that stays out.
func (s *Service) defaultConfig(c echo.Context) error {
	v4 := &models.ClusterNetwork{Cidr: description.DefaultClusterNetwork,
		HostPrefix: description.DefaultClusterHostPrefix}
	v6 := &models.ClusterNetwork{Cidr: "fd01::/48", HostPrefix: 64}
	service := &models.ServiceNetwork{Cidr: description.DefaultServiceNetwork}
	return c.JSON(http.StatusOK, &models.ClusterDefaultConfig{
		ClusterNetworkCidr:       description.DefaultClusterNetwork,
		ClusterNetworkHostPrefix: description.DefaultClusterHostPrefix,
		ServiceNetworkCidr:       description.DefaultServiceNetwork,
		ClusterNetworksIPV4:      []*models.ClusterNetwork{v4}, ServiceNetworksIPV4: []*models.ServiceNetwork{service},
		ClusterNetworksDualstack: []*models.ClusterNetwork{v4, v6},
		ServiceNetworksDualstack: []*models.ServiceNetwork{service, {Cidr: "fd02::/112"}},
		NtpSource:                strings.Join(s.Engine.NTPSources(), ","), ForbiddenHostnames: []string{"localhost",
			"localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6", "localhost6.localdomain6"},
	})
}

// versions answers the releases that clusters can be made of, by version.
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

// keepLatest leaves the newest patch of each minor version.
func keepLatest(versions models.OpenshiftVersions) {
	latest := make(map[string]string)
	for version := range versions {
		minor := strings.Join(strings.SplitN(version, ".", 3)[:min(2, strings.Count(version, ".")+1)], ".")
		if version == description.MultiVersion(version) {
			minor = description.MultiVersion(minor) // stays beside the one for x86_64
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

// componentVersions answers the appliance's version and the programs on hosts that the
// configuration names; those that it does not name come with each release.
func (s *Service) componentVersions(c echo.Context) error {
	versions := maps.Clone(s.Versions)
	for name, image := range map[string]string{
		"discovery-agent": s.Engine.Images().Agent, "assisted-installer": s.Engine.Images().Installer,
		"assisted-installer-controller": s.Engine.Images().Controller,
	} {
		if image != "" {
			versions[name] = image
		}
	}
	return c.JSON(http.StatusOK, &models.ListVersions{ReleaseTag: s.Versions["landfall"], Versions: versions})
}

// managedDomains: there is no DNS provider that the appliance could write to.
func (s *Service) managedDomains(c echo.Context) error {
	return c.JSON(http.StatusOK, models.ListManagedDomains{})
}

// releaseSources: releases come from the configuration alone; no channel is followed.
func (s *Service) releaseSources(c echo.Context) error {
	return c.JSON(http.StatusOK, models.ReleaseSources{})
}
