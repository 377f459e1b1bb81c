package overview

import (
	"fmt"
	"time"

	"github.com/go-openapi/swag/conv"

	"landfall/appliance/engine/record"
	"landfall/store"
)

// Cluster is a row of the table of clusters: a cluster in a few facts.
type Cluster struct {
	ID            string    `json:"id"`
	Name          string    `json:"name"`
	Domain        string    `json:"base_dns_domain,omitempty"`
	Version       string    `json:"openshift_version"`
	Architecture  string    `json:"cpu_architecture,omitempty"`
	Status        string    `json:"status"`
	Info          string    `json:"status_info"`
	Percent       int64     `json:"percent"`
	ControlPlanes int64     `json:"control_plane_count"`
	Hosts         int       `json:"hosts"`
	Created       time.Time `json:"created_at"`
	// Changed is the time at which the cluster entered its state.
	Changed time.Time `json:"status_updated_at"`
}

// Clusters returns the rows of the clusters that wanted selects by their IDs, ordered by ID.
func (r *Reader) Clusters(wanted func(id string) bool) ([]Cluster, error) {
	rows := []Cluster{}
	err := r.db.View(func(tx *store.Tx) error {
		return record.Clusters.Each(tx, "", func(id string, row *record.Cluster) error {
			if !wanted(id) {
				return nil
			}
			hosts, err := record.ClusterHostKeys(tx, id)
			if err != nil {
				return err
			}
			api := &row.API
			shown := Cluster{ID: id, Name: api.Name, Domain: api.BaseDNSDomain, Version: api.OpenshiftVersion,
				Architecture: api.CPUArchitecture, Status: conv.Value(api.Status), Info: conv.Value(api.StatusInfo),
				ControlPlanes: api.ControlPlaneCount, Hosts: len(hosts), Created: time.Time(api.CreatedAt),
				Changed: time.Time(api.StatusUpdatedAt)}
			if api.Progress != nil {
				shown.Percent = api.Progress.TotalPercentage
			}
			rows = append(rows, shown)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the clusters: %w", err)
	}
	return rows, nil
}
