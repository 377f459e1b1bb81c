package engine

import (
	"context"
	"errors"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// ClusterOf returns the id of the cluster that a stored object belongs to. The kind is "hosts",
// "infra-envs" or "events". The id is "" if the object has no cluster or does not exist.
func (e *Engine) ClusterOf(_ context.Context, kind, key string) (string, error) {
	var id string
	err := e.options.DB.View(func(tx *store.Tx) error {
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
