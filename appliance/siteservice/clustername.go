package siteservice

import (
	"fmt"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// NameTakenError reports that another cluster has the DNS name of a cluster.
type NameTakenError struct {
	Name    string // of both in DNS
	Cluster string // name of the other cluster
	ID      string // of the other cluster
}

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("The cluster %s (%s) has the DNS name %s already. The DNS service of this appliance could "+
		"answer for neither of the two. Use another name or base domain, delete the other cluster, or switch the DNS "+
		"service off (landfall site dns disable).", e.Cluster, e.ID, e.Name)
}

// FaultKind implements fault.Classified.
func (e *NameTakenError) FaultKind() fault.Kind { return fault.Conflict }

// CheckClusterName returns a hook of the engine. While the DNS service is switched on, by the
// configuration or by an administrator, it refuses the name and base domain of a cluster with a
// *[NameTakenError] if another cluster has them. Without the service, clusters may have one name,
// as with the Assisted Installer: a cluster may be created again before the old one is deleted.
func CheckClusterName(configured bool) func(tx *store.Tx, cluster *models.Cluster) error {
	return func(tx *store.Tx, cluster *models.Cluster) error {
		// A cluster for hosts that join has the name of the cluster that they join.
		if cluster.BaseDNSDomain == "" || conv.Value(cluster.Kind) == models.ClusterKindAddHostsCluster {
			return nil
		}
		serves := configured
		if err := rows.Each(tx, "", func(_ string, row *Switch) error {
			serves = serves || row.Service == DNS
			return nil
		}); err != nil || !serves {
			return err
		}
		name := zoneName(cluster)
		return record.Clusters.Each(tx, "", func(id string, row *record.Cluster) error {
			if id == cluster.ID.String() || !hasZone(&row.API) || zoneName(&row.API) != name {
				return nil
			}
			return &NameTakenError{Name: name, Cluster: row.API.Name, ID: id}
		})
	}
}

// zoneName returns the DNS name of a cluster.
func zoneName(cluster *models.Cluster) string {
	return strings.ToLower(cluster.Name + "." + cluster.BaseDNSDomain)
}
