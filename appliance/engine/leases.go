package engine

import (
	"slices"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
)

// applyLease stores the VIPs that a DHCP server leased to a cluster with VIP DHCP allocation.
// Before the installation, they become the cluster's VIPs. From then on, the VIPs are fixed and
// only their leases are renewed.
func (c *change) applyLease(h *record.Host, lease *models.DhcpAllocationResponse) error {
	if lease == nil || h.API.ClusterID == nil {
		return nil
	}
	row, err := c.cluster(h.API.ClusterID.String())
	if err != nil || !conv.Value(row.API.VipDhcpAllocation) {
		return err
	}
	api, ingress := models.IP(*lease.APIVipAddress), models.IP(*lease.IngressVipAddress)
	if !hasVIPs(&row.API, api, ingress) {
		if !slices.Contains(lifecycle.ClusterOpenStates, *row.API.Status) {
			return nil
		}
		verified := models.VipVerificationSucceeded
		row.API.APIVips = []*models.APIVip{{IP: api, ClusterID: *row.API.ID, Verification: &verified}}
		row.API.IngressVips = []*models.IngressVip{{IP: ingress, ClusterID: *row.API.ID, Verification: &verified}}
		if err := c.clusterEventOf(row, event.Props{"api_vip": api, "ingress_vip": ingress}, event.VIPsUpdated,
			models.EventSeverityInfo, "Cluster %s got its addresses by DHCP: %s for the API, %s for ingress.",
			row.API.Name, api, ingress); err != nil {
			return err
		}
		c.saveCluster(row)
	}
	renewed := replace(&row.APILease, lease.APIVipLease)
	if replace(&row.IngressLease, lease.IngressVipLease) || renewed {
		c.saveCluster(row)
	}
	return nil
}

func hasVIPs(cluster *models.Cluster, api, ingress models.IP) bool {
	return len(cluster.APIVips) == 1 && cluster.APIVips[0].IP == api && len(cluster.IngressVips) == 1 &&
		cluster.IngressVips[0].IP == ingress
}
