package engine

import (
	"encoding/json"
	"testing"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
)

func TestVIPs_leasedByDHCP(t *testing.T) {
	b := newHarness(t)
	created, err := b.RegisterCluster(t.Context(), &models.ClusterCreateParams{
		Name: conv.Pointer("bench"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.14.30"),
		OcpReleaseImage: "quay.io/release:4.14.30", PullSecret: conv.Pointer(testPullSecret),
		VipDhcpAllocation: conv.Pointer(true), NetworkType: conv.Pointer(models.ClusterNetworkTypeOpenShiftSDN),
		MachineNetworks: []*models.MachineNetwork{{Cidr: "192.168.10.0/24"}},
	})
	require.NoError(t, err)
	cluster := created.ID.String()
	h := b.host(b.infraEnvOf(created.ID), 1)
	asked := func() *models.DhcpAllocationRequest {
		for _, step := range h.poll().Instructions {
			if step.StepType == models.StepTypeDhcpLeaseAllocate {
				var request models.DhcpAllocationRequest
				require.NoError(t, json.Unmarshal([]byte(step.Args[0]), &request))
				return &request
			}
		}
		return nil
	}
	require.Equal(t, "eno1", *asked().Interface)
	answer := func(api, lease string) error {
		text, err := json.Marshal(map[string]string{"api_vip_address": api, "ingress_vip_address": "192.168.10.5",
			"api_vip_lease": lease, "ingress_vip_lease": ""})
		require.NoError(t, err)
		return h.reply(&models.StepReply{StepType: models.StepTypeDhcpLeaseAllocate, Output: string(text)})
	}
	const lease = "lease {\n  renew 2 soon;\n}"
	require.NoError(t, answer("192.168.10.4", lease))
	got, err := b.Cluster(cluster)
	require.NoError(t, err)
	require.Equal(t, models.IP("192.168.10.4"), got.APIVips[0].IP)
	require.Equal(t, models.IP("192.168.10.5"), got.IngressVips[0].IP)
	require.Equal(t, models.VipVerificationSucceeded, *got.APIVips[0].Verification)
	require.Equal(t, lease, asked().APIVipLease, "the lease is renewed")
	require.Contains(t, b.names(event.Filter{ClusterID: cluster}), event.VIPsUpdated)

	b.requireRejected(answer("10.0.0.4", lease), fault.Invalid, "not in machine network")
	row, err := record.ReadCluster(b.options.DB, cluster)
	require.NoError(t, err)
	require.Equal(t, lease, row.APILease)
}
