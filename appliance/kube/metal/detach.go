package metal

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"landfall/appliance/bmc"
)

// runAgentController does what the BareMetal Agent Controller does with a BareMetalHost. toAgent
// reports whether the annotations of the host must be written into its Agent.
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

// The values of the drain's annotation.
const (
	drained       = "drain succeeded"
	drainTimedOut = "drain timed out"
	drainGoesOn   = "draining in progress"
	drainFailed   = "failed to drain node: "
	drainIsByHand = "failed to drain node: nothing here drains the nodes of installed clusters; drain it with oc " +
		"adm drain, then set this annotation to \"" + drained + "\""
	drainWaitsAtOf = time.RFC3339
)

// waitsForDrain reports whether the node of a host that is deleted with its Agent must be drained
// first, up to the timeout of the annotation. Users must drain it if the appliance does not
// connect to installed clusters.
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
		s.annotate(drainStatusAnnotation, drainIsByHand)
	case s.drain.drained:
		s.annotate(drainStatusAnnotation, drained)
		return false
	case s.drain.fault != "":
		s.annotate(drainStatusAnnotation, drainFailed+s.drain.fault)
		s.drainNode = true
	default:
		s.annotate(drainStatusAnnotation, drainGoesOn)
		s.drainNode = true
	}
	return true
}

// prepareReboot lets a host boot its image again after its Agent was removed from a cluster: the
// host is attached again and loses the image, so that it is powered off and gets the image anew.
func (s *pass) prepareReboot() {
	if s.flow.converged {
		if s.host.Status.Provisioning.State == metal3.StateProvisioned {
			s.host.Spec.CustomDeploy = nil
		}
	} else {
		if !s.annotated(detachedAnnotation) {
			return // already done
		}
		s.host.Spec.Image = nil
	}
	s.removeAnnotations(detachedAnnotation, pausedAnnotation, hardwareAnnotation, spokeCreatedAnnotation)
}

// detach detaches a host whose machine is installed, and pauses it once it is detached.
func (s *pass) detach() {
	if s.annotated(manageProvisionedAnnotation) && s.flow.converged && !s.annotated(removeAgentAnnotation) {
		s.removeAnnotations(detachedAnnotation, pausedAnnotation)
		return
	}
	installed := restarted(s.agent)
	if s.flow.converged {
		// Ironic reboots the machine there, and the host is provisioned when that is done. Here the
		// machine reboots itself: it needs its image until then.
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
		s.removeAnnotations(pausedAnnotation) // the status is then taken from the annotation
	}
}

// pause pauses a host, with its status in an annotation for the hub that takes the host over.
func (s *pass) pause() {
	if s.host.Annotations[pausedAnnotation] == byAssisted {
		return
	}
	status, err := json.Marshal(s.host.Status)
	if err != nil {
		return // a status that was read out of JSON is always written
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
				" is no JSON; the host is detached all the same.")
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
	// If the installation detaches the host, the medium is ejected first.
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
