package engine

import (
	"context"
	"encoding/json"
	"io"
	"path"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// CopyCluster copies a cluster from another engine, in its state before the installation:
// description, overrides and manifests, without hosts. It also copies the infra-env from which the
// hosts boot. The copy has the same cluster id and a new infra-env id. An installed cluster is
// rejected with kind Conflict.
func (e *Engine) CopyCluster(ctx context.Context, from *Engine, id string) (infraEnvID string, err error) {
	row, env, err := from.forCopy(id)
	if err != nil {
		return "", err
	}
	manifests, err := from.manifestsForCopy(id)
	if err != nil {
		return "", err
	}
	if err := e.update(ctx, func(c *change) error {
		fresh := *row
		fresh.API.StatusUpdatedAt = c.dateTime()
		c.saveCluster(&fresh)
		c.settleCluster(id)
		return nil
	}); err != nil {
		return "", err
	}
	for _, manifest := range manifests {
		if _, err := e.CreateManifest(ctx, id, manifest); err != nil {
			return "", err
		}
	}
	params, err := envParams(row, env)
	if err != nil {
		return "", err
	}
	made, err := e.RegisterInfraEnv(ctx, params)
	if err != nil {
		return "", err
	}
	return made.ID.String(), nil
}

// forCopy returns a cluster in its state before the installation, and the infra-env from which its
// hosts boot: the cluster's own, that of its first host, or nil.
func (e *Engine) forCopy(id string) (*record.Cluster, *record.InfraEnv, error) {
	held, err := record.ReadCluster(e.options.DB, id)
	if err != nil {
		return nil, nil, err
	}
	if status := *held.API.Status; status == lifecycle.ClusterInstalled || status == lifecycle.ClusterAddingHosts ||
		*held.API.Kind != models.ClusterKindCluster {
		return nil, nil, conflict("Cluster %s is %s; its installation can't be rehearsed.", held.API.Name, status)
	}
	text, err := json.Marshal(held)
	if err != nil {
		return nil, nil, err
	}
	row := new(record.Cluster) // rows are shared, so the copy must be deep
	if err := json.Unmarshal(text, row); err != nil {
		return nil, nil, err
	}
	// The other engine seals secrets with another key.
	if row.PullSecret, err = record.OpenSecret(e.options.Secrets, row.PullSecret); err != nil {
		return nil, nil, err
	}
	row.Release, row.Preparation, row.Completion, row.InfraID, row.IngressCA, row.Installs = nil, nil, nil, "", false, 0
	row.APILease, row.IngressLease = "", ""
	api := &row.API
	api.Status, api.StatusInfo = conv.Pointer(lifecycle.ClusterInsufficient), conv.Pointer("The cluster is a copy.")
	api.Hosts, api.HostNetworks, api.ValidationsInfo, api.ConnectivityMajorityGroups = []*models.Host{},
		[]*models.HostNetwork{}, "", ""
	api.Progress, api.OpenshiftClusterID, api.AmsSubscriptionID = &models.ClusterProgressInfo{}, "", ""
	api.InstallStartedAt, api.InstallCompletedAt = strfmt.DateTime{}, strfmt.DateTime{}
	api.LastInstallationPreparation = models.LastInstallationPreparation{
		Status: models.LastInstallationPreparationStatusNotStarted}
	for _, operator := range api.MonitoredOperators {
		operator.Status, operator.StatusInfo, operator.Version = "", "", ""
	}
	var env *record.InfraEnv
	err = e.options.DB.View(func(tx *store.Tx) error {
		var envID string
		if err := record.ClusterInfraEnvs.Keys(tx, id+"/",
			func(key string) error { envID = path.Base(key); return store.ErrStop }); err != nil {
			return err
		}
		if envID == "" {
			keys, err := record.ClusterHostKeys(tx, id)
			if err != nil || len(keys) == 0 {
				return err
			}
			envID, _, _ = strings.Cut(keys[0], "/")
		}
		found, err := record.InfraEnvs.Get(tx, envID)
		if err != nil {
			return err
		}
		own := *found
		env = &own
		env.PullSecret, err = record.OpenSecret(e.options.Secrets, env.PullSecret)
		return err
	})
	return row, env, err
}

func (e *Engine) manifestsForCopy(id string) ([]Manifest, error) {
	listed, err := e.Manifests(id, false)
	if err != nil {
		return nil, err
	}
	var manifests []Manifest
	for _, m := range listed {
		manifest := Manifest{Folder: m.Folder, Name: m.FileName}
		in, _, err := e.OpenManifest(id, manifest)
		if err != nil {
			return nil, err
		}
		if manifest.Content, err = io.ReadAll(in); err != nil {
			return nil, err
		}
		if err := in.Close(); err != nil {
			return nil, err
		}
		manifests = append(manifests, manifest)
	}
	return manifests, nil
}

// envParams returns the request that creates a copy of the infra-env for the cluster. Without an
// infra-env, the copy has the cluster's values.
func envParams(row *record.Cluster, env *record.InfraEnv) (*models.InfraEnvCreateParams, error) {
	if env == nil {
		return &models.InfraEnvCreateParams{
			Name: conv.Pointer(row.API.Name), ClusterID: row.API.ID, PullSecret: &row.PullSecret,
			OpenshiftVersion: row.API.OpenshiftVersion, CPUArchitecture: row.API.CPUArchitecture,
		}, nil
	}
	described := &description.InfraEnv{API: env.API, PullSecret: env.PullSecret}
	params, err := described.CreateParams()
	if err != nil {
		return nil, err
	}
	params.ClusterID = row.API.ID
	return params, nil
}
