package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access/machine"
	"landfall/appliance/engine/description"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/recipe"
	"landfall/appliance/engine/record"
	"landfall/appliance/sentence"
	"landfall/store"
)

// RegisterInfraEnv creates an infra-env with the recipe of its images and the code of its short
// image URL. If the request names a cluster, the infra-env belongs to it. The same transaction
// records the object that describes the infra-env, if any. Without a pull secret, the infra-env has
// that of its cluster.
func (e *Engine) RegisterInfraEnv(ctx context.Context, params *models.InfraEnvCreateParams,
	describedBy ...record.Object) (*models.InfraEnv, error) {
	params, err := record.WithPullSecret(e.options.DB, e.options.Secrets, params)
	if err != nil {
		return nil, err
	}
	if err := description.CheckNewInfraEnv(params); err != nil {
		return nil, err
	}
	id, code := e.newID(), newImageCode()
	keys, err := e.newAgentKeys(id.String())
	if err != nil {
		return nil, err
	}
	var planned *record.InfraEnv
	if err := e.options.DB.View(func(tx *store.Tx) (err error) {
		planned, err = e.newInfraEnv(tx, id, keys, params, e.options.Clock.Now().UTC())
		return err
	}); err != nil {
		return nil, err
	}
	if err := e.checkStaticNetwork(&planned.API); err != nil {
		return nil, err
	}
	drafted, err := e.draft(ctx, planned)
	if err != nil {
		return nil, err
	}
	if err := e.update(ctx, func(c *change) error {
		row, err := e.newInfraEnv(c.tx, id, keys, params, c.now)
		if err != nil {
			return err
		}
		c.saveInfraEnv(row)
		if row.API.ClusterID != "" {
			if err := record.ClusterInfraEnvs.Add(c.tx, row.API.ClusterID.String()+"/"+id.String()); err != nil {
				return err
			}
			c.settleCluster(row.API.ClusterID.String())
		}
		return errors.Join(
			c.noteInfraEnvObject(row, describedBy),
			c.keepRecipe(row, drafted),
			c.setImageCode(row, code, time.Time{}),
			c.infraEnvEvent(row, event.InfraEnvRegistered, models.EventSeverityInfo,
				"Infra-env %s was created; its discovery image can be downloaded.", *row.API.Name),
		)
	}); err != nil {
		return nil, err
	}
	e.freezeLater(id.String(), drafted)
	return e.InfraEnv(id.String())
}

// newInfraEnv returns the row of a new infra-env.
func (e *Engine) newInfraEnv(tx *store.Tx, id strfmt.UUID, keys machine.Keys, params *models.InfraEnvCreateParams,
	now time.Time) (*record.InfraEnv, error) {
	var owner *models.Cluster
	if clusterID := conv.Value(params.ClusterID).String(); clusterID != "" {
		cluster, err := record.Clusters.Get(tx, clusterID)
		if errors.Is(err, store.ErrNotFound) {
			return nil, notFound("There is no cluster %s.", clusterID)
		}
		if err != nil {
			return nil, err
		}
		owner = &cluster.API
	}
	described, err := description.NewInfraEnv(e.site(), params, id, owner)
	if err != nil {
		return nil, err
	}
	row := &record.InfraEnv{API: described.API, PullSecret: described.PullSecret, AgentKeys: keys}
	row.API.Kind = conv.Pointer("InfraEnv")
	row.API.Href = conv.Pointer(apiRoot + "/infra-envs/" + id.String())
	row.API.UserName, row.API.CreatedAt, row.API.UpdatedAt = "admin", &now, &now
	row.API.DownloadURL = e.imageURL(&row.API)
	return row, nil
}

// imageURL returns the URL of an infra-env's image. It ends in ".iso" and has no query string, as
// some BMCs require.
func (e *Engine) imageURL(env *models.InfraEnv) string {
	file := "full.iso"
	if *env.Type == models.ImageTypeMinimalIso {
		file = "minimal.iso"
	}
	return e.options.URL + "/byid/" + env.ID.String() + "/" + env.OpenshiftVersion + "/" + env.CPUArchitecture +
		"/" + file
}

