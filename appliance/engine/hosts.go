package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// Registration is the response to the registration of a host.
type Registration struct {
	Host   *models.Host
	Runner *models.HostRegistrationResponseAO1NextStepRunnerCommand
}

// RegisterHost records that the agent of a host started. If the host is already registered, its
// machine was restarted, and the state table determines the host's new state. A host that boots the
// image of another infra-env moves to that infra-env, unless it is being installed.
func (e *Engine) RegisterHost(ctx context.Context, infraEnvID string,
	params *models.HostCreateParams) (*Registration, error) {
	if params.HostID == nil || *params.HostID == "" {
		return nil, invalid("The registration of a host must contain its host_id, a UUID.")
	}
	id := *params.HostID
	key := infraEnvID + "/" + id.String()
	var h *record.Host
	err := e.update(ctx, func(c *change) (err error) {
		c.reported = true
		h, err = c.registerHost(infraEnvID, id, params.DiscoveryAgentVersion)
		return err
	})
	if err != nil {
		return nil, err
	}
	e.recordContact(key)
	var host *models.Host
	if err := e.options.DB.View(func(tx *store.Tx) error {
		host, err = e.ShowHost(tx, h, true)
		return err
	}); err != nil {
		return nil, err
	}
	runner, err := e.runnerCommand(host, params.DiscoveryAgentVersion)
	return &Registration{Host: host, Runner: runner}, err
}

func (c *change) registerHost(infraEnvID string, id strfmt.UUID, agentVersion string) (*record.Host, error) {
	env, err := c.infraEnv(infraEnvID)
	if err != nil {
		return nil, err
	}
	if err := c.leaveOtherInfraEnvs(id, infraEnvID); err != nil {
		return nil, err
	}
	key := infraEnvID + "/" + id.String()
	h, err := c.host(key)
	if fault.KindOf(err) == fault.NotFound {
		return c.addHost(env, id, agentVersion)
	}
	if err != nil {
		return nil, err
	}
	c.e.recordContact(key)
	h.API.DiscoveryAgentVersion = agentVersion
	h.API.RegisteredAt, h.Restarting = c.dateTime(), time.Time{}
	return h, c.registerAgain(h)
}

func (c *change) addHost(env *record.InfraEnv, id strfmt.UUID, agentVersion string) (*record.Host, error) {
	infraEnvID := *env.API.ID
	h := &record.Host{API: models.Host{
		ID: &id, InfraEnvID: infraEnvID, Kind: conv.Pointer(models.HostKindHost),
		Href:   conv.Pointer(apiRoot + "/infra-envs/" + infraEnvID.String() + "/hosts/" + id.String()),
		Status: conv.Pointer(lifecycle.HostInitial), StatusInfo: conv.Pointer(""), Role: models.HostRoleAutoAssign,
		SuggestedRole:         models.HostRoleAutoAssign,
		DiscoveryAgentVersion: agentVersion, CreatedAt: c.now, RegisteredAt: c.dateTime(), CheckedInAt: c.dateTime(),
		UserName: "admin", Progress: &models.HostProgressInfo{}, ProgressStages: []models.HostStage{},
		MediaStatus: conv.Pointer(models.HostMediaStatusConnected),
	}}
	if env.API.ClusterID != "" {
		clusterID := env.API.ClusterID
		cluster, err := c.cluster(clusterID.String())
		if err != nil {
			return nil, err
		}
		if slices.Contains([]string{lifecycle.ClusterPreparing, lifecycle.ClusterInstalling,
			lifecycle.ClusterPendingUserAction, lifecycle.ClusterFinalizing,
			lifecycle.ClusterInstalled, lifecycle.ClusterFailed, lifecycle.ClusterCancelled}, *cluster.API.Status) {
			return nil, &fault.Error{Kind: fault.Unavailable, Reason: "Cluster " + cluster.API.Name + " is " +
				*cluster.API.Status + " and " + lifecycle.NoNewHosts + "."}
		}
		h.API.ClusterID = &clusterID
		h.JoinCluster(&cluster.API)
		if err := record.ClusterHosts.Add(c.tx, clusterID.String()+"/"+record.HostKey(h)); err != nil {
			return nil, err
		}
	}
	if err := record.HostInfraEnvs.Add(c.tx, id.String()+"/"+infraEnvID.String()); err != nil {
		return nil, err
	}
	if _, err := c.triggerHost(h, lifecycle.OnRegister, ""); err != nil {
		return nil, err
	}
	c.saveHost(h)
	c.settleLater(h)
	return h, c.hostEvent(h, event.HostRegistered, models.EventSeverityInfo, "Host %s registered to infra-env %s.",
		id, *env.API.Name)
}

