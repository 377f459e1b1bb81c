package metal

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/openshift/assisted-service/models"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/objects/agentinstall"

	"landfall/appliance/kube/objects"
	"landfall/store"
)

// agentOf returns the newest Agent in the namespace that has a network interface with the host's
// boot MAC address; nil if there is no such Agent.
func (c *Controllers) agentOf(tx *store.Tx, host *metal3.BareMetalHost) (*agentinstall.Agent, error) {
	if host.Spec.BootMACAddress == "" {
		return nil, nil
	}
	mac := strings.ToLower(host.Spec.BootMACAddress)
	var newest *agentinstall.Agent
	for _, at := range c.index.agentsWith(host.Namespace, mac) {
		agent, err := objects.Find[agentinstall.Agent](c.Objects, tx, objects.Agents, at.namespace, at.name)
		if err != nil {
			return nil, err
		}
		if agent != nil && slices.Contains(macsOf(agent), mac) && (newest == nil || newer(agent, newest)) {
			newest = agent
		}
	}
	return newest, nil
}

const retryAgent = time.Minute // interval of checks whether another host still has an Agent

// checkAgent ignores the Agent of a pass if another host with a MAC address of the machine has it
// already. Otherwise both hosts would change the Agent in turn, without end.
func (c *Controllers) checkAgent(tx *store.Tx, s *pass) error {
	if s.agent == nil {
		return nil
	}
	name := s.agent.Labels[agentHostLabel]
	if name == "" || name == s.host.Name {
		return nil
	}
	other, err := objects.Find[metal3.BareMetalHost](c.Objects, tx, objects.BareMetalHosts, s.host.Namespace, name)
	if err != nil || other == nil || other.DeletionTimestamp != nil || other.Labels[infraEnvLabel] == "" ||
		!slices.Contains(macsOf(s.agent), strings.ToLower(other.Spec.BootMACAddress)) {
		return err
	}
	s.event(agentComponent, true, "AgentNotUpdated", fmt.Sprintf("the machine with the MAC address %s belongs to the "+
		"BareMetalHost %s already (Agent %s); correct spec.bootMACAddress of one of the two hosts",
		s.host.Spec.BootMACAddress, name, s.agent.Name))
	s.agent = nil
	s.requeue(retryAgent)
	return nil
}

func macsOf(agent *agentinstall.Agent) []string {
	var macs []string
	for _, nic := range agent.Status.Inventory.Interfaces {
		if nic.MACAddress != "" {
			macs = append(macs, strings.ToLower(nic.MACAddress))
		}
	}
	return macs
}

func newer(a, b *agentinstall.Agent) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name > b.Name
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}

