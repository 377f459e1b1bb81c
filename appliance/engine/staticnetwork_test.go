package engine

import (
	"fmt"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
)

// oneAddress describes one host.
func oneAddress(mac, address string) []*models.HostStaticNetworkConfig {
	return []*models.HostStaticNetworkConfig{{
		NetworkYaml: fmt.Sprintf("interfaces:\n- name: eth0\n  ipv4: {enabled: true, address: [{ip: %s, "+
			"prefix-length: 24}]}\n", address),
		MacInterfaceMap: models.MacInterfaceMap{{MacAddress: mac, LogicalNicName: "eth0"}},
	}}
}

func TestStaticNetwork_addressesAreUnique(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.threeNodes(true)
	shown, err := b.Cluster(cluster)
	require.NoError(t, err)
	vip := string(shown.APIVips[0].IP)
	env := shown.ID
	infraEnv := func(name string, hosts []*models.HostStaticNetworkConfig) (*models.InfraEnv, error) {
		id := *env
		return b.RegisterInfraEnv(t.Context(), &models.InfraEnvCreateParams{
			Name: &name, PullSecret: conv.Pointer(testPullSecret), OpenshiftVersion: shown.OpenshiftVersion,
			ClusterID: &id, StaticNetworkConfig: hosts,
		})
	}

	_, err = infraEnv("quay", oneAddress("52:54:00:00:00:01", vip))
	b.requireRejected(err, fault.Invalid,
		fmt.Sprintf("Static network: host 0: interfaces[0].ipv4.address[0].ip (line 3) is %s, which is the API VIP "+
			"of cluster %s.", vip, shown.Name))

	quay, err := infraEnv("quay", oneAddress("52:54:00:00:00:01", "192.0.2.201"))
	require.NoError(t, err)
	_, err = infraEnv("pier", oneAddress("52:54:00:00:00:02", "192.0.2.201"))
	b.requireRejected(err, fault.Invalid,
		"host 0: interfaces[0].ipv4.address[0].ip (line 3) is 192.0.2.201, which is given to host 0 of infra-env quay.")
	before := b.options.DB.Revision()
	_, err = b.UpdateInfraEnv(t.Context(), quay.ID.String(),
		&models.InfraEnvUpdateParams{StaticNetworkConfig: oneAddress("52:54:00:00:00:01", vip)})
	b.requireRejected(err, fault.Invalid, "the API VIP of cluster")

	// A VIP must not be an address of a host either.
	_, err = b.UpdateCluster(t.Context(), cluster,
		&models.V2ClusterUpdateParams{APIVips: []*models.APIVip{{IP: models.IP("192.0.2.201")}}})
	b.requireRejected(err, fault.Invalid,
		fmt.Sprintf("192.0.2.201 can't be the API VIP of cluster %s: the static network of infra-env quay gives it "+
			"to host 0 (interfaces[0].ipv4.address[0].ip of eth0).", shown.Name))
	_, err = b.UpdateCluster(t.Context(), strfmt.UUID("5f6a1f3c-8f0e-4d0a-9a77-0b2f3c1d4e5f").String(),
		&models.V2ClusterUpdateParams{APIVips: []*models.APIVip{{IP: models.IP("192.0.2.201")}}})
	b.requireRejected(err, fault.NotFound, "There is no cluster 5f6a1f3c")
	require.Equal(t, before, b.options.DB.Revision())
	_, err = infraEnv("quay-minimal", oneAddress("52:54:00:00:00:01", "192.0.2.201"))
	require.NoError(t, err, "the same machine with another image")
}

func TestPreviewStaticNetwork_storesNothing(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.threeNodes(true)
	shown, err := b.Cluster(cluster)
	require.NoError(t, err)
	env := b.infraEnvOf(shown.ID)
	before := b.options.DB.Revision()
	preview, err := b.PreviewStaticNetwork(env, append(oneAddress("52:54:00:00:00:01", "192.0.2.201"),
		oneAddress("52:54:00:00:00:02", string(shown.APIVips[0].IP))...))
	require.NoError(t, err)
	require.Equal(t, "keyfiles", preview.Form)
	require.Contains(t, string(preview.Hosts[0].Files[0].Data), "address1=192.0.2.201/24\n")
	require.ErrorContains(t, preview.Hosts[1].Fault, "the API VIP of cluster")
	require.Equal(t, before, b.options.DB.Revision())
	_, err = b.PreviewStaticNetwork("5f6a1f3c-8f0e-4d0a-9a77-0b2f3c1d4e5f", nil)
	b.requireRejected(err, fault.NotFound, "There is no infra-env")
}
