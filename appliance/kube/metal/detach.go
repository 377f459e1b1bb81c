package metal

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"landfall/appliance/bmc"
)

// runAgentController changes a BareMetalHost as the BareMetal Agent Controller does. toAgent
// reports whether the values of the host's annotations must be written into its Agent.
func (s *pass) runAgentController() (toAgent bool) {
	host := s.host
	if host.Labels[infraEnvLabel] == "" {
		host.Finalizers = without(host.Finalizers, agentHostFinalizer)
		return false
	}
	if s.infraEnv != nil {
		host.Labels[backupLabel] = "true"
	}
	if host.DeletionTimestamp != nil {
		s.runAgentControllerDeletion()
		return false
	}
	if !slices.Contains(host.Finalizers, agentHostFinalizer) {
		host.Finalizers = append(host.Finalizers, agentHostFinalizer)
	}
	if unbinding(s.agent) {
		s.prepareReboot()
	}
	s.detach()
	s.chooseImage()
	return s.agent != nil && s.infraEnv != nil
}

// runAgentControllerDeletion removes the controller's finalizer from a host that is being deleted.
func (s *pass) runAgentControllerDeletion() {
	if s.removesAgent() {
		s.removeAnnotations(detachedAnnotation)
		if s.waitsForDrain() {
			return
		}
	}
	s.removeAnnotations(pausedAnnotation)
	s.host.Finalizers = without(s.host.Finalizers, agentHostFinalizer)
}

// removesAgent reports whether the Agent is deleted with the host. Only the converged flow
// supports that.
func (s *pass) removesAgent() bool { return s.flow.converged && s.annotated(removeAgentAnnotation) }

// The values of the annotation with the state of the drain.
const (
	drained         = "drain succeeded"
	drainTimedOut   = "drain timed out"
	drainInProgress = "draining in progress"
	drainFailed     = "failed to drain node: "
	drainManually   = "failed to drain node: this appliance does not connect to installed clusters; drain it with oc " +
		"adm drain, then set this annotation to \"" + drained + "\""
	drainWaitsAtOf = time.RFC3339
)

// waitsForDrain reports whether the node of a host that is deleted with its Agent must be drained
// first, up to the timeout in an annotation. If the appliance does not connect to installed
// clusters, users must drain the node.
func (s *pass) waitsForDrain() bool {
	if s.agent == nil || s.agent.Spec.ClusterDeploymentName == nil || !restarted(s.agent) {
		return false
	}
	switch s.host.Annotations[drainStatusAnnotation] {
	case drained, drainTimedOut:
		return false
	}
	started, err := time.Parse(drainWaitsAtOf, s.host.Annotations[drainStartedAnnotation])
	if err != nil {
		started = s.now
		s.annotate(drainStartedAnnotation, started.Format(drainWaitsAtOf))
	}
	if timeout, err := time.ParseDuration(s.host.Annotations[drainTimeoutAnnotation]); err == nil {
		if left := started.Add(timeout).Sub(s.now); left > 0 {
			s.requeue(left)
		} else {
			s.annotate(drainStatusAnnotation, drainTimedOut)
			return false
		}
	}
	switch {
	case !s.hasSpokes:
		s.annotate(drainStatusAnnotation, drainManually)
	case s.drain.drained:
		s.annotate(drainStatusAnnotation, drained)
		return false
	case s.drain.fault != "":
		s.annotate(drainStatusAnnotation, drainFailed+s.drain.fault)
		s.drainNode = true
	default:
		s.annotate(drainStatusAnnotation, drainInProgress)
		s.drainNode = true
	}
	return true
}

// prepareReboot makes a host boot its image again after its Agent was removed from a cluster. It
// attaches the host and removes the image from its spec, so that the server is powered off and then
// boots the image.
func (s *pass) prepareReboot() {
	if s.flow.converged {
		if s.host.Status.Provisioning.State == metal3.StateProvisioned {
			s.host.Spec.CustomDeploy = nil
		}
	} else {
		if !s.annotated(detachedAnnotation) {
			return // the reboot is already prepared
		}
		s.host.Spec.Image = nil
	}
	s.removeAnnotations(detachedAnnotation, pausedAnnotation, hardwareAnnotation, spokeCreatedAnnotation)
}

// detach detaches a host whose machine is installed, and pauses the host once it is detached.
func (s *pass) detach() {
	if s.annotated(manageProvisionedAnnotation) && s.flow.converged && !s.annotated(removeAgentAnnotation) {
		s.removeAnnotations(detachedAnnotation, pausedAnnotation)
		return
	}
	installed := restarted(s.agent)
	if s.flow.converged {
		// On a hub, Ironic reboots the machine, and then the host is provisioned. Here, the machine
		// reboots itself, and needs its image until the host is provisioned.
		installed = installed && s.host.Status.Provisioning.State == metal3.StateProvisioned
	}
	if installed && !unbinding(s.agent) {
		value := byAssisted
		if s.removesAgent() {
			value = `{"deleteAction":"delay"}`
		}
		s.annotate(detachedAnnotation, value)
		if s.flow.pauseProvisioned && s.host.Status.OperationalStatus == metal3.OperationalStatusDetached {
			s.pause()
		}
	}
	if s.host.Status.Provisioning.State == metal3.StateNone && s.annotated(pausedAnnotation) &&
		s.annotated(statusAnnotation) {
		s.removeAnnotations(pausedAnnotation) // the operator restores the status from the annotation
	}
}

// pause pauses a host and writes its status into an annotation, for the hub that is going to manage
// the host.
func (s *pass) pause() {
	if s.host.Annotations[pausedAnnotation] == byAssisted {
		return
	}
	status, err := json.Marshal(s.host.Status)
	if err != nil {
		return // not possible for a status that was read from JSON
	}
	s.annotate(statusAnnotation, string(status))
	s.annotate(pausedAnnotation, byAssisted)
}

// detachment reports whether a host is detached, and whether its deletion waits until it is
// attached.
func (s *pass) detachment() (detached, delaysDeletion bool) {
	value, ok := s.host.Annotations[detachedAnnotation]
	if !ok {
		return false, false
	}
	var arguments struct {
		DeleteAction string `json:"deleteAction"`
		Force        bool   `json:"force"`
	}
	if strings.HasPrefix(value, "{") {
		if err := json.Unmarshal([]byte(value), &arguments); err != nil {
			s.event(operatorComponent, true, "DetachError", "The annotation "+detachedAnnotation+
				" is not JSON; the host is detached nevertheless.")
		}
	}
	delays := arguments.DeleteAction == metal3.DetachedDeleteActionDelay
	switch s.host.Status.Provisioning.State {
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned, metal3.StateReady, metal3.StateAvailable:
	default:
		if !arguments.Force {
			return false, delays
		}
	}
	// If the host is detached because its installation ended, the image is ejected first.
	byInstallation := value == byAssisted || s.removesAgent()
	return !byInstallation || !imageInserted(s.server), delays
}

// imageInserted reports whether the image that a server has booted is still inserted.
func imageInserted(server *bmc.Server) bool {
	return server != nil && server.Booted != nil && server.Booted.Ejected.IsZero()
}

func without(list []string, value string) []string {
	left := slices.DeleteFunc(slices.Clone(list), func(v string) bool { return v == value })
	if len(left) == 0 {
		return nil
	}
	return left
}