// registerAgain handles the start of an agent on a registered host.
func (c *change) registerAgain(h *record.Host) error {
	if _, err := c.triggerHost(h, lifecycle.OnRegister, ""); err != nil {
		return err
	}
	c.saveHost(h)
	switch *h.API.Status {
	case lifecycle.HostDiscovering, lifecycle.HostDiscoveringUnbound:
		// The machine's hardware may have been changed while it was off, so its reports are
		// deleted.
		c.clearPreparation(h)
		h.ClearProgress()
		h.API.Bootstrap, h.API.MediaStatus = false, conv.Pointer(models.HostMediaStatusConnected)
		h.API.Kind = conv.Pointer(models.HostKindHost)
		if h.API.ClusterID == nil {
			h.API.Role = models.HostRoleAutoAssign
		} else if cluster, err := c.cluster(h.API.ClusterID.String()); err == nil {
			h.JoinCluster(&cluster.API)
		} else {
			return err
		}
		if err := c.clearReports(h); err != nil {
			return err
		}
	case lifecycle.HostKnown:
		// A restart during the preparation deletes the pulled images, which are in memory.
		h.API.MediaStatus = conv.Pointer(models.HostMediaStatusConnected)
		h.ImagesOK, h.ImagesError = false, ""
		if err := c.clearReport(h, record.PartImages, func(f *inventory.Facts) { f.Images = nil }); err != nil {
			return err
		}
	}
	c.settleLater(h)
	return nil
}

// RestartHost records that a machine is about to restart from a newer image of its infra-env. The
// host counts as disconnected until its agent registers again, so that no installation includes it.
// If the agent still polls after Timeouts.HostDisconnected, the machine has not restarted and the
// host counts as connected again. A host that is part of an installation is rejected with kind
// Conflict.
func (e *Engine) RestartHost(ctx context.Context, infraEnvID, hostID string) error {
	return e.update(ctx, func(c *change) error {
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		return c.restartHost(h)
	})
}

func (c *change) restartHost(h *record.Host) error {
	if _, err := c.triggerHost(h, lifecycle.OnRestart, ""); err != nil {
		return err
	}
	h.Restarting = c.now
	c.saveHost(h)
	c.settleLater(h)
	return nil
}

