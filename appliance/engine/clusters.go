package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/description"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/installconfig"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

const apiRoot = "/api/assisted-install/v2"

// builtinOperators are monitored in every cluster, except the console if an override of the
// install-config disables it.
var builtinOperators = []string{consoleOperator, "cvo"}

const consoleOperator = "console"

// RegisterCluster creates a cluster. One transaction writes its row, the event, the outbox entry
// for AMS and the object that describes the cluster, if any. An invalid description is rejected
// with kind Invalid, and so is a name that Options.CheckName refuses: the description of the
// Assisted Installer's API has no 409 for this operation.
func (e *Engine) RegisterCluster(ctx context.Context, params *models.ClusterCreateParams,
	describedBy ...record.Object) (*models.Cluster, error) {
	row, err := e.newCluster(params)
	if err != nil {
		return nil, err
	}
	if e.options.ReleasePolicy != nil {
		secret, err := e.credentials(row.PullSecret)
		if err != nil {
			return nil, err
		}
		if err := e.options.ReleasePolicy.CheckName(ctx, row.API.OcpReleaseImage, secret); err != nil {
			return nil, err
		}
	}
	id := row.API.ID.String()
	var fresh record.Cluster
	err = e.update(ctx, func(c *change) error {
		fresh = *row // update may call the function again, and each call must start from the request
		fresh.API.CreatedAt = c.now
		fresh.API.StatusUpdatedAt = c.dateTime()
		fresh.API.AmsSubscriptionID = strfmt.UUID(outbox.ProvisionalID(id, c.now)) // until AMS assigns an id
		if err := c.checkName(&fresh.API); err != nil {
			return fault.Wrap(fault.Invalid, err)
		}
		c.saveCluster(&fresh)
		c.settleCluster(id)
		return errors.Join(
			c.noteClusterObject(&fresh, describedBy),
			c.clusterEvent(&fresh, event.ClusterRegistered, models.EventSeverityInfo, "Cluster %s was created.",
				fresh.API.Name),
			c.recordOperators(&fresh, nil),
		)
	})
	if err != nil {
		return nil, err
	}
	var shown *models.Cluster
	err = e.options.DB.View(func(tx *store.Tx) error {
		shown, err = e.ShowCluster(tx, &fresh, true)
		return err
	})
	return shown, err
}

// site returns the settings on which descriptions depend.
func (e *Engine) site() *description.Site {
	return &description.Site{
		Releases: e.ReleaseList(), NTPSources: e.NTPSources(), AgentImage: e.options.Images.Agent != "",
		CheckMultiCPU: func() error {
			return e.requireCapability(capabilityMultiarch, "clusters of several architectures")
		},
	}
}

func (e *Engine) newCluster(params *models.ClusterCreateParams) (*record.Cluster, error) {
	described, err := description.NewCluster(e.site(), params, e.newID)
	if err != nil {
		return nil, err
	}
	id := *described.API.ID
	row := &record.Cluster{API: described.API, PullSecret: described.PullSecret}
	api := &row.API
	api.Kind = conv.Pointer(models.ClusterKindCluster)
	api.Href = conv.Pointer(apiRoot + "/clusters/" + id.String())
	api.SchedulableMastersForcedTrue, api.Imported = conv.Pointer(true), conv.Pointer(false)
	api.FeatureUsage, api.UserName = "{}", "admin"
	api.Status, api.StatusInfo = conv.Pointer(lifecycle.ClusterInsufficient),
		conv.Pointer("Cluster is not ready for install")
	api.OrgSoftTimeoutsEnabled = e.softTimeouts()
	api.Progress = &models.ClusterProgressInfo{}
	api.Hosts, api.HostNetworks = []*models.Host{}, []*models.HostNetwork{}
	api.LastInstallationPreparation = description.NotPrepared()
	for _, name := range builtinOperators {
		api.MonitoredOperators = append(api.MonitoredOperators, builtinOperator(api, name))
	}
	if err := operator.Select(api, params.OlmOperators); err != nil {
		return nil, err
	}
	return row, description.CheckFeatures(api)
}

// UpdateCluster changes a cluster's description. Absent fields keep their values. Once the
// installation is being prepared, it fails with kind Conflict. The same transaction records the
// object that describes the cluster, if any.
func (e *Engine) UpdateCluster(ctx context.Context, id string, params *models.V2ClusterUpdateParams,
	describedBy ...record.Object) (*models.Cluster, error) {
	if err := e.checkVIPs(id, params); err != nil {
		return nil, err
	}
	return e.changeCluster(ctx, id, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if !slices.Contains([]string{lifecycle.ClusterPendingForInput, lifecycle.ClusterReady,
			lifecycle.ClusterInsufficient, lifecycle.ClusterAddingHosts}, *row.API.Status) {
			return conflict("Cluster %s is %s; its description can be changed again after the installation is reset.",
				row.API.Name, *row.API.Status)
		}
		operators, before := operator.Selected(&row.API, true), row.API
		held := row.PullSecret
		if err := row.Describe(params); err != nil {
			return err
		}
		row.PullSecret = record.ReplaceSecret(e.options.Secrets, held, row.PullSecret)
		if before.Name != row.API.Name || before.BaseDNSDomain != row.API.BaseDNSDomain {
			if err := c.checkName(&row.API); err != nil {
				return err
			}
		}
		if err := errors.Join(c.checkArchitectures(row), c.emitProxyChange(row, before),
			c.noteClusterObject(row, describedBy)); err != nil {
			return err
		}
		c.saveCluster(row)
		c.settleCluster(id)
		return c.recordOperators(row, operators)
	})
}

