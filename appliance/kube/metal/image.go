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

// pass is one reconcile of a host. It holds the host and its related objects. Its methods change
// the host, which is stored afterwards.
type pass struct {
	host     *metal3.BareMetalHost
	infraEnv *agentinstall.InfraEnv // nil if the host names none or if it does not exist
	engineID string                 // id of the infra-env in the engine; "" if it does not exist
	agent    *agentinstall.Agent    // nil before the machine's agent has registered
	hostKey  string                 // key of the host in the engine; "" if it does not exist
	secret   *corev1.Secret         // credentials of the BMC; nil if it does not exist
	image    *metal3.PreprovisioningImage
	server   *bmc.Server // nil before the first request
	refusal  string      // error of the last request for the server; "" if it succeeded
	flow     flow
	now      time.Time
	imageAge time.Duration

	requeueAfter time.Duration // 0: only a change requeues the host
	events       []objects.EventContent
	released     bool // the deletion of the host is complete
	keepPower    bool // leaves the server of a deleted host on

	hasSpokes bool         // the appliance connects to installed clusters
	drain     drainOutcome // last result of draining the host's node
	drainNode bool         // the node must be drained

	restartHost bool // notify the engine before the machine is restarted
}

// flow configures how BareMetalHosts get their image.
type flow struct {
	converged        bool // with customDeploy and a PreprovisioningImage
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

// chooseImage sets the image that the host boots to the image of its InfraEnv, once that exists and
// is old enough. To replace an image, it first removes the old image, so that the server is powered
// off and boots the new image. It does not replace images during an installation. It notifies the
// engine first, so that no installation starts on a machine that is about to be powered off.
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

// infraEnvGrace is the age of a host after which an Event reports that its InfraEnv does not exist.
const infraEnvGrace = 30 * time.Second

// reportMissingInfraEnv writes an Event if the InfraEnv that a host names does not exist. Without
// the Event, nothing would show the reason why the host waits.
func (s *pass) reportMissingInfraEnv() {
	if specifiesBoot(s.host) {
		return
	}
	if wait := s.host.CreationTimestamp.Add(infraEnvGrace).Sub(s.now); wait > 0 {
		s.requeue(wait)
		return
	}
	s.event(agentComponent, true, "InfraEnvMissing", fmt.Sprintf(
		"The label %s names the InfraEnv %s, which does not exist in the namespace %s: until it does, the host has "+
			"no image to boot. "+
			"Apply it, or correct the label.",
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

// specifiesBoot reports whether the spec of a host specifies an image or a deploy method.
func specifiesBoot(host *metal3.BareMetalHost) bool {
	image, deploy := host.Spec.Image, host.Spec.CustomDeploy
	return image != nil && image.URL != "" || deploy != nil && deploy.Method != ""
}

// mustDeprovision reports whether the spec of a host no longer specifies the image or deploy method
// that the host was provisioned with.
func mustDeprovision(host *metal3.BareMetalHost) bool {
	had, deployed := host.Status.Provisioning.Image.URL, host.Status.Provisioning.CustomDeploy
	image, deploy := host.Spec.Image, host.Spec.CustomDeploy
	if had != "" && (image == nil || image.URL != had) {
		return true
	}
	return deployed != nil && (deploy == nil || deploy.Method != deployed.Method)
}
