package engine

import (
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
)

// TestRoles_reserveControlPlaneForOperators uses three strong hosts and three hosts that only meet
// the requirements of a control plane without operators.
func TestRoles_reserveControlPlaneForOperators(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	for number := 4; number <= 6; number++ {
		h := b.newHost(hosts[0].env, number)
		h.loadBalancer, h.memory = false, 16<<30
		require.NoError(t, h.register())
		hosts = append(hosts, h)
	}
	for i, h := range hosts {
		h.alter = func(inv *models.Inventory) {
			inv.CPU.Flags = []string{"vmx"}
			if i >= 3 {
				inv.CPU.Count = 5
			}
		}
	}
	b.reportAll(hosts)
	roles := func() (suggested []models.HostRole) {
		for _, h := range hosts {
			suggested = append(suggested, h.require(lifecycle.HostKnown).SuggestedRole)
		}
		b.requireCluster(cluster, lifecycle.ClusterReady)
		return suggested
	}
	master, worker := models.HostRoleMaster, models.HostRoleWorker
	require.Equal(t, []models.HostRole{worker, worker, worker, master, master, master}, roles(),
		"the strong hosts are left for workloads")
	choose := func(names ...string) {
		params := &models.V2ClusterUpdateParams{OlmOperators: []*models.OperatorCreateParams{}}
		for _, name := range names {
			params.OlmOperators = append(params.OlmOperators, &models.OperatorCreateParams{Name: name})
		}
		_, err := b.UpdateCluster(t.Context(), cluster, params)
		require.NoError(t, err)
		b.reportAll(hosts)
	}
	choose("cnv")
	require.Equal(t, []models.HostRole{master, master, master, worker, worker, worker}, roles(),
		"virtualization needs a larger control plane than the weak hosts")
	choose()
	require.Equal(t, []models.HostRole{worker, worker, worker, master, master, master}, roles())
}
