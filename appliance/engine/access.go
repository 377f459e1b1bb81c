package engine

import (
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/catalog"
	"landfall/appliance/engine/operator"
	"landfall/appliance/mirror"
)

// ImageAccess provides access to the images of a cluster or an infra-env: the mirror rules that
// apply to it, and the readers that follow these rules.
type ImageAccess struct {
	Mirror        Mirror
	Releases      Releases
	CatalogReader catalog.Reader
	Catalogs      []operator.Source // CatalogSources of the rules
}

func (e *Engine) access(level mirror.Level) ImageAccess {
	if e.options.AccessAt != nil {
		return e.options.AccessAt(level)
	}
	access := ImageAccess{Mirror: e.options.Mirror, Releases: e.options.Releases,
		CatalogReader: e.options.CatalogReader}
	if e.options.Catalogs != nil {
		access.Catalogs = e.options.Catalogs()
	}
	return access
}

// clusterAccess returns the access of a cluster's nodes to images. A cluster without an id is not
// registered yet and has the access of the site.
func (e *Engine) clusterAccess(cluster *models.Cluster) ImageAccess {
	if cluster.ID == nil {
		return e.access(mirror.Level{})
	}
	return e.access(mirror.Level{Cluster: cluster.ID.String()})
}

// infraEnvAccess returns the access of an infra-env's hosts to images before their installation. It
// combines the mirror rules of the infra-env and of its cluster; the cluster's rules take
// precedence.
func (e *Engine) infraEnvAccess(env *models.InfraEnv) ImageAccess {
	level := mirror.Level{Cluster: env.ClusterID.String()}
	if env.ID != nil {
		level.InfraEnv = env.ID.String()
	}
	return e.access(level)
}
