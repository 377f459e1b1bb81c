package hosted

import (
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/record"
)

// only is the only cluster of an appliance.
type only struct{ cluster *models.Cluster }

func (o only) Cluster(string) (*models.Cluster, error) { return o.cluster, nil }

func TestComplete_fromInstalledCluster(t *testing.T) {
	status := models.ClusterStatusInstalled
	installed := only{&models.Cluster{Name: "hub", BaseDNSDomain: "example.com", Status: &status, ControlPlaneCount: 3,
		APIVips:         []*models.APIVip{{IP: "192.168.1.5"}},
		ClusterNetworks: []*models.ClusterNetwork{{Cidr: "10.128.0.0/14"}},
		ServiceNetworks: []*models.ServiceNetwork{{Cidr: "172.30.0.0/16"}},
		MachineNetworks: []*models.MachineNetwork{{Cidr: "192.168.1.0/24"}}}}
	m := record.Management{Consumer: "mc1", ClusterID: "1"}
	require.NoError(t, complete(&m, installed))
	require.Equal(t, record.Management{Consumer: "mc1", ClusterID: "1", BaseDomain: "hosted.hub.example.com",
		Address: "192.168.1.5", PodNetworks: []string{"10.128.0.0/14"}, ServiceNetworks: []string{"172.30.0.0/16"},
		MachineNetworks: []string{"192.168.1.0/24"}, HighlyAvailable: true}, m)
	given := record.Management{ClusterID: "1", BaseDomain: "a.b", Address: "x"}
	require.NoError(t, complete(&given, installed))
	require.Equal(t, "a.b", given.BaseDomain)
	require.Equal(t, "x", given.Address)
	status = models.ClusterStatusInstalling
	require.ErrorContains(t, complete(&m, installed), "not installed")
	require.NoError(t, complete(&record.Management{}, nil), "another program installed it")
}
