package metal

import (
	"errors"
	"maps"
	"slices"

	"github.com/go-openapi/swag/conv"
	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// CheckHostUpdate returns a function that refuses the change of a host if the host's BareMetalHost
// would set the former values again; see editAgent.
func CheckHostUpdate(db *store.DB, o *objects.Objects) func(infraEnvID, hostID string,
	params *models.HostUpdateParams) error {
	return func(infraEnvID, hostID string, params *models.HostUpdateParams) error {
		return db.View(func(tx *store.Tx) error {
			row, err := record.Hosts.Get(tx, infraEnvID+"/"+hostID)
			if errors.Is(err, store.ErrNotFound) || err == nil && row.Object.Key == "" {
				return nil
			}
			if err != nil {
				return err
			}
			namespace, name := objects.SplitKey(row.Object.Key)
			agent, err := objects.Find[agentinstall.Agent](o, tx, objects.Agents, namespace, name)
			if err != nil || agent == nil || agent.Labels[agentHostLabel] == "" {
				return err
			}
			host, err := objects.Find[metal3.BareMetalHost](o, tx, objects.BareMetalHosts, namespace,
				agent.Labels[agentHostLabel])
			if err != nil || host == nil || host.DeletionTimestamp != nil || host.Labels[infraEnvLabel] == "" {
				return err
			}
			return checkHostUpdate(host, agent, params)
		})
	}
}

func checkHostUpdate(host *metal3.BareMetalHost, agent *agentinstall.Agent, params *models.HostUpdateParams) error {
	for _, c := range []struct {
		what, annotation string
		given            *string
	}{
		{"name", hostnameAnnotation, params.HostName}, {"role", roleAnnotation, params.HostRole},
		{"machine config pool", poolAnnotation, params.MachineConfigPoolName},
	} {
		if value, ok := host.Annotations[c.annotation]; ok && c.given != nil && *c.given != value {
			return fault.New(fault.Conflict, "The BareMetalHost %s/%s would undo the change of the %s of the host, "+
				"because its annotation %s is %q. Change the annotation instead.", host.Namespace, host.Name, c.what,
				c.annotation, value)
		}
	}
	if params.NodeLabels != nil {
		given := map[string]string{}
		for _, label := range params.NodeLabels {
			given[conv.Value(label.Key)] = conv.Value(label.Value)
		}
		if !maps.Equal(given, agent.Spec.NodeLabels) {
			return fault.New(fault.Conflict, "The BareMetalHost %s/%s would undo the change of the node labels of the "+
				"host. Change its annotations %s<label> instead.", host.Namespace, host.Name, nodeLabelPrefix)
		}
	}
	chosen := installationDisk(agent.Status.Inventory.Disks, host.Spec.RootDeviceHints)
	for _, disk := range params.DisksSelectedConfig {
		id := conv.Value(disk.ID)
		if chosen != "" && disk.Role == models.DiskRoleInstall && !sameDisk(agent, chosen, id) {
			return fault.New(fault.Conflict, "The BareMetalHost %s/%s would undo the change of the installation disk "+
				"of the host, because of its spec.rootDeviceHints. Change these instead.", host.Namespace, host.Name)
		}
	}
	return nil
}

// sameDisk reports whether a name is another name of the disk with an id.
func sameDisk(agent *agentinstall.Agent, id, name string) bool {
	return id == name || slices.ContainsFunc(agent.Status.Inventory.Disks, func(d agentinstall.HostDisk) bool {
		return d.ID == id && slices.Contains([]string{d.ByPath, d.ByID, d.Path, "/dev/" + d.Name}, name)
	})
}
