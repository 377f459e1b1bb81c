package metal

import (
	"fmt"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/kube/objects/agentinstall"

	"landfall/appliance/bmc"
	"landfall/appliance/kube/objects"
)

// pass is one reconcile of a host: everything that belongs to it. The methods change host, which
// is written afterwards.
type pass struct {
	host     *metal3.BareMetalHost
	infraEnv *agentinstall.InfraEnv // nil if the host names none, or one that does not exist
	engineID string                 // the infra-env's in the engine; "" if there is none
	agent    *agentinstall.Agent    // nil if none has registered from the machine
	hostKey  string                 // the agent's in the engine; "" if there is none
	secret   *corev1.Secret         // the BMC's credentials; nil if missing
	image    *metal3.PreprovisioningImage
	server   *bmc.Server // nil if it does not exist yet
	refusal  string      // why the request for the server was refused; "" if it was not
	flow     flow
	now      time.Time
	imageAge time.Duration

	requeueAfter time.Duration // 0 waits for a change
	events       []objects.EventContent
	released     bool // the deletion of the host is complete
	keepPower    bool // do not power off a host that is being deleted

	hasSpokes bool         // the appliance connects to installed clusters
	drain     drainOutcome // the known state of the host's node
	drainNode bool         // the node must be drained

	restartHost bool // tell the engine that the machine is restarted
}

// flow is how BareMetalHosts get their image.
type flow struct {
	converged        bool // by customDeploy and a PreprovisioningImage
	pauseProvisioned bool
}

func (s *pass) annotated(key string) bool {
	_, ok := s.host.Annotations[key]
	return ok
}

func (s *pass) annotate(key, value string) {
	if s.host.Annotations == nil {
		s.host.Annotations = map[string]string{}
	}
	s.host.Annotations[key] = value
}

func (s *pass) removeAnnotations(keys ...string) {
	for _, key := range keys {
		delete(s.host.Annotations, key)
	}
}

func (s *pass) event(component string, warning bool, reason, message string) {
	s.events = append(s.events, objects.EventContent{Component: component, Warning: warning, Reason: reason,
		Message: message})
}

func (s *pass) requeue(after time.Duration) {
	if after > 0 && (s.requeueAfter == 0 || after < s.requeueAfter) {
		s.requeueAfter = after
	}
}

// chooseImage sets the image that the host boots: that of its InfraEnv, once it exists and is old
// enough. A replaced image is removed first, so that the server is powered off and boots the new
// one, but not during an installation. The engine is told before, so that no installation starts
// on a machine that is about to be powered off.
func (s *pass) chooseImage() {
	if s.annotated(detachedAnnotation) {
		return
	}
	if s.infraEnv == nil {
		s.reportMissingInfraEnv()
		return
	}
	if s.flow.converged {
		s.chooseDeployment()
		return
	}
	if !s.annotated(inspectAnnotation) {
		s.annotate(inspectAnnotation, disabled)
	}
	spec := &s.host.Spec
	spec.AutomatedCleaningMode = metal3.CleaningModeDisabled
	url, created := s.infraEnv.Status.ISODownloadURL, s.infraEnv.Status.CreatedTime
	if url == "" || spec.Image != nil && spec.Image.URL == url || busy(s.agent) {
		return
	}
	if created != nil {
		if wait := created.Add(s.imageAge).Sub(s.now); wait > 0 {
			s.requeue(wait)
			return
		}
	}
	switch s.host.Status.Provisioning.State {
	case metal3.StateReady, metal3.StateAvailable:
		format := "live-iso"
		spec.Image = &metal3.Image{URL: url, DiskFormat: &format}
		spec.Online = true
	default:
		if s.restartHost = s.hostKey != "" && spec.Image != nil && waiting(s.agent); !s.restartHost {
			spec.Image = nil
		}
	}
}

// infraEnvComes is how long after a host its InfraEnv may be applied before an Event reports it as
// missing.
const infraEnvComes = 30 * time.Second

// reportMissingInfraEnv writes an Event about an InfraEnv that a host names and that does not
// exist. The host would otherwise wait without any message.
func (s *pass) reportMissingInfraEnv() {
	if wantsBoot(s.host) {
		return
	}
	if wait := s.host.CreationTimestamp.Add(infraEnvComes).Sub(s.now); wait > 0 {
		s.requeue(wait)
		return
	}
	s.event(agentComponent, true, "InfraEnvMissing", fmt.Sprintf(
		"The label %s names the InfraEnv %s, which is not in the namespace %s: the host gets no image to boot until "+
			"it is. Apply it, or correct the label.",
		infraEnvLabel, s.host.Labels[infraEnvLabel], s.host.Namespace))
}

// chooseDeployment sets the deploy method of the image's agent, once a PreprovisioningImage
// reports that the image exists.
func (s *pass) chooseDeployment() {
	deploy := s.host.Spec.CustomDeploy
	if deploy != nil && deploy.Method == startAssistedInstall || s.image == nil {
		return
	}
	ready := meta.FindStatusCondition(s.image.Status.Conditions, string(metal3.ConditionImageReady))
	if ready != nil && ready.Status == metav1.ConditionTrue && ready.Reason == infraEnvAvailable {
		s.host.Spec.CustomDeploy = &metal3.CustomDeploy{Method: startAssistedInstall}
	}
}

// wantsBoot reports whether the spec of a host has something to boot.
func wantsBoot(host *metal3.BareMetalHost) bool {
	image, deploy := host.Spec.Image, host.Spec.CustomDeploy
	return image != nil && image.URL != "" || deploy != nil && deploy.Method != ""
}

// mustDeprovision reports whether the spec of a host has something else to boot than what the host
// was provisioned with, or nothing.
func mustDeprovision(host *metal3.BareMetalHost) bool {
	had, deployed := host.Status.Provisioning.Image.URL, host.Status.Provisioning.CustomDeploy
	image, deploy := host.Spec.Image, host.Spec.CustomDeploy
	if had != "" && (image == nil || image.URL != had) {
		return true
	}
	return deployed != nil && (deploy == nil || deploy.Method != deployed.Method)
}
