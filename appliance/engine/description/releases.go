package description

import (
	"cmp"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/architecture"
	"landfall/appliance/engine/support"
	"landfall/appliance/engine/validation"
)

// A release is for one architecture, or for several ("multi"). A cluster of a multi release has the
// architecture "multi". Its infra-envs have the architectures of their hosts. All these
// architectures must support the cluster's features.

// Release is an OpenShift release that the site offers.
type Release struct {
	OpenshiftVersion string
	CPUArchitecture  string // as the API spells it: x86_64, arm64, ppc64le, s390x, multi
	URL              string // pull spec
	Default          bool
	SupportLevel     string // production, beta, maintenance
}

// multiSuffix marks the version of a multi release if the same version exists for one architecture.
const multiSuffix = "-" + MultiCPU

// MultiVersion returns the name of a version's multi release.
func MultiVersion(version string) string {
	return strings.TrimSuffix(version, multiSuffix) + multiSuffix
}

// Architectures returns the architectures of hosts, as the API spells them.
func Architectures() []string { return []string{x86, arm, power, z} }

// Serves reports whether a cluster or release of the architecture cpu supports hosts of the
// architecture hostCPU.
func Serves(cpu, hostCPU string) bool { return cpu == "" || cpu == MultiCPU || cpu == hostCPU }

// FindRelease returns the release for a version and an architecture. The version is exact, or a
// prefix that selects the newest release. A pull spec in the request has precedence over the list.
// The architecture may have any spelling; none is x86_64.
func (s *Site) FindRelease(version, cpu, pullSpec string) (Release, error) {
	cpu = cmp.Or(architecture.Of(cpu).API(), x86)
	if pullSpec != "" {
		return Release{OpenshiftVersion: version, CPUArchitecture: cpu, URL: pullSpec}, nil
	}
	if found := s.release(version, cpu); found != nil {
		return *found, nil
	}
	var known []string
	for _, release := range s.Releases {
		known = append(known, release.OpenshiftVersion+" ("+release.CPUArchitecture+")")
	}
	if len(known) == 0 {
		return Release{},
			invalid("The site has no OpenShift release; clusters and infra-envs need one, also with a live ISO. " +
				"Add one in the settings, or with landfall settings release add PULLSPEC.")
	}
	if version == "" {
		return Release{}, invalid("openshift_version is missing, and no release for %s is the default; name a "+
			"version, or make a release the default. The site has %s.", cpu,
			strings.Join(known, ", "))
	}
	return Release{}, invalid("There is no release image for OpenShift %q on %s; the site has %s.",
		version, cpu, strings.Join(known, ", "))
}

// release returns the release of a version for an architecture. A release for this architecture
// only has precedence over a multi release.
func (s *Site) release(version, cpu string) *Release {
	kinds := []string{cpu}
	if plain, multi := strings.CutSuffix(version, multiSuffix); multi {
		version, kinds = plain, []string{MultiCPU}
	} else if support.KnownArchitecture(cpu) {
		kinds = append(kinds, MultiCPU)
	}
	for _, kind := range kinds {
		var found *Release
		for i := range s.Releases {
			release := &s.Releases[i]
			switch {
			case release.CPUArchitecture != kind:
			case strings.TrimSuffix(release.OpenshiftVersion, multiSuffix) == version:
				return release
			case version == "" && release.Default, strings.HasPrefix(release.OpenshiftVersion, version+"."),
				strings.HasPrefix(release.OpenshiftVersion, version+"-"):
				found = release
			}
		}
		if found != nil {
			return found
		}
	}
	return nil
}

// CheckImageArchitecture rejects an image type that does not exist for the infra-env's
// architecture. It also rejects hosts that the cluster does not support. The cluster is nil for an
// infra-env without one.
func CheckImageArchitecture(env *models.InfraEnv, cluster *models.Cluster) error {
	if !support.KnownArchitecture(env.CPUArchitecture) {
		return invalid("There is no architecture %q; choose x86_64, arm64, ppc64le or s390x.", env.CPUArchitecture)
	}
	image := models.FeatureSupportLevelIDFULLISO
	if *env.Type == models.ImageTypeMinimalIso {
		image = models.FeatureSupportLevelIDMINIMALISO
	}
	query, used := support.Query{Version: env.OpenshiftVersion}, []models.FeatureSupportLevelID{image}
	if cluster != nil && cluster.OpenshiftVersion != "" && !validation.AddingHosts(cluster) {
		query, used = featureQuery(cluster), append(used, usedFeatures(cluster)...)
	}
	query.Architecture = env.CPUArchitecture
	if err := query.CheckUse(used); err != nil {
		return wrapInvalidf(err, "The infra-env is not supported as described")
	}
	return nil
}

// CheckHostArchitecture rejects hosts of an architecture that does not support the features of a
// multi cluster.
func CheckHostArchitecture(cluster *models.Cluster, cpu string) error {
	if cluster.CPUArchitecture != MultiCPU || cluster.OpenshiftVersion == "" || validation.AddingHosts(cluster) {
		return nil
	}
	query := featureQuery(cluster)
	query.Architecture = cpu
	if err := query.CheckUse(usedFeatures(cluster)); err != nil {
		return wrapInvalidf(err, "Cluster %s does not support hosts of %s", cluster.Name, cpu)
	}
	return nil
}
