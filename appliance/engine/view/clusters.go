package view

import (
	"context"
	"errors"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// ReadyToInstall reports whether a user can start the installation of a cluster now. It returns
// false for a deleted cluster.
func (r *Reader) ReadyToInstall(id string) (ready bool, err error) {
	err = r.db.View(func(tx *store.Tx) error {
		row, err := record.ClusterSummaries.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		ready = err == nil && row.API.Status == lifecycle.ClusterReady
		return err
	})
	return ready, err
}

// OwningCluster returns the id of the cluster that a stored object belongs to. The kind is "hosts",
// "infra-envs" or "events". The id is "" if the object has no cluster or does not exist.
func (r *Reader) OwningCluster(_ context.Context, kind, key string) (string, error) {
	var id string
	err := r.db.View(func(tx *store.Tx) error {
		switch kind {
		case "hosts":
			h, err := record.Hosts.Get(tx, key)
			if err == nil && h.API.ClusterID != nil {
				id = h.API.ClusterID.String()
			}
			return err
		case "infra-envs":
			row, err := record.InfraEnvs.Get(tx, key)
			if err == nil {
				id = row.API.ClusterID.String()
			}
			return err
		case "events":
			row, err := event.Rows.Get(tx, key)
			if err == nil && row.ClusterID != nil {
				id = row.ClusterID.String()
			}
			return err
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return id, err
}

// SupportedPlatforms lists the platforms on which a cluster's hosts can be installed. Without
// hosts, or for a single node, the only platform is none.
func (r *Reader) SupportedPlatforms(id string) ([]models.PlatformType, error) {
	row, err := record.ReadCluster(r.db, id)
	if err != nil {
		return nil, err
	}
	hosts := 0
	if err := r.db.View(func(tx *store.Tx) error {
		keys, err := record.ClusterHostKeys(tx, id)
		hosts = len(keys)
		return err
	}); err != nil {
		return nil, err
	}
	if hosts == 0 || row.API.ControlPlaneCount == 1 {
		return []models.PlatformType{models.PlatformTypeNone}, nil
	}
	return []models.PlatformType{models.PlatformTypeBaremetal, models.PlatformTypeNone}, nil
}
