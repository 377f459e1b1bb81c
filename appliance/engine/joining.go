package engine

import (
	"bytes"
	"context"
	"errors"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/installconfig"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/steps"
	"landfall/appliance/sentence"
	"landfall/ignition"
	"landfall/store"
)

// Hosts can join a cluster that this appliance has installed and opened for more hosts, or that was
// imported. Each joining host is installed on its own. Its Ignition config refers to the cluster's
// machine config server. Package lifecycle defines the states of joining hosts.

// ImportCluster registers an existing cluster, so that hosts can join it. An API address of the
// form api.<name>.<domain> determines the cluster's name and base domain. The same transaction
// records the object that describes the cluster, if any.
func (e *Engine) ImportCluster(ctx context.Context, params *models.ImportClusterParams,
	describedBy ...record.Object) (*models.Cluster, error) {
	address, name, domain, err := description.ImportedNames(params)
	if err != nil {
		return nil, err
	}
	row := e.emptyCluster(name, models.ClusterKindAddHostsCluster, lifecycle.ClusterAddingHosts,
		"The cluster exists already and accepts more hosts.")
	api := &row.API
	api.BaseDNSDomain, api.APIVipDNSName, api.OpenshiftVersion = domain, &address, params.OpenshiftVersion
	api.OpenshiftClusterID, api.Imported = *params.OpenshiftClusterID, conv.Pointer(true)
	return e.addCluster(ctx, row, describedBy...)
}

// RegisterDisconnectedCluster registers a cluster that is installed without this appliance. The
// appliance shows the cluster, but cannot change it.
func (e *Engine) RegisterDisconnectedCluster(ctx context.Context, name, version string) (*models.Cluster, error) {
	if err := description.CheckDisconnected(name, version); err != nil {
		return nil, err
	}
	row := e.emptyCluster(name, description.KindDisconnected, description.StatusUnmonitored,
		"The cluster is installed without this appliance.")
	row.API.OpenshiftVersion = version
	return e.addCluster(ctx, row)
}

// emptyCluster returns a cluster that only has a name.
func (e *Engine) emptyCluster(name, kind, status, info string) *record.Cluster {
	row := &record.Cluster{API: description.KnownCluster(e.newID(), name, kind, status, info)}
	row.API.Href = conv.Pointer(apiRoot + "/clusters/" + row.API.ID.String())
	return row
}

