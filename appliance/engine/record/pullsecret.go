package record

import (
	"errors"
	"fmt"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/sitekey"
	"landfall/store"
)

// WithPullSecret returns a request for an infra-env with the pull secret of its cluster, if the
// request has none of its own.
func WithPullSecret(db *store.DB, secrets *sitekey.Box,
	params *models.InfraEnvCreateParams) (*models.InfraEnvCreateParams, error) {
	cluster := conv.Value(params.ClusterID).String()
	if conv.Value(params.PullSecret) != "" || cluster == "" {
		return params, nil
	}
	filled := *params
	if err := db.View(func(tx *store.Tx) error {
		row, err := Clusters.Get(tx, cluster)
		if errors.Is(err, store.ErrNotFound) {
			return nil // the creation of the infra-env reports it
		}
		if err != nil {
			return err
		}
		secret, err := OpenSecret(secrets, row.PullSecret)
		filled.PullSecret = &secret
		return err
	}); err != nil {
		return nil, fmt.Errorf("read the pull secret of the cluster: %w", err)
	}
	return &filled, nil
}
