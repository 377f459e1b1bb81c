package appliance_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate"
)

// An appliance installs a cluster and offers hosts to it as a management cluster. A hosted cluster
// gets a simulated host as its worker, and releases it. The management cluster's API and its
// provider of node pools are stand-ins.
func TestHosted_hostsOfApplianceBecomeWorkers(t *testing.T) {
	for name, kubernetes := range map[string]bool{"with Kubernetes API": true, "without Kubernetes API": false} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.config.Hosted.Enabled, s.config.Kubernetes.Enabled = true, kubernetes
			hostBecomesWorker(s.connect(t).appliance(t, s))
		})
	}
}

func hostBecomesWorker(d *testAppliance) {
	t, hosted := d.T, strings.TrimSuffix(d.url, apiPath)+"/api/landfall/v1/hosted"
	hub := d.cluster()
	own := d.infraEnv(&hub)
	d.group(own, 1)
	d.until(hub, models.ClusterStatusReady)
	_, err := d.Installer.V2InstallCluster(t.Context(), &installer.V2InstallClusterParams{ClusterID: hub})
	require.NoError(t, err)
	d.until(hub, models.ClusterStatusInstalled)

	pools := simulate.NewAgentProvider(d.site.spokes.Cluster("api.site.site.test"), "hall-2")
	rack := d.infraEnv(nil)
	require.Equal(t, http.StatusCreated, call(t, http.MethodPost, hosted+"/management-clusters?force=true", object{
		"consumer": "mc1", "cluster_id": hub, "base_domain": "hosted.example.com", "address": "192.0.2.10",
		"agent_namespace": "hall-2", "workers": []object{{"infra_env_id": rack, "profile": "large"}}}).status)
	var created struct{ CID string }
	call(t, http.MethodPost, hosted+"/clusters", object{"name": "edge1", "node_pools": []object{{"name": "workers",
		"profile": "large", "replicas": 1}}}).read(t, http.StatusCreated, &created)
	pool := d.nodePool(hosted)
	d.group(rack, 1)
	if d.site.config.Kubernetes.Enabled {
		waiting := d.untilHost(rack, models.HostStatusKnownUnbound)
		require.Less(t, call(t, http.MethodPost, strings.TrimSuffix(d.url, apiPath)+"/api/landfall/v1/infra-envs/"+
			rack.String()+"/hosts/"+waiting.ID.String()+"/actions/approve", nil).status, 300)
	}
	nodes := func() int {
		found, err := pools.Reconcile("ocm-landfall-"+created.CID+"-edge1", pool)
		require.NoError(t, err)
		return found
	}
	eventually(t, "the host is a node", func() bool { return nodes() == 1 })
	host := d.untilHost(rack, models.HostStatusAddedToExistingCluster)
	cluster := d.get(*host.ClusterID)
	require.Equal(t, "edge1.hosted.example.com", cluster.Name+"."+cluster.BaseDNSDomain)

	pool["spec"].(map[string]any)["replicas"] = 0.0
	require.Zero(t, nodes())
	d.untilHost(rack, models.HostStatusUnbindingPendingUserAction)
}

// nodePool returns the NodePool in the bundles for the management cluster.
func (d *testAppliance) nodePool(hosted string) (pool object) {
	d.Helper()
	var list struct{ Bundles []struct{ ID string } }
	call(d.T, http.MethodGet, hosted+"/bundles", nil).read(d, http.StatusOK, &list)
	for _, b := range list.Bundles {
		var one struct{ Manifests []object }
		call(d.T, http.MethodGet, hosted+"/bundles/"+b.ID, nil).read(d, http.StatusOK, &one)
		for _, manifest := range one.Manifests {
			if manifest["kind"] == "NodePool" {
				pool = manifest
			}
		}
	}
	require.NotNil(d, pool)
	return pool
}
