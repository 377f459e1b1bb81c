package metal

import (
	"encoding/json"
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

// HostChanges refuses the change of a host over another API than that of Kubernetes if the host's
// BareMetalHost would set the former value again; see editAgent.
type HostChanges struct {
	DB      *store.DB
	Objects *objects.Objects
}

// CheckUpdate returns an error of kind Conflict if the BareMetalHost would undo an update.
func (c HostChanges) CheckUpdate(infraEnvID, hostID string, params *models.HostUpdateParams) error {
	return c.check(infraEnvID, hostID, func(_ *store.Tx, s *pass) error {
		return checkHostUpdate(s.host, s.agent, params)
	})
}

// CheckIgnition is CheckUpdate for the override of the host's ignition config.
func (c HostChanges) CheckIgnition(infraEnvID, hostID, override string) error {
	return c.check(infraEnvID, hostID, func(_ *store.Tx, s *pass) error {
		if value, ok := s.host.Annotations[ignitionAnnotation]; ok && value != override {
			// The value may be long, and may contain secrets.
			return fault.New(fault.Conflict, "The BareMetalHost %s/%s would undo the change of the override of the "+
				"ignition config, because of its annotation %s. Change the annotation instead.", s.host.Namespace,
				s.host.Name, ignitionAnnotation)
		}
		return nil
	})
}

// CheckInstallerArgs is CheckUpdate for the arguments of coreos-installer.
func (c HostChanges) CheckInstallerArgs(infraEnvID, hostID string, args []string) error {
	return c.check(infraEnvID, hostID, func(_ *store.Tx, s *pass) error {
		var held []string
		value, ok := s.host.Annotations[installerArgsAnnotation]
		if !ok || value != "" && json.Unmarshal([]byte(value), &held) != nil || slices.Equal(held, args) {
			return nil // arguments that can't be read are not set
		}
		return undone(s.host, "arguments of the installer", installerArgsAnnotation)
	})
}

// CheckBinding is CheckUpdate for the cluster of the host; "" for none.
func (c HostChanges) CheckBinding(infraEnvID, hostID, clusterID string) error {
	return c.check(infraEnvID, hostID, func(tx *store.Tx, s *pass) error {
		reference, ok, err := clusterReference(s.host, s.infraEnv)
		if !ok || err != nil {
			return nil // the annotation has no effect
		}
		if clusterID != "" {
			row, err := record.Clusters.Get(tx, clusterID)
			if errors.Is(err, store.ErrNotFound) || err == nil && row.Object.Key == reference {
				return nil
			}
			if err != nil {
				return err
			}
		} else if reference == "" {
			return nil
		}
		return undone(s.host, "cluster", clusterReferenceAnnotation)
	})
}

// check calls f with the objects of a host if its BareMetalHost describes it.
func (c HostChanges) check(infraEnvID, hostID string, f func(tx *store.Tx, s *pass) error) error {
	return c.DB.View(func(tx *store.Tx) error {
		agent, host, err := objectsOf(tx, c.Objects, infraEnvID+"/"+hostID)
		if err != nil || host == nil || host.DeletionTimestamp != nil || host.Labels[infraEnvLabel] == "" {
			return err
		}
		infraEnv, err := objects.Find[agentinstall.InfraEnv](c.Objects, tx, objects.InfraEnvs, host.Namespace,
			host.Labels[infraEnvLabel])
		if err != nil || infraEnv == nil {
			return err
		}
		return f(tx, &pass{host: host, agent: agent, infraEnv: infraEnv})
	})
}

func undone(host *metal3.BareMetalHost, what, annotation string) error {
	return fault.New(fault.Conflict, "The BareMetalHost %s/%s would undo the change of the %s of the host, "+
		"because its annotation %s is %q. Change the annotation instead.", host.Namespace, host.Name, what, annotation,
		host.Annotations[annotation])
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
			return undone(host, c.what, c.annotation)
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
