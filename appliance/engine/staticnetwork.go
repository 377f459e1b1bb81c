package engine

import (
	"errors"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/record"
	"landfall/ignition"
	"landfall/store"
)

// PreviewStaticNetwork returns the network configuration that the hosts of an infra-env would get.
// It stores nothing.
func (e *Engine) PreviewStaticNetwork(infraEnvID string,
	hosts []*models.HostStaticNetworkConfig) (*ignition.NetworkPreview, error) {
	row, err := record.ReadInfraEnv(e.options.DB, infraEnvID)
	if err != nil {
		return nil, err
	}
	taken, err := e.takenAddresses(&row.API)
	if err != nil {
		return nil, err
	}
	return ignition.PreviewNetwork(description.HostNetworks(hosts), row.API.OpenshiftVersion, taken)
}

// checkStaticNetwork rejects network descriptions that give a host a VIP of the cluster, or an
// address that another infra-env of the cluster gives to a host.
func (e *Engine) checkStaticNetwork(env *models.InfraEnv) error {
	if env.StaticNetworkConfig == "" {
		return nil
	}
	taken, err := e.takenAddresses(env)
	if err != nil {
		return err
	}
	return description.CheckStaticNetwork(env, taken)
}

// takenAddresses returns the addresses that the hosts of an infra-env must not use.
func (e *Engine) takenAddresses(env *models.InfraEnv) (ignition.Claims, error) {
	if env.ClusterID == "" {
		return nil, nil
	}
	cluster, others, err := e.clusterWithInfraEnvs(env.ClusterID.String())
	if err != nil {
		return nil, err
	}
	return description.TakenAddresses(env, &cluster.API, others), nil
}

// clusterWithInfraEnvs returns a cluster with its infra-envs, or store.ErrNotFound.
func (e *Engine) clusterWithInfraEnvs(id string) (cluster *record.Cluster, envs []*models.InfraEnv, err error) {
	err = e.options.DB.View(func(tx *store.Tx) error {
		if cluster, err = record.Clusters.Get(tx, id); err != nil {
			return err
		}
		return record.ClusterInfraEnvs.Keys(tx, id+"/", func(key string) error {
			row, err := record.InfraEnvs.Get(tx, strings.TrimPrefix(key, id+"/"))
			if err == nil {
				envs = append(envs, &row.API)
			}
			return err
		})
	})
	return cluster, envs, err
}

// checkVIPs rejects VIPs that a network description assigns to a host.
func (e *Engine) checkVIPs(clusterID string, params *models.V2ClusterUpdateParams) error {
	if len(params.APIVips)+len(params.IngressVips) == 0 {
		return nil
	}
	cluster, envs, err := e.clusterWithInfraEnvs(clusterID)
	if errors.Is(err, store.ErrNotFound) {
		return notFound("There is no cluster %s.", clusterID)
	}
	if err != nil {
		return err
	}
	return description.CheckVIPsAgainstHosts(&cluster.API, params, envs)
}
