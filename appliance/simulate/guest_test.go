package simulate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// guest returns a machine that runs the appliance's image.
func (a *appliance) guest() *Guest {
	path := filepath.Join(a.t.TempDir(), "discovery.iso")
	file, err := os.Create(path)
	require.NoError(a.t, err)
	_, err = a.image.NewReader().WriteTo(file)
	require.NoError(a.t, err)
	require.NoError(a.t, file.Close())
	disc, err := readDisc(path)
	require.NoError(a.t, err)
	return &Guest{
		ID: "77070000-0000-4000-8000-000000000001", Config: disc.config, Speed: 1e6,
		Inventory: &models.Inventory{
			Hostname: "edge", CPU: &models.CPU{Architecture: "x86_64", Count: 1},
			Memory: &models.Memory{PhysicalBytes: 1 << 30}, Boot: &models.Boot{},
			SystemVendor: &models.SystemVendor{},
			Interfaces: []*models.Interface{
				{Name: "ens2", MacAddress: "52:54:00:77:07:02", HasCarrier: true},
				{Name: "ens3", MacAddress: "52:54:00:77:07:01", HasCarrier: true,
					IPV4Addresses: []string{"10.0.2.15/24"}},
			},
			Disks: []*models.Disk{
				{Name: "sr0", Path: "/dev/sr0", DriveType: models.DriveTypeODD, SizeBytes: 1 << 20, Removable: true},
				{Name: "vda", Path: "/dev/vda", DriveType: models.DriveTypeSSD, SizeBytes: 20 << 30},
			},
			Routes: []*models.Route{{Destination: "0.0.0.0", Gateway: "10.0.2.2", Interface: "ens3"},
				{Destination: "10.0.2.0", Gateway: "0.0.0.0", Interface: "ens3"}},
		},
	}
}

func TestGuest_installedAcrossBoots(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.expect, a.bootDevice = 1, "/dev/vda"
	var inventory string
	a.onReply = func(_ string, reply models.StepReply) {
		if reply.StepType == models.StepTypeInventory {
			inventory = reply.Output
		}
	}
	guest := a.guest()
	var written []string
	guest.WriteImage = func(_ context.Context, path string) error {
		written = append(written, path)
		return nil
	}

	_, err := guest.Run(testContext(t), true)
	require.EqualError(t, err, "the machine booted from its disk, but the appliance did not install it")
	restart, err := guest.Run(testContext(t), false)
	require.NoError(t, err)
	require.True(t, restart)
	require.Equal(t, []string{"/dev/vda"}, written)
	require.Equal(t, singleStages[:5], a.stages[guest.ID])
	require.Contains(t, inventory, `"mac_address":"52:54:00:77:07:01"`, "the inventory contains the machine's NIC")
	require.NotContains(t, inventory, "Simulated")

	restart, err = guest.Run(testContext(t), true)
	require.NoError(t, err)
	require.False(t, restart)
	require.Equal(t, singleStages, a.stages[guest.ID])
	require.Equal(t, models.ClusterStatusInstalled, a.status)
	require.Equal(t, []strfmt.UUID{guest.ID}, a.order)
	require.Equal(t, 1, a.registrations[guest.ID])
}

func TestGuest_diskWriteFails(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.expect, a.bootDevice = 1, "/dev/vda"
	guest := a.guest()
	guest.WriteImage = func(context.Context, string) error { return errors.New("the disk does not exist") }
	restart, err := guest.Run(testContext(t), false)
	require.Error(t, err)
	require.False(t, restart)
	require.Equal(t, models.HostStageFailed, a.stages[guest.ID][len(a.stages[guest.ID])-1])
}

func TestGuest_withoutNetwork(t *testing.T) {
	t.Parallel()
	guest := newAppliance(t).guest()
	guest.Inventory.Interfaces = guest.Inventory.Interfaces[:1]
	_, err := guest.Run(testContext(t), false)
	require.EqualError(t, err, "no NIC of the machine has an IPv4 address")
}
