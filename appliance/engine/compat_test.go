package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/fault"
	"landfall/store"
)

// These tests correspond to the subsystem tests of the Assisted Installer (its directory subsystem)
// for clusters and hosts during an installation. docs/compatibility.md has the mapping.

func TestDeleteCluster_unbindsHosts(t *testing.T) {
	b := newHarness(t)
	bound := func(host int) (cluster string, h *testHost) {
		cluster, _ = b.singleNode()
		h = b.host(b.infraEnvOf(nil), host)
		_, err := b.BindHost(t.Context(), h.env, h.id, cluster)
		require.NoError(t, err)
		require.NoError(t, h.register())
		h.report()
		h.require(lifecycle.HostKnown)
		return cluster, h
	}
	cluster, h := bound(1)
	own := b.infraEnvOf((*strfmt.UUID)(&cluster))
	goes := b.host(own, 2)
	require.NoError(t, b.DeregisterCluster(t.Context(), cluster, false))
	require.Nil(t, h.require(lifecycle.HostUnbinding).ClusterID)
	_, err := b.Host(own, goes.id)
	b.requireRejected(err, fault.NotFound, "There is no host")
	require.NoError(t, h.register())
	h.report()
	h.require(lifecycle.HostKnownUnbound)

	cluster, h = bound(3)
	b.startInstallation(cluster)
	b.prepareAll()
	h.report()
	h.require(lifecycle.HostInstalling)
	b.requireRejected(b.DeregisterCluster(t.Context(), cluster, false), fault.Conflict, "cancel the installation")
	_, err = b.CancelInstallation(t.Context(), cluster)
	require.NoError(t, err)
	require.NoError(t, b.DeregisterCluster(t.Context(), cluster, false))
	require.Nil(t, h.require(lifecycle.HostUnbindingPendingUserAction).ClusterID)
	require.NoError(t, h.register())
	h.report()
	h.require(lifecycle.HostKnownUnbound)
}

// A cluster on which other clusters depend is deleted only by force.
func TestDeleteCluster_asksWhatDependsOnIt(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.installing()
	b.options.KeepCluster = func(_ *store.Tx, id string) error {
		require.Equal(t, cluster, id)
		return conflict("The cluster runs the control planes of edge1.")
	}
	_, err := b.CancelInstallation(t.Context(), cluster)
	require.NoError(t, err)
	b.requireRejected(b.DeregisterCluster(t.Context(), cluster, false), fault.Conflict, "control planes of edge1")
	require.NoError(t, b.DeregisterCluster(t.Context(), cluster, true))
}

// A name that the site can't serve beside the other clusters is refused when it is saved: as wrong
// input of a new cluster, and as a conflict of a change. Other changes are accepted.
func TestClusterName_refusedWhenSaved(t *testing.T) {
	b := newHarness(t)
	taken := errors.New("the cluster east has the DNS name east.site.test")
	b.options.CheckName = func(_ *store.Tx, cluster *models.Cluster) error {
		if cluster.Name == "east" {
			return &fault.Error{Kind: fault.Conflict, Reason: taken.Error(), Err: taken}
		}
		return nil
	}
	params := &models.ClusterCreateParams{Name: conv.Pointer("east"), OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret: conv.Pointer(testPullSecret), BaseDNSDomain: "site.test"}
	_, err := b.RegisterCluster(t.Context(), params)
	b.requireRejected(err, fault.Invalid, taken.Error())
	require.ErrorIs(t, err, taken)
	params.Name = conv.Pointer("west")
	cluster, err := b.RegisterCluster(t.Context(), params)
	require.NoError(t, err)
	id := cluster.ID.String()
	_, err = b.UpdateCluster(t.Context(), id, &models.V2ClusterUpdateParams{Name: conv.Pointer("east")})
	b.requireRejected(err, fault.Conflict, taken.Error())
	b.options.CheckName = func(*store.Tx, *models.Cluster) error { return taken }
	_, err = b.UpdateCluster(t.Context(), id, &models.V2ClusterUpdateParams{
		SSHPublicKey: conv.Pointer(""), Name: conv.Pointer("west")})
	require.NoError(t, err)
}

func TestInstall_rejectionKeepsLastPreparation(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.installing()
	before := b.requireCluster(cluster, lifecycle.ClusterInstalling).LastInstallationPreparation
	require.Equal(t, models.LastInstallationPreparationStatusSuccess, before.Status)
	_, err := b.InstallCluster(t.Context(), cluster)
	b.requireRejected(err, fault.Conflict, "install is not possible")
	require.Equal(t, before, b.requireCluster(cluster, lifecycle.ClusterInstalling).LastInstallationPreparation)
}

func TestCancel_appliesToAllHosts(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	b.startInstallation(cluster)
	b.prepareAll()
	b.reportAll(hosts)
	require.NoError(t, hosts[0].progress(models.HostStageInstalling, ""))
	hosts[1].reportStagesUpTo(models.HostStageDone)
	hosts[0].require(lifecycle.HostInstallingInProgress)
	hosts[1].require(lifecycle.HostInstalled)
	hosts[2].require(lifecycle.HostInstalling)
	b.clock.Advance(time.Minute)
	_, err := b.CancelInstallation(t.Context(), cluster)
	require.NoError(t, err)
	ended := b.requireCluster(cluster, lifecycle.ClusterCancelled)
	require.Equal(t, ended.StatusUpdatedAt, ended.InstallCompletedAt)
	for _, h := range hosts {
		h.require(lifecycle.HostCancelled)
	}
}