// editAgent writes the values of a host's annotations into its Agent. If an annotation is removed,
// its value stays in the Agent, except for node labels. The error reports an invalid cluster
// reference; the other values are written nevertheless.
func editAgent(u *unstructured.Unstructured, agent *agentinstall.Agent, host *metal3.BareMetalHost,
	infraEnv *agentinstall.InfraEnv) error {
	var errs []error
	set := func(value any, fields ...string) {
		errs = append(errs, unstructured.SetNestedField(u.Object, value, fields...))
	}
	for annotation, field := range map[string]string{
		roleAnnotation: "role", hostnameAnnotation: "hostname", poolAnnotation: "machineConfigPool",
		installerArgsAnnotation: "installerArgs", ignitionAnnotation: "ignitionConfigOverrides",
	} {
		if value, ok := host.Annotations[annotation]; ok {
			set(value, "spec", field)
		}
	}
	set(true, "spec", "approved")
	if disk := installationDisk(agent.Status.Inventory.Disks, host.Spec.RootDeviceHints); disk != "" {
		set(disk, "spec", "installation_disk_id")
	} else if agent.Spec.InstallationDiskID == objects.NoDiskFits { // the hints were wrong, and are removed
		unstructured.RemoveNestedField(u.Object, "spec", "installation_disk_id")
	}
	errs = append(errs, editNodeLabels(u, agent, prefixed(host.Annotations, nodeLabelPrefix)))
	labels := maps.Clone(u.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[agentHostLabel] = host.Name
	for name, value := range prefixed(host.Annotations, agentLabelPrefix) {
		if !strings.HasPrefix(name, classificationPrefix) { // the reconciler of Agents sets these
			labels[name] = value
		}
	}
	u.SetLabels(labels)
	if name, ok := fencingSecret(host, agent); ok {
		set(name, "spec", "fencingCredentialsSecretRef")
	}
	return errors.Join(append(errs, editClusterReference(u, host, infraEnv))...)
}

// editNodeLabels replaces the node labels of an Agent by those of its host's annotations. It keeps
// the labels that the Agent inherited from its InfraEnv, which the reconciler of Agents would only
// add again. If an annotation sets such a label, the label is no longer inherited.
func editNodeLabels(u *unstructured.Unstructured, agent *agentinstall.Agent, nodeLabels map[string]string) error {
	var inherited []string
	for name := range strings.SplitSeq(agent.Annotations[inheritedLabelsAnnotation], ",") {
		value, exists := agent.Spec.NodeLabels[name]
		if _, own := nodeLabels[name]; exists && !own {
			nodeLabels[name] = value
			inherited = append(inherited, name)
		}
	}
	annotations := u.GetAnnotations()
	delete(annotations, inheritedLabelsAnnotation)
	if len(inherited) > 0 {
		annotations[inheritedLabelsAnnotation] = strings.Join(inherited, ",")
	}
	u.SetAnnotations(annotations)
	if len(nodeLabels) == 0 {
		unstructured.RemoveNestedField(u.Object, "spec", "nodeLabels")
		return nil
	}
	return unstructured.SetNestedStringMap(u.Object, nodeLabels, "spec", "nodeLabels")
}

// prefixed returns the annotations with a prefix, without the prefix in their keys.
func prefixed(annotations map[string]string, prefix string) map[string]string {
	found := map[string]string{}
	for key, value := range annotations {
		if rest, ok := strings.CutPrefix(key, prefix); ok && rest != "" {
			found[rest] = value
		}
	}
	return found
}

// editClusterReference binds an Agent to the cluster that an annotation of its host names, or
// unbinds the Agent if the annotation is empty.
func editClusterReference(u *unstructured.Unstructured, host *metal3.BareMetalHost,
	infraEnv *agentinstall.InfraEnv) error {
	reference, ok, err := clusterReference(host, infraEnv)
	if !ok || err != nil {
		return err
	}
	if reference == "" {
		unstructured.RemoveNestedField(u.Object, "spec", "clusterDeploymentName")
		return nil
	}
	namespace, name, _ := strings.Cut(reference, "/")
	return errors.Join(
		unstructured.SetNestedField(u.Object, namespace, "spec", "clusterDeploymentName", "namespace"),
		unstructured.SetNestedField(u.Object, name, "spec", "clusterDeploymentName", "name"))
}

// clusterReference returns the cluster that an annotation of a host names, as namespace/name; "" to
// unbind the host. ok is false if the annotation has no effect. The host's InfraEnv must not belong
// to a cluster.
func clusterReference(host *metal3.BareMetalHost, infraEnv *agentinstall.InfraEnv) (reference string, ok bool,
	err error) {
	reference, ok = host.Annotations[clusterReferenceAnnotation]
	early := infraEnv != nil && infraEnv.Spec.ClusterRef != nil
	if !ok || reference == "" {
		return "", ok && !early, nil
	}
	if early {
		return "", false, fmt.Errorf("the annotation %s can't bind the host %s: its InfraEnv %s belongs to the "+
			"cluster %s/%s already; remove the annotation",
			clusterReferenceAnnotation, host.Name, infraEnv.Name, infraEnv.Spec.ClusterRef.Namespace,
			infraEnv.Spec.ClusterRef.Name)
	}
	namespace, name, found := strings.Cut(reference, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", false, fmt.Errorf("the annotation %s of the host %s is %q; it has the form namespace/name of a "+
			"ClusterDeployment",
			clusterReferenceAnnotation, host.Name, reference)
	}
	return reference, true, nil
}

// unbinding reports whether the machine of an Agent must boot the image again after it was removed
// from a cluster.
func unbinding(agent *agentinstall.Agent) bool {
	if agent == nil {
		return false
	}
	for _, condition := range agent.Status.Conditions {
		if condition.Type == boundCondition {
			return condition.Reason == unbindingPending
		}
	}
	return false
}

// restarted reports whether the machine of an Agent was restarted and no longer runs the image.
func restarted(agent *agentinstall.Agent) bool {
	if agent == nil {
		return false
	}
	switch agent.Status.Progress.CurrentStage {
	case models.HostStageRebooting, models.HostStageJoined, models.HostStageDone, models.HostStageFailed:
		return true
	}
	return false
}

// waiting reports whether an Agent runs the image, and an installation may start on its machine at
// any time.
func waiting(agent *agentinstall.Agent) bool {
	switch agent.Status.DebugInfo.State {
	case models.HostStatusDiscovering, models.HostStatusKnown, models.HostStatusInsufficient,
		models.HostStatusPendingForInput, models.HostStatusBinding,
		models.HostStatusDiscoveringUnbound, models.HostStatusKnownUnbound, models.HostStatusInsufficientUnbound:
		return true
	}
	return false
}

// busy reports whether the machine of an Agent is being installed or is installed. Such a machine
// must not boot another image.
func busy(agent *agentinstall.Agent) bool {
	if agent == nil {
		return false
	}
	switch agent.Status.DebugInfo.State {
	case models.HostStatusPreparingForInstallation, models.HostStatusPreparingSuccessful, models.HostStatusInstalling,
		models.HostStatusInstallingInProgress, models.HostStatusInstallingPendingUserAction, models.HostStatusInstalled,
		models.HostStatusAddedToExistingCluster:
		return true
	}
	return false
}
