package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/installconfig"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/sentence"
	"landfall/ignition"
)

// Users may override fields of the install-config, the Ignition config of a host, and the arguments
// of coreos-installer, which writes a host's disk. Invalid overrides are rejected when the user
// sets them, not during the installation.

// SetInstallConfigOverride replaces the overrides of a cluster's install-config. They are a JSON
// object that is merged into the generated install-config, or "" for none. It fails with kind
// Invalid if the result is not a valid install-config, or if the installer has already used the
// install-config.
func (e *Engine) SetInstallConfigOverride(ctx context.Context, id, override string) error {
	if _, err := record.ReadCluster(e.options.DB, id); err != nil {
		return err
	}
	installation, err := e.installation(id)
	if err != nil {
		return err
	}
	overridden := *installation.Cluster
	overridden.InstallConfigOverrides = override
	installation.Cluster = &overridden
	if _, err := installation.InstallConfig(); err != nil {
		return err
	}
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if slices.Contains([]string{lifecycle.ClusterPreparing, lifecycle.ClusterInstalling,
			lifecycle.ClusterPendingUserAction, lifecycle.ClusterFinalizing,
			lifecycle.ClusterInstalled}, *row.API.Status) {
			return invalid("Cluster %s is %s; the installer has its install-config already.", row.API.Name,
				*row.API.Status)
		}
		row.API.InstallConfigOverrides = override
		monitorConsole(&row.API)
		c.saveCluster(row)
		c.settleCluster(id)
		return errors.Join(
			c.setUsage(row, description.UsageInstallConfig, override != "", description.OverriddenKeys(override)),
			c.clusterEvent(row, event.InstallConfigApplied, models.EventSeverityInfo,
				"Cluster %s: the install-config was overridden.", row.API.Name),
		)
	})
}

// SetHostIgnition replaces the overrides of the Ignition config with which a host is installed. The
// overrides are an Ignition config themselves; "" removes them.
func (e *Engine) SetHostIgnition(ctx context.Context, infraEnvID, hostID, override string) error {
	if override != "" {
		if err := ignition.Validate([]byte(override)); err != nil {
			return &fault.Error{Kind: fault.Invalid, Reason: sentence.New(err), Err: err}
		}
	}
	return e.update(ctx, func(c *change) error {
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		if slices.Contains(slices.Concat(lifecycle.HostInstallingStates, []string{lifecycle.HostPreparing,
			lifecycle.HostPrepared}), *h.API.Status) {
			return invalid("Host %s is %s; its ignition config has been generated already.", c.hostName(h),
				*h.API.Status)
		}
		h.API.IgnitionConfigOverrides = override
		c.saveHost(h)
		if err := c.noteHostUsage(h, description.UsageIgnitionOverride,
			func(other *record.Host) bool { return other.API.IgnitionConfigOverrides != "" }); err != nil {
			return err
		}
		return c.hostEvent(h, event.HostIgnitionApplied, models.EventSeverityInfo,
			"Host %s: its ignition config was overridden.", c.hostName(h))
	})
}

// noteHostUsage records whether any host of the host's cluster uses a feature.
func (c *change) noteHostUsage(h *record.Host, name string, uses func(*record.Host) bool) error {
	if h.API.ClusterID == nil {
		return nil
	}
	id := h.API.ClusterID.String()
	row, err := c.cluster(id)
	if err != nil {
		return err
	}
	hosts, _, err := c.readableHostsOf(id)
	if err != nil {
		return err
	}
	return c.setUsage(row, name, slices.ContainsFunc(hosts, uses), nil)
}

// SetInstallerArgs replaces the arguments of coreos-installer on a host. An empty list removes
// them; the host then has the JSON of an empty list.
func (e *Engine) SetInstallerArgs(ctx context.Context, infraEnvID, hostID string, args []string) (*models.Host, error) {
	if err := installconfig.CheckInstallerArgs(args); err != nil {
		return nil, err
	}
	if args == nil {
		args = []string{}
	}
	text, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("write the installer arguments: %w", err)
	}
	return e.changeHost(ctx, infraEnvID, hostID, func(c *change) error {
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		if slices.Contains(slices.Concat(lifecycle.HostInstallingStates, []string{lifecycle.HostPreparing,
			lifecycle.HostPrepared, lifecycle.HostInstalled, lifecycle.HostAdded}), *h.API.Status) {
			return conflict("Host %s is %s; its installer has its arguments already.", c.hostName(h), *h.API.Status)
		}
		h.API.InstallerArgs = string(text)
		c.saveHost(h)
		return c.hostEvent(h, event.InstallerArgsApplied, models.EventSeverityInfo,
			"Host %s: the installer's arguments were set.", c.hostName(h))
	})
}