func TestInstall_controlPlaneHostFails(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	b.startInstallation(cluster)
	b.prepareAll()
	b.reportAll(hosts)
	require.NoError(t, hosts[1].progress(models.HostStageFailed, "because some error"))
	require.Contains(t, *hosts[1].require(lifecycle.HostFailed).StatusInfo, "because some error")
	b.requireCluster(cluster, lifecycle.ClusterFailed)
	for _, h := range hosts {
		h.require(lifecycle.HostFailed)
	}
	late := b.newHost(hosts[0].env, 9)
	require.Error(t, late.register(), "a failed cluster accepts no hosts")
	_, err := b.CancelInstallation(t.Context(), cluster)
	require.NoError(t, err)
	for _, h := range hosts {
		h.require(lifecycle.HostCancelled)
	}
}

func TestReset_keepsManifestsOfUsers(t *testing.T) {
	b := newHarness(t)
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	_, err := b.CreateManifest(t.Context(), cluster, Manifest{Folder: "openshift", Name: "mine.yaml",
		Content: []byte("a: 1\n")})
	require.NoError(t, err)
	b.startInstallation(cluster)
	b.prepareAll()
	h.report()
	h.reportStagesUpTo(models.HostStageWritingImageToDisk)
	_, err = b.ResetCluster(t.Context(), cluster)
	require.NoError(t, err)
	require.NoError(t, h.register())
	progress := h.require(lifecycle.HostDiscovering).Progress
	require.Equal(t, &models.HostProgressInfo{}, progress)
	again := b.requireCluster(cluster, *b.clusterStatus(cluster))
	require.Zero(t, again.Progress.TotalPercentage)
	require.True(t, time.Time(again.InstallStartedAt).IsZero() || time.Time(again.InstallStartedAt).Year() < 1972)
	manifests, err := b.Manifests(cluster, false)
	require.NoError(t, err)
	require.Len(t, manifests, 1)
	require.Equal(t, "mine.yaml", manifests[0].FileName)
	h.report()
	b.requireCluster(cluster, lifecycle.ClusterReady)
}

// clusterStatus returns the status of a cluster.
func (b *harness) clusterStatus(id string) *string {
	b.Helper()
	cluster, err := b.Cluster(id)
	require.NoError(b, err)
	return cluster.Status
}

func TestDeleteHost_clusterIsNotReady(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	b.requireCluster(cluster, lifecycle.ClusterReady)
	require.NoError(t, b.DeregisterHost(t.Context(), hosts[0].env, hosts[0].id))
	require.Contains(t, b.requireCluster(cluster, lifecycle.ClusterInsufficient).ValidationsInfo,
		`"sufficient-masters-count","status":"failure"`)
	require.NoError(t, hosts[0].register(), "the host may register again")
	hosts[0].report()
	b.reportAll(hosts)
	b.requireCluster(cluster, lifecycle.ClusterReady)
}

func TestUpdateHost_roleIsValidatedImmediately(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	shown, err := b.UpdateHost(t.Context(), hosts[0].env, hosts[0].id,
		&models.HostUpdateParams{HostRole: conv.Pointer("worker")})
	require.NoError(t, err)
	require.Equal(t, models.HostRoleWorker, shown.Role)
	require.Contains(t, b.requireCluster(cluster, lifecycle.ClusterInsufficient).ValidationsInfo,
		`"sufficient-masters-count","status":"failure"`)
}

// A data processing unit has a small disk. Its first report already says what the machine is.
func TestEligibleDisks_smallDiskOfDataProcessingUnit(t *testing.T) {
	b := newHarness(t)
	h := b.newHost(b.infraEnvOf(b.clusterOfThree().ID), 1)
	h.alter = func(inventory *models.Inventory) {
		inventory.CPU.Architecture, inventory.SystemVendor.ProductName = "aarch64", "BlueField SoC"
		inventory.Disks = inventory.Disks[:1]
		inventory.Disks[0].SizeBytes = 16 << 30
	}
	require.NoError(t, h.register())
	h.reportOnce()
	require.Contains(t, h.require("").ValidationsInfo, `"has-min-valid-disks","status":"success"`)
}

// The ids of some agents' disks are not paths, and some agents send no path.
func TestInstallationDisk_withoutPathIsItsDevice(t *testing.T) {
	b := newHarness(t)
	cluster, env := b.singleNode()
	h := b.newHost(env, 1)
	h.alter = func(inventory *models.Inventory) {
		inventory.Disks = inventory.Disks[:1]
		inventory.Disks[0].ID, inventory.Disks[0].Path = "wwn-0x1111111111111111111111", ""
	}
	require.NoError(t, h.register())
	h.report()
	got := h.require(lifecycle.HostKnown)
	require.Equal(t, []string{"wwn-0x1111111111111111111111", "/dev/sda"},
		[]string{got.InstallationDiskID, got.InstallationDiskPath})
	disk := &models.DiskConfigParams{ID: conv.Pointer("/dev/sda"), Role: models.DiskRoleInstall}
	_, err := b.UpdateHost(t.Context(), env, h.id,
		&models.HostUpdateParams{DisksSelectedConfig: []*models.DiskConfigParams{disk}})
	require.NoError(t, err)
	require.Equal(t, "/dev/sda", h.require(lifecycle.HostKnown).InstallationDiskPath)

	b.startInstallation(cluster)
	b.prepareAll()
	h.report()
	h.require(lifecycle.HostInstalling)
	instructions := h.poll().Instructions
	require.Len(t, instructions, 1)
	require.Equal(t, models.StepTypeInstall, instructions[0].StepType)
	require.Contains(t, instructions[0].Args[0], `"boot_device":"/dev/sda"`)
	config, err := b.InstallConfig(cluster)
	require.NoError(t, err)
	require.Contains(t, config, `"installationDisk": "/dev/sda"`)
}