// UpdateInfraEnv changes an infra-env. Absent and null fields keep their values; an empty list, a
// pointer to an empty text and [description.Cleared] clear an optional field. Later image downloads
// have the new content, and downloads in progress end with the old one. The same transaction
// records the object that describes the infra-env, even without any other change.
func (e *Engine) UpdateInfraEnv(ctx context.Context, id string, params *models.InfraEnvUpdateParams,
	describedBy ...record.Object) (*models.InfraEnv, error) {
	planned, err := record.ReadInfraEnv(e.options.DB, id)
	if err != nil {
		return nil, err
	}
	changed, err := e.changeInfraEnv(planned, params)
	if err != nil {
		return nil, err
	}
	if !changed {
		return &planned.API, e.recordInfraEnvObject(ctx, id, describedBy)
	}
	if params.StaticNetworkConfig != nil {
		if err := e.checkStaticNetwork(&planned.API); err != nil {
			return nil, err
		}
	}
	drafted, err := e.draft(ctx, planned)
	if err != nil {
		return nil, err
	}
	if err := e.update(ctx, func(c *change) error {
		row, err := c.infraEnv(id)
		if err != nil {
			return err
		}
		if err := c.noteInfraEnvObject(row, describedBy); err != nil {
			return err
		}
		if changed, err := e.changeInfraEnv(row, params); err != nil || !changed {
			return err
		}
		if err := c.checkOwnImage(row, params); err != nil {
			return err
		}
		row.API.UpdatedAt = &c.now
		c.saveInfraEnv(row)
		if row.API.ClusterID != "" {
			c.settleCluster(row.API.ClusterID.String())
		}
		return errors.Join(
			c.keepRecipe(row, drafted),
			c.infraEnvEvent(row, event.ImageUpdated, models.EventSeverityInfo,
				"The discovery image of infra-env %s was changed; download it again.", *row.API.Name),
		)
	}); err != nil {
		return nil, err
	}
	e.freezeLater(id, drafted)
	return e.InfraEnv(id)
}

// recordInfraEnvObject records the object that describes an infra-env, without any other change.
func (e *Engine) recordInfraEnvObject(ctx context.Context, id string, describedBy []record.Object) error {
	if len(describedBy) == 0 {
		return nil
	}
	return e.update(ctx, func(c *change) error {
		row, err := c.infraEnv(id)
		if err != nil {
			return err
		}
		c.saveInfraEnv(row)
		return c.noteInfraEnvObject(row, describedBy)
	})
}

// changeInfraEnv applies an update to a row and reports whether a value changed.
func (e *Engine) changeInfraEnv(row *record.InfraEnv, params *models.InfraEnvUpdateParams) (changed bool, err error) {
	before, err := recipe.Digest(row)
	if err != nil {
		return false, err
	}
	described := &description.InfraEnv{API: row.API, PullSecret: row.PullSecret}
	if err := e.site().UpdateInfraEnv(described, params); err != nil {
		return false, err
	}
	row.API, row.PullSecret = described.API, record.ReplaceSecret(e.options.Secrets, row.PullSecret,
		described.PullSecret)
	row.API.DownloadURL = e.imageURL(&row.API)
	after, err := recipe.Digest(row)
	return after != before, err
}

// DeregisterInfraEnv deletes an infra-env. It fails with kind Conflict while the infra-env has
// hosts.
func (e *Engine) DeregisterInfraEnv(ctx context.Context, id string) error {
	return e.update(ctx, func(c *change) error {
		row, err := c.infraEnv(id)
		if err != nil {
			return err
		}
		hosts := 0
		if err := record.Hosts.Keys(c.tx, id+"/", func(string) error { hosts++; return nil }); err != nil {
			return err
		}
		if hosts > 0 {
			return conflict("Infra-env %s still has %s; delete its hosts first.", *row.API.Name,
				sentence.Count(hosts, "host"))
		}
		return c.removeInfraEnv(id, row)
	})
}

func (c *change) removeInfraEnv(id string, row *record.InfraEnv) error {
	if row.API.ClusterID != "" {
		if err := record.ClusterInfraEnvs.Remove(c.tx, row.API.ClusterID.String()+"/"+id); err != nil {
			return err
		}
	}
	delete(c.infraEnvs, id)
	delete(c.dirtyInfraEnvs, id)
	c.deletedInfraEnvObjects[id] = row.Object
	return errors.Join(
		row.Object.Unindex(c.tx, record.InfraEnvObjects, id),
		c.dropImageCode(row),
		record.Recipes.Delete(c.tx, id),
		record.InfraEnvs.Delete(c.tx, id),
		c.infraEnvEvent(row, event.InfraEnvDeregistered, models.EventSeverityInfo, "Infra-env %s was deleted.",
			*row.API.Name),
	)
}

// removeInfraEnvs deletes the infra-envs of a cluster that is being deleted.
func (c *change) removeInfraEnvs(clusterID string) error {
	var ids []string
	prefix := clusterID + "/"
	if err := record.ClusterInfraEnvs.Keys(c.tx, prefix, func(key string) error {
		ids = append(ids, strings.TrimPrefix(key, prefix))
		return nil
	}); err != nil {
		return err
	}
	for _, id := range ids {
		row, err := c.infraEnv(id)
		if err != nil {
			return err
		}
		if err := c.removeInfraEnv(id, row); err != nil {
			return err
		}
	}
	return nil
}
