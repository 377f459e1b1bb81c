package view

import (
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/record"
	"landfall/store"
)

// InfraEnv returns an infra-env in the form of the API.
func (r *Reader) InfraEnv(id string) (*models.InfraEnv, error) {
	row, err := record.ReadInfraEnv(r.db, id)
	if err != nil {
		return nil, err
	}
	return &row.API, nil
}

// InfraEnvs returns the infra-envs of a cluster, or all if the id is "".
func (r *Reader) InfraEnvs(clusterID string) ([]*models.InfraEnv, error) {
	return InfraEnvs(r.db, clusterID)
}

// InfraEnvs returns the infra-envs of a cluster in a store, or all if the id is "".
func InfraEnvs(db *store.DB, clusterID string) ([]*models.InfraEnv, error) {
	envs := []*models.InfraEnv{}
	err := db.View(func(tx *store.Tx) error {
		return record.InfraEnvs.Each(tx, "", func(_ string, row *record.InfraEnv) error {
			if clusterID == "" || row.API.ClusterID.String() == clusterID {
				envs = append(envs, &row.API)
			}
			return nil
		})
	})
	return envs, err
}

// CodeOfImage returns the code of an infra-env's short image URL and its expiry. The code is "" if
// it was revoked. An expiry of zero means that the code does not expire.
func (r *Reader) CodeOfImage(infraEnvID string) (code string, expires time.Time, err error) {
	row, err := record.ReadInfraEnv(r.db, infraEnvID)
	if err != nil {
		return "", time.Time{}, err
	}
	return row.Code.Code, row.Code.Expires, nil
}

// RecipeDigest returns the digest of an infra-env's recipe, or "" if the recipe is not frozen. It
// is cheap enough for a call at each request.
func (r *Reader) RecipeDigest(infraEnvID string) (string, error) {
	row, err := record.ReadInfraEnv(r.db, infraEnvID)
	if err != nil {
		return "", err
	}
	return row.Recipe.Digest, nil
}
