package engine

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/steps"
)

// UnbindHost removes a host from its cluster. It fails with kind Conflict while an installation
// needs the host, and if the host's infra-env belongs to a cluster. The same transaction records
// the object that describes the host, if any.
func (e *Engine) UnbindHost(ctx context.Context, infraEnvID, hostID string,
	describedBy ...record.Object) (*models.Host, error) {
	return e.removeFromCluster(ctx, infraEnvID, hostID, lifecycle.OnUnbind, describedBy)
}

// ReclaimHost removes a host from its cluster, like UnbindHost. If an agent runs on an installed
// host, the host downloads the discovery image and restarts from it.
func (e *Engine) ReclaimHost(ctx context.Context, infraEnvID, hostID string) (*models.Host, error) {
	return e.removeFromCluster(ctx, infraEnvID, hostID, lifecycle.OnReclaim, nil)
}

func (e *Engine) removeFromCluster(ctx context.Context, infraEnvID, hostID string, on lifecycle.Trigger,
	describedBy []record.Object) (*models.Host, error) {
	return e.changeHost(ctx, infraEnvID, hostID, func(c *change) error {
		if err := c.removeFromCluster(infraEnvID, hostID, on); err != nil {
			return err
		}
		return c.noteHostObjectAt(infraEnvID, hostID, describedBy)
	})
}

func (c *change) removeFromCluster(infraEnvID, hostID string, on lifecycle.Trigger) error {
	h, err := c.hostIn(infraEnvID, hostID)
	if err != nil {
		return err
	}
	if h.API.ClusterID == nil {
		return conflict("Host %s belongs to no cluster.", c.hostName(h))
	}
	env, err := c.infraEnv(infraEnvID)
	if err != nil {
		return err
	}
	if env.API.ClusterID != "" {
		return conflict("Infra-env %s belongs to a cluster, so its hosts can't be unbound from that cluster; remove "+
			"the host, and boot it from the image of another infra-env.", *env.API.Name)
	}
	cluster, err := c.clusterOf(h)
	if err != nil {
		return err
	}
	if err := h.CheckRemoval(c.hostName(h), cluster); err != nil {
		return err
	}
	if _, err := c.triggerHost(h, on, ""); err != nil {
		return err
	}
	clusterID := h.API.ClusterID.String()
	if err := c.hostEvent(h, event.HostUnbound, models.EventSeverityInfo, "Host %s was unbound from its cluster.",
		c.hostName(h)); err != nil {
		return err
	}
	c.clearClusterState(h)
	c.settleCluster(clusterID)
	return errors.Join(c.clearJoining(h), record.ClusterHosts.Remove(c.tx, clusterID+"/"+record.HostKey(h)))
}

// clearClusterState clears the state of a host in its cluster.
func (c *change) clearClusterState(h *record.Host) {
	h.API.ClusterID, h.API.Kind = nil, conv.Pointer(models.HostKindHost)
	h.API.Role, h.API.SuggestedRole, h.API.Bootstrap = models.HostRoleAutoAssign, models.HostRoleAutoAssign, false
	h.API.MachineConfigPoolName = ""
	h.API.StageStartedAt, h.API.StageUpdatedAt = strfmt.DateTime{}, strfmt.DateTime{}
	c.clearPreparation(h)
	h.ClearProgress()
}

// applyReclaim applies the reply of a reclaimed host about the download and start of the discovery
// image. The reply may be outdated, if a user has restarted the host in the meantime.
func (c *change) applyReclaim(h *record.Host, effect *steps.Effect) error {
	on := lifecycle.OnReclaimReboot
	switch {
	case effect.BootArtifactsFailed:
		on = lifecycle.OnReclaimFailed
	case !effect.BootArtifactsReady:
		return nil
	}
	if !slices.Contains([]string{lifecycle.HostReclaiming, lifecycle.HostReclaimingRebooting}, *h.API.Status) ||
		on == lifecycle.OnReclaimReboot &&
			*h.API.Status != lifecycle.HostReclaiming {
		return nil
	}
	_, err := c.triggerHost(h, on, "")
	if err == nil && effect.Failure != "" {
		err = c.hostEvent(h, event.StepFailed, models.EventSeverityWarning, "Host %s: %s", c.hostName(h),
			effect.Failure)
	}
	return err
}

// bootArtifacts returns the files from which a reclaimed host boots the discovery image.
func (e *Engine) bootArtifacts(env *models.InfraEnv) (steps.BootArtifacts, error) {
	initrd, err := e.InitrdPath(env.ID.String(), env.OpenshiftVersion, env.CPUArchitecture)
	if err != nil {
		return steps.BootArtifacts{}, err
	}
	query := "?" + url.Values{"version": {env.OpenshiftVersion}, "arch": {env.CPUArchitecture}}.Encode()
	return steps.BootArtifacts{
		Kernel: e.options.URL + "/boot-artifacts/kernel" + query,
		Rootfs: e.options.URL + "/boot-artifacts/rootfs" + query,
		Initrd: e.options.URL + initrd,
	}, nil
}