// checkName returns an error if a cluster must not have its name and base domain.
func (c *change) checkName(cluster *models.Cluster) error {
	if c.e.options.CheckName == nil {
		return nil
	}
	return c.e.options.CheckName(c.tx, cluster)
}

// DeregisterCluster deletes a cluster with its own infra-envs and hosts, its files and events.
// Other hosts of the cluster become unbound. It fails with kind Conflict while the cluster is being
// installed. force does not ask Options.KeepCluster.
func (e *Engine) DeregisterCluster(ctx context.Context, id string, force bool) error {
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if keep := e.options.KeepCluster; keep != nil && !force {
			if err := keep(c.tx, id); err != nil {
				return err
			}
		}
		if slices.Contains([]string{lifecycle.ClusterPreparing, lifecycle.ClusterInstalling,
			lifecycle.ClusterPendingUserAction, lifecycle.ClusterFinalizing}, *row.API.Status) {
			return conflict("Cluster %s is %s; cancel the installation before you delete it.", row.API.Name,
				*row.API.Status)
		}
		return c.removeCluster(id, row)
	})
}

func (c *change) removeCluster(id string, row *record.Cluster) error {
	hosts, err := c.hostsOf(id)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if err := c.releaseHost(id, h); err != nil {
			return err
		}
	}
	if err := c.removeInfraEnvs(id); err != nil {
		return err
	}
	if err := record.DeleteFiles(c.tx, id); err != nil {
		return err
	}
	delete(c.clusters, id)
	delete(c.validated, id)
	c.deletedClusters = append(c.deletedClusters, id)
	c.deletedClusterObjects[id] = row.Object
	return errors.Join(
		row.Object.Unindex(c.tx, record.ClusterObjects, id),
		record.Clusters.Delete(c.tx, id),
		record.Validations.Delete(c.tx, record.ClusterSubject(id)),
		record.StateDeadlines.Clear(c.tx, record.ClusterDeadline(id)),
		record.PendingPreparations.Remove(c.tx, id),
		outbox.Close(c.tx, id, c.e.options.WithoutAMS, c.now),
		c.clusterEvent(row, event.ClusterDeregistered, models.EventSeverityInfo, "Cluster %s was deleted.",
			row.API.Name),
	)
}

// releaseHost removes a host from a cluster that is being deleted. A host that booted from an
// infra-env of the cluster is deleted. Any other host stays in its infra-env. A host that is being
// installed to join the cluster is an error of kind Conflict.
func (c *change) releaseHost(id string, h *record.Host) error {
	env, err := c.infraEnv(h.API.InfraEnvID.String())
	if err != nil {
		return err
	}
	if env.API.ClusterID.String() == id {
		return c.deleteHost(h)
	}
	return c.removeFromCluster(h.API.InfraEnvID.String(), h.API.ID.String(), lifecycle.OnUnbind)
}

func builtinOperator(cluster *models.Cluster, name string) *models.MonitoredOperator {
	return &models.MonitoredOperator{ClusterID: *cluster.ID, Name: name, OperatorType: models.OperatorTypeBuiltin,
		TimeoutSeconds: 3600}
}

// monitorConsole monitors the console of a cluster, unless the cluster will have none. A cluster is
// installed when all its builtin operators are available.
func monitorConsole(cluster *models.Cluster) {
	isConsole := func(m *models.MonitoredOperator) bool { return m.Name == consoleOperator }
	switch there := slices.ContainsFunc(cluster.MonitoredOperators, isConsole); {
	case !installconfig.HasCapability(cluster, "Console", 4, 12):
		cluster.MonitoredOperators = slices.DeleteFunc(cluster.MonitoredOperators, isConsole)
	case !there:
		cluster.MonitoredOperators = slices.Insert(cluster.MonitoredOperators, 0,
			builtinOperator(cluster, consoleOperator))
	}
}

// SetUISettings replaces the settings that the browser stores for a cluster.
func (e *Engine) SetUISettings(ctx context.Context, id, settings string) error {
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		row.UISettings = settings
		c.saveCluster(row)
		return nil
	})
}

// consoleURL returns the URL that a cluster's web console has after the installation.
func consoleURL(cluster *models.Cluster) string {
	return "https://console-openshift-console.apps." + cluster.Name + "." + cluster.BaseDNSDomain
}

func consoleURLIfUp(row *record.Cluster) string {
	for _, operator := range row.API.MonitoredOperators {
		if operator.Name == consoleOperator && operator.Status == models.OperatorStatusAvailable {
			return consoleURL(&row.API)
		}
	}
	return ""
}

func orDefault(value *string, otherwise string) string {
	if value == nil || *value == "" {
		return otherwise
	}
	return *value
}
