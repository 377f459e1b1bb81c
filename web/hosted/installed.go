package hosted

import (
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/hosted/record"
	"landfall/web/problem"
)

// Clusters reads the clusters of the appliance.
type Clusters interface {
	Cluster(id string) (*models.Cluster, error)
}

// highlyAvailable is the smallest number of control-plane hosts on which a control plane can run
// three times.
const highlyAvailable = 3

// complete fills in what a request for a management cluster omits, from the cluster that the
// appliance installed.
func complete(m *record.Management, clusters Clusters) error {
	if m.ClusterID == "" {
		return nil
	}
	cluster, err := clusters.Cluster(m.ClusterID)
	if err != nil {
		return err
	}
	if cluster.Status == nil || *cluster.Status != models.ClusterStatusInstalled {
		return problem.Conflict("the cluster %s is not installed; only an installed cluster can run control planes",
			cluster.Name)
	}
	if m.BaseDomain == "" {
		m.BaseDomain = "hosted." + cluster.Name + "." + cluster.BaseDNSDomain
	}
	if m.Address == "" && len(cluster.APIVips) > 0 {
		m.Address = string(cluster.APIVips[0].IP)
	}
	if len(m.PodNetworks) == 0 {
		for _, network := range cluster.ClusterNetworks {
			m.PodNetworks = append(m.PodNetworks, string(network.Cidr))
		}
	}
	if len(m.ServiceNetworks) == 0 {
		for _, network := range cluster.ServiceNetworks {
			m.ServiceNetworks = append(m.ServiceNetworks, string(network.Cidr))
		}
	}
	if len(m.MachineNetworks) == 0 {
		for _, network := range cluster.MachineNetworks {
			m.MachineNetworks = append(m.MachineNetworks, string(network.Cidr))
		}
	}
	m.HighlyAvailable = m.HighlyAvailable || cluster.ControlPlaneCount >= highlyAvailable
	return nil
}
