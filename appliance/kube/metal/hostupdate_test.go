package metal_test

import (
	"context"
	"errors"
	"testing"

	"github.com/go-openapi/swag/conv"
	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/kube/metal"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

func TestHostChanges_undoneByBareMetalHost(t *testing.T) {
	s := pairOf(t, map[string]string{
		bmac + "role": "master", bmac + "hostname": "n1", bmac + "machine-config-pool": "a",
		"bmac.agent-install.openshift.io.node-label.rack": "r1",
	}, func(host *metal3.BareMetalHost) {
		host.Spec.RootDeviceHints = &metal3.RootDeviceHints{DeviceName: "/dev/sda"}
	})
	require.NoError(t, s.db.Update(context.Background(), func(tx *store.Tx) error {
		return record.Hosts.Put(tx, "d1e2/a0", &record.Host{Object: record.Object{Key: "site/a0"}})
	}))
	check := metal.HostChanges{DB: s.db, Objects: s.o}.CheckUpdate
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

func TestHostChanges_installationAndCluster(t *testing.T) {
	const override, args = `{"ignition":{"version":"3.1.0"}}`, `["--save-partindex","1"]`
	annotations := map[string]string{bmac + "ignition-config-overrides": override, bmac + "installer-args": args,
		bmac + "cluster-reference": "clusters/one"}
	for name, c := range map[string]struct {
		says   string // "" if the change is accepted
		change func(metal.HostChanges) error
		alter  func(*site)
	}{
		"other override": {says: `because of its annotation ` + bmac + `ignition-config-overrides. Change`,
			change: func(c metal.HostChanges) error { return c.CheckIgnition("d1e2", "a0", "") }},
		"same override": {change: func(c metal.HostChanges) error { return c.CheckIgnition("d1e2", "a0", override) }},
		"other arguments": {says: "undo the change of the arguments of the installer",
			change: func(c metal.HostChanges) error { return c.CheckInstallerArgs("d1e2", "a0", []string{"-n"}) }},
		"same arguments": {change: func(c metal.HostChanges) error {
			return c.CheckInstallerArgs("d1e2", "a0", []string{"--save-partindex", "1"})
		}},
		"other cluster": {says: `annotation ` + bmac + `cluster-reference is "clusters/one"`,
			change: func(c metal.HostChanges) error { return c.CheckBinding("d1e2", "a0", "two") }},
		"same cluster": {change: func(c metal.HostChanges) error { return c.CheckBinding("d1e2", "a0", "one") }},
		"no cluster": {says: "undo the change of the cluster",
			change: func(c metal.HostChanges) error { return c.CheckBinding("d1e2", "a0", "") }},
		"a cluster although the annotation is empty": {says: `cluster-reference is ""`,
			change: func(c metal.HostChanges) error { return c.CheckBinding("d1e2", "a0", "two") },
			alter: func(s *site) {
				s.annotate(objects.BareMetalHosts, "node0", bmac+"cluster-reference", "")
			}},
		"no cluster because the annotation is empty": {
			change: func(c metal.HostChanges) error { return c.CheckBinding("d1e2", "a0", "") },
			alter: func(s *site) {
				s.annotate(objects.BareMetalHosts, "node0", bmac+"cluster-reference", "")
			}},
		"an invalid annotation": {change: func(c metal.HostChanges) error { return c.CheckBinding("d1e2", "a0", "") },
			alter: func(s *site) {
				s.annotate(objects.BareMetalHosts, "node0", bmac+"cluster-reference", "one")
			}},
		"an InfraEnv of a cluster": {
			change: func(c metal.HostChanges) error { return c.CheckBinding("d1e2", "a0", "") },
			alter: func(s *site) {
				s.edit(objects.InfraEnvs, "env", func(u *unstructured.Unstructured) {
					u.Object["spec"] = map[string]any{"clusterRef": map[string]any{"namespace": "clusters",
						"name": "one"}}
				})
			}},
	} {
		t.Run(name, func(t *testing.T) {
			s := pairOf(t, annotations)
			require.NoError(t, s.db.Update(context.Background(), func(tx *store.Tx) error {
				return errors.Join(record.Hosts.Put(tx, "d1e2/a0", &record.Host{Object: record.Object{Key: "site/a0"}}),
					record.Clusters.Put(tx, "one", &record.Cluster{Object: record.Object{Key: "clusters/one"}}),
					record.Clusters.Put(tx, "two", &record.Cluster{Object: record.Object{Key: "clusters/two"}}))
			}))
			if c.alter != nil {
				c.alter(s)
			}
			err := c.change(metal.HostChanges{DB: s.db, Objects: s.o})
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "The BareMetalHost site/node0 would undo")
			require.Equal(t, fault.Conflict, fault.KindOf(err))
		})
	}
}
