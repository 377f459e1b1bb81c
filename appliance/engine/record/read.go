package record

import (
	"errors"

	"landfall/appliance/fault"
	"landfall/store"
)

// ReadCluster returns the committed row of a cluster. A missing cluster is an error of kind
// NotFound.
func ReadCluster(db *store.DB, id string) (*Cluster, error) { return read(db, Clusters, "cluster", id) }

// ReadInfraEnv returns the committed row of an infra-env. A missing infra-env is an error of kind
// NotFound.
func ReadInfraEnv(db *store.DB, id string) (*InfraEnv, error) {
	return read(db, InfraEnvs, "infra-env", id)
}

func read[T any](db *store.DB, rows store.Bucket[T], noun, id string) (*T, error) {
	var row *T
	err := db.View(func(tx *store.Tx) (err error) {
		row, err = rows.Get(tx, id)
		return missing(err, noun, id)
	})
	return row, err
}

// missing returns an error of kind NotFound for a missing row. Other errors are returned unchanged.
func missing(err error, noun, id string) error {
	if errors.Is(err, store.ErrNotFound) {
		return fault.New(fault.NotFound, "There is no %s %s.", noun, id)
	}
	return err
}

// Relations knows the clusters of infra-envs, for the rules of access.
type Relations struct{ DB *store.DB }

// ClusterOf returns the ID of an infra-env's cluster, or "". An infra-env that does not exist has
// no cluster.
func (r Relations) ClusterOf(infraEnvID string) (string, error) {
	row, err := ReadInfraEnv(r.DB, infraEnvID)
	if fault.KindOf(err) == fault.NotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return row.API.ClusterID.String(), nil
}
