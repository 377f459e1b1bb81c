package engine

import (
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/operator"
	"landfall/appliance/mirror"
)

// Access is how the images of a cluster or an infra-env are reached: by which mirror rules, and
// what reads by them.
type Access struct {
	Mirror        Mirror
	Releases      Releases
	CatalogReader CatalogReader
	Catalogs      []operator.Source // of operators, that came with the rules
}

func (e *Engine) access(level mirror.Level) Access {
	if e.AccessAt != nil {
		return e.AccessAt(level)
	}
	access := Access{Mirror: e.Mirror, Releases: e.Releases, CatalogReader: e.CatalogReader}
	if e.Catalogs != nil {
		access.Catalogs = e.Catalogs()
	}
	return access
}

// clusterAccess is that of a cluster's nodes, also of a cluster that there is not yet.
func (e *Engine) clusterAccess(cluster *models.Cluster) Access {
	if cluster.ID == nil {
		return e.access(mirror.Level{})
	}
	return e.access(mirror.Level{Cluster: cluster.ID.String()})
}

// infraEnvAccess is that of an infra-env's hosts until they are installed: the infra-env's own
// rules, and over them those of the cluster that it is for.
func (e *Engine) infraEnvAccess(env *models.InfraEnv) Access {
	level := mirror.Level{Cluster: env.ClusterID.String()}
	if env.ID != nil {
		level.InfraEnv = env.ID.String()
	}
	return e.access(level)
}
