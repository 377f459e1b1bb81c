package engine

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
)

// inventoryReply returns the host's reply to a step that requests its inventory.
func (h *testHost) inventoryReply() *models.StepReply {
	h.b.Helper()
	return h.answer(&models.Step{StepType: models.StepTypeInventory, StepID: "inventory-1"})
}

// installRequest returns the request of the install step that the host gets.
func (h *testHost) installRequest() (request models.InstallCmdRequest) {
	h.b.Helper()
	for _, step := range h.poll().Instructions {
		if step.StepType == models.StepTypeInstall {
			require.NoError(h.b, json.Unmarshal([]byte(step.Args[0]), &request))
			return request
		}
	}
	h.b.Fatal("the host gets no install step")
	return request
}

func TestLateInventory_changesNothingOnceTheHostIsPrepared(t *testing.T) {
	b := newHarness(t)
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.startInstallation(cluster)
	h.reportOnce()
	before := h.require(lifecycle.HostPreparing)
	renamed := func(inventory *models.Inventory) { inventory.Hostname = "other-name" }
	h.alter = renamed
	require.NoError(t, h.reply(h.inventoryReply()))
	same := func(host *models.Host) {
		t.Helper()
		require.Equal(t, []string{before.RequestedHostname, before.InstallationDiskID, before.InstallationDiskPath,
			before.DisksToBeFormatted, before.Inventory},
			[]string{host.RequestedHostname, host.InstallationDiskID, host.InstallationDiskPath,
				host.DisksToBeFormatted, host.Inventory})
	}
	same(h.require(""))
	b.prepareAll()
	h.report()
	h.require(lifecycle.HostInstalling)
	request := h.installRequest()
	require.Equal(t, "/dev/disk/by-id/a", *request.BootDevice)
	revision := b.options.DB.Revision()
	h.alter = func(inventory *models.Inventory) {
		renamed(inventory)
		inventory.Disks = slices.Delete(inventory.Disks, 0, 1)
		inventory.Interfaces[0].Name = "eno2"
	}
	require.NoError(t, h.reply(h.inventoryReply()))
	require.Equal(t, revision, b.options.DB.Revision(), "nothing is written")
	require.Equal(t, request, h.installRequest())
	for _, stage := range []models.HostStage{models.HostStageInstalling, models.HostStageDone} {
		require.NoError(t, h.progress(stage, ""))
		require.NoError(t, h.reply(h.inventoryReply()))
		same(h.require(""))
	}
	h.require(lifecycle.HostInstalled)
}

func TestLateInventory_lostDiskEndsPreparation(t *testing.T) {
	for name, state := range map[string]string{
		"before the measurement": lifecycle.HostPreparing,
		"after the measurement":  lifecycle.HostPrepared,
	} {
		t.Run(name, func(t *testing.T) {
			b := newHarness(t)
			cluster, hosts := b.threeNodes(true)
			h := hosts[0]
			b.startInstallation(cluster)
			b.prepareAll()
			if state == lifecycle.HostPrepared {
				h.report()
			}
			h.require(state)
			h.alter = func(inventory *models.Inventory) { inventory.Disks = slices.Delete(inventory.Disks, 0, 1) }
			require.NoError(t, h.reply(h.inventoryReply()))
			preparation := b.requireCluster(cluster, lifecycle.ClusterReady).LastInstallationPreparation
			require.Equal(t, models.LastInstallationPreparationStatusFailed, preparation.Status)
			require.Contains(t, preparation.Reason,
				"host node-1 is insufficient: The host no longer has its installation disk /dev/disk/by-id/a, ")
			require.Equal(t, "/dev/disk/by-id/b", h.require(lifecycle.HostKnown).InstallationDiskID)
			before := len(b.names(event.Filter{HostIDs: []string{h.id}}))
			b.pass(10*time.Minute, hosts...)
			require.Len(t, b.names(event.Filter{HostIDs: []string{h.id}}), before, "the host stays as it is")
			b.startInstallation(cluster)
			require.Contains(t, h.stepTypes(), models.StepTypeInstallationDiskSpeedCheck)
		})
	}
}

func TestLateInventory_keepsDiskChosenMeanwhile(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.host(env, 1)
	require.Equal(t, "/dev/disk/by-id/a", h.require(lifecycle.HostKnown).InstallationDiskID)
	h.alter = func(inventory *models.Inventory) { inventory.Memory.UsableBytes++ }
	effect, _, err := b.interpretReply(t.Context(), h.env+"/"+h.id, h.inventoryReply())
	require.NoError(t, err)
	_, err = b.UpdateHost(t.Context(), h.env, h.id, &models.HostUpdateParams{
		DisksSelectedConfig: []*models.DiskConfigParams{{ID: &secondDisk, Role: models.DiskRoleInstall}}})
	require.NoError(t, err)
	require.NoError(t, b.update(t.Context(), func(c *change) error {
		row, err := c.hostIn(h.env, h.id)
		if err != nil {
			return err
		}
		return c.applyEffect(row, effect)
	}))
	require.Equal(t, secondDisk, h.require(lifecycle.HostKnown).InstallationDiskID)
}

// A host that runs from its disk is not measured. It gets the operating system of the release.
func TestInstall_hostRunsFromItsDisk(t *testing.T) {
	b := newHarness(t)
	cluster, env := b.singleNode()
	h := b.newHost(env, 1)
	h.alter = func(inventory *models.Inventory) { inventory.Boot.DeviceType = models.BootDeviceTypePersistent }
	require.NoError(t, h.register())
	h.report()
	b.startInstallation(cluster)
	b.prepareAll()
	require.NotContains(t, h.stepTypes(), models.StepTypeInstallationDiskSpeedCheck)
	h.report()
	h.require(lifecycle.HostInstalling)
	require.Contains(t, h.installRequest().CoreosImage, "quay.io/parts/rhel-coreos@sha256:")
}
