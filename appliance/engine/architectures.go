package engine

import (
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/support"
	"landfall/appliance/engine/validation"
	"landfall/appliance/sentence"
)

// A release serves one architecture, or several: then its cluster is of the architecture "multi",
// and each infra-env of it is of the one that its hosts have. What a cluster makes use of must be
// there for all of them (internal/featuresupport).

// severalArchitectures is the architecture of a release for several, and of its clusters.
const severalArchitectures = models.ClusterCPUArchitectureMulti

// serves tells whether a cluster or release of an architecture takes hosts of another.
func serves(architecture, host string) bool {
	return architecture == "" || architecture == severalArchitectures || architecture == host
}

// checkImageArchitecture refuses an image that its architecture does not have, and one for hosts
// that its cluster can't have as it is described. The cluster is nil for an infra-env of none.
func checkImageArchitecture(env *models.InfraEnv, cluster *models.Cluster) error {
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
		return &Error{Kind: Invalid, Reason: "The infra-env can't be had as it is described: " + sentence.Ending(err), Err: err}
	}
	return nil
}

// checkUseOn refuses a cluster of several architectures that makes use of what is not there for one
// of them.
func checkUseOn(cluster *models.Cluster, architecture string) error {
	if cluster.CPUArchitecture != severalArchitectures || cluster.OpenshiftVersion == "" ||
		validation.AddingHosts(cluster) {
		return nil
	}
	query := featureQuery(cluster)
	query.Architecture = architecture
	if err := query.CheckUse(usedFeatures(cluster)); err != nil {
		return &Error{Kind: Invalid, Reason: "Cluster " + cluster.Name + " can't have hosts of " + architecture +
			": " + sentence.Ending(err), Err: err}
	}
	return nil
}

// checkArchitectures refuses a change of a cluster by which it would use what an architecture of
// its infra-envs does not have.
func (c *change) checkArchitectures(row *clusterRecord) error {
	if row.API.CPUArchitecture != severalArchitectures {
		return nil
	}
	prefix := row.API.ID.String() + "/"
	return clusterEnvs.Keys(c.tx, prefix, func(key string) error {
		env, err := c.infraEnv(key[len(prefix):])
		if KindOf(err) == NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		return checkUseOn(&row.API, env.API.CPUArchitecture)
	})
}

// severalSuffix marks a version whose release for several architectures is meant, where there is
// another beside it.
const severalSuffix = "-" + severalArchitectures

// NameOfSeveral is what the release of a version for several architectures is called.
func NameOfSeveral(version string) string {
	return strings.TrimSuffix(version, severalSuffix) + severalSuffix
}

// Architectures are those that hosts can have.
func Architectures() []string {
	return []string{models.ClusterCPUArchitectureX8664, models.ClusterCPUArchitectureArm64,
		models.ClusterCPUArchitecturePpc64le, models.ClusterCPUArchitectureS390x}
}

// releaseFor finds the release of a version for hosts of an architecture: the architecture's own,
// else one for several.
func (e *Engine) releaseFor(version, architecture string) *ReleaseImage {
	kinds := []string{architecture}
	if plain, several := strings.CutSuffix(version, severalSuffix); several {
		version, kinds = plain, []string{severalArchitectures}
	} else if support.KnownArchitecture(architecture) {
		kinds = append(kinds, severalArchitectures)
	}
	for _, kind := range kinds {
		var found *ReleaseImage
		for i := range e.ReleaseList {
			image := &e.ReleaseList[i]
			switch {
			case image.CPUArchitecture != kind:
			case strings.TrimSuffix(image.OpenshiftVersion, severalSuffix) == version:
				return image
			case version == "" && image.Default, strings.HasPrefix(image.OpenshiftVersion, version+"."),
				strings.HasPrefix(image.OpenshiftVersion, version+"-"):
				found = image
			}
		}
		if found != nil {
			return found
		}
	}
	return nil
}

// checkOwnImage refuses a change of the kind of image that an infra-env's cluster can't have.
func (c *change) checkOwnImage(row *infraEnvRecord, params *models.InfraEnvUpdateParams) error {
	if params.ImageType == "" || row.API.ClusterID == "" {
		return nil
	}
	cluster, err := c.cluster(row.API.ClusterID.String())
	if err != nil {
		return err
	}
	return checkImageArchitecture(&row.API, &cluster.API)
}