// leaveOtherInfraEnvs removes a host from its former infra-envs, because a machine belongs to only
// one infra-env.
func (c *change) leaveOtherInfraEnvs(id strfmt.UUID, infraEnvID string) error {
	prefix := id.String() + "/"
	var others []string
	if err := record.HostInfraEnvs.Keys(c.tx, prefix, func(key string) error {
		if other := strings.TrimPrefix(key, prefix); other != infraEnvID {
			others = append(others, other)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, other := range others {
		h, err := c.host(other + "/" + id.String())
		if err != nil {
			return err
		}
		cluster, err := c.clusterOf(h)
		if err != nil {
			return err
		}
		if h.CheckRemoval("", cluster) != nil {
			return &fault.Error{Kind: fault.Unavailable, Reason: "Host " + c.hostName(h) +
				" is being installed from infra-env " +
				other + "; the host can register again after that installation has ended or been cancelled."}
		}
		if err := c.removeHost(h); err != nil {
			return err
		}
	}
	return nil
}

// DeregisterHost deletes a host. It fails with kind Conflict while an installation needs the host.
// A host that joins an installed cluster can be deleted after its restart.
func (e *Engine) DeregisterHost(ctx context.Context, infraEnvID, hostID string) error {
	return e.update(ctx, func(c *change) error {
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		return c.deleteHost(h)
	})
}

func (c *change) deleteHost(h *record.Host) error {
	cluster, err := c.clusterOf(h)
	if err != nil {
		return err
	}
	if err := h.CheckDeletion(c.hostName(h), cluster); err != nil {
		return err
	}
	return c.removeHost(h)
}

func (c *change) hostIn(infraEnvID, hostID string) (*record.Host, error) {
	h, err := c.host(infraEnvID + "/" + hostID)
	if fault.KindOf(err) == fault.NotFound {
		return nil, notFound("There is no host %s in infra-env %s.", hostID, infraEnvID)
	}
	return h, err
}

func (c *change) removeHost(h *record.Host) error {
	key := record.HostKey(h)
	name := c.hostName(h)
	if h.API.ClusterID != nil {
		if err := record.ClusterHosts.Remove(c.tx, h.API.ClusterID.String()+"/"+key); err != nil {
			return err
		}
		c.settleCluster(h.API.ClusterID.String())
	}
	delete(c.hosts, key)
	delete(c.facts, key)
	delete(c.validated, key)
	delete(c.dirtyHosts, key)
	c.deletedHosts = append(c.deletedHosts, key)
	c.deletedHostObjects[key] = h.Object
	return errors.Join(
		h.Object.Unindex(c.tx, record.HostObjects, key),
		c.clearJoining(h),
		record.Hosts.Delete(c.tx, key),
		record.Validations.Delete(c.tx, record.HostSubject(key)),
		record.DeleteReports(c.tx, key),
		record.HostInfraEnvs.Remove(c.tx, h.API.ID.String()+"/"+h.API.InfraEnvID.String()),
		record.StateDeadlines.Clear(c.tx, record.HostDeadline(key)),
		c.hostEvent(h, event.HostDeregistered, models.EventSeverityInfo, "Host %s was deleted.", name),
	)
}

// UpdateHost changes the user's settings for a host: name, role, disks and labels. The same
// transaction records the object that describes the host, if any.
func (e *Engine) UpdateHost(ctx context.Context, infraEnvID, hostID string, params *models.HostUpdateParams,
	describedBy ...record.Object) (*models.Host, error) {
	return e.changeHost(ctx, infraEnvID, hostID, func(c *change) error {
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		if err := h.CheckUpdate(c.hostName(h), params); err != nil {
			return err
		}
		if err := errors.Join(c.applyHostUpdate(h, params), c.noteHostObject(h, describedBy)); err != nil {
			return err
		}
		if params.HostRole != nil || params.FencingCredentials != nil {
			cluster, err := c.clusterOf(h)
			if err != nil {
				return err
			}
			if err := description.CheckHostFeatures(&h.API, h.Fencing != nil, cluster); err != nil {
				return err
			}
		}
		c.saveHost(h)
		c.settleLater(h)
		return nil
	})
}

func (c *change) applyHostUpdate(h *record.Host, params *models.HostUpdateParams) error {
	if params.HostName != nil {
		if problem := network.CheckHostname(*params.HostName); problem != "" {
			return invalid("%s", problem)
		}
		h.API.RequestedHostname = *params.HostName
	}
	if params.HostRole != nil {
		role := models.HostRole(*params.HostRole)
		if !slices.Contains([]models.HostRole{models.HostRoleAutoAssign, models.HostRoleMaster, models.HostRoleWorker,
			models.HostRoleArbiter}, role) {
			return invalid("There is no role %q; the role of a host is %s, %s, %s or %s.", role,
				models.HostRoleAutoAssign, models.HostRoleMaster, models.HostRoleWorker, models.HostRoleArbiter)
		}
		if role != h.API.Role {
			h.SetRole(role)
			if err := c.hostEventOf(h, event.Props{"suggested_role": role}, event.HostRole, models.EventSeverityInfo,
				"Host %s: role set to %s.", c.hostName(h), role); err != nil {
				return err
			}
		}
	}
	for _, disk := range params.DisksSelectedConfig {
		if disk.Role != models.DiskRoleInstall {
			continue
		}
		if err := c.chooseDisk(h, *disk.ID); err != nil {
			return err
		}
	}
	if err := c.skipFormatting(h, params.DisksSkipFormatting); err != nil {
		return err
	}
	if err := h.SetFencing(params.FencingCredentials); err != nil {
		return err
	}
	if err := h.SetEndpoint(params); err != nil {
		return err
	}
	if params.MachineConfigPoolName != nil {
		h.API.MachineConfigPoolName = *params.MachineConfigPoolName
	}
	return h.SetNodeLabels(params.NodeLabels)
}

// clusterOf returns the cluster of a host, or nil.
func (c *change) clusterOf(h *record.Host) (*models.Cluster, error) {
	if h.API.ClusterID == nil {
		return nil, nil
	}
	row, err := c.cluster(h.API.ClusterID.String())
	if err != nil {
		return nil, err
	}
	return &row.API, nil
}

// chooseDisk sets the installation disk of a host.
func (c *change) chooseDisk(h *record.Host, id string) error {
	facts, err := c.hostFacts(h)
	if err != nil {
		return err
	}
	if facts.Inventory == nil {
		return conflict("Host %s has not reported its disks yet.", c.hostName(h))
	}
	if disk := inventory.DiskByPath(facts.Inventory.Disks, id); disk != nil {
		if !disk.InstallationEligibility.Eligible {
			return conflict("Disk %s of host %s can't be the installation disk: %s.", id, c.hostName(h),
				strings.Join(disk.InstallationEligibility.NotEligibleReasons, "; "))
		}
		h.API.InstallationDiskID, h.API.InstallationDiskPath = inventory.DiskID(disk), inventory.DevicePath(disk)
		h.DiskOK, h.DiskError = false, ""
		return nil
	}
	return invalid("Host %s has no disk %s.", c.hostName(h), id)
}

// skipFormatting sets the disks that the installation must not format.
func (c *change) skipFormatting(h *record.Host, choices []*models.DiskSkipFormattingParams) error {
	if len(choices) == 0 {
		return nil
	}
	facts, err := c.hostFacts(h)
	if err != nil {
		return err
	}
	kept, unknown, ok := inventory.KeepDisks(facts.Inventory, h.API.SkipFormattingDisks, choices)
	if !ok {
		return invalid("Host %s has no disk %q.", c.hostName(h), unknown)
	}
	h.API.SkipFormattingDisks = kept
	return nil
}

// BindHost adds a host to a cluster. The infra-env of the host must not belong to a cluster. The
// same transaction records the object that describes the host, if any.
func (e *Engine) BindHost(ctx context.Context, infraEnvID, hostID, clusterID string,
	describedBy ...record.Object) (*models.Host, error) {
	return e.changeHost(ctx, infraEnvID, hostID, func(c *change) error {
		if err := c.bindHost(infraEnvID, hostID, clusterID); err != nil {
			return err
		}
		return c.noteHostObjectAt(infraEnvID, hostID, describedBy)
	})
}

func (c *change) bindHost(infraEnvID, hostID, clusterID string) error {
	h, err := c.hostIn(infraEnvID, hostID)
	if err != nil {
		return err
	}
	if h.API.ClusterID != nil {
		return conflict("Host %s already belongs to cluster %s; unbind it first.", c.hostName(h), h.API.ClusterID)
	}
	cluster, err := c.cluster(clusterID)
	if fault.KindOf(err) == fault.NotFound {
		return invalid("There is no cluster %s to bind host %s to.", clusterID, c.hostName(h))
	}
	if err != nil {
		return err
	}
	env, err := c.infraEnv(infraEnvID)
	if err != nil {
		return err
	}
	if arch := cluster.API.CPUArchitecture; !description.Serves(arch, env.API.CPUArchitecture) {
		return invalid("InfraEnv's CPU architecture (%s) doesn't match the cluster (%s): hosts of infra-env %s can't "+
			"be bound to cluster %s.", env.API.CPUArchitecture, arch, *env.API.Name, cluster.API.Name)
	}
	if err := description.CheckHostArchitecture(&cluster.API, env.API.CPUArchitecture); err != nil {
		return err
	}
	if !slices.Contains([]string{lifecycle.ClusterPendingForInput, lifecycle.ClusterReady,
		lifecycle.ClusterInsufficient, lifecycle.ClusterAddingHosts}, *cluster.API.Status) {
		return conflict("Cluster %s is %s and accepts no hosts now.", cluster.API.Name, *cluster.API.Status)
	}
	if err := description.CheckHostFeatures(&h.API, h.Fencing != nil, &cluster.API); err != nil {
		return err
	}
	if _, err := c.triggerHost(h, lifecycle.OnBind, ""); err != nil {
		return err
	}
	bound := strfmt.UUID(clusterID)
	h.API.ClusterID = &bound
	c.saveHost(h)
	c.settleCluster(clusterID)
	return errors.Join(
		record.ClusterHosts.Add(c.tx, clusterID+"/"+record.HostKey(h)),
		c.hostEvent(h, event.HostBound, models.EventSeverityInfo, "Host %s was bound to cluster %s.", c.hostName(h),
			cluster.API.Name),
	)
}

// hostName returns the display name of a host: the requested hostname, the reported hostname or the
// id.
func (c *change) hostName(h *record.Host) string {
	host, err := c.inventoryHost(h)
	if err != nil {
		return h.API.ID.String()
	}
	return host.Name()
}
