package engine

import (
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
)

// checkArchitectures rejects a cluster if the architecture of one of its infra-envs does not
// support a feature of the cluster.
func (c *change) checkArchitectures(row *record.Cluster) error {
	if row.API.CPUArchitecture != description.MultiCPU {
		return nil
	}
	prefix := row.API.ID.String() + "/"
	return record.ClusterInfraEnvs.Keys(c.tx, prefix, func(key string) error {
		env, err := c.infraEnv(key[len(prefix):])
		if fault.KindOf(err) == fault.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		return description.CheckHostArchitecture(&row.API, env.API.CPUArchitecture)
	})
}

// checkOwnImage rejects an image type that the cluster of an infra-env does not support.
func (c *change) checkOwnImage(row *record.InfraEnv, params *models.InfraEnvUpdateParams) error {
	if params.ImageType == "" || row.API.ClusterID == "" {
		return nil
	}
	cluster, err := c.cluster(row.API.ClusterID.String())
	if err != nil {
		return err
	}
	return description.CheckImageArchitecture(&row.API, &cluster.API)
}
