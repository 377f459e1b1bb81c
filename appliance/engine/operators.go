package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/catalog"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/appliance/sentence"
)

// recordOperators records a change of a cluster's operators. It writes an event and updates the
// features that the cluster uses.
func (c *change) recordOperators(row *record.Cluster, before []string) error {
	now := operator.Selected(&row.API, true)
	if slices.Equal(before, now) {
		return nil
	}
	for _, name := range before {
		if !slices.Contains(now, name) {
			if err := c.setUsage(row, strings.ToUpper(name), false, nil); err != nil {
				return err
			}
		}
	}
	for _, name := range now {
		if err := c.setUsage(row, strings.ToUpper(name), true, nil); err != nil {
			return err
		}
	}
	message := fmt.Sprintf("Cluster %s: no operators are selected.", row.API.Name)
	if len(now) > 0 {
		message = fmt.Sprintf("Cluster %s: the operators that are installed with it are %s.", row.API.Name,
			strings.Join(now, ", "))
	}
	return c.clusterEvent(row, event.OperatorsSelected, models.EventSeverityInfo, "%s", message)
}

// recordDegraded adds an event that lists the failed operators of an installed cluster, if there
// are any.
func (c *change) recordDegraded(row *record.Cluster) error {
	names := operator.Failed(&row.API)
	if len(names) == 0 {
		return nil
	}
	return c.clusterEvent(row, event.Degraded, models.EventSeverityWarning,
		"Cluster %s is degraded. Failed OLM operators: %s.", row.API.Name, strings.Join(names, ", "))
}

// recordCatalogs records the CatalogSources and OperatorHubs in a manifest of a cluster. Nil
// content means that the manifest was deleted.
func (c *change) recordCatalogs(row *record.Cluster, manifest string, content []byte) {
	objects := catalog.ReplaceManifest(row.Catalogs, manifest, content)
	if slices.Equal(objects, row.Catalogs) {
		return
	}
	row.Catalogs = objects
	c.saveCluster(row)
	c.settleCluster(row.API.ID.String())
}

// catalogs returns the sources of a cluster's operators.
func (e *Engine) catalogs(row *record.Cluster) catalog.Cluster {
	access := e.clusterAccess(&row.API)
	return catalog.Cluster{API: &row.API, Objects: row.Catalogs, Sources: access.Catalogs, Mirror: access.Mirror}
}

// missingCatalogs returns the catalogs that a cluster's operators need and that are not available,
// each with the remedy.
func (e *Engine) missingCatalogs(row *record.Cluster) map[string]string {
	if len(operator.Selected(&row.API, true)) == 0 {
		return nil
	}
	return e.catalogs(row).Missing()
}

// RefreshOperators validates the operators of clusters that are not installed yet, after a change
// of the mirror rules. It logs failures.
func (e *Engine) RefreshOperators(ctx context.Context) {
	err := e.update(ctx, func(c *change) error {
		return record.Clusters.Each(c.tx, "", func(id string, row *record.Cluster) error {
			if len(operator.Selected(&row.API, true)) > 0 && acceptsManifests(row) {
				c.settleCluster(id)
			}
			return nil
		})
	})
	if err != nil && ctx.Err() == nil {
		e.options.Logger.Error("Clusters with operators could not be validated again after the mirror rules changed.",
			"error", err)
	}
}

// OperatorAvailability returns the mirror rules that each operator of a cluster's version needs,
// and whether these rules exist.
func (e *Engine) OperatorAvailability(id string) ([]catalog.Availability, error) {
	row, err := record.ReadCluster(e.options.DB, id)
	if err != nil {
		return nil, err
	}
	return e.catalogs(row).Availability(), nil
}

// OperatorAvailabilityFor is [Engine.OperatorAvailability] for an OpenShift version, before the
// cluster exists.
func (e *Engine) OperatorAvailabilityFor(version string) []catalog.Availability {
	return e.catalogs(&record.Cluster{API: models.Cluster{OpenshiftVersion: version}}).Availability()
}

// OperatorImageSet returns the oc-mirror configuration that copies the images of a cluster's
// operators.
func (e *Engine) OperatorImageSet(id string) ([]byte, error) {
	row, err := record.ReadCluster(e.options.DB, id)
	if err != nil {
		return nil, err
	}
	return operator.ImageSet(operator.Selected(&row.API, true), row.API.OpenshiftVersion)
}

// CheckOperators checks that the mirror holds all images of the newest bundles of a cluster's
// operators. It reads whole catalogs, which can take a while.
func (e *Engine) CheckOperators(ctx context.Context, id string) ([]catalog.CheckResult, error) {
	row, err := record.ReadCluster(e.options.DB, id)
	if err != nil {
		return nil, err
	}
	reader := e.clusterAccess(&row.API).CatalogReader
	if reader == nil {
		return nil, &fault.Error{Kind: fault.Unavailable, Reason: "This appliance can't read operator catalogs."}
	}
	text, err := record.OpenSecret(e.options.Secrets, row.PullSecret)
	if err != nil {
		return nil, err
	}
	secret, err := mirror.ParsePullSecret(text)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Invalid, Reason: sentence.New(err), Err: err}
	}
	return e.catalogs(row).Check(ctx, reader, secret)
}
