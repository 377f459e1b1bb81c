package metal_test

import (
	"context"
	"testing"

	"github.com/go-openapi/swag/conv"
	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/kube/metal"
	"landfall/store"
)

func TestCheckHostUpdate_undoneByBareMetalHost(t *testing.T) {
	s := pairOf(t, map[string]string{
		bmac + "role": "master", bmac + "hostname": "n1", bmac + "machine-config-pool": "a",
		"bmac.agent-install.openshift.io.node-label.rack": "r1",
	}, func(host *metal3.BareMetalHost) {
		host.Spec.RootDeviceHints = &metal3.RootDeviceHints{DeviceName: "/dev/sda"}
	})
	require.NoError(t, s.db.Update(context.Background(), func(tx *store.Tx) error {
		return record.Hosts.Put(tx, "d1e2/a0", &record.Host{Object: record.Object{Key: "site/a0"}})
	}))
	check := metal.CheckHostUpdate(s.db, s.o)
	labels := func(value string) *models.HostUpdateParams {
		return &models.HostUpdateParams{NodeLabels: []*models.NodeLabelParams{{Key: conv.Pointer("rack"),
			Value: &value}}}
	}
	disk := func(id string) *models.HostUpdateParams {
		return &models.HostUpdateParams{DisksSelectedConfig: []*models.DiskConfigParams{{ID: &id,
			Role: models.DiskRoleInstall}}}
	}
	for name, c := range map[string]struct {
		params *models.HostUpdateParams
		says   string // "" if the change is accepted
	}{
		"other name": {&models.HostUpdateParams{HostName: conv.Pointer("n2")},
			`annotation ` + bmac + `hostname is "n1"`},
		"other role": {&models.HostUpdateParams{HostRole: conv.Pointer("worker")},
			`annotation ` + bmac + `role is "master"`},
		"other pool": {&models.HostUpdateParams{MachineConfigPoolName: conv.Pointer("b")},
			"undo the change of the machine config pool"},
		"other label": {labels("r2"), "undo the change of the node labels"},
		"other disk":  {disk("/dev/disk/by-id/nvme-1"), "because of its spec.rootDeviceHints"},
		"same values": {&models.HostUpdateParams{HostName: conv.Pointer("n1"), HostRole: conv.Pointer("master")}, ""},
		"same label":  {labels("r1"), ""},
		"same disk":   {disk("/dev/disk/by-path/pci-0"), ""},
		"nothing":     {&models.HostUpdateParams{}, ""},
	} {
		err := check("d1e2", "a0", c.params)
		if c.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.says, name)
		require.ErrorContains(t, err, "The BareMetalHost site/node0 would undo", name)
		require.Equal(t, fault.Conflict, fault.KindOf(err), name)
	}
	require.NoError(t, check("d1e2", "another", labels("r2")), "a host without an Agent")
}