func (e *Engine) addCluster(ctx context.Context, row *record.Cluster,
	describedBy ...record.Object) (*models.Cluster, error) {
	var fresh record.Cluster
	err := e.update(ctx, func(c *change) error {
		fresh = *row // update may call the function again, and each call must start from the request
		fresh.API.CreatedAt, fresh.API.StatusUpdatedAt = c.now, c.dateTime()
		c.saveCluster(&fresh)
		return errors.Join(
			c.noteClusterObject(&fresh, describedBy),
			c.clusterEvent(&fresh, event.ClusterRegistered, models.EventSeverityInfo, "Cluster %s was imported.",
				fresh.API.Name),
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

// AllowAddHosts opens an installed cluster for more hosts. It fails with kind Conflict unless this
// appliance has installed the cluster.
func (e *Engine) AllowAddHosts(ctx context.Context, id string) (*models.Cluster, error) {
	return e.changeCluster(ctx, id, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if err := c.triggerCluster(row, lifecycle.OnAddHosts); err != nil {
			return err
		}
		row.API.Kind = conv.Pointer(models.ClusterKindAddHostsCluster)
		row.API.APIVipDNSName = conv.Pointer(description.APIAddress(&row.API))
		c.saveCluster(row)
		c.settleCluster(id)
		return errors.Join(
			c.setUsage(row, description.UsageDayTwo, true, nil),
			c.clusterEvent(row, event.ClusterAddsHosts, models.EventSeverityInfo,
				"Cluster %s accepts more hosts: boot them from an image of its own infra-env.", row.API.Name),
		)
	})
}

// InstallHost installs a host that joins an installed cluster. A host without a cluster is rejected
// with kind NotFound. A host of the cluster's own installation and a host that is not in state
// known are rejected with kind Conflict.
func (e *Engine) InstallHost(ctx context.Context, infraEnvID, hostID string) (*models.Host, error) {
	var h *record.Host
	var row *record.Cluster
	var config []byte
	// Reading the payload can take a while, so it happens before the transaction, which validates
	// the host again.
	err := e.options.DB.View(func(tx *store.Tx) error {
		c := newReading(ctx, e, tx)
		var err error
		h, row, config, err = c.joiningHost(infraEnvID, hostID)
		return err
	})
	if err != nil {
		return nil, err
	}
	images := row.Release
	if images == nil {
		if images, err = e.joiningImages(ctx, h, row); err != nil {
			return nil, err
		}
	}
	staged, err := e.options.DB.Stage(ctx, bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	return e.changeHost(ctx, infraEnvID, hostID, func(c *change) error {
		h, row, current, err := c.joiningHost(infraEnvID, hostID)
		if err != nil {
			return err
		}
		if !bytes.Equal(current, config) {
			return conflict("Host %s was changed while its installation was being started; start it again.",
				c.hostName(h))
		}
		if row.Release == nil {
			row.Release = images
			c.saveCluster(row)
		}
		return c.installJoining(h, row, staged)
	})
}

func (c *change) installJoining(h *record.Host, row *record.Cluster, config *store.Staged) error {
	if h.API.Role == models.HostRoleAutoAssign {
		h.SetRole(h.API.SuggestedRole)
	}
	h.API.Progress = &models.HostProgressInfo{}
	followed, err := c.isFollowed(row.API.ID.String())
	if err != nil {
		return err
	}
	if h.API.ProgressStages = record.JoiningStages(h); followed {
		h.Joining, h.API.ProgressStages = &record.Joining{Started: c.now}, record.HostStages(h, false)
	}
	if _, err := c.triggerHost(h, lifecycle.OnInstall, ""); err != nil {
		return err
	}
	c.saveHost(h)
	c.settleLater(h)
	host, err := c.inventoryHost(h)
	if err != nil {
		return err
	}
	return errors.Join(
		record.InstallerFiles.Put(c.tx, row.API.ID.String()+"/"+installconfig.HostIgnition(host), config, c.now),
		c.hostEvent(h, event.HostInstall, models.EventSeverityInfo, "Host %s: the installation was started.",
			c.hostName(h)),
	)
}

// joiningHost returns a host that is ready to join its cluster, with the cluster and the host's
// Ignition config.
func (c *change) joiningHost(infraEnvID, hostID string) (*record.Host, *record.Cluster, []byte, error) {
	h, err := c.hostIn(infraEnvID, hostID)
	if err != nil {
		return nil, nil, nil, err
	}
	if h.API.ClusterID == nil {
		return nil, nil, nil, notFound("Host %s belongs to no cluster and can't be installed.", c.hostName(h))
	}
	row, err := c.cluster(h.API.ClusterID.String())
	if err != nil {
		return nil, nil, nil, err
	}
	if err := h.CheckJoining(c.hostName(h), "installed", &row.API); err != nil {
		return nil, nil, nil, err
	}
	if *h.API.Status != lifecycle.HostKnown {
		return nil, nil, nil, conflict("Host %s is %s and can't be installed now: %s", c.hostName(h), *h.API.Status,
			*h.API.StatusInfo)
	}
	host, err := c.inventoryHost(h)
	if err != nil {
		return nil, nil, nil, err
	}
	endpoint := steps.MachineConfigServer(&row.API, host)
	endpoint.Token, endpoint.Headers = h.EndpointToken, h.EndpointHeaders
	if endpoint.URL == "" {
		return nil, nil, nil,
			conflict("Cluster %s has no address (api_vip_dns_name), so host %s can't fetch its ignition config.",
				row.API.Name, c.hostName(h))
	}
	pointer, err := endpoint.Pointer()
	if err != nil {
		return nil, nil, nil, err
	}
	config, err := ignition.HostConfig(pointer, ignition.HostEdits{Hostname: host.Hostname(),
		Overrides: h.API.IgnitionConfigOverrides})
	return h, row, config, err
}

// joiningImages returns the images for a host that joins an imported cluster: the configured
// images, or the images in the release of the cluster's version.
func (e *Engine) joiningImages(ctx context.Context, h *record.Host, row *record.Cluster) (*record.Release, error) {
	env, err := record.ReadInfraEnv(e.options.DB, h.API.InfraEnvID.String())
	if err != nil {
		return nil, err
	}
	arch := orText(row.API.CPUArchitecture, env.API.CPUArchitecture)
	image, err := e.site().FindRelease(orText(row.API.OpenshiftVersion, env.API.OpenshiftVersion), arch,
		row.API.OcpReleaseImage)
	if err != nil {
		return nil, conflict("Host %s can't be installed: %s", h.API.ID, sentence.Ending(err))
	}
	payload, err := e.payload(ctx, e.infraEnvAccess(&env.API).Releases, image.URL, arch,
		orText(row.PullSecret, env.PullSecret))
	if err != nil {
		return nil, unavailable(err,
			"The images for the hosts of cluster %s can't be determined, because its release can't be read: %s",
			row.API.Name, sentence.Ending(err))
	}
	return e.releaseImages(payload)
}

// ResetHost cancels the installation of a host that joins an installed cluster. The host must be
// restarted from the discovery image. Other hosts are rejected with kind Conflict, because they are
// reset with their cluster.
func (e *Engine) ResetHost(ctx context.Context, infraEnvID, hostID string) (*models.Host, error) {
	return e.changeHost(ctx, infraEnvID, hostID, func(c *change) error {
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		cluster, err := c.clusterOf(h)
		if err != nil {
			return err
		}
		if cluster == nil {
			return conflict("Host %s belongs to no cluster.", c.hostName(h))
		}
		if err := h.CheckJoining(c.hostName(h), "reset", cluster); err != nil {
			return err
		}
		moved, err := c.triggerHost(h, lifecycle.OnReset, "")
		if err != nil {
			return err
		}
		if !moved {
			return conflict("Host %s is %s and has no installation to reset.", c.hostName(h), *h.API.Status)
		}
		c.clearPreparation(h)
		h.API.Progress = &models.HostProgressInfo{}
		c.settleLater(h)
		return c.clearJoining(h)
	})
}
