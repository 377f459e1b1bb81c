package supply

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/record"
	"landfall/appliance/mirror"
	"landfall/appliance/registry"
	"landfall/store"
)

// pulls are the states of clusters whose nodes pull images: from the start of the installation on,
// for as long as the cluster exists.
var pulls = []string{models.ClusterStatusPreparingForInstallation, models.ClusterStatusInstalling,
	models.ClusterStatusInstallingPendingUserAction, models.ClusterStatusFinalizing, models.ClusterStatusInstalled,
	models.ClusterStatusAddingHosts}

// Dependents returns the clusters whose nodes pull from the registry at host:port: those that are
// installed or being installed, and whose mirror rules name it, unless they were handed over to
// another registry. Without a host there are none.
func Dependents(db *store.DB, rules func(mirror.Level) *mirror.Rules, host string,
	handedOver func(id string) (bool, error)) ([]registry.Dependent, error) {
	found := []registry.Dependent{}
	if host == "" {
		return found, nil
	}
	err := db.View(func(tx *store.Tx) error {
		return record.Clusters.Each(tx, "", func(id string, row *record.Cluster) error {
			api := &row.API
			if slices.Contains(pulls, conv.Value(api.Status)) && rules(mirror.Level{Cluster: id}).Names(host) {
				found = append(found, registry.Dependent{ID: id, Name: api.Name, Domain: api.BaseDNSDomain,
					Status: conv.Value(api.Status)})
			}
			return nil
		})
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the clusters"), err)
	}
	depending := found[:0]
	for _, d := range found {
		gone, err := handedOver(d.ID)
		if err != nil {
			return nil, err
		}
		if !gone {
			depending = append(depending, d)
		}
	}
	return depending, nil
}
